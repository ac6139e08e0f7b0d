/* Out-of-core matrix multiplication, C = A B, in eleven variants of how ranks go over the matrices.
 *
 * All three are of order N and lie row by row in files. A rank multiplies a block of L rows of A, which lies together
 * in its file, by a panel of L columns of B, which does not, and writes the L x L block of C where they meet:
 *
 *                                        panel
 *          block |=======|     x      |  ||  |    ->    |  #   |
 *                |       |            |  ||  |          |      |
 *
 * A variant says which block and panel a rank takes at which step, which of the two the inner loop reads, and whether
 * reading, multiplying and writing of different steps overlap. */
#include "common/clock.h"
#include "common/memory.h"
#include "common/program.h"
#include "mpiio/access.h"
#include "mpiio/matrix.h"
#include "mpiio/multiply.h"
#include "mpiio/storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_BLOCK_MAXIMUM = 8192, REPLICATION_MAXIMUM = 1024, ALIGNMENT_BYTES = 4096, CHUNK_BYTES = 4 << 20 };

enum file { FILE_A, FILE_B, FILE_C };

/* Ranks as a square of q x q: rank (i, j) takes blocks i, i + q, ... and panels j, j + q, ...; N = q L R.
 * Ranks as a column: rank i takes blocks i, i + P, ... and all panels; N = P L R. In step s of the outer loop all take
 * panel s, or, rotated, rank i takes panel s + i modulo their number. */
enum shape { SQUARE, COLUMN, COLUMN_ROTATED };

enum { BLOCKING = 1 << NON_COLLECTIVE | 1 << COLLECTIVE, STARTED = 1 << NON_BLOCKING | 1 << SPLIT_COLLECTIVE };

static const struct variant {
    const char *name;
    enum shape shape;
    bool inner_reads_b;
    bool double_buffered;
    unsigned accesses; /* a bit for each that it is defined for */
} variants[] = {
    {"TESTMAT1", SQUARE, true, false, BLOCKING},
    {"TESTMAT2", SQUARE, true, false, STARTED},
    {"SREVERSEMAT", SQUARE, false, false, BLOCKING},
    {"MREVERSEMAT", COLUMN, false, false, BLOCKING},
    {"CREVERSEMAT", COLUMN_ROTATED, false, false, BLOCKING},
    {"TESTDBMAT1", SQUARE, true, true, 1 << NON_BLOCKING},
    {"DB1SREVERSEMAT", SQUARE, false, true, 1 << NON_BLOCKING},
    {"DB1MREVERSEMAT", COLUMN, false, true, 1 << NON_BLOCKING},
    {"TESTDBMAT2", SQUARE, true, true, 1 << SPLIT_COLLECTIVE},
    {"DB2SREVERSEMAT", SQUARE, false, true, 1 << SPLIT_COLLECTIVE},
    {"DB2MREVERSEMAT", COLUMN, false, true, 1 << SPLIT_COLLECTIVE},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

struct matmul {
    struct program program;
    struct storage storage;
    const struct variant *variant;
    int64_t local_block; /* L */
    int64_t replication; /* R */
    int64_t order;       /* N */
    int side;            /* q; P for a column */
    int64_t outer_steps;
    int64_t inner_steps;
    int slots;          /* buffers of the inner loop: 2 for double buffering, else 1 */
    MPI_Datatype panel; /* view of the columns of a panel, row after row */
    struct channel outer;
    struct channel inner[2];
    struct channel product[2];
    double *scratch;
    double *chunk; /* whole rows, to fill and check files */
    int64_t chunk_rows;
    double compute_s;
    struct matrix_check check;
};

static const struct variant *variant_from(const char *name, struct problem *problem)
{
    char known[256] = "";
    for (size_t i = 0, end = 0; i < VARIANTS; i++) {
        if (strcmp(name, variants[i].name) == 0)
            return &variants[i];
        end += (size_t)snprintf(known + end, sizeof known - end, "%s%s", i == 0 ? "" : ", ", variants[i].name);
    }
    problem_set(problem, "--variant: '%s' is unknown; allowed: %s", name, known);
    return NULL;
}

static void refuse_access(const struct matmul *self, struct problem *problem)
{
    const unsigned allowed = self->variant->accesses;
    if (allowed >> self->storage.access & 1)
        return;
    char names[64] = "";
    size_t end = 0;
    for (enum access access = 0; access < ACCESSES; access++)
        if (allowed >> access & 1)
            end += (size_t)snprintf(names + end, sizeof names - end, "%s%s", end == 0 ? "" : ", ", access_name(access));
    problem_set(problem, "--access: %s does not run with %s; allowed: %s", self->variant->name,
                access_name(self->storage.access), names);
}

/* N and the steps of both loops, from the ranks there are. */
static void lay_out(struct matmul *self, struct problem *problem)
{
    const int ranks = self->program.ranks;
    const bool square = self->variant->shape == SQUARE;
    self->side = square ? 1 : ranks;
    while (square && self->side * self->side < ranks)
        self->side++;
    if (square && self->side * self->side != ranks)
        problem_set(problem, "%s needs a square number of ranks, but there are %d; allowed: 1, 4, 9, 16, ...",
                    self->variant->name, ranks);
    self->order = self->side * self->local_block * self->replication;
    self->outer_steps = square ? self->replication : ranks * self->replication;
    self->inner_steps = self->replication;
    self->slots = self->variant->double_buffered ? 2 : 1;
    const double block_bytes = (double)self->local_block * (double)self->order * sizeof(double);
    if (block_bytes > INT32_MAX)
        problem_set(problem,
                    "a block of %" PRId64 " rows of %" PRId64
                    " elements has %.0f B; allowed: less than 2 GiB, hence a smaller --local-block or --replication",
                    self->local_block, self->order, block_bytes);
}

static void begin(struct matmul *self, int argc, char **argv)
{
    const char *variant = variants[0].name;
    struct storage_options options = {.directory = "/tmp", .access = "non_collective", .cache = "warm"};
    self->local_block = 64;
    self->replication = 1;
    struct argument rows[3 + STORAGE_ROWS] = {
        {"variant", ARGUMENT_TEXT, {.text = &variant}, 0, 0, "which of the eleven programs, as in TESTMAT1"},
        {"local-block",
         ARGUMENT_INTEGER,
         {.integer = &self->local_block},
         1,
         LOCAL_BLOCK_MAXIMUM,
         "rows of A and columns of B that a rank multiplies at once"},
        {"replication",
         ARGUMENT_INTEGER,
         {.integer = &self->replication},
         1,
         REPLICATION_MAXIMUM,
         "how many times larger than what the ranks hold at once the matrices are"},
    };
    storage_rows(&options, rows + 3);
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});
    storage_parse(&self->storage, program, &options);

    struct problem problem = {0};
    self->variant = variant_from(variant, &problem);
    if (self->variant != NULL) {
        refuse_access(self, &problem);
        lay_out(self, &problem);
    }
    program_agree(program, "arguments", &problem);
    const int64_t bytes = self->order * self->order * (int64_t)sizeof(double);
    storage_begin(&self->storage, options.directory, 3, (const int64_t[]){bytes, bytes, bytes});
}

static void *allocate(int64_t bytes)
{
    return aligned_alloc(ALIGNMENT_BYTES, ((size_t)bytes / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES);
}

/* A channel with its buffer and its handle; storage_seal() tells of a problem. */
static struct channel open_channel(struct matmul *self, enum file file, int64_t count, struct problem *problem)
{
    static const char *const what[] = {"reading A", "reading B", "writing C"};
    struct channel channel = {.what = what[file],
                              .access = self->storage.access,
                              .direction = file == FILE_C ? WRITING : READING,
                              .file = storage_open(&self->storage, (int)file, problem),
                              .buffer = allocate(count * (int64_t)sizeof(double)),
                              .count = (int)count,
                              .element = MPI_DOUBLE,
                              .filetype = file == FILE_A ? MPI_DOUBLE : self->panel,
                              .view = -1,
                              .request = MPI_REQUEST_NULL};
    if (channel.buffer == NULL)
        problem_set(problem, "rank %d: no memory for %" PRId64 " elements", self->program.rank, count);
    return channel;
}

static void make_panel(struct matmul *self)
{
    MPI_Datatype piece;
    MPI_Type_contiguous((int)self->local_block, MPI_DOUBLE, &piece);
    MPI_Type_create_resized(piece, 0, self->order * (int64_t)sizeof(double), &self->panel);
    MPI_Type_commit(&self->panel);
    MPI_Type_free(&piece);
}

static void refuse_memory(const struct matmul *self, struct problem *problem)
{
    const int64_t elements = (1 + self->slots) * self->local_block * self->order +
                             self->slots * self->local_block * self->local_block + 3 * self->order;
    const int64_t node_bytes = (elements * (int64_t)sizeof(double) + CHUNK_BYTES) * self->program.ranks_on_node;
    if (node_bytes > memory_available_bytes())
        problem_set(problem,
                    "rank %d: no memory for %" PRId64 " B on this node, which has %" PRId64
                    " B available; allowed: a smaller --local-block or --replication",
                    self->program.rank, node_bytes, memory_available_bytes());
}

static void open_channels(struct matmul *self)
{
    struct problem problem = {0};
    refuse_memory(self, &problem);
    make_panel(self);
    const int64_t block = self->local_block * self->order;
    const enum file inner = self->variant->inner_reads_b ? FILE_B : FILE_A;
    self->outer = open_channel(self, inner == FILE_B ? FILE_A : FILE_B, block, &problem);
    for (int slot = 0; slot < self->slots; slot++) {
        self->inner[slot] = open_channel(self, inner, block, &problem);
        self->product[slot] = open_channel(self, FILE_C, self->local_block * self->local_block, &problem);
    }
    self->scratch = allocate((int64_t)multiply_scratch_bytes((size_t)self->local_block));
    const int64_t row_bytes = self->order * (int64_t)sizeof(double);
    self->chunk_rows = CHUNK_BYTES / row_bytes + 1;
    self->chunk = allocate(self->chunk_rows * row_bytes);
    self->check = (struct matrix_check){.order = self->order,
                                        .rows = matrix_share(self->order, self->program.rank, self->program.ranks),
                                        .x = allocate(row_bytes),
                                        .product = allocate(row_bytes),
                                        .row = allocate(row_bytes)};
    if (self->scratch == NULL || self->chunk == NULL || self->check.x == NULL || self->check.product == NULL ||
        self->check.row == NULL)
        problem_set(&problem, "rank %d: no memory for rows of %" PRId64 " elements", self->program.rank, self->order);
    storage_seal(&self->storage, self->outer.file, &problem);
}

/* Rows of this rank from `row` on that are filled or checked at once. */
static int64_t rows_at_once(const struct matmul *self, int64_t row)
{
    const int64_t left = self->check.rows.end - row;
    return left < self->chunk_rows ? left : self->chunk_rows;
}

static void write_chunk(struct matmul *self, enum file file, int64_t row, int64_t rows, struct problem *problem)
{
    const int64_t row_bytes = self->order * (int64_t)sizeof(double);
    storage_write(&self->storage.file[file], row * row_bytes, self->chunk, (int)(rows * row_bytes), problem);
}

static void fill_inputs(struct matmul *self)
{
    struct problem problem = {0};
    for (enum file file = FILE_A; file <= FILE_B; file++)
        for (int64_t row = self->check.rows.first, rows = 0; row < self->check.rows.end; row += rows) {
            rows = rows_at_once(self, row);
            for (int64_t i = 0; i < rows; i++)
                matrix_fill_row(file == FILE_A ? MATRIX_A : MATRIX_B, row + i, self->order,
                                self->chunk + i * self->order);
            write_chunk(self, file, row, rows, &problem);
        }
    program_agree(&self->program, "files", &problem);
}

static void fill_with_nan(double *elements, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        elements[i] = NAN;
}

/* NaN in C and in all buffers, so that what was not read or not written is not taken for what the last repetition left
 * there: ROMIO does not tell of every access that ends early. */
static void spoil(struct matmul *self)
{
    struct problem problem = {0};
    fill_with_nan(self->outer.buffer, self->outer.count);
    for (int slot = 0; slot < self->slots; slot++)
        fill_with_nan(self->inner[slot].buffer, self->inner[slot].count);
    fill_with_nan(self->chunk, self->chunk_rows * self->order);
    for (int64_t row = self->check.rows.first, rows = 0; row < self->check.rows.end; row += rows) {
        rows = rows_at_once(self, row);
        write_chunk(self, FILE_C, row, rows, &problem);
    }
    program_agree(&self->program, "files", &problem);
}

static void check_product(struct matmul *self, int64_t number)
{
    struct problem problem = {0};
    matrix_check_prepare(&self->check, number);
    const int64_t row_bytes = self->order * (int64_t)sizeof(double);
    for (int64_t row = self->check.rows.first, rows = 0; row < self->check.rows.end; row += rows) {
        rows = rows_at_once(self, row);
        storage_read(&self->storage.file[FILE_C], row * row_bytes, self->chunk, (int)(rows * row_bytes), &problem);
        for (int64_t i = 0; i < rows; i++)
            matrix_check_row(&self->check, row + i, self->chunk + i * self->order, &problem);
    }
    program_agree(&self->program, "product", &problem);
}

/* The block of A that this rank takes at a step of the loop that reads A. */
static int64_t block_at(const struct matmul *self, int64_t step)
{
    const int first = self->variant->shape == SQUARE ? self->program.rank / self->side : self->program.rank;
    return step * self->side + first;
}

static int64_t panel_at(const struct matmul *self, int64_t step)
{
    switch (self->variant->shape) {
    case SQUARE:
        return step * self->side + self->program.rank % self->side;
    case COLUMN:
        return step;
    case COLUMN_ROTATED:
        return (step + self->program.rank) % self->outer_steps;
    }
    return 0;
}

static struct place place_of_block(const struct matmul *self, int64_t block)
{
    return (struct place){.view = 0, .offset = block * self->local_block * self->order};
}

/* Where the rows of a block begin in a panel: the whole panel begins with block 0. */
static struct place place_in_panel(const struct matmul *self, int64_t panel, int64_t block)
{
    return (struct place){.view = panel * self->local_block * (int64_t)sizeof(double),
                          .offset = block * self->local_block * self->local_block};
}

static void begin_inner(struct matmul *self, int64_t step)
{
    channel_begin(&self->inner[step % self->slots], self->variant->inner_reads_b
                                                        ? place_in_panel(self, panel_at(self, step), 0)
                                                        : place_of_block(self, block_at(self, step)));
}

static void begin_outer(struct matmul *self, int64_t step)
{
    channel_begin(&self->outer, self->variant->inner_reads_b ? place_of_block(self, block_at(self, step))
                                                             : place_in_panel(self, panel_at(self, step), 0));
}

static void begin_product(struct matmul *self, int64_t outer, int64_t inner)
{
    const bool inner_reads_b = self->variant->inner_reads_b;
    channel_begin(&self->product[inner % self->slots],
                  place_in_panel(self, panel_at(self, inner_reads_b ? inner : outer),
                                 block_at(self, inner_reads_b ? outer : inner)));
}

static void compute(struct matmul *self, int64_t inner)
{
    const double *const outer_buffer = self->outer.buffer;
    const double *const inner_buffer = self->inner[inner % self->slots].buffer;
    const bool inner_reads_b = self->variant->inner_reads_b;
    const double start_s = clock_now_s();
    multiply(&(struct multiply){.rows = (size_t)self->local_block,
                                .depth = (size_t)self->order,
                                .columns = (size_t)self->local_block,
                                .a = inner_reads_b ? outer_buffer : inner_buffer,
                                .b = inner_reads_b ? inner_buffer : outer_buffer,
                                .c = self->product[inner % self->slots].buffer,
                                .scratch = self->scratch});
    self->compute_s += clock_now_s() - start_s;
}

static void run_in_turn(struct matmul *self, int64_t outer)
{
    for (int64_t inner = 0; inner < self->inner_steps; inner++) {
        begin_inner(self, inner);
        channel_end(&self->inner[0]);
        compute(self, inner);
        begin_product(self, outer, inner);
        channel_end(&self->product[0]);
    }
}

/* Step s of the inner loop uses the buffers s mod 2.
 *
 *     prologue    read 0 begins
 *     body        read s+1 begins | read s ends | compute s | write s begins        for all but the last s
 *     epilogue    the same for the last s, without a next read; both writes end
 *
 * so the epilogue is in the first or in the second buffers as the number of steps is odd or even. A write has ended
 * before its buffer is computed anew. Split collectives are never two at once on a file (MPI-4.1, section 14.4.5): read
 * s ends before read s+1 begins, write s-1 before write s. */
static void run_pipelined(struct matmul *self, int64_t outer)
{
    const bool one_at_once = self->storage.access == SPLIT_COLLECTIVE;
    begin_inner(self, 0);
    for (int64_t inner = 0; inner < self->inner_steps; inner++) {
        struct channel *const reading = &self->inner[inner % 2];
        if (one_at_once)
            channel_end(reading);
        if (inner + 1 < self->inner_steps)
            begin_inner(self, inner + 1);
        channel_end(reading);
        channel_end(&self->product[inner % 2]);
        compute(self, inner);
        if (one_at_once)
            channel_end(&self->product[(inner + 1) % 2]);
        begin_product(self, outer, inner);
    }
    channel_end(&self->product[0]);
    channel_end(&self->product[1]);
}

static void run(struct matmul *self)
{
    for (int64_t outer = 0; outer < self->outer_steps; outer++) {
        begin_outer(self, outer);
        channel_end(&self->outer);
        if (self->variant->double_buffered)
            run_pipelined(self, outer);
        else
            run_in_turn(self, outer);
    }
}

static void observe(struct matmul *self, int64_t index, double total_s)
{
    struct program *const program = &self->program;
    enum { READ, WRITE, COMPUTE, TOTAL, TIMES };
    double times_s[TIMES] = {self->outer.busy_s, 0, self->compute_s, total_s};
    int64_t bytes[2] = {self->outer.bytes, 0};
    for (int slot = 0; slot < self->slots; slot++) {
        times_s[READ] += self->inner[slot].busy_s;
        times_s[WRITE] += self->product[slot].busy_s;
        bytes[READ] += self->inner[slot].bytes;
        bytes[WRITE] += self->product[slot].bytes;
    }
    MPI_Allreduce(MPI_IN_PLACE, times_s, TIMES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, bytes, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);

    const bool is_warmup = index < program->warmup;
    struct observation observation = {.phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                      .repetition = is_warmup ? index : index - program->warmup,
                                      .rank = ALL_RANKS,
                                      .operations = 1,
                                      .unit = "s"};
    static const char *const time_names[] = {"read_time", "write_time", "compute_time", "total_time"};
    for (int i = 0; i < TIMES; i++) {
        observation.metric = time_names[i];
        observation.value = times_s[i];
        program_observe(program, &observation);
    }
    static const char *const byte_names[] = {"bytes_read", "bytes_written"};
    observation.unit = "B";
    for (int i = 0; i < 2; i++) {
        observation.metric = byte_names[i];
        observation.value = (double)bytes[i];
        program_observe(program, &observation);
    }
}

static void reset(struct matmul *self)
{
    struct channel *const all[] = {&self->outer, &self->inner[0], &self->inner[1], &self->product[0],
                                   &self->product[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        all[i]->busy_s = 0;
        all[i]->bytes = 0;
    }
    self->compute_s = 0;
}

/* The first problem of any transfer of this rank. */
static struct problem transfer_problem(const struct matmul *self)
{
    if (problem_is_set(&self->outer.problem))
        return self->outer.problem;
    for (int slot = 0; slot < self->slots; slot++) {
        if (problem_is_set(&self->inner[slot].problem))
            return self->inner[slot].problem;
        if (problem_is_set(&self->product[slot].problem))
            return self->product[slot].problem;
    }
    return (struct problem){0};
}

static void repeat(struct matmul *self, int64_t index)
{
    spoil(self);
    storage_settle(&self->storage, self->product, self->slots);
    reset(self);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start_s = clock_now_s();
    run(self);
    const double total_s = clock_now_s() - start_s;
    const struct problem problem = transfer_problem(self);
    program_agree(&self->program, "input and output", &problem);
    storage_settle(&self->storage, self->product, self->slots);
    check_product(self, index);
    observe(self, index, total_s);
}

static void close_channel(struct channel *channel)
{
    MPI_File_close(&channel->file);
    free(channel->buffer);
}

static int end(struct matmul *self)
{
    char where[160];
    storage_describe(&self->storage, where, sizeof where);
    close_channel(&self->outer);
    for (int slot = 0; slot < self->slots; slot++) {
        close_channel(&self->inner[slot]);
        close_channel(&self->product[slot]);
    }
    MPI_Type_free(&self->panel);
    storage_close(&self->storage);
    free(self->scratch);
    free(self->chunk);
    free(self->check.x);
    free(self->check.product);
    free(self->check.row);
    char check[320];
    snprintf(check, sizeof check,
             "product: C x = A (B x) in whole numbers after each of %" PRId64 " repetitions, order %" PRId64 "; %s",
             self->program.warmup + self->program.repetitions, self->order, where);
    return program_end(&self->program, check);
}

int main(int argc, char **argv)
{
    struct matmul self = {0};
    begin(&self, argc, argv);
    open_channels(&self);
    fill_inputs(&self);
    for (int64_t i = 0; i < self.program.warmup + self.program.repetitions; i++)
        repeat(&self, i);
    program_publish(&self.program);
    return end(&self);
}
