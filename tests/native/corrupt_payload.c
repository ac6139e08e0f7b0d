/* A transport that damages messages, preloaded in front of MPI to prove that the programs notice.
 *
 * On rank CORRUPT_RANK, the CORRUPT_MESSAGE-th payload of one byte or more that a program receives (from 1) has the
 * lowest bit of its last byte flipped. Covers MPI_Recv, MPI_Sendrecv, and MPI_Irecv completed by MPI_Wait or
 * MPI_Waitall; what MPI sends inside collectives stays whole. */
#include <mpi.h>
#include <stdlib.h>

enum { PENDING_LIMIT = 65536 };

static struct {
    MPI_Request request;
    unsigned char *buffer;
} pending[PENDING_LIMIT];

static int number_from(const char *name)
{
    const char *const text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

static void received(unsigned char *buffer, const MPI_Status *status)
{
    static int messages = 0;
    int bytes = 0;
    int rank = 0;
    PMPI_Get_count(status, MPI_BYTE, &bytes);
    if (bytes == 0 || ++messages != number_from("CORRUPT_MESSAGE"))
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == number_from("CORRUPT_RANK"))
        buffer[bytes - 1] ^= 1;
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    (void)status; /* the programs ignore it */
    MPI_Status own;
    const int result = PMPI_Recv(buffer, count, type, source, tag, comm, &own);
    received(buffer, &own);
    return result;
}

int MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag, void *buffer,
                 int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    (void)status;
    MPI_Status own;
    const int result =
        PMPI_Sendrecv(send, send_count, send_type, to, send_tag, buffer, count, type, source, tag, comm, &own);
    received(buffer, &own);
    return result;
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    const int result = PMPI_Irecv(buffer, count, type, source, tag, comm, request);
    int slot = 0;
    while (pending[slot].buffer != NULL)
        if (++slot == PENDING_LIMIT)
            PMPI_Abort(MPI_COMM_WORLD, 1);
    pending[slot].request = *request;
    pending[slot].buffer = buffer;
    return result;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    (void)status;
    const MPI_Request waited = *request;
    MPI_Status own;
    const int result = PMPI_Wait(request, &own);
    for (int slot = 0; slot < PENDING_LIMIT; slot++)
        if (pending[slot].buffer != NULL && pending[slot].request == waited) {
            received(pending[slot].buffer, &own);
            pending[slot].buffer = NULL;
            break;
        }
    return result;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    (void)statuses;
    for (int i = 0; i < count; i++)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}
