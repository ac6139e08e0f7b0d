/* What overlap gains in a program: the modified Jacobi relaxation of Fig. 5 of Kim, Rho and Song, "Overlapping effects
 * of circular shift communication and computation" (2002).
 *
 * The field is N x N and wraps around at all edges; each of n ranks has N / n whole rows, with a ghost row before and
 * one after. A time step makes each point the mean of its four neighbours. The overlapped version does it in parts:
 *
 *     A    send the first row to the rank before and the last row to the rank after, by MPI_Bsend
 *     B    compute the rows that need no ghost row
 *     C    receive the ghost rows
 *     D    compute the first and the last row
 *          and copy the new field over the old
 *
 * The blocking version computes all rows in one loop between C and the copy. The field of both is compared with the
 * serial one bit for bit: the four additions of a point have the same order everywhere, so rounding cannot differ. */
#include "common/clock.h"
#include "common/memory.h"
#include "common/program.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_MAXIMUM = 16384, TIME_STEPS_MAXIMUM = 1000000 };
enum { TAG_TO_BEFORE, TAG_TO_AFTER };
enum { BUFFERED_ROWS = 8 }; /* a rank is at most one step of two rows ahead of its neighbours; twice that, to be safe */

enum timing { SERIAL, BLOCKING, OVERLAPPED, PART_B, PART_D, PART_REST, TIMINGS };
static const char *const metrics[TIMINGS] = {"t_serial", "t_blocking", "t_overlapped", "t_b", "t_d", "t_r"};

struct field { /* rows 1 to `rows`; rows 0 and rows + 1 are ghosts */
    int64_t rows;
    int64_t order;
    double *now;
    double *next;
};

struct session {
    struct program program;
    struct integer_list orders;
    int64_t time_steps;
    int before;
    int after;
    struct field own;
    struct field whole; /* rank 0: of the serial version */
    double *gathered;   /* rank 0 */
    void *attached;
    double (*times_s)[TIMINGS];
    int64_t compared; /* points, on rank 0 */
};

static double *row(double *values, const struct field *field, int64_t index) { return values + index * field->order; }

static void compute(const struct field *field, int64_t first, int64_t last)
{
    const int64_t n = field->order;
    for (int64_t i = first; i <= last; i++) {
        const double *const above = row(field->now, field, i - 1);
        const double *const here = row(field->now, field, i);
        const double *const below = row(field->now, field, i + 1);
        double *const to = row(field->next, field, i);
        to[0] = (here[n - 1] + here[1] + above[0] + below[0]) * 0.25;
        for (int64_t j = 1; j < n - 1; j++)
            to[j] = (here[j - 1] + here[j + 1] + above[j] + below[j]) * 0.25;
        to[n - 1] = (here[n - 2] + here[0] + above[n - 1] + below[n - 1]) * 0.25;
    }
}

static size_t row_bytes(const struct field *field) { return (size_t)field->order * sizeof(double); }

static void copy_back(const struct field *field)
{
    memcpy(row(field->now, field, 1), row(field->next, field, 1), (size_t)field->rows * row_bytes(field));
}

/* In [0, 1), from the place in the whole field alone, and different in every row. */
static double initial_value(int64_t place) { return (double)((uint32_t)place * UINT32_C(2654435761)) * 0x1p-32; }

static void initialise(const struct field *field, int64_t first_row)
{
    for (int64_t i = 0; i < field->rows; i++)
        for (int64_t j = 0; j < field->order; j++)
            row(field->now, field, i + 1)[j] = initial_value((first_row + i) * field->order + j);
}

static void send_edges(const struct session *self)
{
    const struct field *const own = &self->own;
    const int count = (int)own->order;
    MPI_Bsend(row(own->now, own, 1), count, MPI_DOUBLE, self->before, TAG_TO_BEFORE, MPI_COMM_WORLD);
    MPI_Bsend(row(own->now, own, own->rows), count, MPI_DOUBLE, self->after, TAG_TO_AFTER, MPI_COMM_WORLD);
}

static void receive_ghosts(const struct session *self)
{
    const struct field *const own = &self->own;
    const int count = (int)own->order;
    MPI_Recv(row(own->now, own, own->rows + 1), count, MPI_DOUBLE, self->after, TAG_TO_BEFORE, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Recv(row(own->now, own, 0), count, MPI_DOUBLE, self->before, TAG_TO_AFTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void compute_inner(const struct field *own) { compute(own, 2, own->rows - 1); }

static void compute_edges(const struct field *own)
{
    compute(own, 1, 1);
    if (own->rows > 1)
        compute(own, own->rows, own->rows);
}

static void step_serial(const struct field *whole)
{
    memcpy(row(whole->now, whole, 0), row(whole->now, whole, whole->rows), row_bytes(whole));
    memcpy(row(whole->now, whole, whole->rows + 1), row(whole->now, whole, 1), row_bytes(whole));
    compute(whole, 1, whole->rows);
    copy_back(whole);
}

static double serial_s(struct session *self)
{
    if (self->program.rank != 0)
        return 0;
    initialise(&self->whole, 0);
    const double start_s = clock_now_s();
    for (int64_t step = 0; step < self->time_steps; step++)
        step_serial(&self->whole);
    return clock_now_s() - start_s;
}

static double blocking_s(struct session *self)
{
    const double start_s = clock_now_s();
    for (int64_t step = 0; step < self->time_steps; step++) {
        send_edges(self);
        receive_ghosts(self);
        compute(&self->own, 1, self->own.rows);
        copy_back(&self->own);
    }
    return clock_now_s() - start_s;
}

static double overlapped_s(struct session *self)
{
    const double start_s = clock_now_s();
    for (int64_t step = 0; step < self->time_steps; step++) {
        send_edges(self);
        compute_inner(&self->own);
        receive_ghosts(self);
        compute_edges(&self->own);
        copy_back(&self->own);
    }
    return clock_now_s() - start_s;
}

/* The overlapped version with a clock between its parts; apart, because reading the clock takes time too. */
static void overlapped_in_parts(struct session *self, double times_s[TIMINGS])
{
    double b_s = 0, d_s = 0, exchange_s = 0;
    const double start_s = clock_now_s();
    for (int64_t step = 0; step < self->time_steps; step++) {
        const double a = clock_now_s();
        send_edges(self);
        const double b = clock_now_s();
        compute_inner(&self->own);
        const double c = clock_now_s();
        receive_ghosts(self);
        const double d = clock_now_s();
        compute_edges(&self->own);
        const double copy = clock_now_s();
        copy_back(&self->own);
        exchange_s += (b - a) + (d - c);
        b_s += c - b;
        d_s += copy - d;
    }
    const double rest_s = clock_now_s() - start_s - b_s - d_s - exchange_s;
    times_s[PART_B] = b_s;
    times_s[PART_D] = d_s;
    times_s[PART_REST] = rest_s > 0 ? rest_s : 0; /* less only by the rounding of the sums */
}

static void start_parallel(struct session *self)
{
    initialise(&self->own, self->program.rank * self->own.rows);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 compares the field that all ranks have with the serial one. */
static void compare(struct session *self, const char *version, struct problem *problem)
{
    const struct field *const own = &self->own;
    const int count = (int)(own->rows * own->order);
    MPI_Gather(row(own->now, own, 1), count, MPI_DOUBLE, self->gathered, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (self->program.rank != 0)
        return;
    const struct field *const whole = &self->whole;
    for (int64_t i = 0; i < whole->rows; i++) {
        const double *const expected = row(whole->now, whole, i + 1);
        const double *const found = row(self->gathered, whole, i);
        for (int64_t j = 0; memcmp(expected, found, row_bytes(whole)) != 0 && j < whole->order; j++)
            if (memcmp(&expected[j], &found[j], sizeof *found) != 0) {
                problem_set(problem,
                            "the %s field of order %" PRId64 " is first wrong in row %" PRId64 ", column %" PRId64
                            ": expected %.17g as in the serial one, found %.17g",
                            version, whole->order, i, j, expected[j], found[j]);
                return;
            }
    }
    self->compared += whole->rows * whole->order;
}

static void observe(struct session *self, int64_t index)
{
    const bool is_warmup = index < self->program.warmup;
    for (int timing = 0; timing < TIMINGS; timing++)
        program_observe(&self->program,
                        &(struct observation){.metric = metrics[timing],
                                              .unit = "s",
                                              .value = self->times_s[index][timing] / (double)self->time_steps,
                                              .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                              .repetition = is_warmup ? index : index - self->program.warmup,
                                              .rank = ALL_RANKS,
                                              .operations = self->time_steps,
                                              .swept = {{"order", self->own.order}}});
}

static void measure(struct session *self, int64_t order)
{
    struct program *const program = &self->program;
    self->own.order = self->whole.order = self->whole.rows = order;
    self->own.rows = order / program->ranks;
    struct problem problem = {0};
    for (int64_t i = 0; i < program->warmup + program->repetitions; i++) {
        double *const times_s = self->times_s[i];
        times_s[SERIAL] = serial_s(self);
        start_parallel(self);
        times_s[BLOCKING] = blocking_s(self);
        compare(self, "blocking", &problem);
        start_parallel(self);
        times_s[OVERLAPPED] = overlapped_s(self);
        compare(self, "overlapped", &problem);
        start_parallel(self);
        overlapped_in_parts(self, times_s);
        compare(self, "overlapped", &problem);
    }
    program_agree(program, "field", &problem);
    const int count = (int)(program->warmup + program->repetitions) * TIMINGS;
    MPI_Reduce(program->rank == 0 ? MPI_IN_PLACE : self->times_s, self->times_s, count, MPI_DOUBLE, MPI_MAX, 0,
               MPI_COMM_WORLD);
    for (int64_t i = 0; program->rank == 0 && i < program->warmup + program->repetitions; i++)
        observe(self, i);
    program_publish(program);
}

/* For the largest of all orders, so that memory is refused before anything is measured. */
static void take_memory(struct session *self)
{
    struct program *const program = &self->program;
    int64_t order = 0;
    for (size_t i = 0; i < self->orders.count; i++)
        order = self->orders.values[i] > order ? self->orders.values[i] : order;
    const size_t line = (size_t)order * sizeof(double);
    const size_t own = line * (size_t)(order / program->ranks + 2), whole = line * (size_t)(order + 2);
    const size_t buffered = BUFFERED_ROWS * (line + MPI_BSEND_OVERHEAD);
    const bool is_root = program->rank == 0;
    self->own.now = malloc(own);
    self->own.next = malloc(own);
    self->whole.now = malloc(is_root ? whole : 1);
    self->whole.next = malloc(is_root ? whole : 1);
    self->gathered = malloc(is_root ? whole : 1);
    self->attached = malloc(buffered);
    self->times_s = calloc((size_t)(program->warmup + program->repetitions), sizeof *self->times_s);

    const int64_t needed = (int64_t)(2 * own * (size_t)program->ranks_on_node + (is_root ? 3 * whole : 0));
    const int64_t available = memory_available_bytes();
    struct problem problem = {0};
    if (self->own.now == NULL || self->own.next == NULL || self->whole.now == NULL || self->whole.next == NULL ||
        self->gathered == NULL || self->attached == NULL || self->times_s == NULL || needed > available)
        problem_set(&problem,
                    "rank %d: a field of order %" PRId64 " needs %" PRId64 " B of this node, which has %" PRId64
                    " B available; allowed: a smaller order",
                    program->rank, order, needed, available);
    program_agree(program, "memory", &problem);
    MPI_Buffer_attach(self->attached, (int)buffered);
}

static void begin(struct session *self, int argc, char **argv)
{
    self->orders = (struct integer_list){1, {64}};
    self->time_steps = 100;
    const struct argument rows[] = {
        {"order",
         ARGUMENT_INTEGERS,
         {.integers = &self->orders},
         2,
         ORDER_MAXIMUM,
         "rows and columns of the field, or a list to go through"},
        {"time-steps",
         ARGUMENT_INTEGER,
         {.integer = &self->time_steps},
         1,
         TIME_STEPS_MAXIMUM,
         "time steps timed as one repetition"},
    };
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});
    struct problem problem = {0};
    for (size_t i = 0; i < self->orders.count; i++)
        if (self->orders.values[i] % program->ranks != 0)
            problem_set(&problem,
                        "order %" PRId64 " cannot be split into equal rows for %d ranks; allowed: a multiple of %d",
                        self->orders.values[i], program->ranks, program->ranks);
    program_agree(program, "ranks", &problem);
    self->before = (program->rank + program->ranks - 1) % program->ranks;
    self->after = (program->rank + 1) % program->ranks;
    take_memory(self);
}

static int end(struct session *self)
{
    void *buffer = NULL;
    int bytes = 0;
    MPI_Buffer_detach(&buffer, &bytes);
    free(self->attached);
    free(self->own.now);
    free(self->own.next);
    free(self->whole.now);
    free(self->whole.next);
    free(self->gathered);
    free(self->times_s);
    char check[96];
    snprintf(check, sizeof check, "field: %" PRId64 " points equal to the serial ones bit for bit", self->compared);
    return program_end(&self->program, check);
}

int main(int argc, char **argv)
{
    struct session session = {0};
    begin(&session, argc, argv);
    for (size_t i = 0; i < session.orders.count; i++)
        measure(&session, session.orders.values[i]);
    return end(&session);
}
