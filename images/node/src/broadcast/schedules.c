#include "broadcast/schedules.h"

#include <mpi.h>
#include <stddef.h>
#include <string.h>

enum { TAG_READY, TAG_MESSAGE };

/* The next announcement from `source`, which may be any; whose it was. */
static int await_leaf(int source)
{
    MPI_Status status;
    MPI_Recv(NULL, 0, MPI_BYTE, source, TAG_READY, MPI_COMM_WORLD, &status);
    return status.MPI_SOURCE;
}

static void serve(const struct broadcast *broadcast, int leaf)
{
    MPI_Rsend(broadcast->message, broadcast->message_bytes, MPI_BYTE, leaf, TAG_MESSAGE, MPI_COMM_WORLD);
}

static void be_served(const struct broadcast *broadcast)
{
    MPI_Request request;
    MPI_Irecv(broadcast->message, broadcast->message_bytes, MPI_BYTE, ROOT, TAG_MESSAGE, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_BYTE, ROOT, TAG_READY, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void sequential(const struct broadcast *broadcast)
{
    if (broadcast->rank != ROOT) {
        be_served(broadcast);
        return;
    }
    for (int leaf = 1; leaf < broadcast->ranks; leaf++)
        serve(broadcast, await_leaf(leaf));
}

static void readiness(const struct broadcast *broadcast)
{
    if (broadcast->rank != ROOT) {
        be_served(broadcast);
        return;
    }
    for (int served = 1; served < broadcast->ranks; served++)
        serve(broadcast, await_leaf(MPI_ANY_SOURCE));
}

static void mpi_bcast(const struct broadcast *broadcast)
{
    MPI_Bcast(broadcast->message, broadcast->message_bytes, MPI_BYTE, ROOT, MPI_COMM_WORLD);
}

static const struct schedule schedules[] = {
    {"sequential", sequential},
    {"readiness", readiness},
    {"mpi_bcast", mpi_bcast},
};

const struct schedule *schedule_find(const char *name)
{
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (strcmp(schedules[i].name, name) == 0)
            return &schedules[i];
    return NULL;
}

const char *schedule_names(void) { return "sequential, readiness, mpi_bcast"; }
