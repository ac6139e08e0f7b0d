/* The shortest path between every two of N vertices, by Floyd's algorithm over the rows of the distance matrix: in
 * round k the rank that has row k broadcasts it, and all see whether a way through vertex k is shorter. */
#include "mcapps/application.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_EDGE = 100,
    EDGES_ONE_IN = 4, /* of all ordered pairs */
    NO_PATH = 1 << 29 /* the sum of two is still an int32_t, and the longest path is shorter */
};

struct graph {
    int32_t *edges; /* rank 0 */
    int32_t *rows;  /* this rank's distances */
    int32_t *through;
    int32_t *distances; /* rank 0 */
    int32_t *serial;    /* rank 0 */
};

static int64_t bytes(const struct job *job)
{
    const int64_t words = (job->share + 1 + (job->rank == 0 ? 3 * job->size : 0)) * job->size;
    return words * (int64_t)sizeof(int32_t);
}

static int32_t edge(int64_t from, int64_t to, int64_t vertices)
{
    if (from == to)
        return 0;
    const uint32_t drawn = application_value((uint64_t)(from * vertices + to), EDGES_ONE_IN * LONGEST_EDGE);
    return drawn < LONGEST_EDGE ? (int32_t)drawn + 1 : NO_PATH;
}

/* Round k on `count` rows, `through` being row k: an edge of length 0 from k to k leaves row k itself as it is. */
static void relax(int32_t *rows, int64_t count, const int32_t *through, int64_t k, int64_t vertices)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t *const row = rows + i * vertices;
        const int32_t to_k = row[k];
        for (int64_t j = 0; j < vertices; j++)
            row[j] = to_k + through[j] < row[j] ? to_k + through[j] : row[j];
    }
}

static void solve_serially(struct graph *graph, int64_t vertices)
{
    const size_t row_bytes = (size_t)vertices * sizeof(int32_t);
    memcpy(graph->serial, graph->edges, (size_t)vertices * row_bytes);
    for (int64_t k = 0; k < vertices; k++) {
        memcpy(graph->through, graph->serial + k * vertices, row_bytes);
        relax(graph->serial, vertices, graph->through, k, vertices);
    }
}

static void prepare(struct job *job, struct problem *problem)
{
    struct graph *const graph = job->data = application_memory(1, sizeof *graph, problem);
    if (graph == NULL)
        return;
    const int64_t n = job->size, of_root = job->rank == 0 ? n * n : 0;
    graph->edges = application_memory(of_root, sizeof(int32_t), problem);
    graph->rows = application_memory(job->share * n, sizeof(int32_t), problem);
    graph->through = application_memory(n, sizeof(int32_t), problem);
    graph->distances = application_memory(of_root, sizeof(int32_t), problem);
    graph->serial = application_memory(of_root, sizeof(int32_t), problem);
    if (problem_is_set(problem) || job->rank != 0)
        return;
    for (int64_t i = 0; i < n * n; i++)
        graph->edges[i] = edge(i / n, i % n, n);
    solve_serially(graph, n);
}

static void solve(struct job *job)
{
    struct graph *const graph = job->data;
    const int64_t n = job->size;
    const int words = (int)(job->share * n);
    MPI_Scatter(graph->edges, words, MPI_INT32_T, graph->rows, words, MPI_INT32_T, 0, MPI_COMM_WORLD);
    for (int64_t k = 0; k < n; k++) {
        const int owner = (int)(k / job->share);
        if (job->rank == owner)
            memcpy(graph->through, graph->rows + (k - owner * job->share) * n, (size_t)n * sizeof(int32_t));
        MPI_Bcast(graph->through, (int)n, MPI_INT32_T, owner, MPI_COMM_WORLD);
        relax(graph->rows, job->share, graph->through, k, n);
    }
    MPI_Gather(graph->rows, words, MPI_INT32_T, graph->distances, words, MPI_INT32_T, 0, MPI_COMM_WORLD);
}

static void verify(const struct job *job, struct problem *problem)
{
    const struct graph *const graph = job->data;
    const int64_t n = job->size;
    for (int64_t i = 0; i < n * n; i++)
        if (graph->distances[i] != graph->serial[i])
            problem_set(problem,
                        "the distance from vertex %" PRId64 " to %" PRId64 " of %" PRId64 " is %" PRId32
                        ", the serial one %" PRId32,
                        i / n, i % n, n, graph->distances[i], graph->serial[i]);
    memset(graph->distances, -1, (size_t)(n * n) * sizeof *graph->distances);
}

static void release(struct job *job)
{
    struct graph *const graph = job->data;
    free(graph->edges);
    free(graph->rows);
    free(graph->through);
    free(graph->distances);
    free(graph->serial);
    free(graph);
}

int main(int argc, char **argv)
{
    return application_main(argc, argv,
                            &(struct application){.size_name = "vertices",
                                                  .size_help = "vertices of the graph, or a list to go through",
                                                  .standard_size = 128,
                                                  .least_size = 1,
                                                  .greatest_size = 16384,
                                                  .splits_evenly = true,
                                                  .check = "distances: equal to the serial ones",
                                                  .bytes = bytes,
                                                  .prepare = prepare,
                                                  .solve = solve,
                                                  .verify = verify,
                                                  .release = release});
}
