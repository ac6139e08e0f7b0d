#include "p2p/window.h"

#include "common/clock.h"

const struct pairs_depth window_depth = {.name = "window",
                                         .help = "messages in flight before an acknowledgement",
                                         .standard = 64,
                                         .maximum = 65536,
                                         .limit_bytes = 64 << 20};

enum { PAYLOAD_TAG, SIGNAL_TAG };

static void start_sends(const struct exchange *exchange, MPI_Request *requests)
{
    for (int i = 0; i < exchange->operations; i++)
        MPI_Isend(exchange->send + (size_t)i * exchange->stride, exchange->message_bytes, MPI_BYTE, exchange->peer,
                  PAYLOAD_TAG, MPI_COMM_WORLD, &requests[i]);
}

static void start_receives(const struct exchange *exchange, MPI_Request *requests)
{
    for (int i = 0; i < exchange->operations; i++)
        MPI_Irecv(exchange->receive + (size_t)i * exchange->stride, exchange->message_bytes, MPI_BYTE, exchange->peer,
                  PAYLOAD_TAG, MPI_COMM_WORLD, &requests[i]);
}

static void give_signal(int peer) { MPI_Send(NULL, 0, MPI_BYTE, peer, SIGNAL_TAG, MPI_COMM_WORLD); }

static void await_signal(int peer) { MPI_Recv(NULL, 0, MPI_BYTE, peer, SIGNAL_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

double window_one_way_s(const struct exchange *exchange)
{
    const int operations = exchange->operations;
    if (!exchange->initiator) {
        give_signal(exchange->peer);
        start_receives(exchange, exchange->requests);
        MPI_Waitall(operations, exchange->requests, MPI_STATUSES_IGNORE);
        give_signal(exchange->peer);
        return 0;
    }
    /* The first signal starts a window as the acknowledgement of one before it would: without it the responder could
     * still be in the barrier, which costs a window of small messages several percent. */
    await_signal(exchange->peer);
    const double start_s = clock_now_s();
    start_sends(exchange, exchange->requests);
    MPI_Waitall(operations, exchange->requests, MPI_STATUSES_IGNORE);
    await_signal(exchange->peer);
    return clock_now_s() - start_s;
}

double window_both_ways_s(const struct exchange *exchange)
{
    const int operations = exchange->operations;
    const double start_s = clock_now_s();
    start_receives(exchange, exchange->requests);
    start_sends(exchange, exchange->requests + operations);
    MPI_Waitall(2 * operations, exchange->requests, MPI_STATUSES_IGNORE);
    return clock_now_s() - start_s;
}
