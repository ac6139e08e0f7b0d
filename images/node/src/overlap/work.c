#include "overlap/work.h"

#include "common/clock.h"

#include <mpi.h>

/* Opaque to callers: were it inlined, the compiler could merge iterations. */
__attribute__((noinline)) void work_iterate(struct work *work, int64_t number)
{
    uint64_t state = work->state + (uint64_t)number;
    for (int64_t step = 0; step < work->steps; step++) {
        state ^= state >> 33;
        state *= UINT64_C(0xff51afd7ed558ccd);
    }
    work->state = state;
}

void work_calibrate(struct work *work, double iteration_s, struct problem *problem)
{
    enum { TRIALS = 20, STEPS = 200000 }; /* some milliseconds: what interrupts one trial leaves another alone */
    double shortest_s = 0;
    work->steps = STEPS;
    for (int trial = 0; trial < TRIALS; trial++) {
        const double start_s = clock_now_s();
        work_iterate(work, trial);
        const double took_s = clock_now_s() - start_s;
        shortest_s = trial == 0 || took_s < shortest_s ? took_s : shortest_s;
    }
    MPI_Allreduce(MPI_IN_PLACE, &shortest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (shortest_s > 0)
        work->steps = 1 + (int64_t)(iteration_s * STEPS / shortest_s);
    else
        problem_set(problem, "%s stood still during %d steps of work, so an iteration cannot be given its time",
                    CLOCK_NAME, STEPS);
}
