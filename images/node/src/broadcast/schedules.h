/* In which order the root serves the leaves: the choice that broadcast_under_interference compares.
 *
 * Rank 0 is the root, all others are leaves. In the two schedules of our own a leaf posts its receive and announces
 * itself; the root sends in ready mode, which the announcement makes legal and the hardware units of the paper do too:
 *
 *     sequential    the root waits for the announcements in rank order, as the conventional unit does
 *     readiness     it takes them as they come, as the proposed unit does
 *     mpi_bcast     the library's own MPI_Bcast
 *
 * Paper: H. Yun, W. Chung and Y. Lee, "The Design of MPI Hardware Unit for Enhanced Broadcast Communication" (KICS,
 * 2011), sections 2.1 and 2.2. */
#ifndef MPIBED_BROADCAST_SCHEDULES_H
#define MPIBED_BROADCAST_SCHEDULES_H

enum { ROOT = 0 };

struct broadcast {
    int rank;
    int ranks;
    int message_bytes;
    unsigned char *message; /* the root's is sent, the leaves' are overwritten */
};

struct schedule {
    const char *name;
    void (*run)(const struct broadcast *broadcast);
};

/* NULL when there is none of that name. */
const struct schedule *schedule_find(const char *name);

/* All names, as "a, b, c". */
const char *schedule_names(void);

#endif
