/* EP, embarrassingly parallel: how many pairs of normal deviates fall into each square annulus around the origin
 * (NAS RNR-94-007, section 2.2.1: Marsaglia's polar method). Ranks meet only in the three sums at the end. */
#include "npb/communication.h"
#include "npb/kernel.h"
#include "npb/random.h"

#include <math.h>
#include <string.h>

enum {
    BATCH_LOG2 = 16, /* pairs that are made from one seed, as NPB does */
    BLOCK_LOG2 = 11, /* pairs that are worked on together, so that they stay in the first-level cache */
    BLOCK = 1 << BLOCK_LOG2,
    STREAMS = 8, /* so many multiplications of the generator run side by side; a divisor of 2 BLOCK */
    ANNULI = 10,
};

enum { RANDOM = TIMER_PHASE, GAUSSIAN };

#define SEED UINT64_C(271828183)

struct size {
    char class;
    int pairs_log2;
    double sum_x; /* of the deviates' absolute values; NPB 3.4.2, ep verification */
    double sum_y;
    int64_t accepted;
};

static const struct size sizes[] = {
    {'S', 24, 1.051299420395306e+07, 1.051517131857535e+07, 13176389},
    {'W', 25, 2.102505525182392e+07, 2.103162209578822e+07, 26354769},
    {'A', 28, 1.682235632304711e+08, 1.682195123368299e+08, 210832767},
    {'B', 30, 6.728927543423024e+08, 6.728951822504275e+08, 843345606},
    {'P', 25, 2.102505525182392e+07, 2.103162209578822e+07, 26354769},
};

struct ep {
    const struct size *size;
    int64_t first_batch; /* of this rank */
    int64_t batches;
    double sum_x;
    double sum_y;
    double annuli[ANNULI]; /* counts */
    double *uniform;       /* a block of numbers in (-1, 1), two a pair */
    double *accepted;      /* x, y and x^2 + y^2 of those inside the unit circle */
};

static void choose(void *state, const struct npb *npb, struct problem *problem)
{
    struct ep *const self = state;
    self->size = sizes;
    while (self->size->class != npb->class)
        self->size++;
    const int64_t all = INT64_C(1) << (self->size->pairs_log2 - BATCH_LOG2);
    if (npb->ranks > all)
        problem_set(problem, "class %c cannot be divided over %d ranks; allowed: at most %lld", npb->class, npb->ranks,
                    (long long)all);
    self->first_batch = all * npb->rank / npb->ranks;
    self->batches = all * (npb->rank + 1) / npb->ranks - self->first_batch;
}

static void allocate(void *state, struct npb *npb)
{
    struct ep *const self = state;
    self->uniform = npb_doubles(npb, 2 * BLOCK);
    self->accepted = npb_doubles(npb, 3 * (BLOCK + 1)); /* one is written before it is known to be inside */
}

/* The next 2 BLOCK numbers after `x`, scaled to (-1, 1); returns the last as the next x. */
static uint64_t fill(double *restrict uniform, uint64_t x)
{
    const uint64_t stride = random_power(RANDOM_MULTIPLIER, STREAMS);
    uint64_t streams[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        streams[i] = x = random_multiply(RANDOM_MULTIPLIER, x);
    for (int i = 0; i < 2 * BLOCK; i += STREAMS) {
        for (int j = 0; j < STREAMS; j++)
            uniform[i + j] = 2 * random_uniform(streams[j]) - 1;
        x = streams[STREAMS - 1];
        for (int j = 0; j < STREAMS; j++)
            streams[j] = random_multiply(stride, streams[j]);
    }
    return x;
}

/* Choosing without a branch, which one time in five would be predicted wrongly. */
static int accept(const double *restrict uniform, double *restrict accepted)
{
    int count = 0;
    for (int i = 0; i < BLOCK; i++) {
        const double x = uniform[2 * i];
        const double y = uniform[2 * i + 1];
        const double square = x * x + y * y;
        accepted[3 * count] = x;
        accepted[3 * count + 1] = y;
        accepted[3 * count + 2] = square;
        count += square <= 1;
    }
    return count;
}

static void tally(struct ep *self, int count)
{
    const double *restrict accepted = self->accepted;
    double sum_x = 0, sum_y = 0;
    for (int i = 0; i < count; i++) {
        const double square = accepted[3 * i + 2];
        const double scale = sqrt(-2 * log(square) / square);
        const double x = fabs(accepted[3 * i] * scale);
        const double y = fabs(accepted[3 * i + 1] * scale);
        sum_x += x;
        sum_y += y;
        self->annuli[(int)(x > y ? x : y)]++;
    }
    self->sum_x += sum_x;
    self->sum_y += sum_y;
}

static void run_batch(struct ep *self, int64_t batch)
{
    uint64_t x = random_multiply(SEED, random_power(RANDOM_MULTIPLIER, batch * (2 << BATCH_LOG2)));
    for (int block = 0; block < 1 << (BATCH_LOG2 - BLOCK_LOG2); block++) {
        timer_start(RANDOM);
        x = fill(self->uniform, x);
        timer_stop(RANDOM);
        timer_start(GAUSSIAN);
        tally(self, accept(self->uniform, self->accepted));
        timer_stop(GAUSSIAN);
    }
}

static void clear(struct ep *self)
{
    self->sum_x = self->sum_y = 0;
    memset(self->annuli, 0, sizeof self->annuli);
}

static void prepare(void *state)
{
    struct ep *const self = state;
    run_batch(self, self->first_batch); /* touches memory and code; NPB warms up its generator in the same way */
    clear(self);
}

static void run(void *state)
{
    struct ep *const self = state;
    for (int64_t i = 0; i < self->batches; i++)
        run_batch(self, self->first_batch + i);
    communication_sum(&self->sum_x, 1);
    communication_sum(&self->sum_y, 1);
    communication_sum(self->annuli, ANNULI);
}

static void verify(void *state, struct problem *problem)
{
    const struct ep *const self = state;
    double accepted = 0;
    for (int i = 0; i < ANNULI; i++)
        accepted += self->annuli[i];
    npb_compare("the sum of |x|", self->sum_x, self->size->sum_x, 1e-8, problem);
    npb_compare("the sum of |y|", self->sum_y, self->size->sum_y, 1e-8, problem);
    npb_compare("the number of pairs", accepted, (double)self->size->accepted, 0, problem);
}

static const char *check(const void *state)
{
    (void)state;
    return "verification: sums of |x| and |y| within 1e-8 of NPB's, and exactly as many pairs";
}

/* NPB counts one operation for each random number: 2^(m+1). */
static double operations(const void *state) { return ldexp(2, ((const struct ep *)state)->size->pairs_log2); }

int main(int argc, char **argv)
{
    struct ep state = {0};
    return npb_main(argc, argv,
                    &(struct npb_kernel){.phases = {"random_time", "gaussian_time"},
                                         .choose = choose,
                                         .allocate = allocate,
                                         .prepare = prepare,
                                         .run = run,
                                         .verify = verify,
                                         .check = check,
                                         .operations = operations},
                    &state);
}
