/* How much of a circular shift hides behind work: the experiment of Fig. 2 of Kim, Rho and Song, "Overlapping effects
 * of circular shift communication and computation" (2002).
 *
 * For each amount x of overlapped work out of W iterations, a repetition times on every rank, each after a barrier,
 *
 *     t_pure     the exchange alone
 *     t_comp     the W iterations alone
 *     t_total    begin of the exchange, x iterations, completion of the exchange, W - x iterations
 *
 * and observes the longest over the ranks. What each exchange delivers is compared byte for byte. */
#include "common/clock.h"
#include "common/memory.h"
#include "common/payload.h"
#include "common/program.h"
#include "overlap/shift.h"
#include "overlap/work.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MESSAGE_BYTES_MAXIMUM = 1 << 30, ITERATIONS_MAXIMUM = 10000000 };
enum { MESSAGES_HELD = 6 }; /* one to send, one to receive, and those that MPI_Bsend buffers */

enum timing { PURE, COMP, TOTAL, TIMINGS };
static const char *const metrics[TIMINGS] = {"t_pure", "t_comp", "t_total"};

struct session {
    struct program program;
    int64_t work_iterations;
    struct integer_list overlapped;
    bool poll;
    struct shift shift;
    struct work work;
    int64_t exchanges; /* so far; numbers the messages */
    double (*times_s)[TIMINGS];
};

static void begin(struct session *self, int argc, char **argv)
{
    int64_t message_bytes = 8, poll = 0;
    double iteration_time = 1e-6;
    const char *exchange = "bsend";
    self->work_iterations = 100;
    self->overlapped = (struct integer_list){1, {0}};
    const struct argument rows[] = {
        {"message-bytes",
         ARGUMENT_INTEGER,
         {.integer = &message_bytes},
         1,
         MESSAGE_BYTES_MAXIMUM,
         "payload of one message, in B"},
        {"exchange", ARGUMENT_TEXT, {.text = &exchange}, 0, 0, "bsend, isend_irecv, sendrecv or persistent"},
        {"poll",
         ARGUMENT_INTEGER,
         {.integer = &poll},
         0,
         1,
         "1: let MPI make progress after each overlapped iteration"},
        {"iteration-time",
         ARGUMENT_NUMBER,
         {.number = &iteration_time},
         1e-8,
         1,
         "what one iteration of work shall take, in s"},
        {"work-iterations",
         ARGUMENT_INTEGER,
         {.integer = &self->work_iterations},
         0,
         ITERATIONS_MAXIMUM,
         "iterations of work in all"},
        {"overlapped-iterations",
         ARGUMENT_INTEGERS,
         {.integers = &self->overlapped},
         0,
         ITERATIONS_MAXIMUM,
         "how many of them lie inside the exchange, or a list to go through"},
    };
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});

    struct problem problem = {0};
    for (size_t i = 0; i < self->overlapped.count; i++)
        if (self->overlapped.values[i] > self->work_iterations)
            problem_set(&problem, "--overlapped-iterations: %" PRId64 " are more than the %" PRId64 " of all work",
                        self->overlapped.values[i], self->work_iterations);
    self->poll = poll != 0;
    self->shift.method = shift_method(exchange, &problem);
    program_agree(program, "arguments", &problem);

    if (program->ranks < 2)
        problem_set(&problem, "a circular shift needs at least 2 ranks, but there is 1");
    program_agree(program, "ranks", &problem);
    self->shift.message_bytes = (int)message_bytes;
    self->shift.to = (program->rank + 1) % program->ranks;
    self->shift.from = (program->rank + program->ranks - 1) % program->ranks;

    const int64_t needed = MESSAGES_HELD * message_bytes * program->ranks_on_node;
    const int64_t available = memory_available_bytes();
    if (needed > available)
        problem_set(&problem,
                    "%d ranks with messages of %" PRId64 " B need %" PRId64 " B of this node, which has %" PRId64
                    " B available; allowed: smaller messages or fewer ranks",
                    program->ranks_on_node, message_bytes, needed, available);
    program_agree(program, "memory", &problem);
    self->times_s = calloc((size_t)(program->warmup + program->repetitions), sizeof *self->times_s);
    if (self->times_s == NULL)
        problem_set(&problem, "no memory for the times of all repetitions");
    shift_prepare(&self->shift, &problem);
    program_agree(program, "memory", &problem);

    work_calibrate(&self->work, iteration_time, &problem);
    program_agree(program, "calibration of the work", &problem);
}

static struct payload_key key(const struct session *self, int sender)
{
    return (struct payload_key){sender, self->shift.message_bytes, self->exchanges};
}

/* Everyone has compared the last message, hence is done with it, before the next is sent. */
static void prepare_exchange(struct session *self)
{
    payload_fill(self->shift.send, key(self, self->program.rank));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void compare(struct session *self, struct problem *problem)
{
    const struct payload_difference difference = payload_compare(self->shift.receive, key(self, self->shift.from));
    if (difference.offset >= 0)
        problem_set(problem,
                    "rank %d: message %" PRId64 " of %d B from rank %d is first wrong at offset %" PRId64
                    ": expected 0x%02x, found 0x%02x",
                    self->program.rank, self->exchanges, self->shift.message_bytes, self->shift.from, difference.offset,
                    difference.expected, difference.found);
    self->exchanges++;
}

static void do_work(struct session *self, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        work_iterate(&self->work, i);
}

static void do_work_polling(struct session *self, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        work_iterate(&self->work, i);
        shift_poll(&self->shift);
    }
}

static double pure_s(struct session *self)
{
    const double start_s = clock_now_s();
    shift_begin(&self->shift);
    shift_complete(&self->shift);
    return clock_now_s() - start_s;
}

static double comp_s(struct session *self)
{
    const double start_s = clock_now_s();
    do_work(self, 0, self->work_iterations);
    return clock_now_s() - start_s;
}

static double total_s(struct session *self, int64_t overlapped)
{
    const double start_s = clock_now_s();
    shift_begin(&self->shift);
    if (self->poll)
        do_work_polling(self, 0, overlapped);
    else
        do_work(self, 0, overlapped);
    shift_complete(&self->shift);
    do_work(self, overlapped, self->work_iterations);
    return clock_now_s() - start_s;
}

static void observe(struct session *self, int64_t index, int64_t overlapped)
{
    const bool is_warmup = index < self->program.warmup;
    for (int timing = 0; timing < TIMINGS; timing++)
        program_observe(&self->program,
                        &(struct observation){.metric = metrics[timing],
                                              .unit = "s",
                                              .value = self->times_s[index][timing],
                                              .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                              .repetition = is_warmup ? index : index - self->program.warmup,
                                              .rank = ALL_RANKS,
                                              .operations = 1,
                                              .swept = {{"overlapped_iterations", overlapped}}});
}

static void measure(struct session *self, int64_t overlapped)
{
    struct program *const program = &self->program;
    const int64_t repetitions = program->warmup + program->repetitions;
    struct problem problem = {0};
    for (int64_t i = 0; i < repetitions; i++) {
        prepare_exchange(self);
        self->times_s[i][PURE] = pure_s(self);
        compare(self, &problem);
        MPI_Barrier(MPI_COMM_WORLD);
        self->times_s[i][COMP] = comp_s(self);
        prepare_exchange(self);
        self->times_s[i][TOTAL] = total_s(self, overlapped);
        compare(self, &problem);
    }
    program_agree(program, "payload", &problem);
    MPI_Reduce(program->rank == 0 ? MPI_IN_PLACE : self->times_s, self->times_s, (int)repetitions * TIMINGS, MPI_DOUBLE,
               MPI_MAX, 0, MPI_COMM_WORLD);
    for (int64_t i = 0; program->rank == 0 && i < repetitions; i++)
        observe(self, i, overlapped);
    program_publish(program);
}

static int end(struct session *self)
{
    shift_release(&self->shift);
    free(self->times_s);
    char check[96];
    snprintf(check, sizeof check, "payload: %" PRId64 " messages a rank compared byte for byte", self->exchanges);
    return program_end(&self->program, check);
}

int main(int argc, char **argv)
{
    struct session session = {0};
    begin(&session, argc, argv);
    for (size_t i = 0; i < session.overlapped.count; i++)
        measure(&session, session.overlapped.values[i]);
    return end(&session);
}
