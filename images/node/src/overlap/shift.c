#include "overlap/shift.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TAG, RECEIVING = 0, SENDING = 1, BOTH = 2 };

/* Room for the messages of a few shifts, as one counts until MPI has noticed that it arrived. */
enum { BUFFERED_MESSAGES = 4 };

struct shift_method {
    const char *name;
    bool has_requests;
    void (*prepare)(struct shift *shift, struct problem *problem);
    void (*begin)(struct shift *shift);
    void (*complete)(struct shift *shift);
    void (*release)(struct shift *shift);
};

static void nothing(struct shift *shift) { (void)shift; }

static void nothing_to_prepare(struct shift *shift, struct problem *problem)
{
    (void)shift;
    (void)problem;
}

static void attach(struct shift *shift, struct problem *problem)
{
    const MPI_Count bytes = BUFFERED_MESSAGES * ((MPI_Count)shift->message_bytes + MPI_BSEND_OVERHEAD);
    shift->attached = malloc((size_t)bytes);
    if (shift->attached == NULL)
        problem_set(problem, "no memory for %lld B that MPI_Bsend buffers", (long long)bytes);
    else
        MPI_Buffer_attach_c(shift->attached, bytes);
}

static void detach(struct shift *shift)
{
    void *buffer = NULL;
    MPI_Count bytes = 0;
    if (shift->attached != NULL)
        MPI_Buffer_detach_c(&buffer, &bytes); /* waits until the messages in it are delivered */
    free(shift->attached);
}

static void buffered_send(struct shift *shift)
{
    MPI_Bsend(shift->send, shift->message_bytes, MPI_BYTE, shift->to, TAG, MPI_COMM_WORLD);
}

static void receive(struct shift *shift)
{
    MPI_Recv(shift->receive, shift->message_bytes, MPI_BYTE, shift->from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void post_both(struct shift *shift)
{
    MPI_Irecv(shift->receive, shift->message_bytes, MPI_BYTE, shift->from, TAG, MPI_COMM_WORLD,
              &shift->requests[RECEIVING]);
    MPI_Isend(shift->send, shift->message_bytes, MPI_BYTE, shift->to, TAG, MPI_COMM_WORLD, &shift->requests[SENDING]);
}

static void wait_for_both(struct shift *shift) { MPI_Waitall(BOTH, shift->requests, MPI_STATUSES_IGNORE); }

static void send_and_receive(struct shift *shift)
{
    MPI_Sendrecv(shift->send, shift->message_bytes, MPI_BYTE, shift->to, TAG, shift->receive, shift->message_bytes,
                 MPI_BYTE, shift->from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void make_requests(struct shift *shift, struct problem *problem)
{
    (void)problem;
    MPI_Recv_init(shift->receive, shift->message_bytes, MPI_BYTE, shift->from, TAG, MPI_COMM_WORLD,
                  &shift->requests[RECEIVING]);
    MPI_Send_init(shift->send, shift->message_bytes, MPI_BYTE, shift->to, TAG, MPI_COMM_WORLD,
                  &shift->requests[SENDING]);
}

static void start_both(struct shift *shift) { MPI_Startall(BOTH, shift->requests); }

static void free_requests(struct shift *shift)
{
    MPI_Request_free(&shift->requests[RECEIVING]);
    MPI_Request_free(&shift->requests[SENDING]);
}

static const struct shift_method methods[] = {
    {"bsend", false, attach, buffered_send, receive, detach},
    {"isend_irecv", true, nothing_to_prepare, post_both, wait_for_both, nothing},
    {"sendrecv", false, nothing_to_prepare, send_and_receive, nothing, nothing},
    {"persistent", true, make_requests, start_both, wait_for_both, free_requests},
};

const struct shift_method *shift_method(const char *name, struct problem *problem)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    problem_set(problem, "--exchange: '%s' is no way to exchange; allowed: bsend, isend_irecv, sendrecv, persistent",
                name);
    return NULL;
}

void shift_prepare(struct shift *shift, struct problem *problem)
{
    shift->send = malloc((size_t)shift->message_bytes);
    shift->receive = malloc((size_t)shift->message_bytes);
    if (shift->send == NULL || shift->receive == NULL)
        problem_set(problem, "no memory for two messages of %d B", shift->message_bytes);
    else
        shift->method->prepare(shift, problem);
}

void shift_release(struct shift *shift)
{
    shift->method->release(shift);
    free(shift->send);
    free(shift->receive);
}

void shift_begin(struct shift *shift) { shift->method->begin(shift); }

void shift_complete(struct shift *shift) { shift->method->complete(shift); }

void shift_poll(struct shift *shift)
{
    int done = 0;
    if (shift->method->has_requests)
        MPI_Testall(BOTH, shift->requests, &done, MPI_STATUSES_IGNORE);
    else
        MPI_Iprobe(shift->from, TAG, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
}
