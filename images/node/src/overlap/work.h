/* Work for the processor to do while messages are under way: a chain of integer steps, each in need of the last, that
 * touches no memory. So caches do not decide how long it takes, and a compiler can neither leave it out nor hoist it.
 *
 * An iteration is as many steps as take the time asked for; all ranks do the same number. */
#ifndef MPIBED_OVERLAP_WORK_H
#define MPIBED_OVERLAP_WORK_H

#include "common/problem.h"

#include <stdint.h>

struct work {
    int64_t steps; /* in one iteration */
    uint64_t state;
};

/* Find how many steps take `iteration_s` on the slowest rank. Collective; a problem when the clock stands still. */
void work_calibrate(struct work *work, double iteration_s, struct problem *problem);

/* One iteration; `number` enters the result, so that no two need be alike. */
void work_iterate(struct work *work, int64_t number);

#endif
