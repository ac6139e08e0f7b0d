/* How the OSU micro-benchmarks measure latency and bandwidth, written independently, to hold mpibed's own programs
 * against. Two ranks; prints one line a size: mode, message size in B, value in s or B/s.
 *
 *     mpiexec -n 2 osu_method latency|bandwidth 1,8,4096
 *
 * Latency: half the mean round trip of consecutive exchanges. Bandwidth: windows of sends, each acknowledged with four
 * bytes. Both reuse one page-aligned buffer and time all iterations after the skipped ones as a whole. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, PAGE_BYTES = 4096, LARGE_BYTES = 8192, ACKNOWLEDGEMENT_BYTES = 4 };

typedef struct plan {
    int skipped;
    int timed;
} plan;

static double latency_s(int rank, char *send, char *receive, int bytes)
{
    const plan plan = bytes > LARGE_BYTES ? (struct plan){10, 1000} : (struct plan){100, 10000};
    double start_s = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < plan.skipped + plan.timed; i++) {
        if (i == plan.skipped)
            start_s = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(send, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(receive, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(receive, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(send, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start_s) / (2.0 * plan.timed);
}

static double bandwidth(int rank, char *send, char *receive, int bytes)
{
    const plan plan = bytes > LARGE_BYTES ? (struct plan){2, 20} : (struct plan){10, 100};
    MPI_Request requests[WINDOW];
    double start_s = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < plan.skipped + plan.timed; i++) {
        if (i == plan.skipped)
            start_s = MPI_Wtime();
        if (rank == 0) {
            for (int j = 0; j < WINDOW; j++)
                MPI_Isend(send, bytes, MPI_CHAR, 1, 100, MPI_COMM_WORLD, &requests[j]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(receive, ACKNOWLEDGEMENT_BYTES, MPI_CHAR, 1, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int j = 0; j < WINDOW; j++)
                MPI_Irecv(receive, bytes, MPI_CHAR, 0, 100, MPI_COMM_WORLD, &requests[j]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(send, ACKNOWLEDGEMENT_BYTES, MPI_CHAR, 0, 101, MPI_COMM_WORLD);
        }
    }
    return (double)bytes * WINDOW * plan.timed / (MPI_Wtime() - start_s);
}

int main(int argc, char **argv)
{
    int rank = 0;
    int ranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int is_latency = argc == 3 && strcmp(argv[1], "latency") == 0;
    if (ranks != 2 || !(is_latency || (argc == 3 && strcmp(argv[1], "bandwidth") == 0))) {
        if (rank == 0)
            fprintf(stderr, "usage: mpiexec -n 2 osu_method latency|bandwidth SIZE,SIZE,...\n");
        MPI_Finalize();
        return 2;
    }
    for (const char *size = argv[2]; size != NULL; size = strchr(size, ',') ? strchr(size, ',') + 1 : NULL) {
        const int bytes = atoi(size);
        const size_t pages = (size_t)bytes / PAGE_BYTES + 1;
        char *const send = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);
        char *const receive = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);
        if (send == NULL || receive == NULL) {
            fprintf(stderr, "no memory for messages of %d B\n", bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        memset(send, 'a', pages * PAGE_BYTES);
        memset(receive, 'b', pages * PAGE_BYTES);
        const double value = is_latency ? latency_s(rank, send, receive, bytes) : bandwidth(rank, send, receive, bytes);
        if (rank == 0)
            printf("%s %d %.9g\n", argv[1], bytes, value);
        free(send);
        free(receive);
    }
    MPI_Finalize();
    return 0;
}
