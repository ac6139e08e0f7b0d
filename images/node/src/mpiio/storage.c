#define _DEFAULT_SOURCE /* mincore() */
#include "mpiio/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const char *const cache_names[] = {"warm", "dropped", "direct"};

void storage_rows(struct storage_options *options, struct argument rows[STORAGE_ROWS])
{
    const struct argument own[STORAGE_ROWS] = {
        {"directory", ARGUMENT_TEXT, {.text = &options->directory}, 0, 0, "a directory that all nodes share"},
        {"access", ARGUMENT_TEXT, {.text = &options->access}, 0, 0, "access method: " ACCESS_NAMES},
        {"cache",
         ARGUMENT_TEXT,
         {.text = &options->cache},
         0,
         0,
         "page cache before a repetition: warm, dropped, direct"},
        {"shipping-blocks",
         ARGUMENT_INTEGER,
         {.integer = &options->shipping_blocks},
         0,
         SHIPPING_BLOCKS_MAXIMUM,
         "buffers of ROMIO's optimisations in blocks of 256 KiB; 0 turns these off"},
    };
    memcpy(rows, own, sizeof own);
}

void storage_parse(struct storage *storage, struct program *program, const struct storage_options *options)
{
    *storage = (struct storage){.program = program, .shipping_blocks = options->shipping_blocks};
    struct problem problem = {0};
    storage->access = access_from(options->access);
    if (storage->access == ACCESSES)
        problem_set(&problem, "--access: '%s' is unknown; allowed: " ACCESS_NAMES, options->access);
    while (storage->cache < CACHES && strcmp(options->cache, cache_names[storage->cache]) != 0)
        storage->cache++;
    if (storage->cache == CACHES)
        problem_set(&problem, "--cache: '%s' is unknown; allowed: warm, dropped, direct", options->cache);
    program_agree(program, "arguments", &problem);
}

struct hint {
    const char *key;
    char value[16];
};

/* The hints asked for, in `hints`; how many. */
static int hints_of(const struct storage *storage, struct hint hints[])
{
    const bool on = storage->shipping_blocks > 0;
    int count = 0;
    static const char *const switches[] = {"romio_cb_read", "romio_cb_write", "romio_ds_read", "romio_ds_write"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++, count++) {
        hints[count].key = switches[i];
        snprintf(hints[count].value, sizeof hints[count].value, "%s", on ? "enable" : "disable");
    }
    static const char *const buffers[] = {"cb_buffer_size", "ind_rd_buffer_size", "ind_wr_buffer_size"};
    for (size_t i = 0; on && i < sizeof buffers / sizeof *buffers; i++, count++) {
        hints[count].key = buffers[i];
        snprintf(hints[count].value, sizeof hints[count].value, "%" PRId64,
                 storage->shipping_blocks * SHIPPING_BLOCK_BYTES);
    }
    static const char *const direct[] = {"direct_read", "direct_write"};
    for (size_t i = 0; storage->cache == CACHE_DIRECT && i < sizeof direct / sizeof *direct; i++, count++) {
        hints[count].key = direct[i];
        snprintf(hints[count].value, sizeof hints[count].value, "true");
    }
    return count;
}

enum { HINTS_LIMIT = 16 };

/* A hint is a wish; only those in force make a measurement what it claims to be. */
static void compare_hints(struct storage *storage, MPI_File handle, struct problem *problem)
{
    MPI_Info in_force;
    int known = 0;
    char value[MPI_MAX_INFO_VAL] = "";
    MPI_File_get_info(handle, &in_force);
    MPI_Info_get(in_force, "romio_filesystem_type", sizeof value - 1, value, &known);
    snprintf(storage->driver, sizeof storage->driver, "%.*s", (int)strcspn(value, ":"), known ? value : "unknown");

    struct hint hints[HINTS_LIMIT];
    const int count = hints_of(storage, hints);
    for (int i = 0; i < count; i++) {
        MPI_Info_get(in_force, hints[i].key, sizeof value - 1, value, &known);
        if (known && strcmp(value, hints[i].value) == 0)
            continue;
        if (strncmp(hints[i].key, "direct", strlen("direct")) == 0)
            problem_set(
                problem,
                "--cache direct: ROMIO's driver %s for this directory has no direct I/O; allowed: warm, dropped",
                storage->driver);
        else
            problem_set(problem, "hint %s: asked for %s, in force is %s with ROMIO's driver %s", hints[i].key,
                        hints[i].value, known ? value : "nothing", storage->driver);
    }
    MPI_Info_free(&in_force);
}

/* Rank 0: the folder and its files, with their space: an asynchronous write that finds none is never told by ROMIO. */
static void make_files(struct storage *storage, const char *directory, struct problem *problem)
{
    int64_t total_bytes = 0;
    for (int i = 0; i < storage->files; i++)
        total_bytes += storage->file[i].bytes;
    struct statvfs system;
    if (statvfs(directory, &system) != 0) {
        problem_set(problem, "--directory %s: %s", directory, strerror(errno));
        return;
    }
    const int64_t free_bytes = (int64_t)(system.f_bavail * system.f_frsize);
    if (total_bytes > free_bytes)
        problem_set(problem, "--directory %s has %" PRId64 " B free, the files need %" PRId64 " B", directory,
                    free_bytes, total_bytes);
    else if (snprintf(storage->folder, sizeof storage->folder, "%s/mpiio-XXXXXX", directory) >= PATH_MAX - 16)
        problem_set(problem, "--directory: %zu characters are too many", strlen(directory));
    if (problem_is_set(problem))
        return;
    if (mkdtemp(storage->folder) == NULL) {
        problem_set(problem, "--directory %s: no folder can be made in it: %s", directory, strerror(errno));
        return;
    }
    for (int i = 0; i < storage->files; i++) {
        snprintf(storage->file[i].path, sizeof storage->file[i].path, "%.*s/%c", PATH_MAX - 16, storage->folder,
                 "ABC"[i]);
        const int made = open(storage->file[i].path, O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
        const int error = made < 0 ? errno : posix_fallocate(made, 0, storage->file[i].bytes);
        if (error != 0)
            problem_set(problem, "%s of %" PRId64 " B cannot be made: %s", storage->file[i].path,
                        storage->file[i].bytes, strerror(error));
        if (made >= 0)
            close(made);
    }
}

static void remove_names(const struct storage *storage)
{
    for (int i = 0; i < storage->files; i++)
        unlink(storage->file[i].path);
    rmdir(storage->folder);
}

void storage_begin(struct storage *storage, const char *directory, int files, const int64_t *bytes)
{
    struct program *const program = storage->program;
    struct problem problem = {0};
    storage->files = files;
    for (int i = 0; i < files; i++)
        storage->file[i] = (struct storage_file){.bytes = bytes[i], .plain = MPI_FILE_NULL, .descriptor = -1};
    MPI_Info_create(&storage->hints);
    struct hint hints[HINTS_LIMIT];
    const int count = hints_of(storage, hints);
    for (int i = 0; i < count; i++)
        MPI_Info_set(storage->hints, hints[i].key, hints[i].value);

    if (directory[0] != '/')
        problem_set(&problem, "--directory: '%s' is not an absolute path", directory);
    else if (program->rank == 0)
        make_files(storage, directory, &problem);
    if (program->rank == 0 && problem_is_set(&problem) && storage->folder[0] != '\0')
        remove_names(storage);
    program_agree(program, "directory", &problem);

    for (int i = 0; i < files; i++)
        MPI_Bcast(storage->file[i].path, PATH_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static MPI_File open_on(const struct storage *storage, MPI_Comm comm, int file, struct problem *problem)
{
    MPI_File handle = MPI_FILE_NULL;
    const int error = MPI_File_open(comm, storage->file[file].path, MPI_MODE_RDWR, storage->hints, &handle);
    if (error != MPI_SUCCESS)
        problem_set_mpi(problem, storage->file[file].path, error);
    return handle;
}

MPI_File storage_open(const struct storage *storage, int file, struct problem *problem)
{
    return open_on(storage, access_communicator(storage->access), file, problem);
}

void storage_seal(struct storage *storage, MPI_File handle, struct problem *problem)
{
    for (int i = 0; i < storage->files; i++) {
        struct storage_file *const file = &storage->file[i];
        file->plain = open_on(storage, MPI_COMM_SELF, i, problem);
        file->descriptor = open(file->path, O_RDWR);
        if (file->descriptor < 0)
            problem_set(problem, "rank %d: %s: %s", storage->program->rank, file->path, strerror(errno));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (storage->program->rank == 0)
        remove_names(storage);
    if (!problem_is_set(problem))
        compare_hints(storage, handle, problem);
    program_agree(storage->program, "files", problem);
}

/* How many pages of the file are in this node's memory. */
static int64_t pages_in_memory(const struct storage_file *file, struct problem *problem)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t pages = ((size_t)file->bytes + page_bytes - 1) / page_bytes;
    unsigned char *const present = malloc(pages);
    void *const map = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_SHARED, file->descriptor, 0);
    int64_t count = 0;
    if (present == NULL || map == MAP_FAILED || mincore(map, (size_t)file->bytes, present) != 0)
        problem_set(problem, "--cache dropped: pages in memory cannot be counted: %s", strerror(errno));
    else
        for (size_t i = 0; i < pages; i++)
            count += present[i] & 1;
    if (map != MAP_FAILED)
        munmap(map, (size_t)file->bytes);
    free(present);
    return count;
}

/* How many pages of the files stayed in memory. */
static int64_t drop_once(const struct storage *storage, struct problem *problem)
{
    int64_t left = 0;
    for (int i = 0; i < storage->files; i++) {
        posix_fadvise(storage->file[i].descriptor, 0, 0, POSIX_FADV_DONTNEED);
        left += pages_in_memory(&storage->file[i], problem);
    }
    return left;
}

/* Pages that the kernel holds for a moment (locked, being written) stay, and go when asked again. A file system that
 * lives in memory keeps all of them. */
static void drop(struct storage *storage, struct problem *problem)
{
    enum { TRIES = 100, PAUSE_NS = 10 * 1000 * 1000 };
    int64_t bytes = 0;
    for (int i = 0; i < storage->files; i++)
        bytes += storage->file[i].bytes;
    const int64_t allowed = bytes / sysconf(_SC_PAGESIZE) / 64;
    int64_t left = drop_once(storage, problem);
    for (int try = 1; try < TRIES && left > allowed && !problem_is_set(problem); try++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        left = drop_once(storage, problem);
    }
    if (left > allowed)
        problem_set(problem,
                    "--cache dropped: rank %d: %" PRId64 " pages of %" PRId64
                    " B of files stay in memory, as on a file system that lives there; allowed: warm, or another "
                    "directory",
                    storage->program->rank, left, bytes);
    storage->pages_left = left > storage->pages_left ? left : storage->pages_left;
}

void storage_settle(struct storage *storage, const struct channel *written, int channels)
{
    struct problem problem = {0};
    /* What one rank wrote another sees after: sync, barrier, sync (MPI-4.1, section 14.6.1). */
    for (int i = 0; i < channels; i++) {
        const int error = MPI_File_sync(written[i].file);
        if (error != MPI_SUCCESS)
            problem_set_mpi(&problem, written[i].what, error);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < storage->files; i++) {
            const int error = MPI_File_sync(storage->file[i].plain);
            if (error != MPI_SUCCESS)
                problem_set_mpi(&problem, "writing the files out", error);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < channels; i++)
        MPI_File_sync(written[i].file);
    if (storage->cache == CACHE_DROPPED) {
        drop(storage, &problem);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    program_agree(storage->program, "files", &problem);
}

void storage_close(struct storage *storage)
{
    for (int i = 0; i < storage->files; i++) {
        MPI_File_close(&storage->file[i].plain);
        close(storage->file[i].descriptor);
    }
    MPI_Info_free(&storage->hints);
}

void storage_write(const struct storage_file *file, int64_t offset, const void *data, int bytes,
                   struct problem *problem)
{
    MPI_Status status;
    const int error = MPI_File_write_at(file->plain, offset, data, bytes, MPI_BYTE, &status);
    int moved = 0;
    if (error != MPI_SUCCESS)
        problem_set_mpi(problem, "filling a file", error);
    else if (MPI_Get_count(&status, MPI_BYTE, &moved), moved != bytes)
        problem_set(problem, "filling a file: %d of %d B were written", moved, bytes);
}

void storage_read(const struct storage_file *file, int64_t offset, void *data, int bytes, struct problem *problem)
{
    MPI_Status status;
    const int error = MPI_File_read_at(file->plain, offset, data, bytes, MPI_BYTE, &status);
    int moved = 0;
    if (error != MPI_SUCCESS)
        problem_set_mpi(problem, "checking a file", error);
    else if (MPI_Get_count(&status, MPI_BYTE, &moved), moved != bytes)
        problem_set(problem, "checking a file: %d of %d B were read", moved, bytes);
}

void storage_describe(const struct storage *storage, char *text, size_t size)
{
    int64_t left = 0;
    MPI_Reduce(&storage->pages_left, &left, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    char dropped[48] = "";
    if (storage->cache == CACHE_DROPPED)
        snprintf(dropped, sizeof dropped, ", at most %" PRId64 " pages stayed", left);
    snprintf(text, size, "ROMIO driver %.32s; shipping_blocks=%" PRId64 " in force; cache %s%s", storage->driver,
             storage->shipping_blocks, cache_names[storage->cache], dropped);
}
