#include "common/program.h"

#include "common/clock.h"
#include "common/payload.h"

#include <assert.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS_MAXIMUM = 1000000, ROWS_LIMIT = 32 };

static void leave(int status)
{
    MPI_Finalize();
    exit(status);
}

static void open_pending(struct program *self)
{
    if (self->rank != 0)
        return;
    self->pending = open_memstream(&self->pending_text, &self->pending_bytes);
    if (self->pending == NULL)
        problem_set(&self->output_problem, "no memory to hold observations");
}

/* Called before publishing and on every way out, hence harmless when nothing is open. */
static void drop_pending(struct program *self)
{
    if (self->pending != NULL)
        fclose(self->pending);
    free(self->pending_text);
    self->pending = NULL;
    self->pending_text = NULL;
}

void program_agree(struct program *self, const char *check, const struct problem *own)
{
    int lowest = problem_is_set(own) ? self->rank : self->ranks;
    MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (lowest == self->ranks)
        return;
    struct problem first = *own;
    MPI_Bcast(first.text, sizeof first.text, MPI_CHAR, lowest, MPI_COMM_WORLD);
    drop_pending(self);
    if (self->rank == 0) {
        output_status(stdout, check, first.text);
        fflush(stdout);
    }
    leave(EXIT_FAILURE);
}

typedef char hostname[MPI_MAX_PROCESSOR_NAME];

/* The host of each rank; the caller frees the array. */
static hostname *gather_hostnames(struct program *self)
{
    hostname own = "";
    int length = 0;
    MPI_Get_processor_name(own, &length);
    hostname *const all = malloc((size_t)self->ranks * sizeof own);
    struct problem none = {0};
    if (all == NULL)
        problem_set(&none, "rank %d: no memory for %d host names", self->rank, self->ranks);
    program_agree(self, "memory", &none);
    MPI_Allgather(own, sizeof own, MPI_CHAR, all, sizeof own, MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < self->ranks; rank++)
        self->ranks_on_node += strcmp(own, all[rank]) == 0;
    return all;
}

static void describe(struct program *self)
{
    hostname *const names = gather_hostnames(self);
    if (self->rank == 0) {
        char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
        int length = 0, major = 0, minor = 0;
        MPI_Get_library_version(library, &length);
        library[strcspn(library, "\n")] = '\0';
        MPI_Get_version(&major, &minor);
        char standard[32];
        snprintf(standard, sizeof standard, "%d.%d", major, minor);
        output_program(stdout, &(struct program_facts){.name = self->name,
                                                       .ranks = self->ranks,
                                                       .clock = CLOCK_NAME,
                                                       .clock_resolution_s = clock_resolution_s(),
                                                       .mpi_library = library,
                                                       .mpi_standard = standard,
                                                       .compiler = MPIBED_COMPILER,
                                                       .hostnames = (const hostname *)names});
        fflush(stdout);
    }
    free(names);
}

/* Ranks with different arguments would wait for each other for ever. */
static void compare_arguments(const struct program *self, int argc, char *const *argv, struct problem *problem)
{
    uint64_t own = 0;
    for (int i = 1; i < argc; i++)
        own = payload_checksum(own, argv[i], strlen(argv[i]));
    uint64_t first = own;
    MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (own != first)
        problem_set(problem, "rank %d was given other arguments than rank 0; allowed: the same for all", self->rank);
}

void program_begin(struct program *self, int argc, char **argv, struct argument_table own)
{
    const char *const slash = strrchr(argv[0], '/');
    *self = (struct program){.name = slash == NULL ? argv[0] : slash + 1, .warmup = 1, .repetitions = 10};
    struct argument rows[ROWS_LIMIT] = {
        {"repetitions",
         ARGUMENT_INTEGER,
         {.integer = &self->repetitions},
         1,
         REPETITIONS_MAXIMUM,
         "measured repetitions"},
        {"warmup", ARGUMENT_INTEGER, {.integer = &self->warmup}, 1, REPETITIONS_MAXIMUM, "repetitions before those"},
    };
    const size_t common = 2;
    assert(common + own.count <= ROWS_LIMIT);
    memcpy(rows + common, own.rows, own.count * sizeof *rows);
    const struct argument_table table = {rows, common + own.count};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &self->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self->ranks);
    if (arguments_ask_for_help(argc, argv)) {
        if (self->rank == 0)
            arguments_print_help(stdout, self->name, table);
        leave(EXIT_SUCCESS);
    }
    describe(self);

    struct problem problem = {0};
    compare_arguments(self, argc, argv, &problem);
    arguments_parse(table, argc, argv, &problem);
    program_agree(self, "arguments", &problem);
    open_pending(self);
}

void program_observe(struct program *self, const struct observation *observation)
{
    if (self->pending == NULL)
        return;
    if (!isfinite(observation->value))
        problem_set(&self->output_problem, "%s of repetition %lld is %g, not a finite number", observation->metric,
                    (long long)observation->repetition, observation->value);
    output_observation(self->pending, observation);
}

void program_publish(struct program *self)
{
    if (self->pending != NULL && (fflush(self->pending) != 0 || ferror(self->pending)))
        problem_set(&self->output_problem, "no memory to hold observations");
    program_agree(self, "values", &self->output_problem);
    if (self->rank == 0 &&
        (fwrite(self->pending_text, 1, self->pending_bytes, stdout) != self->pending_bytes || fflush(stdout) != 0))
        problem_set(&self->output_problem, "standard output cannot be written");
    drop_pending(self);
    open_pending(self);
    program_agree(self, "output", &self->output_problem);
}

int program_end(struct program *self, const char *check)
{
    drop_pending(self);
    int status = EXIT_SUCCESS;
    if (self->rank == 0) {
        output_status(stdout, check, NULL);
        status = fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    MPI_Finalize();
    return status;
}
