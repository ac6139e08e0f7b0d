/* MG, multigrid: V-cycles for Poisson's equation on a periodic cube, with 20 unit charges as the right-hand side (NAS
 * RNR-94-007, section 2.2.2).
 *
 * Ranks form a grid that the cube is cut along in up to three directions, and swap the faces of their boxes after each
 * step that changes them. Levels too coarse to be cut are held in full by every rank: the residual is gathered once on
 * the way down, and no messages are needed until the way up is back here. Up to 8 ranks there are none of those. */
#include "npb/communication.h"
#include "npb/kernel.h"
#include "npb/mg_grid.h"
#include "npb/random.h"

#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <string.h>

enum { LEVELS_LIMIT = 9, CHARGES = 10 /* of each sign */ };
enum { RESIDUAL = TIMER_PHASE, SMOOTHING, RESTRICTION, INTERPOLATION };

#define SEED UINT64_C(314159265)

struct size {
    char class;
    int levels; /* a side has 2^levels points */
    int iterations;
    struct mg_stencil smoother;
    double residual; /* its L2 norm after the last iteration; NPB 3.4, mg verification; of class P, see verify() */
};

#define SMOOTHER_SMALL {-3.0 / 8, 1.0 / 32, -1.0 / 64, 0} /* classes S, W, A */
#define SMOOTHER_LARGE {-3.0 / 17, 1.0 / 33, -1.0 / 61, 0}

static const struct size sizes[] = {
    {'S', 5, 4, SMOOTHER_SMALL, 0.5307707005734e-04},
    {'W', 7, 4, SMOOTHER_SMALL, 0.6467329375339e-05},
    {'A', 8, 4, SMOOTHER_SMALL, 0.2433365309069e-05},
    {'B', 8, 20, SMOOTHER_LARGE, 0.1800564401355e-05},
    {'P', 6, 40, SMOOTHER_SMALL, 0},
};

struct level {
    struct mg_box box;
    bool shared; /* the whole cube, on every rank */
    double *u, *r;
};

struct mg {
    const struct size *size;
    int grid[AXES];  /* ranks along each axis */
    int place[AXES]; /* of this one */
    int lowest_cut;  /* levels below it are shared */
    bool charged;
    struct level levels[LEVELS_LIMIT]; /* from 1 */
    double *v;
    double *scratch;
    double *face_out, *face_in;
    struct mg_box share; /* this rank's part of the finest shared level */
    double *share_values, *share_out, *shares_in;
    double residual;
};

static int rank_at(const struct mg *self, int x, int y, int z) { return (z * self->grid[Y] + y) * self->grid[X] + x; }

static void choose(void *state, const struct npb *npb, struct problem *problem)
{
    struct mg *const self = state;
    self->size = sizes;
    while (self->size->class != npb->class)
        self->size++;
    const int exponent = npb_log2(npb->ranks);
    if (exponent < 0) {
        problem_set(problem, "MG cannot run on %d ranks; allowed: 1, 2, 4, 8 and further powers of two", npb->ranks);
        return;
    }
    for (int axis = 0; axis < AXES; axis++)
        self->grid[axis] = 1 << (exponent + axis) / AXES; /* z is cut first: its faces lie together in memory */
    self->place[X] = npb->rank % self->grid[X];
    self->place[Y] = npb->rank / self->grid[X] % self->grid[Y];
    self->place[Z] = npb->rank / self->grid[X] / self->grid[Y];
    /* A level above a shared one needs two points in each direction, so that every rank has coarse points of its own.
     */
    self->lowest_cut = self->grid[Z] <= 2 ? 1 : npb_log2(self->grid[Z]) + 1;
    if (self->lowest_cut > self->size->levels)
        problem_set(problem, "class %c has %d points a side, too few for %d ranks; allowed: fewer ranks", npb->class,
                    1 << self->size->levels, npb->ranks);
}

static struct mg_box box_of(const struct mg *self, int level, bool shared)
{
    int points[AXES];
    for (int axis = 0; axis < AXES; axis++)
        points[axis] = (1 << level) / (shared ? 1 : self->grid[axis]);
    return mg_box(points);
}

static void allocate(void *state, struct npb *npb)
{
    struct mg *const self = state;
    for (int i = 1; i <= self->size->levels; i++) {
        struct level *const level = &self->levels[i];
        level->shared = i < self->lowest_cut;
        level->box = box_of(self, i, level->shared);
        level->u = npb_doubles(npb, level->box.size);
        level->r = npb_doubles(npb, level->box.size);
    }
    const struct mg_box *const top = &self->levels[self->size->levels].box;
    int64_t face = top->plane;
    for (int axis = 0; axis < AXES; axis++)
        face = top->size / (top->points[axis] + 2) > face ? top->size / (top->points[axis] + 2) : face;
    self->v = npb_doubles(npb, top->size);
    self->face_out = npb_doubles(npb, face);
    self->face_in = npb_doubles(npb, face);
    int64_t line = top->line;
    if (self->lowest_cut > 1) {
        const struct mg_box *const whole = &self->levels[self->lowest_cut - 1].box;
        line = whole->line > line ? whole->line : line;
        self->share = box_of(self, self->lowest_cut - 1, false);
        self->share_values = npb_doubles(npb, self->share.size);
        self->share_out = npb_doubles(npb, self->share.size);
        self->shares_in = npb_doubles(npb, whole->size);
    }
    self->scratch = npb_doubles(npb, 3 * line);
}

/* Copies between the face `at` of a box, square to the axis, and a buffer. Along x a face has no ghosts; along y it has
 * those in x, which are right by then; in this way corners need no messages. Returns how many points there are. */
static int copy_face(const struct mg_box *box, double *values, int axis, int at, double *buffer, bool out)
{
    const int64_t first = axis == X ? mg_at(box, at, 1, 1) : mg_at(box, 0, at, 1);
    const int64_t step = axis == X ? box->line : 1;
    const int count = axis == X ? box->points[Y] : box->points[X] + 2;
    for (int z = 0; z < box->points[Z]; z++)
        for (int i = 0; i < count; i++) {
            double *const point = values + first + z * box->plane + i * step;
            if (out)
                *buffer++ = *point;
            else
                *point = *buffer++;
        }
    return count * box->points[Z];
}

/* Gives the last points in one direction (1 or -1) to the next rank, as its ghosts. */
static void swap_face(const struct mg *self, const struct level *level, double *values, int axis, int direction)
{
    const struct mg_box *const box = &level->box;
    const int points = box->points[axis];
    const int own = direction > 0 ? points : 1;
    const int ghost = direction > 0 ? 0 : points + 1;
    const bool alone = level->shared || self->grid[axis] == 1;
    int place[AXES], to = 0, from = 0;
    if (!alone) {
        memcpy(place, self->place, sizeof place);
        place[axis] = (self->place[axis] + self->grid[axis] + direction) % self->grid[axis];
        to = rank_at(self, place[X], place[Y], place[Z]);
        place[axis] = (self->place[axis] + self->grid[axis] - direction) % self->grid[axis];
        from = rank_at(self, place[X], place[Y], place[Z]);
    }
    const int tag = 2 * axis + (direction > 0);
    if (axis == Z) {
        const double *const out = values + own * box->plane;
        double *const in = values + ghost * box->plane;
        if (alone)
            memcpy(in, out, (size_t)box->plane * sizeof *in);
        else
            communication_exchange(out, (int)box->plane, to, in, (int)box->plane, from, tag);
        return;
    }
    const int count = copy_face(box, values, axis, own, self->face_out, true);
    if (!alone)
        communication_exchange(self->face_out, count, to, self->face_in, count, from, tag);
    copy_face(box, values, axis, ghost, alone ? self->face_out : self->face_in, false);
}

static void swap_faces(const struct mg *self, const struct level *level, double *values)
{
    for (int axis = 0; axis < AXES; axis++) {
        swap_face(self, level, values, axis, 1);
        swap_face(self, level, values, axis, -1);
    }
}

static void clear(double *values, const struct mg_box *box) { memset(values, 0, (size_t)box->size * sizeof *values); }

static void residual(const struct mg *self, const struct level *level, const double *v)
{
    timer_start(RESIDUAL);
    mg_residual(&level->box, level->u, v, level->r, self->scratch);
    timer_stop(RESIDUAL);
    swap_faces(self, level, level->r);
}

static void smooth(const struct mg *self, const struct level *level)
{
    timer_start(SMOOTHING);
    mg_smooth(&level->box, self->size->smoother, level->r, level->u, self->scratch);
    timer_stop(SMOOTHING);
    swap_faces(self, level, level->u);
}

/* Puts together the shares of all ranks, or takes them apart: `whole` and `shares` hold the same points. */
static void assemble(const struct mg *self, const struct mg_box *box, double *whole, const double *shares)
{
    const struct mg_box *const share = &self->share;
    for (int pz = 0; pz < self->grid[Z]; pz++)
        for (int py = 0; py < self->grid[Y]; py++)
            for (int px = 0; px < self->grid[X]; px++)
                for (int z = 1; z <= share->points[Z]; z++)
                    for (int y = 1; y <= share->points[Y]; y++)
                        for (int x = 1; x <= share->points[X]; x++)
                            whole[mg_at(box, px * share->points[X] + x, py * share->points[Y] + y,
                                        pz * share->points[Z] + z)] = *shares++;
}

/* The residual of the level below, which every rank will have in full. */
static void restrict_and_gather(const struct mg *self, const struct level *fine, const struct level *coarse)
{
    const struct mg_box *const share = &self->share;
    timer_start(RESTRICTION);
    mg_restrict(&fine->box, fine->r, share, self->share_values, self->scratch);
    timer_stop(RESTRICTION);
    int count = 0;
    for (int z = 1; z <= share->points[Z]; z++)
        for (int y = 1; y <= share->points[Y]; y++)
            for (int x = 1; x <= share->points[X]; x++)
                self->share_out[count++] = self->share_values[mg_at(share, x, y, z)];
    communication_gather(self->share_out, count, self->shares_in);
    assemble(self, &coarse->box, coarse->r, self->shares_in);
}

static void go_down(const struct mg *self, const struct level *fine, const struct level *coarse)
{
    if (coarse->shared && !fine->shared) {
        restrict_and_gather(self, fine, coarse);
    } else {
        timer_start(RESTRICTION);
        mg_restrict(&fine->box, fine->r, &coarse->box, coarse->r, self->scratch);
        timer_stop(RESTRICTION);
    }
    swap_faces(self, coarse, coarse->r);
}

static void go_up(const struct mg *self, const struct level *coarse, const struct level *fine)
{
    const double *own = coarse->u;
    if (coarse->shared && !fine->shared)
        own += mg_at(&coarse->box, self->place[X] * self->share.points[X], self->place[Y] * self->share.points[Y],
                     self->place[Z] * self->share.points[Z]);
    timer_start(INTERPOLATION);
    mg_interpolate(&coarse->box, own, &fine->box, fine->u, self->scratch);
    timer_stop(INTERPOLATION);
}

/* One V-cycle and the residual it leaves. */
static void iterate(const struct mg *self)
{
    const struct level *const levels = self->levels;
    const int top = self->size->levels;
    for (int i = top; i > 1; i--)
        go_down(self, &levels[i], &levels[i - 1]);
    clear(levels[1].u, &levels[1].box);
    smooth(self, &levels[1]);
    for (int i = 2; i < top; i++) {
        clear(levels[i].u, &levels[i].box);
        go_up(self, &levels[i - 1], &levels[i]);
        residual(self, &levels[i], levels[i].r);
        smooth(self, &levels[i]);
    }
    go_up(self, &levels[top - 1], &levels[top]);
    residual(self, &levels[top], self->v);
    smooth(self, &levels[top]);
    residual(self, &levels[top], self->v);
}

/* The L2 norm of values on the finest level. */
static double norm(const struct mg *self, const double *values)
{
    double square = mg_square(&self->levels[self->size->levels].box, values);
    communication_sum(&square, 1);
    return sqrt(square / ldexp(1, AXES * self->size->levels));
}

/* The points with the largest numbers seen, largest first; `at` counts all points, x fastest. */
struct extremes {
    double value[CHARGES];
    int64_t at[CHARGES];
};

static void consider(struct extremes *extremes, double value, int64_t at)
{
    if (value <= extremes->value[CHARGES - 1])
        return;
    int i = CHARGES - 1;
    for (; i > 0 && extremes->value[i - 1] < value; i--) {
        extremes->value[i] = extremes->value[i - 1];
        extremes->at[i] = extremes->at[i - 1];
    }
    extremes->value[i] = value;
    extremes->at[i] = at;
}

/* Puts `charge` on those points of `extremes`, which are the largest of one rank, that are the largest of all. */
static void place_charges(struct mg *self, struct extremes extremes, double charge)
{
    const int side = 1 << self->size->levels;
    const struct mg_box *const box = &self->levels[self->size->levels].box;
    int next = 0;
    for (int i = 0; i < CHARGES; i++) { /* numbers do not repeat, so one rank has the largest that is left */
        double largest = next < CHARGES ? extremes.value[next] : -2;
        const double own = largest;
        MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (own < largest)
            continue;
        const int64_t at = extremes.at[next++];
        self->v[mg_at(box, (int)(at % side) - self->place[X] * box->points[X] + 1,
                      (int)(at / side % side) - self->place[Y] * box->points[Y] + 1,
                      (int)(at / side / side) - self->place[Z] * box->points[Z] + 1)] = charge;
    }
}

/* Of random numbers at all points, the ten largest become +1 and the ten smallest -1; everything else is 0. */
static void charge(struct mg *self)
{
    const int64_t side = INT64_C(1) << self->size->levels;
    const struct mg_box *const box = &self->levels[self->size->levels].box;
    struct extremes largest, smallest;
    for (int i = 0; i < CHARGES; i++)
        largest.value[i] = smallest.value[i] = -2;
    for (int z = 0; z < box->points[Z]; z++)
        for (int y = 0; y < box->points[Y]; y++) {
            const int64_t row = (self->place[Z] * box->points[Z] + z) * side + self->place[Y] * box->points[Y] + y;
            const int64_t first = row * side + self->place[X] * box->points[X];
            uint64_t random = random_multiply(SEED, random_power(RANDOM_MULTIPLIER, first));
            for (int x = 0; x < box->points[X]; x++) {
                random = random_multiply(RANDOM_MULTIPLIER, random);
                consider(&largest, random_uniform(random), first + x);
                consider(&smallest, -random_uniform(random), first + x);
            }
        }
    clear(self->v, box);
    place_charges(self, largest, 1);
    place_charges(self, smallest, -1);
}

static void start_over(const struct mg *self)
{
    const struct level *const top = &self->levels[self->size->levels];
    clear(top->u, &top->box);
    residual(self, top, self->v);
}

static void prepare(void *state)
{
    struct mg *const self = state;
    if (!self->charged) {
        charge(self);
        for (int i = 1; i <= self->size->levels; i++)
            clear(self->levels[i].r, &self->levels[i].box);
    }
    self->charged = true;
    start_over(self);
    iterate(self);
    clear(self->levels[self->size->levels].u, &self->levels[self->size->levels].box);
}

static void run(void *state)
{
    struct mg *const self = state;
    const struct level *const top = &self->levels[self->size->levels];
    residual(self, top, self->v);
    self->residual = norm(self, top->r);
    for (int i = 0; i < self->size->iterations; i++)
        iterate(self);
    self->residual = norm(self, top->r);
}

/* NPB has no constants for the paper's size. After 40 iterations the residual is nothing but rounding, so that any
 * transport that lost a cycle's work would leave more; what has converged, the solution, has a norm of its own, taken
 * from one rank of this program; and the first cycles, done again, must each bring the residual down. */
static void verify_paper_size(struct mg *self, struct problem *problem)
{
    enum { CYCLES = 10 }; /* after twice as many, rounding begins to show */
    const double rounding = 1e-17, solution = 0.00859588281717618;
    const struct level *const top = &self->levels[self->size->levels];
    if (!(self->residual < rounding))
        problem_set(problem, "the residual's norm is %.15g; expected less than %g", self->residual, rounding);
    npb_compare("the solution's norm", norm(self, top->u), solution, 1e-12, problem);
    start_over(self);
    for (int cycle = 1; cycle <= CYCLES; cycle++) {
        const double before = norm(self, top->r);
        iterate(self);
        const double after = norm(self, top->r);
        if (!(after < before))
            problem_set(problem, "cycle %d takes the residual's norm from %.15g to %.15g; expected less", cycle, before,
                        after);
    }
}

static void verify(void *state, struct problem *problem)
{
    struct mg *const self = state;
    if (self->size->class == 'P')
        verify_paper_size(self, problem);
    else
        npb_compare("the residual's norm", self->residual, self->size->residual, 1e-8, problem);
}

static const char *check(const void *state)
{
    if (((const struct mg *)state)->size->class == 'P')
        return "verification: the residual's norm is rounding, the solution's within 1e-12 of that from one rank, and "
               "the "
               "first 10 cycles bring the residual down";
    return "verification: the residual's norm within 1e-8 of NPB's";
}

/* NPB's count: 58 operations for each point and iteration (mg.f90, at the end of the program). */
static double operations(const void *state)
{
    const struct size *const size = ((const struct mg *)state)->size;
    return 58.0 * size->iterations * ldexp(1, AXES * size->levels);
}

int main(int argc, char **argv)
{
    struct mg state = {0};
    return npb_main(
        argc, argv,
        &(struct npb_kernel){.phases = {"residual_time", "smoothing_time", "restriction_time", "interpolation_time"},
                             .choose = choose,
                             .allocate = allocate,
                             .prepare = prepare,
                             .run = run,
                             .verify = verify,
                             .check = check,
                             .operations = operations},
        &state);
}
