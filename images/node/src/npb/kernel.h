/* What the NPB programs share: everything but the algorithm.
 *
 * A repetition is a whole run as NPB times it: initial values and one iteration that is not timed, initial values
 * again, a barrier, the timed iterations, the verification. Nothing is published before every repetition is verified.
 */
#ifndef MPIBED_NPB_KERNEL_H
#define MPIBED_NPB_KERNEL_H

#include "common/problem.h"
#include "npb/timers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ALLOCATIONS_LIMIT = 64 };

/* Where a kernel runs, and the memory it took. */
struct npb {
    char class; /* S, W, A, B, or P for the size that a paper used */
    int rank;
    int ranks;
    bool out_of_memory;
    int64_t bytes;
    size_t allocations;
    void *memory[ALLOCATIONS_LIMIT];
};

struct npb_kernel {
    const char *phases[PHASES_LIMIT]; /* metrics of the timers from TIMER_PHASE on; the first NULL ends them */

    /* Take the class's size and lay it out over the ranks. A problem if it cannot be; then nothing else is called. */
    void (*choose)(void *state, const struct npb *npb, struct problem *problem);

    /* Take all memory, by npb_allocate(), and touch little of it: whether it is there is decided afterwards. */
    void (*allocate)(void *state, struct npb *npb);

    void (*prepare)(void *state); /* before each repetition, not timed */
    void (*run)(void *state);     /* what is timed */
    void (*verify)(void *state, struct problem *problem);

    const char *(*check)(const void *state); /* what was verified, for the closing line */

    double (*operations)(const void *state); /* of one run, by NPB's own formula */
};

/* `count` doubles, or NULL with out_of_memory set. Lives until the program ends. */
double *npb_doubles(struct npb *npb, int64_t count);

/* Any other kind. */
void *npb_allocate(struct npb *npb, int64_t count, size_t size);

/* A problem if |found - expected| > tolerance |expected|, or if found is no number. */
void npb_compare(const char *quantity, double found, double expected, double tolerance, struct problem *problem);

/* Two to the answer is `number`; -1 if it is no power of two. */
int npb_log2(int number);

/* The first of `length` elements that part `part` has if they are cut into `parts`, the first ones taking the rest;
 * `part` = `parts` gives the end. */
int npb_first(int length, int part, int parts);

/* The whole program; what main returns. */
int npb_main(int argc, char **argv, const struct npb_kernel *kernel, void *state);

#endif
