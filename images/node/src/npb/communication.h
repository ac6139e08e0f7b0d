/* The MPI calls of the timed parts, each counted as communication from the moment it is entered until it returns. All
 * payloads are doubles in MPI_COMM_WORLD. */
#ifndef MPIBED_NPB_COMMUNICATION_H
#define MPIBED_NPB_COMMUNICATION_H

void communication_send(const double *values, int count, int to, int tag);
void communication_receive(double *values, int count, int from, int tag);

/* Sends to one rank and receives from another, which may be the same. */
void communication_exchange(const double *send, int send_count, int to, double *receive, int receive_count, int from,
                            int tag);

/* The sums over all ranks, on all of them. */
void communication_sum(double *values, int count);

/* `own` of every rank, in the order of ranks, on all of them. */
void communication_gather(const double *own, int count, double *all);

#endif
