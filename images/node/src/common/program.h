/* The life of a benchmark program, the same for all of them:
 *
 *     program_begin    MPI, arguments, the line that says what runs
 *     for each swept value:
 *         measure, check; program_agree that the results are right
 *         program_observe ..., program_publish
 *     program_end      the closing line
 *
 * Every output has exactly one closing line, "ok" or "failed", and no observation of a swept value whose check failed.
 * All functions but program_observe are collective over MPI_COMM_WORLD; none may be called inside a timed region. */
#ifndef MPIBED_COMMON_PROGRAM_H
#define MPIBED_COMMON_PROGRAM_H

#include "common/arguments.h"
#include "common/output.h"
#include "common/problem.h"

#include <stdint.h>
#include <stdio.h>

struct program {
    const char *name;
    int rank;
    int ranks;
    int ranks_on_node; /* this one included */
    int64_t warmup;    /* repetitions before those that are measured */
    int64_t repetitions;
    struct problem output_problem;
    FILE *pending; /* rank 0: observations since the last program_publish() */
    char *pending_text;
    size_t pending_bytes;
};

/* Returns only if the command line is right; --repetitions and --warmup are added to the table. */
void program_begin(struct program *program, int argc, char **argv, struct argument_table own);

/* If any rank has a problem, ends the program on all of them: rank 0 closes the output with the problem of the lowest
 * rank, drops what is pending, and the exit status is 1. `check` names what was looked at. */
void program_agree(struct program *program, const char *check, const struct problem *problem);

/* Record an observation; only rank 0's count. It stays in memory until published. */
void program_observe(struct program *program, const struct observation *observation);

/* Write out what was observed, all of it or, if a value is not finite, nothing. */
void program_publish(struct program *program);

/* Close the output with "ok" and leave MPI; what main returns. `check` says what was verified. */
int program_end(struct program *program, const char *check);

#endif
