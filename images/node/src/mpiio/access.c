#include "mpiio/access.h"

#include "common/clock.h"
#include "mpiio/watchdog.h"

#include <string.h>

static const char *const names[] = {"non_collective", "collective", "non_blocking", "split_collective"};

enum access access_from(const char *name)
{
    enum access access = 0;
    while (access < ACCESSES && strcmp(name, names[access]) != 0)
        access++;
    return access;
}

const char *access_name(enum access access) { return names[access]; }

MPI_Comm access_communicator(enum access access)
{
    return access == COLLECTIVE || access == SPLIT_COLLECTIVE ? MPI_COMM_WORLD : MPI_COMM_SELF;
}

static int own_rank(void)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

void problem_set_mpi(struct problem *problem, const char *doing, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    const char *const last = strrchr(text, '\n'); /* of the stack that MPICH tells; it has the system's own words */
    problem_set(problem, "rank %d: %s: %s", own_rank(), doing, last == NULL ? text : last + 1);
}

static void check(struct channel *channel, int error)
{
    if (error == MPI_SUCCESS)
        return;
    problem_set_mpi(&channel->problem, channel->what, error);
    watchdog_arm(&channel->problem);
}

/* A transfer that came to its end. ROMIO tells the true count of contiguous accesses only; what others leave out is
 * found when the result is checked. */
static void finish(struct channel *channel, int error, const MPI_Status *status)
{
    check(channel, error);
    if (error != MPI_SUCCESS)
        return;
    int moved = 0;
    int size = 0;
    MPI_Get_count(status, channel->element, &moved);
    MPI_Type_size(channel->element, &size);
    if (moved != channel->count)
        problem_set(&channel->problem, "rank %d: %s: %d of %d elements were moved", own_rank(), channel->what, moved,
                    channel->count);
    channel->bytes += (int64_t)moved * size;
}

static void begin_reading(struct channel *channel, MPI_Offset offset)
{
    const MPI_File file = channel->file;
    void *const buffer = channel->buffer;
    MPI_Status status;
    switch (channel->access) {
    case NON_COLLECTIVE:
        finish(channel, MPI_File_read_at(file, offset, buffer, channel->count, channel->element, &status), &status);
        break;
    case COLLECTIVE:
        finish(channel, MPI_File_read_at_all(file, offset, buffer, channel->count, channel->element, &status), &status);
        break;
    case NON_BLOCKING:
        check(channel, MPI_File_iread_at(file, offset, buffer, channel->count, channel->element, &channel->request));
        break;
    case SPLIT_COLLECTIVE:
        check(channel, MPI_File_read_at_all_begin(file, offset, buffer, channel->count, channel->element));
        break;
    case ACCESSES:
        break;
    }
}

static void begin_writing(struct channel *channel, MPI_Offset offset)
{
    const MPI_File file = channel->file;
    const void *const buffer = channel->buffer;
    MPI_Status status;
    switch (channel->access) {
    case NON_COLLECTIVE:
        finish(channel, MPI_File_write_at(file, offset, buffer, channel->count, channel->element, &status), &status);
        break;
    case COLLECTIVE:
        finish(channel, MPI_File_write_at_all(file, offset, buffer, channel->count, channel->element, &status),
               &status);
        break;
    case NON_BLOCKING:
        check(channel, MPI_File_iwrite_at(file, offset, buffer, channel->count, channel->element, &channel->request));
        break;
    case SPLIT_COLLECTIVE:
        check(channel, MPI_File_write_at_all_begin(file, offset, buffer, channel->count, channel->element));
        break;
    case ACCESSES:
        break;
    }
}

void channel_begin(struct channel *channel, struct place place)
{
    const double start_s = clock_now_s();
    if (channel->view != place.view) {
        check(channel, MPI_File_set_view(channel->file, place.view, channel->element, channel->filetype, "native",
                                         MPI_INFO_NULL));
        channel->view = place.view;
    }
    if (channel->direction == READING)
        begin_reading(channel, place.offset);
    else
        begin_writing(channel, place.offset);
    channel->pending = channel->access == NON_BLOCKING || channel->access == SPLIT_COLLECTIVE;
    channel->busy_s += clock_now_s() - start_s;
}

void channel_end(struct channel *channel)
{
    if (!channel->pending)
        return;
    const double start_s = clock_now_s();
    MPI_Status status = {0};
    int error = MPI_SUCCESS;
    if (channel->access == NON_BLOCKING)
        error = MPI_Wait(&channel->request, &status);
    else if (channel->direction == READING)
        error = MPI_File_read_at_all_end(channel->file, channel->buffer, &status);
    else
        error = MPI_File_write_at_all_end(channel->file, channel->buffer, &status);
    finish(channel, error, &status);
    channel->pending = false;
    channel->busy_s += clock_now_s() - start_s;
}
