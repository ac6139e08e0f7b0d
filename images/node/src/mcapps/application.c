#include "mcapps/application.h"

#include "common/clock.h"
#include "common/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>

enum { ROWS_LIMIT = 2 };

struct session {
    const struct application *application;
    struct program program;
    struct integer_list sizes;
    double *times_s; /* of this rank, later on rank 0 the longest of all */
};

static struct job job_of(const struct session *self, int rank, int64_t size)
{
    const int ranks = self->program.ranks;
    return (struct job){.rank = rank, .ranks = ranks, .size = size, .share = size / ranks};
}

static void check_ranks(const struct session *self, struct problem *problem)
{
    const struct application *const application = self->application;
    const int ranks = self->program.ranks;
    if (application->exact_ranks > 0 && ranks != application->exact_ranks)
        problem_set(problem, "needs exactly %d ranks, but there are %d", application->exact_ranks, ranks);
    for (size_t i = 0; application->splits_evenly && i < self->sizes.count; i++)
        if (self->sizes.values[i] % ranks != 0)
            problem_set(problem, "%s %" PRId64 " cannot be split evenly over %d ranks; allowed: a multiple of %d",
                        application->size_name, self->sizes.values[i], ranks, ranks);
}

/* What a size takes of this node; on rank 0 with its own larger share. */
static void check_memory(const struct session *self, int64_t size, struct problem *problem)
{
    const struct program *const program = &self->program;
    const struct job own = job_of(self, program->rank, size);
    const struct job other = job_of(self, program->ranks - 1, size);
    const int64_t needed =
        self->application->bytes(&own) + (program->ranks_on_node - 1) * self->application->bytes(&other);
    const int64_t available = memory_available_bytes();
    if (needed > available)
        problem_set(problem,
                    "rank %d: %s %" PRId64 " needs %" PRId64 " B of this node, which has %" PRId64
                    " B available; allowed: a smaller one",
                    program->rank, self->application->size_name, size, needed, available);
}

static void begin(struct session *self, int argc, char **argv)
{
    const struct application *const application = self->application;
    self->sizes = (struct integer_list){1, {application->standard_size}};
    const struct argument rows[ROWS_LIMIT] = {
        {application->size_name,
         ARGUMENT_INTEGERS,
         {.integers = &self->sizes},
         (double)application->least_size,
         (double)application->greatest_size,
         application->size_help},
        application->extra,
    };
    struct program *const program = &self->program;
    program_begin(program, argc, argv, (struct argument_table){rows, application->extra.name == NULL ? 1 : ROWS_LIMIT});

    struct problem problem = {0};
    check_ranks(self, &problem);
    program_agree(program, "ranks", &problem);
    for (size_t i = 0; i < self->sizes.count; i++)
        check_memory(self, self->sizes.values[i], &problem);
    self->times_s = application_memory(program->warmup + program->repetitions, sizeof *self->times_s, &problem);
    program_agree(program, "memory", &problem);
}

static void observe(struct session *self, int64_t index, int64_t size)
{
    const bool is_warmup = index < self->program.warmup;
    program_observe(&self->program,
                    &(struct observation){.metric = "time",
                                          .unit = "s",
                                          .value = self->times_s[index],
                                          .phase = is_warmup ? PHASE_WARMUP : PHASE_MEASURE,
                                          .repetition = is_warmup ? index : index - self->program.warmup,
                                          .rank = ALL_RANKS,
                                          .operations = 1,
                                          .swept = {{self->application->size_name, size}}});
}

static void measure(struct session *self, int64_t size)
{
    const struct application *const application = self->application;
    struct program *const program = &self->program;
    const int64_t repetitions = program->warmup + program->repetitions;
    struct job job = job_of(self, program->rank, size);
    struct problem problem = {0};
    application->prepare(&job, &problem);
    program_agree(program, "memory", &problem);
    for (int64_t i = 0; i < repetitions; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start_s = clock_now_s();
        application->solve(&job);
        self->times_s[i] = clock_now_s() - start_s;
        if (program->rank == 0)
            application->verify(&job, &problem);
    }
    application->release(&job);
    program_agree(program, "result", &problem);
    MPI_Reduce(program->rank == 0 ? MPI_IN_PLACE : self->times_s, self->times_s, (int)repetitions, MPI_DOUBLE, MPI_MAX,
               0, MPI_COMM_WORLD);
    for (int64_t i = 0; program->rank == 0 && i < repetitions; i++)
        observe(self, i, size);
    program_publish(program);
}

int application_main(int argc, char **argv, const struct application *application)
{
    struct session session = {.application = application};
    begin(&session, argc, argv);
    for (size_t i = 0; i < session.sizes.count; i++)
        measure(&session, session.sizes.values[i]);
    free(session.times_s);
    return program_end(&session.program, application->check);
}

uint32_t application_value(uint64_t index, uint32_t limit)
{
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(x >> 32) % limit;
}

void *application_memory(int64_t count, size_t bytes, struct problem *problem)
{
    assert(count >= 0);
    void *const memory = calloc((size_t)count + 1, bytes); /* never none, so that NULL means failure */
    if (memory == NULL)
        problem_set(problem, "no memory for %" PRId64 " items of %zu B", count, bytes);
    return memory;
}
