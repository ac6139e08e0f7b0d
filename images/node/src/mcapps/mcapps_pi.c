/* Pi as the integral of 4 / (1 + x^2) from 0 to 1, by the midpoint rule over N slices: almost nothing but computation.
 */
#include "mcapps/application.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>

/* Of the difference to the serial sum, whose terms are added in another order. Every addition errs by less than
 * 2^-53 of a sum below 4, mostly to either side alike. */
static const double TOLERANCE = 1e-9;

struct sum {
    double pi;
    double serial;
};

/* The part of every stride-th slice from `first`. */
static double integrate(int64_t first, int64_t stride, int64_t slices)
{
    const double width = 1.0 / (double)slices;
    double sum = 0;
    for (int64_t i = first; i < slices; i += stride) {
        const double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

static int64_t bytes(const struct job *job)
{
    (void)job;
    return 0;
}

static void prepare(struct job *job, struct problem *problem)
{
    struct sum *const sum = job->data = application_memory(1, sizeof *sum, problem);
    if (sum != NULL && job->rank == 0)
        sum->serial = integrate(0, 1, job->size);
}

static void solve(struct job *job)
{
    struct sum *const sum = job->data;
    int64_t slices = job->rank == 0 ? job->size : 0;
    MPI_Bcast(&slices, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    const double part = integrate(job->rank, job->ranks, slices);
    MPI_Reduce(&part, &sum->pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void verify(const struct job *job, struct problem *problem)
{
    struct sum *const sum = job->data;
    const double difference = sum->pi - sum->serial;
    if (!(difference <= TOLERANCE && difference >= -TOLERANCE))
        problem_set(problem, "pi of %" PRId64 " slices is %.17g, the serial sum %.17g; allowed: a difference of %g",
                    job->size, sum->pi, sum->serial, TOLERANCE);
    sum->pi = 0;
}

static void release(struct job *job) { free(job->data); }

int main(int argc, char **argv)
{
    return application_main(argc, argv,
                            &(struct application){.size_name = "slices",
                                                  .size_help = "slices of the integral, or a list to go through",
                                                  .standard_size = 1000000,
                                                  .least_size = 1,
                                                  .greatest_size = 1000000000,
                                                  .check = "pi: equal to the serial sum within 1e-9",
                                                  .bytes = bytes,
                                                  .prepare = prepare,
                                                  .solve = solve,
                                                  .verify = verify,
                                                  .release = release});
}
