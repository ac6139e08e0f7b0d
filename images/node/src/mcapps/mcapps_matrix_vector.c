/* An N x N matrix of integers times a vector, by the one-dimensional partition: every rank is sent its rows and the
 * whole vector, and rank 0 gathers the product. */
#include "mcapps/application.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_LIMIT = 100 }; /* the largest order times its square stays below 2^31 */

struct operands {
    int32_t *matrix; /* rank 0 */
    int32_t *rows;
    int32_t *vector;
    int32_t *part;    /* of the product: that of the rows */
    int32_t *product; /* rank 0 */
    int32_t *serial;  /* rank 0 */
};

static int64_t bytes(const struct job *job)
{
    const int64_t words = job->share * job->size + (job->rank == 0 ? job->size * job->size : 0) + 4 * job->size;
    return words * (int64_t)sizeof(int32_t);
}

static void multiply(const int32_t *rows, int64_t count, const int32_t *vector, int64_t order, int32_t *product)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (int64_t j = 0; j < order; j++)
            sum += rows[i * order + j] * vector[j];
        product[i] = sum;
    }
}

static void prepare(struct job *job, struct problem *problem)
{
    struct operands *const o = job->data = application_memory(1, sizeof *o, problem);
    if (o == NULL)
        return;
    const int64_t n = job->size, of_root = job->rank == 0 ? n : 0;
    o->matrix = application_memory(of_root * n, sizeof(int32_t), problem);
    o->rows = application_memory(job->share * n, sizeof(int32_t), problem);
    o->vector = application_memory(n, sizeof(int32_t), problem);
    o->part = application_memory(job->share, sizeof(int32_t), problem);
    o->product = application_memory(of_root, sizeof(int32_t), problem);
    o->serial = application_memory(of_root, sizeof(int32_t), problem);
    if (problem_is_set(problem) || job->rank != 0)
        return;
    for (int64_t i = 0; i < n * n; i++)
        o->matrix[i] = (int32_t)application_value((uint64_t)i, VALUE_LIMIT);
    for (int64_t i = 0; i < n; i++)
        o->vector[i] = (int32_t)application_value((uint64_t)(n * n + i), VALUE_LIMIT);
    multiply(o->matrix, n, o->vector, n, o->serial);
}

static void solve(struct job *job)
{
    struct operands *const o = job->data;
    const int share = (int)job->share, words = (int)(job->share * job->size);
    MPI_Scatter(o->matrix, words, MPI_INT32_T, o->rows, words, MPI_INT32_T, 0, MPI_COMM_WORLD);
    MPI_Bcast(o->vector, (int)job->size, MPI_INT32_T, 0, MPI_COMM_WORLD);
    multiply(o->rows, job->share, o->vector, job->size, o->part);
    MPI_Gather(o->part, share, MPI_INT32_T, o->product, share, MPI_INT32_T, 0, MPI_COMM_WORLD);
}

static void verify(const struct job *job, struct problem *problem)
{
    const struct operands *const o = job->data;
    for (int64_t i = 0; i < job->size; i++)
        if (o->product[i] != o->serial[i])
            problem_set(problem,
                        "element %" PRId64 " of the product of order %" PRId64 " is %" PRId32
                        ", the serial one %" PRId32,
                        i, job->size, o->product[i], o->serial[i]);
    memset(o->product, -1, (size_t)job->size * sizeof *o->product);
}

static void release(struct job *job)
{
    struct operands *const o = job->data;
    free(o->matrix);
    free(o->rows);
    free(o->vector);
    free(o->part);
    free(o->product);
    free(o->serial);
    free(o);
}

int main(int argc, char **argv)
{
    return application_main(
        argc, argv,
        &(struct application){.size_name = "order",
                              .size_help = "rows and columns of the matrix, or a list to go through",
                              .standard_size = 512,
                              .least_size = 1,
                              .greatest_size = 32768,
                              .splits_evenly = true,
                              .check = "product: equal to the serial one",
                              .bytes = bytes,
                              .prepare = prepare,
                              .solve = solve,
                              .verify = verify,
                              .release = release});
}
