/* Payload that all pairs move one way in a window, over the longest time of a pair. */
#include "p2p/window.h"

static double bandwidth(const struct exchange *exchange, int pairs, double longest_s)
{
    return (double)pairs * exchange->operations * exchange->message_bytes / longest_s;
}

int main(int argc, char **argv)
{
    return pairs_main(argc, argv,
                      &(struct pairs_benchmark){.metric = "bandwidth",
                                                .unit = "B/s",
                                                .least_message_bytes = 1,
                                                .depth = &window_depth,
                                                .run_s = window_one_way_s,
                                                .value = bandwidth});
}
