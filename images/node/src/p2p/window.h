/* The timed loop of the programs that keep a window of messages in flight. */
#ifndef MPIBED_P2P_WINDOW_H
#define MPIBED_P2P_WINDOW_H

#include "p2p/pairs.h"

/* The initiator sends the window, the responder acknowledges it as a whole. The initiator's time counts, since the
 * acknowledgement tells it that everything has arrived. */
double window_one_way_s(const struct exchange *exchange);

/* Both send a window and receive one. Both times count, since each ends with what that side has received. */
double window_both_ways_s(const struct exchange *exchange);

extern const struct pairs_depth window_depth;

#endif
