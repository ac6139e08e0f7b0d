/* How long a broadcast takes while two of its leaves are still busy with a transfer between them.
 *
 * A repetition begins with a barrier. Rank `case` then sends `interfering-bytes` to the last rank before the two join
 * the broadcast; the last case, where both would be the same rank, is without interference. A rank's time ends when its
 * part of the broadcast does. Outside the timed region the root fills a new message for each repetition and every leaf
 * compares all of it, and so do the two with theirs. */
#include "broadcast/schedules.h"
#include "common/clock.h"
#include "common/memory.h"
#include "common/payload.h"
#include "common/program.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MESSAGE_BYTES_MAXIMUM = 1 << 30, CASE_MAXIMUM = 1 << 20, TAG_INTERFERENCE = 100 };

struct session {
    struct program program;
    const struct schedule *schedule;
    struct integer_list sizes;
    int64_t interfering_bytes;
    int sender; /* of the interfering transfer; the receiver is the last rank */
    int receiver;
    struct broadcast broadcast;
    unsigned char *interference;
    double *times_s;     /* of this rank: warm-up repetitions, then measured ones */
    double *all_times_s; /* rank 0: those of every rank in turn */
    int64_t number;      /* of the present message, and of the interfering one */
    int64_t compared;    /* messages, on this rank */
};

static bool is_busy(const struct session *self)
{
    const int rank = self->program.rank;
    return self->sender != self->receiver && (rank == self->sender || rank == self->receiver);
}

static void begin(struct session *self, int argc, char **argv)
{
    int64_t number_of_case = 1;
    const char *algorithm = "sequential";
    self->sizes = (struct integer_list){1, {1024}};
    self->interfering_bytes = 1 << 20;
    const struct argument rows[] = {
        {"message-bytes",
         ARGUMENT_INTEGERS,
         {.integers = &self->sizes},
         1,
         MESSAGE_BYTES_MAXIMUM,
         "what is broadcast, in B, or a list to go through"},
        {"interfering-bytes",
         ARGUMENT_INTEGER,
         {.integer = &self->interfering_bytes},
         1,
         MESSAGE_BYTES_MAXIMUM,
         "payload of the interfering transfer, in B"},
        {"case",
         ARGUMENT_INTEGER,
         {.integer = &number_of_case},
         1,
         CASE_MAXIMUM,
         "rank that first sends to the last rank, or the last rank for no interference"},
        {"algorithm", ARGUMENT_TEXT, {.text = &algorithm}, 0, 0, "sequential, readiness or mpi_bcast"},
    };
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});

    struct problem problem = {0};
    self->schedule = schedule_find(algorithm);
    if (self->schedule == NULL)
        problem_set(&problem, "--algorithm: '%s' is unknown; allowed: %s", algorithm, schedule_names());
    program_agree(program, "arguments", &problem);
    if (number_of_case >= program->ranks)
        problem_set(&problem, "--case %" PRId64 " needs at least %" PRId64 " ranks, but there are %d", number_of_case,
                    number_of_case + 1, program->ranks);
    program_agree(program, "ranks", &problem);
    self->sender = (int)number_of_case;
    self->receiver = program->ranks - 1;
    self->broadcast.rank = program->rank;
    self->broadcast.ranks = program->ranks;
}

/* For the largest size, so that memory is refused before anything is measured. */
static void take_memory(struct session *self)
{
    struct program *const program = &self->program;
    int64_t largest = 0;
    for (size_t i = 0; i < self->sizes.count; i++)
        largest = self->sizes.values[i] > largest ? self->sizes.values[i] : largest;
    const size_t times = (size_t)(program->warmup + program->repetitions);
    self->broadcast.message = malloc((size_t)largest);
    self->interference = malloc(is_busy(self) ? (size_t)self->interfering_bytes : 1);
    self->times_s = malloc(times * sizeof(double));
    self->all_times_s = malloc(program->rank == ROOT ? times * (size_t)program->ranks * sizeof(double) : 1);

    const int64_t node_bytes = largest * program->ranks_on_node + 2 * self->interfering_bytes;
    const int64_t available = memory_available_bytes();
    struct problem problem = {0};
    if (self->broadcast.message == NULL || self->interference == NULL || self->times_s == NULL ||
        self->all_times_s == NULL || node_bytes > available)
        problem_set(&problem,
                    "rank %d: no memory for a message of %" PRId64 " B in each of %d ranks on this node and %" PRId64
                    " B of interference, with %" PRId64 " B available; allowed: smaller messages or fewer ranks",
                    program->rank, largest, program->ranks_on_node, 2 * self->interfering_bytes, available);
    program_agree(program, "memory", &problem);
}

static struct payload_key message_key(const struct session *self)
{
    return (struct payload_key){ROOT, self->broadcast.message_bytes, self->number};
}

static struct payload_key interference_key(const struct session *self)
{
    return (struct payload_key){self->sender, self->interfering_bytes, self->number};
}

static void fill(struct session *self)
{
    self->number++;
    if (self->program.rank == ROOT)
        payload_fill(self->broadcast.message, message_key(self));
    if (is_busy(self) && self->program.rank == self->sender)
        payload_fill(self->interference, interference_key(self));
}

static void compare_one(struct session *self, const unsigned char *buffer, struct payload_key key,
                        struct problem *problem)
{
    const struct payload_difference difference = payload_compare(buffer, key);
    if (difference.offset >= 0)
        problem_set(problem,
                    "rank %d: message %" PRId64 " of %" PRId64 " B from rank %d is first wrong at offset %" PRId64
                    ": expected 0x%02x, found 0x%02x",
                    self->program.rank, key.number, key.message_bytes, key.sender, difference.offset,
                    difference.expected, difference.found);
    self->compared++;
}

static void compare(struct session *self, struct problem *problem)
{
    if (self->program.rank != ROOT)
        compare_one(self, self->broadcast.message, message_key(self), problem);
    if (is_busy(self) && self->program.rank == self->receiver)
        compare_one(self, self->interference, interference_key(self), problem);
}

static void interfere(const struct session *self)
{
    const int bytes = (int)self->interfering_bytes;
    if (self->program.rank == self->sender)
        MPI_Send(self->interference, bytes, MPI_BYTE, self->receiver, TAG_INTERFERENCE, MPI_COMM_WORLD);
    else
        MPI_Recv(self->interference, bytes, MPI_BYTE, self->sender, TAG_INTERFERENCE, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static double repeat_s(const struct session *self)
{
    const bool busy = is_busy(self);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start_s = clock_now_s();
    if (busy)
        interfere(self);
    self->schedule->run(&self->broadcast);
    return clock_now_s() - start_s;
}

static void observe(struct session *self, int64_t index)
{
    struct program *const program = &self->program;
    const int64_t repetitions = program->warmup + program->repetitions;
    const bool is_warmup = index < program->warmup;
    struct observation observation = {.metric = "broadcast_time",
                                      .unit = "s",
                                      .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                      .repetition = is_warmup ? index : index - program->warmup,
                                      .rank = ALL_RANKS,
                                      .operations = 1,
                                      .swept = {{"message_bytes", self->broadcast.message_bytes}}};
    for (int rank = 0; rank < program->ranks; rank++) {
        const double time_s = self->all_times_s[rank * repetitions + index];
        observation.value = time_s > observation.value ? time_s : observation.value;
    }
    program_observe(program, &observation);
}

static void measure(struct session *self, int64_t message_bytes)
{
    struct program *const program = &self->program;
    const int repetitions = (int)(program->warmup + program->repetitions);
    struct problem problem = {0};
    self->broadcast.message_bytes = (int)message_bytes;
    for (int i = 0; i < repetitions; i++) {
        fill(self);
        self->times_s[i] = repeat_s(self);
        compare(self, &problem);
        if (i + 1 == program->warmup)
            program_agree(program, "payload", &problem);
    }
    program_agree(program, "payload", &problem);

    MPI_Gather(self->times_s, repetitions, MPI_DOUBLE, self->all_times_s, repetitions, MPI_DOUBLE, ROOT,
               MPI_COMM_WORLD);
    for (int i = 0; program->rank == ROOT && i < repetitions; i++)
        observe(self, i);
    program_publish(program);
}

static int end(struct session *self)
{
    int64_t compared = 0;
    MPI_Reduce(&self->compared, &compared, 1, MPI_INT64_T, MPI_SUM, ROOT, MPI_COMM_WORLD);
    free(self->broadcast.message);
    free(self->interference);
    free(self->times_s);
    free(self->all_times_s);
    char check[128];
    snprintf(check, sizeof check, "payload: %" PRId64 " messages compared byte for byte, at every leaf", compared);
    return program_end(&self->program, check);
}

int main(int argc, char **argv)
{
    struct session session = {0};
    begin(&session, argc, argv);
    take_memory(&session);
    for (size_t i = 0; i < session.sizes.count; i++)
        measure(&session, session.sizes.values[i]);
    return end(&session);
}
