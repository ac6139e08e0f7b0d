/* Where the time of a run goes: one timer for MPI, the others for the phases that a kernel names. */
#ifndef MPIBED_NPB_TIMERS_H
#define MPIBED_NPB_TIMERS_H

#include "common/clock.h"

enum { TIMER_MPI, TIMER_PHASE, PHASES_LIMIT = 4, TIMERS = TIMER_PHASE + PHASES_LIMIT };

struct timer {
    double total_s;
    double started_s;
};

extern struct timer timers[TIMERS];

void timers_reset(void);

static inline void timer_start(int timer) { timers[timer].started_s = clock_now_s(); }

static inline void timer_stop(int timer) { timers[timer].total_s += clock_now_s() - timers[timer].started_s; }

#endif
