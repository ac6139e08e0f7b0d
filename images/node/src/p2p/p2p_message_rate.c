/* Messages that all pairs send one way in a window, over the longest time of a pair. */
#include "p2p/window.h"

static double message_rate(const struct exchange *exchange, int pairs, double longest_s)
{
    return (double)pairs * exchange->operations / longest_s;
}

int main(int argc, char **argv)
{
    return pairs_main(argc, argv,
                      &(struct pairs_benchmark){.metric = "message_rate",
                                                .unit = "1/s",
                                                .depth = &window_depth,
                                                .run_s = window_one_way_s,
                                                .value = message_rate});
}
