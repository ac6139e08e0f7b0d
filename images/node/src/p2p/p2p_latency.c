/* Half the mean round trip of a message that goes to and fro between two ranks. */
#include "common/clock.h"
#include "p2p/pairs.h"

static const struct pairs_depth depth = {.name = "exchanges",
                                         .help = "round trips timed as one repetition",
                                         .standard = 100,
                                         .maximum = 1000000,
                                         .limit_bytes = 4 << 20};

enum { TAG };

static void send_at(const struct exchange *exchange, size_t offset)
{
    MPI_Send(exchange->send + offset, exchange->message_bytes, MPI_BYTE, exchange->peer, TAG, MPI_COMM_WORLD);
}

static void receive_at(const struct exchange *exchange, size_t offset)
{
    MPI_Recv(exchange->receive + offset, exchange->message_bytes, MPI_BYTE, exchange->peer, TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

static double ping_pong_s(const struct exchange *exchange)
{
    const size_t end = (size_t)exchange->operations;
    if (!exchange->initiator) {
        for (size_t i = 0; i < end; i++) {
            receive_at(exchange, i * exchange->stride);
            send_at(exchange, i * exchange->stride);
        }
        return 0;
    }
    const double start_s = clock_now_s();
    for (size_t i = 0; i < end; i++) {
        send_at(exchange, i * exchange->stride);
        receive_at(exchange, i * exchange->stride);
    }
    return clock_now_s() - start_s;
}

static double one_way_latency(const struct exchange *exchange, int pairs, double longest_s)
{
    (void)pairs;
    return longest_s / (2.0 * exchange->operations);
}

int main(int argc, char **argv)
{
    return pairs_main(argc, argv,
                      &(struct pairs_benchmark){.metric = "one_way_latency",
                                                .unit = "s",
                                                .both_ways = true,
                                                .observe_pairs = true,
                                                .depth = &depth,
                                                .run_s = ping_pong_s,
                                                .value = one_way_latency});
}
