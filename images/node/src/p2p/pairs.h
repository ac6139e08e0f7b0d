/* What the point-to-point programs share: everything but the timed loop and the formula of the metric.
 *
 * With k pairs there are 2k ranks; rank i, the initiator, is paired with rank i + k, and all pairs run at the same
 * time. For each message size, in the order given:
 *
 *     warm-up       every message lies in a slot of its own, filled before the timed loop and compared after it
 *     measurement   every message is sent from and received into the first slot, as the OSU micro-benchmarks do it, so
 *                   that what is timed is the transport rather than the memory behind a large window; all carry the
 *                   same bytes, and the slot is compared after the last repetition
 *
 * A repetition begins with a barrier and is `operations` passes of the loop: the depth asked for, less for large
 * messages so that a repetition moves no more than the depth's `limit_bytes` each way, but at least one. */
#ifndef MPIBED_P2P_PAIRS_H
#define MPIBED_P2P_PAIRS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a timed loop needs; nothing changes it while the loop runs but the contents of `receive` and `requests`. */
struct exchange {
    bool initiator;
    int peer;
    int message_bytes;
    int operations;
    size_t stride; /* from one message to the next in both buffers: message_bytes, or 0 for the same slot */
    unsigned char *send;
    unsigned char *receive;
    MPI_Request *requests; /* room for two an operation */
};

struct pairs_depth { /* the argument that says how many operations are a repetition */
    const char *name;
    const char *help;
    int64_t standard;
    int64_t maximum;
    int64_t limit_bytes;
};

struct pairs_benchmark {
    const char *metric;
    const char *unit;
    int64_t least_message_bytes; /* what the metric is defined for */
    bool both_ways;              /* payload also flows from responder to initiator */
    bool observe_pairs;          /* besides the value of all pairs, one for each */
    const struct pairs_depth *depth;

    /* One repetition. The time this rank saw, in s; 0 where the definition does not look at this rank. */
    double (*run_s)(const struct exchange *exchange);

    /* The metric, from the longest time of `pairs` pairs. */
    double (*value)(const struct exchange *exchange, int pairs, double longest_s);
};

/* The whole program; what main returns. */
int pairs_main(int argc, char **argv, const struct pairs_benchmark *benchmark);

#endif
