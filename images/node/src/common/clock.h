/* The clock of every benchmark: MPI_Wtime, in seconds.
 *
 * Not clock_gettime(): MPI_Wtime can be interposed, so that a preloaded library may let an unmodified program run on
 * virtual time. Times of different ranks must not be compared, only differences on one rank. */
#ifndef MPIBED_COMMON_CLOCK_H
#define MPIBED_COMMON_CLOCK_H

#include <mpi.h>

#define CLOCK_NAME "MPI_Wtime"

static inline double clock_now_s(void) { return MPI_Wtime(); }

/* The smallest step other than zero seen between two readings; MPI_Wtick() if the clock stands still. */
double clock_resolution_s(void);

#endif
