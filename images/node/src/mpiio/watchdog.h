/* A way out for a rank whose access failed. ROMIO may leave the other ranks waiting then: in the exchange of a
 * collective call, of which one rank returns early, or for a file lock that a failed write does not give back. */
#ifndef MPIBED_MPIIO_WATCHDOG_H
#define MPIBED_MPIIO_WATCHDOG_H

#include "common/problem.h"

/* Unless the program has ended in some seconds, this rank closes the output with `problem` and exits, upon which
 * mpiexec ends the others. Only the first call counts. */
void watchdog_arm(const struct problem *problem);

#endif
