/* Payload that all pairs move in a window each way at once, over the longest time of a rank. */
#include "p2p/window.h"

static double bidirectional_bandwidth(const struct exchange *exchange, int pairs, double longest_s)
{
    return 2.0 * pairs * exchange->operations * exchange->message_bytes / longest_s;
}

int main(int argc, char **argv)
{
    return pairs_main(argc, argv,
                      &(struct pairs_benchmark){.metric = "bidirectional_bandwidth",
                                                .unit = "B/s",
                                                .least_message_bytes = 1,
                                                .both_ways = true,
                                                .depth = &window_depth,
                                                .run_s = window_both_ways_s,
                                                .value = bidirectional_bandwidth});
}
