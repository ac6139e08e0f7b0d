#include "npb/timers.h"

#include <string.h>

struct timer timers[TIMERS];

void timers_reset(void) { memset(timers, 0, sizeof timers); }
