#include "npb/communication.h"

#include "npb/timers.h"

void communication_send(const double *values, int count, int to, int tag)
{
    timer_start(TIMER_MPI);
    MPI_Send(values, count, MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
    timer_stop(TIMER_MPI);
}

void communication_receive(double *values, int count, int from, int tag)
{
    timer_start(TIMER_MPI);
    MPI_Recv(values, count, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    timer_stop(TIMER_MPI);
}

void communication_exchange(const double *send, int send_count, int to, double *receive, int receive_count, int from,
                            int tag)
{
    timer_start(TIMER_MPI);
    MPI_Sendrecv(send, send_count, MPI_DOUBLE, to, tag, receive, receive_count, MPI_DOUBLE, from, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    timer_stop(TIMER_MPI);
}

void communication_sum(double *values, int count)
{
    timer_start(TIMER_MPI);
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    timer_stop(TIMER_MPI);
}

void communication_gather(const double *own, int count, double *all)
{
    timer_start(TIMER_MPI);
    MPI_Allgather(own, count, MPI_DOUBLE, all, count, MPI_DOUBLE, MPI_COMM_WORLD);
    timer_stop(TIMER_MPI);
}
