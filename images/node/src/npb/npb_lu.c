/* LU: the compressible Navier-Stokes equations on a cube by symmetric successive over-relaxation, the "lower-upper"
 * simulated application (NAS RNR-94-007, section 3). Each iteration solves a lower and an upper triangular system
 * and evaluates the right-hand side anew; the systems make it the program of many small messages. */
#include "npb/communication.h"
#include "npb/kernel.h"
#include "npb/lu_operator.h"
#include "npb/lu_problem.h"
#include "npb/lu_sweep.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_POINTS = 3 }; /* that a rank must have in x and y, as in NPB */
enum { RIGHT_HAND_SIDE = TIMER_PHASE };
enum { FORWARD_TAG = 2, BACKWARD_TAG };

#define OMEGA 1.2

struct size {
    char class;
    int points;
    int iterations;
    double step;
    double residuals[PARTS]; /* NPB 3.4, lu verification */
    double errors[PARTS];
    double integral;
};

#define SIZE_W                                                                                                         \
    33, 300, 1.5e-3,                                                                                                   \
        {0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01, 0.2826799444189e+02},     \
        {0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01, 0.1084277417792e+01},     \
        0.1161399311023e+02

static const struct size sizes[] = {
    {'S',
     12,
     50,
     0.5,
     {1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03, 1.5029584435994323e-03,
      3.4264073155896461e-02},
     {6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05, 5.8474222595157350e-05,
      1.3103347914111294e-03},
     7.8418928865937083e+00},
    {'W', SIZE_W},
    {'A',
     64,
     250,
     2,
     {7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02, 1.7845301160418537e+02,
      1.8384760349464247e+03},
     {2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00, 6.7139225687777051e+00,
      7.0715315688392578e+01},
     2.6030925604886277e+01},
    {'B',
     102,
     250,
     2,
     {3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02, 7.7812774739425265e+02,
      7.3087969592545314e+03},
     {1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01, 2.5905394567832939e+01,
      2.6054907504857413e+02},
     4.7887162703308227e+01},
    {'P', SIZE_W},
};

struct lu {
    const struct size *size;
    struct lu_domain domain;
    bool forced;
    double *u, *w;    /* the solution, and what lu_primitive() makes of it */
    double *forcing;  /* the derivatives of the known solution, so that this is a solution */
    double *v;        /* the residual, then the change */
    double *out, *in; /* ghosts on their way */
    struct lu_sweep sweep;
    double residuals[PARTS];
};

/* The most even grid of ranks, with no fewer in x than in y. */
static int ranks_along_y(int ranks)
{
    int along_y = 1;
    for (int i = 1; i * i <= ranks; i++)
        if (ranks % i == 0)
            along_y = i;
    return along_y;
}

static void choose(void *state, const struct npb *npb, struct problem *problem)
{
    struct lu *const self = state;
    struct lu_domain *const domain = &self->domain;
    self->size = sizes;
    while (self->size->class != npb->class)
        self->size++;
    const int points = self->size->points;
    const int ranks_y = ranks_along_y(npb->ranks);
    const int grid[2] = {npb->ranks / ranks_y, ranks_y};
    if (grid[X] > 2 * grid[Y])
        problem_set(
            problem,
            "LU cannot run on %d ranks, a grid of %d x %d; allowed: 1, 2, 4, 6, 8, 9, 12 and other numbers with "
            "a grid at most twice as long as wide",
            npb->ranks, grid[X], grid[Y]);
    if (points / grid[X] < LEAST_POINTS)
        problem_set(problem, "class %c has %d points a side, too few for a grid of %d x %d ranks; allowed: fewer ranks",
                    npb->class, points, grid[X], grid[Y]);
    if (problem_is_set(problem))
        return;

    domain->points = points;
    const int place[2] = {npb->rank % grid[X], npb->rank / grid[X]};
    const int distance[2] = {1, grid[X]};
    for (int axis = 0; axis < AXES; axis++) {
        domain->count[axis] = domain->end[axis] = points;
        const double inverse = points - 1;
        domain->axis[axis] = (struct lu_axis){.second = inverse * inverse,
                                              .central = 0.5 * inverse,
                                              .first = inverse,
                                              .dissipation = axis == Z ? 1 : 0.75};
    }
    for (int axis = 0; axis < 2; axis++) {
        domain->first[axis] = npb_first(points, place[axis], grid[axis]);
        domain->count[axis] = npb_first(points, place[axis] + 1, grid[axis]) - domain->first[axis];
        domain->end[axis] = domain->count[axis];
        domain->before[axis] = place[axis] == 0 ? MPI_PROC_NULL : npb->rank - distance[axis];
        domain->after[axis] = place[axis] == grid[axis] - 1 ? MPI_PROC_NULL : npb->rank + distance[axis];
    }
    for (int axis = 0; axis < AXES; axis++) {
        domain->begin[axis] = domain->first[axis] == 0 ? 1 : 0;
        domain->end[axis] -= domain->first[axis] + domain->count[axis] == points ? 1 : 0;
    }
    domain->stride[X] = PARTS;
    domain->stride[Y] = domain->stride[X] * (domain->count[X] + 2 * GHOSTS);
    domain->stride[Z] = domain->stride[Y] * (domain->count[Y] + 2 * GHOSTS);
    domain->size = domain->stride[Z] * domain->count[Z];
}

static void allocate(void *state, struct npb *npb)
{
    struct lu *const self = state;
    const struct lu_domain *const domain = &self->domain;
    double **const fields[] = {&self->u, &self->w, &self->forcing, &self->v};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = npb_doubles(npb, domain->size);
    const int longest = domain->count[X] > domain->count[Y] ? domain->count[X] : domain->count[Y];
    self->out = npb_doubles(npb, (int64_t)PARTS * GHOSTS * longest * domain->count[Z]);
    self->in = npb_doubles(npb, (int64_t)PARTS * GHOSTS * longest * domain->count[Z]);
    self->sweep = (struct lu_sweep){.domain = domain,
                                    .step = self->size->step,
                                    .omega = OMEGA,
                                    .line = npb_doubles(npb, (int64_t)PARTS * domain->count[Y])};
}

/* Copies between a buffer and two layers of u, the first at `at`, in all planes. Returns the number of doubles. */
static int copy_layers(const struct lu *self, int axis, int at, double *buffer, bool out)
{
    const struct lu_domain *const domain = &self->domain;
    const int across_x = axis == X ? GHOSTS : domain->count[X];
    const int across_y = axis == Y ? GHOSTS : domain->count[Y];
    const size_t bytes = (size_t)(PARTS * across_x) * sizeof(double);
    double *const start = buffer;
    for (int z = 0; z < domain->count[Z]; z++)
        for (int y = 0; y < across_y; y++, buffer += PARTS * across_x) {
            double *const line = self->u + (axis == X ? lu_at(domain, at, y, z) : lu_at(domain, 0, at + y, z));
            memcpy(out ? buffer : line, out ? line : buffer, bytes);
        }
    return (int)(buffer - start);
}

static void pass_layers(const struct lu *self, int axis, int own, int to, int ghost, int from, int tag)
{
    int count = copy_layers(self, axis, own, self->out, true);
    communication_exchange(self->out, count, to, self->in, count, from, tag);
    if (from != MPI_PROC_NULL)
        copy_layers(self, axis, ghost, self->in, false);
}

static void swap_layers(const struct lu *self)
{
    const struct lu_domain *const domain = &self->domain;
    for (int axis = 0; axis < 2; axis++) {
        const int count = domain->count[axis], before = domain->before[axis], after = domain->after[axis];
        if (before == MPI_PROC_NULL && after == MPI_PROC_NULL)
            continue;
        pass_layers(self, axis, count - GHOSTS, after, -GHOSTS, before, FORWARD_TAG);
        pass_layers(self, axis, 0, before, count, after, BACKWARD_TAG);
    }
}

/* v = the derivatives of u minus the forcing: 0 where u is the known solution. */
static void find_residual(const struct lu *self)
{
    swap_layers(self);
    timer_start(RIGHT_HAND_SIDE);
    lu_primitive(&self->domain, self->u, self->w);
    double *restrict v = self->v;
    const double *restrict forcing = self->forcing;
    for (int64_t i = 0; i < self->domain.size; i++)
        v[i] = -forcing[i];
    lu_add_derivatives(&self->domain, self->u, self->w, v);
    timer_stop(RIGHT_HAND_SIDE);
}

static void iterate(const struct lu *self)
{
    lu_sweep_lower(&self->sweep, self->w, self->v);
    lu_sweep_upper(&self->sweep, self->w, self->v, 1 / (OMEGA * (2 - OMEGA)), self->u);
    find_residual(self);
}

static void start_over(struct lu *self)
{
    lu_start(&self->domain, self->u);
    find_residual(self);
}

static void prepare(void *state)
{
    struct lu *const self = state;
    if (!self->forced) {
        lu_solution(&self->domain, self->u);
        lu_primitive(&self->domain, self->u, self->w);
        memset(self->forcing, 0, (size_t)self->domain.size * sizeof *self->forcing);
        lu_add_derivatives(&self->domain, self->u, self->w, self->forcing);
    }
    self->forced = true;
    start_over(self);
    iterate(self);
    start_over(self);
}

static void run(void *state)
{
    struct lu *const self = state;
    for (int i = 0; i < self->size->iterations; i++)
        iterate(self);
    lu_norms(&self->domain, self->v, self->residuals);
}

static void verify(void *state, struct problem *problem)
{
    const struct lu *const self = state;
    double errors[PARTS];
    lu_errors(&self->domain, self->u, errors);
    for (int part = 0; part < PARTS; part++) {
        char quantity[64];
        snprintf(quantity, sizeof quantity, "the residual's norm %d", part + 1);
        npb_compare(quantity, self->residuals[part], self->size->residuals[part], 1e-8, problem);
        snprintf(quantity, sizeof quantity, "the solution error's norm %d", part + 1);
        npb_compare(quantity, errors[part], self->size->errors[part], 1e-8, problem);
    }
    npb_compare("the surface integral", lu_surface_integral(&self->domain, self->u), self->size->integral, 1e-8,
                problem);
}

static const char *check(const void *state)
{
    (void)state;
    return "verification: norms of residual and error, and the surface integral, within 1e-8 of NPB's";
}

/* NPB's count, a polynomial in the side's points (lu.f90, at the end of the program). */
static double operations(const void *state)
{
    const struct size *const size = ((const struct lu *)state)->size;
    const double points = size->points;
    return size->iterations * (((1984.77 * points - 10923.3) * points + 27770.9) * points - 144010);
}

int main(int argc, char **argv)
{
    struct lu state = {0};
    return npb_main(argc, argv,
                    &(struct npb_kernel){.phases = {"right_hand_side_time", "lower_time", "upper_time"},
                                         .choose = choose,
                                         .allocate = allocate,
                                         .prepare = prepare,
                                         .run = run,
                                         .verify = verify,
                                         .check = check,
                                         .operations = operations},
                    &state);
}
