/* Where the files of a run lie, which hints ROMIO gets for them, and what is done to the page cache.
 *
 * The files are made in a folder of their own inside the directory that all nodes share. As soon as every rank has
 * opened them the names are removed: the files live until the last rank closes them, and nothing is left behind however
 * the program ends.
 *
 *     storage_begin      the folder and its files
 *     storage_open ...   every handle that will be needed
 *     storage_seal       names removed; the hints in force compared with those asked for
 *     storage_settle ... between repetitions
 *     storage_close */
#ifndef MPIBED_MPIIO_STORAGE_H
#define MPIBED_MPIIO_STORAGE_H

#include "common/arguments.h"
#include "common/program.h"
#include "mpiio/access.h"

#include <limits.h>
#include <mpi.h>
#include <stdint.h>

enum cache {
    CACHE_WARM,    /* pages stay as the last access left them */
    CACHE_DROPPED, /* written out and dropped on every node */
    CACHE_DIRECT,  /* ROMIO goes around the cache */
    CACHES
};

enum { STORAGE_FILES = 3, STORAGE_ROWS = 4, SHIPPING_BLOCKS_MAXIMUM = 4096, SHIPPING_BLOCK_BYTES = 256 * 1024 };

struct storage_options { /* as written on the command line */
    const char *directory;
    const char *access;
    const char *cache;
    int64_t shipping_blocks; /* buffers of ROMIO's optimisations in blocks of 256 KiB; 0: these are off */
};

/* Four rows for a program's table. */
void storage_rows(struct storage_options *options, struct argument rows[STORAGE_ROWS]);

struct storage_file {
    int64_t bytes;
    char path[PATH_MAX];
    MPI_File plain; /* of this rank alone, bytes as they lie in the file: to fill and to check */
    int descriptor; /* for what MPI-IO has no call for */
};

struct storage {
    struct program *program;
    enum access access;
    enum cache cache;
    int64_t shipping_blocks;
    int files;
    struct storage_file file[STORAGE_FILES];
    char folder[PATH_MAX];
    char driver[MPI_MAX_INFO_VAL]; /* of ROMIO, by its own name */
    MPI_Info hints;
    int64_t pages_left; /* the most that stayed in memory after dropping, on any rank */
};

/* What the words mean; collective, and ends the program when they mean nothing. */
void storage_parse(struct storage *storage, struct program *program, const struct storage_options *options);

/* The sizes of the files follow. Collective; ends the program when they cannot be made. */
void storage_begin(struct storage *storage, const char *directory, int files, const int64_t *bytes);

/* A handle as the access method needs it. A problem is told by storage_seal(). */
MPI_File storage_open(const struct storage *storage, int file, struct problem *problem);

/* Collective; ends the program when anything could not be opened or a hint is not in force. */
void storage_seal(struct storage *storage, MPI_File handle, struct problem *problem);

/* Make what was written visible to all ranks and put the cache into its state. Collective; ends on a problem. */
void storage_settle(struct storage *storage, const struct channel *written, int channels);

void storage_close(struct storage *storage);

/* Contents of a file by this rank alone, in bytes as they lie in the file. */
void storage_write(const struct storage_file *file, int64_t offset, const void *data, int bytes,
                   struct problem *problem);
void storage_read(const struct storage_file *file, int64_t offset, void *data, int bytes, struct problem *problem);

/* "ROMIO driver UFS; cache warm; shipping blocks 2": for the closing line. */
void storage_describe(const struct storage *storage, char *text, size_t size);

#endif
