/* The four ways MPI-IO reads and writes at an explicit offset, behind one pair of calls.
 *
 *     method              channel_begin                  channel_end
 *     non_collective      MPI_File_read_at               -
 *     collective          MPI_File_read_at_all           -
 *     non_blocking        MPI_File_iread_at              MPI_Wait
 *     split_collective    MPI_File_read_at_all_begin     MPI_File_read_at_all_end
 *
 * and the same for writing. A channel is one buffer with one file handle of its own, so that two transfers on the same
 * file may be under way where the method allows it. */
#ifndef MPIBED_MPIIO_ACCESS_H
#define MPIBED_MPIIO_ACCESS_H

#include "common/problem.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum access { NON_COLLECTIVE, COLLECTIVE, NON_BLOCKING, SPLIT_COLLECTIVE, ACCESSES };

#define ACCESS_NAMES "non_collective, collective, non_blocking, split_collective"

/* ACCESSES when there is no method of that name. */
enum access access_from(const char *name);

const char *access_name(enum access access);

/* Handles of collective methods belong to all ranks; the others to one, so that changing a view waits for nobody. */
MPI_Comm access_communicator(enum access access);

enum direction { READING, WRITING };

struct channel {
    const char *what; /* in messages */
    enum access access;
    enum direction direction;
    MPI_File file;
    void *buffer;
    int count; /* of `element` in one transfer */
    MPI_Datatype element;
    MPI_Datatype filetype; /* of its view; `element` for the bytes as they lie in the file */
    int64_t view;          /* displacement in force, in B; negative: none yet */
    MPI_Request request;
    bool pending;
    double busy_s;          /* spent in MPI calls so far */
    int64_t bytes;          /* moved so far */
    struct problem problem; /* the first; later calls are made all the same, as other ranks may wait in them */
};

struct place {
    int64_t view;   /* displacement of the view, in B */
    int64_t offset; /* in elements, counted in the view */
};

/* Start a transfer; the blocking methods also finish it. The last one must have ended. */
void channel_begin(struct channel *channel, struct place place);

/* Wait for the transfer to end, if one is under way. */
void channel_end(struct channel *channel);

/* What an MPI error code says, into `problem`. */
void problem_set_mpi(struct problem *problem, const char *doing, int error);

#endif
