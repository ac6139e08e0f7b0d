/* The JSON lines a program writes: what it is, one line per observation, and how it ended.
 *
 * Only program.c calls the writers; benchmarks fill in observations. Strings are escaped and are UTF-8 whatever they
 * held; numbers are exact. SI base units throughout. */
#ifndef MPIBED_COMMON_OUTPUT_H
#define MPIBED_COMMON_OUTPUT_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

enum { ALL_RANKS = -1 };

enum phase { PHASE_WARMUP, PHASE_MEASURE };

struct swept_value { /* a parameter that the program loops over, and its value here */
    const char *parameter;
    int64_t value;
};

struct observation {
    const char *metric;
    const char *unit;
    double value; /* finite */
    enum phase phase;
    int64_t repetition;          /* from 0 in each phase */
    int rank;                    /* or ALL_RANKS */
    int64_t operations;          /* how many the value is the mean of */
    struct swept_value swept[4]; /* ends at the first without a name */
};

/* What one rank knows of the program and its surroundings. */
struct program_facts {
    const char *name;
    int ranks;
    const char *clock;
    double clock_resolution_s;
    const char *mpi_library;
    const char *mpi_standard;
    const char *compiler;
    const char (*hostnames)[MPI_MAX_PROCESSOR_NAME]; /* of each rank */
};

void output_program(FILE *to, const struct program_facts *facts);
void output_observation(FILE *to, const struct observation *observation);

/* Closes the output. Without an error the status is "ok", else "failed". */
void output_status(FILE *to, const char *check, const char *error);

#endif
