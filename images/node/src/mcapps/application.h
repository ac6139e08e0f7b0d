/* What the programs of this family share: the sizes they go through, the clock around a solution, the check of it, and
 * what they write. The five are those of Table 5 of "A technique for executing MPI parallel programs efficiently on
 * memory-centric computer architecture": ordinary MPI programs, whose own work uses MPI_Send, MPI_Recv, MPI_Bcast,
 * MPI_Reduce, MPI_Scatter and MPI_Gather alone, and which know nothing of what carries their messages.
 *
 * For each size N, in the order given:
 *
 *     prepare      memory and input, and on rank 0 the serial result; not timed
 *     repetition   barrier, solve on all ranks, check of the result on rank 0; timed is solve alone
 *     release      what prepare took
 *
 * `time` of a repetition is the longest of the ranks. */
#ifndef MPIBED_MCAPPS_APPLICATION_H
#define MPIBED_MCAPPS_APPLICATION_H

#include "common/program.h"

#include <stdint.h>

struct job { /* one size on these ranks */
    int rank;
    int ranks;
    int64_t size;
    int64_t share; /* of a rank: size / ranks */
    void *data;    /* what prepare made of it, for the application alone */
};

struct application {
    const char *size_name; /* as an argument, "order"; also the column */
    const char *size_help;
    int64_t standard_size;
    int64_t least_size;
    int64_t greatest_size;
    int exact_ranks;       /* 0: any number */
    bool splits_evenly;    /* N must be a multiple of the ranks */
    struct argument extra; /* an argument of its own, if it has a name */
    const char *check;     /* what verify() looked at, for the closing line */

    int64_t (*bytes)(const struct job *job); /* that prepare will take on this rank, roughly */
    void (*prepare)(struct job *job, struct problem *problem);
    void (*solve)(struct job *job);
    void (*verify)(const struct job *job, struct problem *problem); /* also clears the result, before the next */
    void (*release)(struct job *job);
};

/* The whole program; what main returns. */
int application_main(int argc, char **argv, const struct application *application);

/* Deterministic input: a value from 0 to limit - 1 for each index. */
uint32_t application_value(uint64_t index, uint32_t limit);

/* Memory for `count` items of `bytes`; a problem instead of NULL. */
void *application_memory(int64_t count, size_t bytes, struct problem *problem);

#endif
