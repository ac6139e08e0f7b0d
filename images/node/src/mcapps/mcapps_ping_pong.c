/* Two processes pass N words to and fro: almost nothing but communication. */
#include "mcapps/application.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG };

static int64_t exchanges = 1000; /* Table 5: "1,000 times" */

struct words {
    int32_t *held;   /* what this rank sends: at first only rank 0 has the words */
    int32_t *passed; /* rank 0: what came back */
};

static int64_t bytes(const struct job *job) { return 2 * job->size * (int64_t)sizeof(int32_t); }

static void prepare(struct job *job, struct problem *problem)
{
    struct words *const words = job->data = application_memory(1, sizeof *words, problem);
    if (words == NULL)
        return;
    words->held = application_memory(job->size, sizeof *words->held, problem);
    words->passed = application_memory(job->size, sizeof *words->passed, problem);
    for (int64_t i = 0; words->held != NULL && job->rank == 0 && i < job->size; i++)
        words->held[i] = (int32_t)application_value((uint64_t)i, INT32_MAX);
}

/* Rank 0 sends on what came back rather than its own copy, so a word damaged once stays so. */
static void solve(struct job *job)
{
    struct words *const words = job->data;
    const int count = (int)job->size;
    for (int64_t i = 0; i < exchanges; i++) {
        if (job->rank == 0) {
            MPI_Send(i == 0 ? words->held : words->passed, count, MPI_INT32_T, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(words->passed, count, MPI_INT32_T, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(words->held, count, MPI_INT32_T, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(words->held, count, MPI_INT32_T, 0, TAG, MPI_COMM_WORLD);
        }
    }
}

static void verify(const struct job *job, struct problem *problem)
{
    const struct words *const words = job->data;
    for (int64_t i = 0; i < job->size; i++)
        if (words->passed[i] != words->held[i])
            problem_set(problem, "word %" PRId64 " of %" PRId64 " came back as %" PRId32 ", sent was %" PRId32, i,
                        job->size, words->passed[i], words->held[i]);
    memset(words->passed, -1, (size_t)job->size * sizeof *words->passed);
}

static void release(struct job *job)
{
    struct words *const words = job->data;
    free(words->held);
    free(words->passed);
    free(words);
}

int main(int argc, char **argv)
{
    return application_main(
        argc, argv,
        &(struct application){
            .size_name = "words",
            .size_help = "words of 4 B in a message, or a list to go through",
            .standard_size = 1024,
            .least_size = 1,
            .greatest_size = 1 << 28,
            .exact_ranks = 2,
            .extra =
                {"exchanges", ARGUMENT_INTEGER, {.integer = &exchanges}, 1, 1000000, "exchanges in one repetition"},
            .check = "words: equal to those sent after all exchanges",
            .bytes = bytes,
            .prepare = prepare,
            .solve = solve,
            .verify = verify,
            .release = release});
}
