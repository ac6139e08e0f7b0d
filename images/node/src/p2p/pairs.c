#include "p2p/pairs.h"

#include "common/memory.h"
#include "common/payload.h"
#include "common/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGE_BYTES_MAXIMUM = 1 << 30, PAIRS_MAXIMUM = 1024, PAGE_BYTES = 4096 };

struct session {
    const struct pairs_benchmark *benchmark;
    struct program program;
    int pairs;
    int64_t depth;
    struct integer_list sizes;
    struct exchange exchange;
    double *times_s;      /* of this rank: warm-up repetitions, then measured ones */
    double *all_times_s;  /* rank 0: those of every rank in turn */
    int64_t first_number; /* of the message in the first slot */
    int64_t compared;     /* messages, on this rank */
};

static int operations_for(const struct session *self, int64_t message_bytes)
{
    const int64_t fit = message_bytes == 0 ? self->depth : self->benchmark->depth->limit_bytes / message_bytes;
    const int64_t operations = fit < self->depth ? fit : self->depth;
    return operations < 1 ? 1 : (int)operations;
}

static bool sends(const struct session *self) { return self->exchange.initiator || self->benchmark->both_ways; }

static bool receives(const struct session *self) { return !self->exchange.initiator || self->benchmark->both_ways; }

static void begin(struct session *self, int argc, char **argv)
{
    const struct pairs_benchmark *const benchmark = self->benchmark;
    int64_t pairs = 1;
    self->depth = benchmark->depth->standard;
    self->sizes = (struct integer_list){1, {8}};
    const struct argument rows[] = {
        {"message-bytes",
         ARGUMENT_INTEGERS,
         {.integers = &self->sizes},
         (double)benchmark->least_message_bytes,
         MESSAGE_BYTES_MAXIMUM,
         "payload of one message, in B, or a list to go through"},
        {"pairs", ARGUMENT_INTEGER, {.integer = &pairs}, 1, PAIRS_MAXIMUM, "pairs that communicate at the same time"},
        {benchmark->depth->name,
         ARGUMENT_INTEGER,
         {.integer = &self->depth},
         1,
         (double)benchmark->depth->maximum,
         benchmark->depth->help},
    };
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});

    struct problem problem = {0};
    if (program->ranks != 2 * pairs)
        problem_set(&problem, "--pairs %" PRId64 " needs exactly %" PRId64 " ranks, but there are %d", pairs, 2 * pairs,
                    program->ranks);
    program_agree(program, "ranks", &problem);
    self->pairs = (int)pairs;
    self->exchange.initiator = program->rank < self->pairs;
    self->exchange.peer = program->rank + (self->exchange.initiator ? self->pairs : -self->pairs);
}

/* Whole pages, as aligned_alloc() asks for, and never none. */
static void *allocate(int64_t bytes)
{
    return aligned_alloc(PAGE_BYTES, ((size_t)bytes / PAGE_BYTES + 1) * PAGE_BYTES);
}

/* Buffers for the largest repetition of all sizes, so that memory is refused before anything is measured. */
static void take_memory(struct session *self)
{
    int64_t slots_bytes = 0;
    int64_t operations = 0;
    for (size_t i = 0; i < self->sizes.count; i++) {
        const int64_t bytes = self->sizes.values[i];
        const int64_t here = operations_for(self, bytes);
        slots_bytes = here * bytes > slots_bytes ? here * bytes : slots_bytes;
        operations = here > operations ? here : operations;
    }
    struct program *const program = &self->program;
    struct exchange *const exchange = &self->exchange;
    const int64_t times_bytes = (program->warmup + program->repetitions) * (int64_t)sizeof(double);
    exchange->send = allocate(sends(self) ? slots_bytes : 0);
    exchange->receive = allocate(receives(self) ? slots_bytes : 0);
    exchange->requests = allocate(2 * operations * (int64_t)sizeof(MPI_Request));
    self->times_s = allocate(times_bytes);
    self->all_times_s = allocate(program->rank == 0 ? times_bytes * program->ranks : 0);

    const int64_t node_bytes = (self->benchmark->both_ways ? 2 : 1) * slots_bytes * program->ranks_on_node;
    const int64_t available = memory_available_bytes();
    struct problem problem = {0};
    if (exchange->send == NULL || exchange->receive == NULL || exchange->requests == NULL || self->times_s == NULL ||
        self->all_times_s == NULL || node_bytes > available)
        problem_set(&problem,
                    "rank %d: no memory for %" PRId64
                    " B of messages in each of %d ranks on this node, which has %" PRId64
                    " B available; allowed: smaller messages or fewer ranks",
                    program->rank, slots_bytes, program->ranks_on_node, available);
    program_agree(program, "memory", &problem);
}

static int slots(const struct session *self) { return self->exchange.stride == 0 ? 1 : self->exchange.operations; }

static struct payload_key key(const struct session *self, int sender, int slot)
{
    return (struct payload_key){sender, self->exchange.message_bytes, self->first_number + slot};
}

static void fill(struct session *self)
{
    for (int slot = 0; sends(self) && slot < slots(self); slot++)
        payload_fill(self->exchange.send + (size_t)slot * self->exchange.stride, key(self, self->program.rank, slot));
}

/* Compares what was received since fill() and moves on to the numbers of the next messages. */
static void compare(struct session *self, struct problem *problem)
{
    const struct exchange *const exchange = &self->exchange;
    for (int slot = 0; receives(self) && slot < slots(self); slot++) {
        const struct payload_difference difference =
            payload_compare(exchange->receive + (size_t)slot * exchange->stride, key(self, exchange->peer, slot));
        if (difference.offset >= 0)
            problem_set(problem,
                        "rank %d: message %" PRId64 " of %d B from rank %d is first wrong at offset %" PRId64
                        ": expected 0x%02x, found 0x%02x",
                        self->program.rank, self->first_number + slot, exchange->message_bytes, exchange->peer,
                        difference.offset, difference.expected, difference.found);
        self->compared++;
    }
    self->first_number += slots(self);
}

static double repeat_s(const struct session *self)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return self->benchmark->run_s(&self->exchange);
}

static void observe(struct session *self, int64_t index)
{
    struct program *const program = &self->program;
    const struct pairs_benchmark *const benchmark = self->benchmark;
    const struct exchange *const exchange = &self->exchange;
    const int64_t repetitions = program->warmup + program->repetitions;
    const bool is_warmup = index < program->warmup;
    struct observation observation = {.metric = benchmark->metric,
                                      .unit = benchmark->unit,
                                      .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                      .repetition = is_warmup ? index : index - program->warmup,
                                      .rank = ALL_RANKS,
                                      .operations = exchange->operations,
                                      .swept = {{"message_bytes", exchange->message_bytes}}};
    double longest_s = 0;
    for (int rank = 0; rank < program->ranks; rank++) {
        const double time_s = self->all_times_s[rank * repetitions + index];
        longest_s = time_s > longest_s ? time_s : longest_s;
    }
    observation.value = benchmark->value(exchange, self->pairs, longest_s);
    program_observe(program, &observation);

    for (int rank = 0; benchmark->observe_pairs && self->pairs > 1 && rank < self->pairs; rank++) {
        observation.rank = rank;
        observation.value = benchmark->value(exchange, 1, self->all_times_s[rank * repetitions + index]);
        program_observe(program, &observation);
    }
}

static void measure(struct session *self, int64_t message_bytes)
{
    struct program *const program = &self->program;
    struct exchange *const exchange = &self->exchange;
    exchange->message_bytes = (int)message_bytes;
    exchange->operations = operations_for(self, message_bytes);
    double *time_s = self->times_s;
    struct problem problem = {0};

    exchange->stride = (size_t)message_bytes;
    for (int64_t i = 0; i < program->warmup; i++) {
        fill(self);
        *time_s++ = repeat_s(self);
        compare(self, &problem);
    }
    program_agree(program, "payload", &problem);

    exchange->stride = 0;
    fill(self);
    for (int64_t i = 0; i < program->repetitions; i++)
        *time_s++ = repeat_s(self);
    compare(self, &problem);
    program_agree(program, "payload", &problem);

    const int repetitions = (int)(program->warmup + program->repetitions);
    MPI_Gather(self->times_s, repetitions, MPI_DOUBLE, self->all_times_s, repetitions, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; program->rank == 0 && i < repetitions; i++)
        observe(self, i);
    program_publish(program);
}

static int end(struct session *self)
{
    int64_t compared = 0;
    MPI_Reduce(&self->compared, &compared, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    free(self->exchange.send);
    free(self->exchange.receive);
    free(self->exchange.requests);
    free(self->times_s);
    free(self->all_times_s);
    char check[128];
    snprintf(check, sizeof check, "payload: %" PRId64 " messages compared byte for byte, %s", compared,
             self->benchmark->both_ways ? "both ways" : "one way");
    return program_end(&self->program, check);
}

int pairs_main(int argc, char **argv, const struct pairs_benchmark *benchmark)
{
    struct session session = {.benchmark = benchmark};
    begin(&session, argc, argv);
    take_memory(&session);
    for (size_t i = 0; i < session.sizes.count; i++)
        measure(&session, session.sizes.values[i]);
    return end(&session);
}
