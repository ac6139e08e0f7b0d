/* The ways to do a circular shift: every rank sends to the next and receives from the one before.
 *
 *     shift_prepare
 *     for each exchange:  shift_begin, any work with shift_poll in between, shift_complete
 *     shift_release
 *
 * What begin leaves open differs, and with it what can be overlapped:
 *
 *     bsend         begin is MPI_Bsend, complete is MPI_Recv: Fig. 2 of the paper
 *     isend_irecv   begin posts both, complete waits for both
 *     sendrecv      begin is MPI_Sendrecv, complete is nothing: the blocking exchange of Fig. 1 (a), to compare with
 *     persistent    as isend_irecv, with requests made once */
#ifndef MPIBED_OVERLAP_SHIFT_H
#define MPIBED_OVERLAP_SHIFT_H

#include "common/problem.h"

#include <mpi.h>
#include <stddef.h>

struct shift {
    const struct shift_method *method;
    int to;
    int from;
    int message_bytes;
    unsigned char *send;
    unsigned char *receive;
    MPI_Request requests[2];
    void *attached; /* the buffer of MPI_Bsend */
};

/* The method of that name; a problem that lists them when there is none. */
const struct shift_method *shift_method(const char *name, struct problem *problem);

/* Make the buffers, for a shift whose method and neighbours are set; a problem when there is no memory. */
void shift_prepare(struct shift *shift, struct problem *problem);
void shift_release(struct shift *shift);

void shift_begin(struct shift *shift);
void shift_complete(struct shift *shift);

/* Let MPI make progress: MPI_Testall of the open requests or, where there are none, MPI_Iprobe. */
void shift_poll(struct shift *shift);

#endif
