/* Writing a file and reading it back, without any computation.
 *
 * The file is cut into requests, dealt out in turn: of P ranks, rank i writes requests i, i + P, i + 2P, ... In a
 * collective call the requests of all ranks therefore lie side by side. What rank i reads back is what rank i + 1
 * wrote, so that a node does not find it in its own cache. */
#include "common/clock.h"
#include "common/memory.h"
#include "common/payload.h"
#include "common/program.h"
#include "mpiio/access.h"
#include "mpiio/storage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t FILE_BYTES_MAXIMUM = INT64_C(1) << 40;
enum { REQUEST_BYTES_MAXIMUM = 1 << 30, ALIGNMENT_BYTES = 4096 };

struct testrdwr {
    struct program program;
    struct storage storage;
    int64_t file_bytes;
    int64_t request_bytes;
    int64_t requests; /* of each rank */
    int64_t written;  /* requests of the whole file, times repetitions so far: no two have the same contents */
    unsigned char *buffer;
    struct channel writing;
    struct channel reading;
};

static void begin(struct testrdwr *self, int argc, char **argv)
{
    struct storage_options options = {.directory = "/tmp", .access = "non_collective", .cache = "warm"};
    self->file_bytes = 64 << 20;
    self->request_bytes = 256 << 10;
    struct argument rows[2 + STORAGE_ROWS] = {
        {"file-bytes",
         ARGUMENT_INTEGER,
         {.integer = &self->file_bytes},
         1,
         (double)FILE_BYTES_MAXIMUM,
         "size of the file, in B"},
        {"request-bytes",
         ARGUMENT_INTEGER,
         {.integer = &self->request_bytes},
         1,
         REQUEST_BYTES_MAXIMUM,
         "what one call moves, in B"},
    };
    storage_rows(&options, rows + 2);
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});
    storage_parse(&self->storage, program, &options);

    struct problem problem = {0};
    const int64_t round_bytes = self->request_bytes * program->ranks;
    if (self->file_bytes % round_bytes != 0)
        problem_set(&problem,
                    "--file-bytes %" PRId64 " is no multiple of --request-bytes times %d ranks, which is %" PRId64,
                    self->file_bytes, program->ranks, round_bytes);
    if (self->request_bytes * program->ranks_on_node > memory_available_bytes())
        problem_set(&problem, "rank %d: no memory for %" PRId64 " B; allowed: a smaller --request-bytes", program->rank,
                    self->request_bytes);
    self->requests = self->file_bytes / round_bytes;
    program_agree(program, "arguments", &problem);
    storage_begin(&self->storage, options.directory, 1, &self->file_bytes);
}

static void open_channels(struct testrdwr *self)
{
    struct problem problem = {0};
    self->buffer =
        aligned_alloc(ALIGNMENT_BYTES, ((size_t)self->request_bytes / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES);
    if (self->buffer == NULL)
        problem_set(&problem, "rank %d: no memory for %" PRId64 " B", self->program.rank, self->request_bytes);
    self->writing = (struct channel){.what = "writing",
                                     .access = self->storage.access,
                                     .direction = WRITING,
                                     .file = storage_open(&self->storage, 0, &problem),
                                     .buffer = self->buffer,
                                     .count = (int)self->request_bytes,
                                     .element = MPI_BYTE,
                                     .filetype = MPI_BYTE,
                                     .request = MPI_REQUEST_NULL}; /* a new handle's view begins at 0 */
    self->reading = self->writing;
    self->reading.what = "reading";
    self->reading.direction = READING;
    storage_seal(&self->storage, self->writing.file, &problem);
}

/* The request that a rank takes at a step. */
static int64_t request_at(const struct testrdwr *self, int64_t step, int rank)
{
    return step * self->program.ranks + rank % self->program.ranks;
}

static struct payload_key contents(const struct testrdwr *self, int64_t request)
{
    return (struct payload_key){.message_bytes = self->request_bytes, .number = self->written + request};
}

static void write_file(struct testrdwr *self)
{
    for (int64_t step = 0; step < self->requests; step++) {
        const int64_t request = request_at(self, step, self->program.rank);
        payload_fill(self->buffer, contents(self, request));
        channel_begin(&self->writing, (struct place){0, request * self->request_bytes});
        channel_end(&self->writing);
    }
    program_agree(&self->program, "input and output", &self->writing.problem);
}

static void read_file(struct testrdwr *self)
{
    struct problem wrong = {0};
    memset(self->buffer, 0, (size_t)self->request_bytes); /* what was written last may be what is read first */
    for (int64_t step = 0; step < self->requests; step++) {
        const int64_t request = request_at(self, step, self->program.rank + 1);
        channel_begin(&self->reading, (struct place){0, request * self->request_bytes});
        channel_end(&self->reading);
        const struct payload_difference difference = payload_compare(self->buffer, contents(self, request));
        if (difference.offset >= 0)
            problem_set(&wrong,
                        "rank %d: what was read is first wrong at offset %" PRId64
                        " of the file: expected 0x%02x, found 0x%02x",
                        self->program.rank, request * self->request_bytes + difference.offset, difference.expected,
                        difference.found);
    }
    program_agree(&self->program, "input and output", &self->reading.problem);
    program_agree(&self->program, "contents", &wrong);
}

static void observe(struct testrdwr *self, int64_t index, double sync_s)
{
    struct program *const program = &self->program;
    double times_s[] = {self->writing.busy_s, sync_s, self->reading.busy_s, self->writing.busy_s + sync_s};
    MPI_Allreduce(MPI_IN_PLACE, times_s, 4, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const bool is_warmup = index < program->warmup;
    const double bytes = (double)self->file_bytes;
    const struct {
        const char *metric;
        const char *unit;
        double value;
    } values[] = {
        {"write_time", "s", times_s[0]},
        {"sync_time", "s", times_s[1]},
        {"read_time", "s", times_s[2]},
        {"write_bandwidth", "B/s", bytes / times_s[3]},
        {"read_bandwidth", "B/s", bytes / times_s[2]},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        program_observe(program, &(struct observation){.metric = values[i].metric,
                                                       .unit = values[i].unit,
                                                       .value = values[i].value,
                                                       .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                                       .repetition = is_warmup ? index : index - program->warmup,
                                                       .rank = ALL_RANKS,
                                                       .operations = self->requests});
}

static double sync_s(struct testrdwr *self)
{
    struct problem problem = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    const double start_s = clock_now_s();
    const int error = MPI_File_sync(self->writing.file);
    const double spent_s = clock_now_s() - start_s;
    if (error != MPI_SUCCESS)
        problem_set_mpi(&problem, "writing the file out", error);
    program_agree(&self->program, "input and output", &problem);
    return spent_s;
}

static void repeat(struct testrdwr *self, int64_t index)
{
    self->writing.busy_s = 0;
    self->reading.busy_s = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    write_file(self);
    const double spent_s = sync_s(self);
    storage_settle(&self->storage, &self->writing, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    read_file(self);
    observe(self, index, spent_s);
    self->written += self->requests * self->program.ranks;
}

static int end(struct testrdwr *self)
{
    char where[160];
    storage_describe(&self->storage, where, sizeof where);
    MPI_File_close(&self->writing.file); /* which both channels share */
    storage_close(&self->storage);
    free(self->buffer);
    char check[320];
    snprintf(check, sizeof check,
             "contents: every byte compared in each of %" PRId64 " repetitions, by another rank than wrote it; %s",
             self->program.warmup + self->program.repetitions, where);
    return program_end(&self->program, check);
}

int main(int argc, char **argv)
{
    struct testrdwr self = {0};
    begin(&self, argc, argv);
    open_channels(&self);
    for (int64_t i = 0; i < self.program.warmup + self.program.repetitions; i++)
        repeat(&self, i);
    program_publish(&self.program);
    return end(&self);
}
