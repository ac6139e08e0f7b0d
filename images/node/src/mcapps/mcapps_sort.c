/* N integers in order: every rank sorts its part by quicksort, then neighbouring runs are merged in pairs, in half as
 * many ranks each time, until rank 0 has one run:
 *
 *     step 1   0 <- 1   2 <- 3   4 <- 5   6 <- 7
 *     step 2   0 <- 2            4 <- 6
 *     step 4   0 <- 4                                  */
#include "mcapps/application.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG, SHORT = 16 /* insertion sort takes over */ };

struct arrays {
    int32_t *unsorted; /* rank 0 */
    int32_t *serial;   /* rank 0 */
    int32_t *run;      /* of this rank; each of these three holds the longest one it will have */
    int32_t *incoming;
    int32_t *merged;
};

static void swap(int32_t *a, int32_t *b)
{
    const int32_t held = *a;
    *a = *b;
    *b = held;
}

static void insertion_sort(int32_t *values, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0 && values[j - 1] > values[j]; j--)
            swap(&values[j - 1], &values[j]);
}

/* Hoare's partition about the median of three; recurses into the smaller side, so the depth is logarithmic. */
static void quicksort(int32_t *values, int64_t count)
{
    while (count > SHORT) {
        int32_t *const middle = &values[count / 2], *const last = &values[count - 1];
        if (*middle < *values)
            swap(middle, values);
        if (*last < *values)
            swap(last, values);
        if (*last < *middle)
            swap(last, middle);
        const int32_t pivot = *middle;
        int64_t low = 0, high = count - 1;
        while (low <= high) {
            while (values[low] < pivot)
                low++;
            while (values[high] > pivot)
                high--;
            if (low <= high)
                swap(&values[low++], &values[high--]);
        }
        const int64_t left = high + 1, right = count - low;
        quicksort(left < right ? values : values + low, left < right ? left : right);
        values += left < right ? low : 0;
        count = left < right ? right : left;
    }
    insertion_sort(values, count);
}

static void merge(const int32_t *a, int64_t a_count, const int32_t *b, int64_t b_count, int32_t *to)
{
    int64_t i = 0, j = 0;
    while (i < a_count && j < b_count)
        *to++ = b[j] < a[i] ? b[j++] : a[i++];
    memcpy(to, a + i, (size_t)(a_count - i) * sizeof *to);
    memcpy(to + a_count - i, b + j, (size_t)(b_count - j) * sizeof *to);
}

/* Elements in the run of a rank at a step: its own part and those of the ranks after it that were merged so far. */
static int64_t run_length(const struct job *job, int rank, int step)
{
    const int parts = job->ranks - rank < step ? job->ranks - rank : step;
    return parts * job->share;
}

static int64_t longest_run(const struct job *job)
{
    int step = 1;
    while (step < job->ranks && job->rank % (2 * step) == 0)
        step *= 2;
    return run_length(job, job->rank, step);
}

static int64_t bytes(const struct job *job)
{
    return (3 * longest_run(job) + (job->rank == 0 ? 2 * job->size : 0)) * (int64_t)sizeof(int32_t);
}

static void prepare(struct job *job, struct problem *problem)
{
    struct arrays *const arrays = job->data = application_memory(1, sizeof *arrays, problem);
    if (arrays == NULL)
        return;
    const int64_t of_root = job->rank == 0 ? job->size : 0, longest = longest_run(job);
    arrays->unsorted = application_memory(of_root, sizeof(int32_t), problem);
    arrays->serial = application_memory(of_root, sizeof(int32_t), problem);
    arrays->run = application_memory(longest, sizeof(int32_t), problem);
    arrays->incoming = application_memory(longest, sizeof(int32_t), problem);
    arrays->merged = application_memory(longest, sizeof(int32_t), problem);
    if (problem_is_set(problem))
        return;
    for (int64_t i = 0; i < of_root; i++)
        arrays->unsorted[i] = arrays->serial[i] = (int32_t)application_value((uint64_t)i, INT32_MAX);
    quicksort(arrays->serial, of_root);
}

static void merge_from(const struct job *job, int source, int step)
{
    struct arrays *const arrays = job->data;
    const int64_t own = run_length(job, job->rank, step), other = run_length(job, source, step);
    MPI_Recv(arrays->incoming, (int)other, MPI_INT32_T, source, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    merge(arrays->run, own, arrays->incoming, other, arrays->merged);
    int32_t *const run = arrays->run;
    arrays->run = arrays->merged;
    arrays->merged = run;
}

static void solve(struct job *job)
{
    struct arrays *const arrays = job->data;
    const int share = (int)job->share;
    MPI_Scatter(arrays->unsorted, share, MPI_INT32_T, arrays->run, share, MPI_INT32_T, 0, MPI_COMM_WORLD);
    quicksort(arrays->run, share);
    for (int step = 1; step < job->ranks; step *= 2) {
        if (job->rank % (2 * step) != 0) {
            MPI_Send(arrays->run, (int)run_length(job, job->rank, step), MPI_INT32_T, job->rank - step, TAG,
                     MPI_COMM_WORLD);
            return;
        }
        if (job->rank + step < job->ranks)
            merge_from(job, job->rank + step, step);
    }
}

static void verify(const struct job *job, struct problem *problem)
{
    const struct arrays *const arrays = job->data;
    for (int64_t i = 0; i < job->size; i++)
        if (arrays->run[i] != arrays->serial[i])
            problem_set(problem, "element %" PRId64 " of %" PRId64 " in order is %" PRId32 ", the serial one %" PRId32,
                        i, job->size, arrays->run[i], arrays->serial[i]);
    memset(arrays->run, -1, (size_t)job->size * sizeof *arrays->run);
}

static void release(struct job *job)
{
    struct arrays *const arrays = job->data;
    free(arrays->unsorted);
    free(arrays->serial);
    free(arrays->run);
    free(arrays->incoming);
    free(arrays->merged);
    free(arrays);
}

int main(int argc, char **argv)
{
    return application_main(argc, argv,
                            &(struct application){.size_name = "elements",
                                                  .size_help = "integers to sort, or a list to go through",
                                                  .standard_size = 65536,
                                                  .least_size = 1,
                                                  .greatest_size = 1 << 30,
                                                  .splits_evenly = true,
                                                  .check = "order: equal to the serial one",
                                                  .bytes = bytes,
                                                  .prepare = prepare,
                                                  .solve = solve,
                                                  .verify = verify,
                                                  .release = release});
}
