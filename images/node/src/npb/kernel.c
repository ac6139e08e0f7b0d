#include "npb/kernel.h"

#include "common/memory.h"
#include "common/program.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_BYTES = 64 };

void *npb_allocate(struct npb *self, int64_t count, size_t size)
{
    assert(self->allocations < ALLOCATIONS_LIMIT);
    const size_t bytes = ((size_t)count * size / ALIGNMENT_BYTES + 1) * ALIGNMENT_BYTES;
    void *const memory = aligned_alloc(ALIGNMENT_BYTES, bytes);
    self->memory[self->allocations++] = memory;
    self->out_of_memory |= memory == NULL;
    self->bytes += (int64_t)bytes;
    return memory;
}

double *npb_doubles(struct npb *self, int64_t count) { return npb_allocate(self, count, sizeof(double)); }

void npb_compare(const char *quantity, double found, double expected, double tolerance, struct problem *problem)
{
    if (!(fabs(found - expected) <= tolerance * fabs(expected)))
        problem_set(problem, "%s is %.15g; expected %.15g within a relative error of %g", quantity, found, expected,
                    tolerance);
}

int npb_log2(int number)
{
    int exponent = 0;
    while (number > 1 && number % 2 == 0) {
        number /= 2;
        exponent++;
    }
    return number == 1 ? exponent : -1;
}

int npb_first(int length, int part, int parts)
{
    const int rest = length % parts;
    return length / parts * part + (part < rest ? part : rest);
}

static void begin(struct program *program, struct npb *npb, int argc, char **argv)
{
    const char *class = "S";
    const struct argument rows[] = {
        {"problem-class", ARGUMENT_TEXT, {.text = &class}, 0, 0, "size: S, W, A, B, or P for that of the paper"},
    };
    program_begin(program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});
    struct problem problem = {0};
    if (strlen(class) != 1 || strchr("SWABP", class[0]) == NULL)
        problem_set(&problem, "--problem-class: '%s' is not one of the choices; allowed: S, W, A, B, P", class);
    program_agree(program, "arguments", &problem);
    *npb = (struct npb){.class = class[0], .rank = program->rank, .ranks = program->ranks};
}

static void take_memory(struct program *program, struct npb *npb, const struct npb_kernel *kernel, void *state)
{
    kernel->allocate(state, npb);
    const int64_t available = memory_available_bytes();
    struct problem problem = {0};
    if (npb->out_of_memory || npb->bytes * program->ranks_on_node > available)
        problem_set(&problem,
                    "rank %d: no memory for %" PRId64 " B in each of %d ranks on this node, which has %" PRId64
                    " B available; allowed: a smaller class",
                    npb->rank, npb->bytes, program->ranks_on_node, available);
    program_agree(program, "memory", &problem);
}

static void observe_time(struct program *program, struct observation observation, const char *metric, double value_s)
{
    observation.metric = metric;
    observation.unit = "s";
    observation.value = value_s;
    program_observe(program, &observation);
}

static void repeat(struct program *program, const struct npb_kernel *kernel, void *state, int64_t index)
{
    kernel->prepare(state);
    timers_reset();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start_s = clock_now_s();
    kernel->run(state);
    const double time_s = clock_now_s() - start_s;

    enum { TIME, COMPUTATION, TIMED, VALUES = TIMED + TIMERS };
    double longest_s[VALUES] = {[TIME] = time_s, [COMPUTATION] = time_s - timers[TIMER_MPI].total_s};
    for (int i = 0; i < TIMERS; i++)
        longest_s[TIMED + i] = timers[i].total_s;
    MPI_Allreduce(MPI_IN_PLACE, longest_s, VALUES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

    struct problem problem = {0};
    kernel->verify(state, &problem);
    program_agree(program, "verification", &problem);

    const bool is_warmup = index < program->warmup;
    struct observation observation = {.metric = "operation_rate",
                                      .unit = "1/s",
                                      .value = kernel->operations(state) / longest_s[TIME],
                                      .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                      .repetition = is_warmup ? index : index - program->warmup,
                                      .rank = ALL_RANKS,
                                      .operations = 1};
    observe_time(program, observation, "time", longest_s[TIME]);
    observe_time(program, observation, "communication_time", longest_s[TIMED + TIMER_MPI]);
    observe_time(program, observation, "computation_time", longest_s[COMPUTATION]);
    program_observe(program, &observation);
    for (int i = 0; i < PHASES_LIMIT && kernel->phases[i] != NULL; i++)
        observe_time(program, observation, kernel->phases[i], longest_s[TIMED + TIMER_PHASE + i]);
}

int npb_main(int argc, char **argv, const struct npb_kernel *kernel, void *state)
{
    struct program program;
    struct npb npb;
    begin(&program, &npb, argc, argv);
    struct problem problem = {0};
    kernel->choose(state, &npb, &problem);
    program_agree(&program, "ranks", &problem);
    take_memory(&program, &npb, kernel, state);
    for (int64_t i = 0; i < program.warmup + program.repetitions; i++)
        repeat(&program, kernel, state, i);
    program_publish(&program);
    for (size_t i = 0; i < npb.allocations; i++)
        free(npb.memory[i]);
    return program_end(&program, kernel->check(state));
}
