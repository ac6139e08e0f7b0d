#include "npb/lu_sweep.h"

#include "npb/communication.h"
#include "npb/timers.h"

#include <mpi.h>
#include <stdbool.h>

enum { LOWER = TIMER_PHASE + 1, UPPER };
enum { ALONG_X_TAG, ALONG_Y_TAG };

/* Friction that v feels at a point along an axis, before the common factor viscosity / density: momentum, and energy.
 */
#define STRESS(part, axis) ((part) == 1 + (axis) ? 4.0 / 3 : 1.0)

/* total += weight B v, where B is the block of the Jacobian that couples a point with its neighbour along `axis`:
 * direction step central A - step second N, of A the Jacobian of what flows without friction and N that of friction and
 * dissipation, both at the neighbour (RNR-94-007, section 3). B is never formed: its product with v takes a fifth
 * of the operations that filling 25 elements and multiplying with them would. */
static inline void add_neighbour(const struct lu_axis *weights, int axis, double convect, double diffuse,
                                 const double *restrict w, const double *restrict v, double *restrict total)
{
    const double inverse = w[0], speed = w[1 + axis], energy = w[ENERGY];
    const double kinetic = 0.5 * LU_C2 * (w[1] * w[1] + w[2] * w[2] + w[3] * w[3]);
    const double along = w[1] * v[1] + w[2] * v[2] + w[3] * v[3];
    const double moved = v[1 + axis] - speed * v[0]; /* change of speed, times density */
    const double heat = LU_C1 * energy - kinetic;
    const double viscosity = LU_VISCOSITY * inverse;
    double stress_work = 0;
    total[0] += convect * v[1 + axis] - diffuse * weights->dissipation * v[0];
    for (int part = 1; part < ENERGY; part++) {
        const double change = v[part] - w[part] * v[0];
        const double stress = STRESS(part, axis) * viscosity * change;
        double flux = speed * v[part] + w[part] * moved;
        if (part == 1 + axis)
            flux += kinetic * v[0] - LU_C2 * along + LU_C2 * v[ENERGY];
        stress_work += w[part] * (stress - LU_C1C5 * viscosity * change);
        total[part] += convect * flux - diffuse * (stress + weights->dissipation * v[part]);
    }
    const double flux = speed * (kinetic * v[0] - LU_C2 * along + LU_C1 * v[ENERGY]) + heat * moved;
    const double conduction = LU_C1C5 * viscosity * (v[ENERGY] - energy * v[0]);
    total[ENERGY] += convect * flux - diffuse * (stress_work + conduction + weights->dissipation * v[ENERGY]);
}

/* The diagonal block is the same for the whole field but for factors of the velocities; these are the rest of it. */
struct diagonal {
    double dissipation;  /* 1 + 2 step sum(second dissipation) */
    double stress[AXES]; /* of each component of momentum */
    double work[AXES];   /* what it does to the energy */
    double conduction;
};

static struct diagonal make_diagonal(const struct lu_sweep *sweep)
{
    const double twice = 2 * sweep->step;
    struct diagonal diagonal = {.dissipation = 1};
    double sum = 0;
    for (int axis = 0; axis < AXES; axis++) {
        const struct lu_axis *const weights = &sweep->domain->axis[axis];
        diagonal.dissipation += twice * weights->second * weights->dissipation;
        sum += weights->second;
        for (int part = 0; part < AXES; part++)
            diagonal.stress[part] += twice * LU_VISCOSITY * weights->second * STRESS(1 + part, axis);
    }
    diagonal.conduction = twice * LU_C1C5 * LU_VISCOSITY * sum;
    for (int part = 0; part < AXES; part++)
        diagonal.work[part] = diagonal.stress[part] - diagonal.conduction;
    return diagonal;
}

/* solution = D^-1 right. D is lower triangular. */
static inline void divide(const struct diagonal *diagonal, const double *restrict w, const double *restrict right,
                          double *restrict solution)
{
    const double inverse = w[0];
    const double density = right[0] / diagonal->dissipation;
    double energy = right[ENERGY] + inverse * diagonal->conduction * w[ENERGY] * density;
    solution[0] = density;
    for (int axis = 0; axis < AXES; axis++) {
        const double stress = inverse * diagonal->stress[axis];
        const double velocity = w[1 + axis];
        const double momentum = (right[1 + axis] + stress * velocity * density) / (diagonal->dissipation + stress);
        energy -= inverse * diagonal->work[axis] * velocity * (momentum - velocity * density);
        solution[1 + axis] = momentum;
    }
    solution[ENERGY] = energy / (diagonal->dissipation + inverse * diagonal->conduction);
}

/* A line square to x lies scattered in memory and goes through a buffer; one along x does not. */
static int copy_line(const struct lu_sweep *sweep, double *v, int x, int z, bool out)
{
    const struct lu_domain *const domain = sweep->domain;
    double *buffer = sweep->line;
    for (int y = domain->begin[Y]; y < domain->end[Y]; y++)
        for (int part = 0; part < PARTS; part++) {
            double *const value = v + lu_at(domain, x, y, z) + part;
            if (out)
                *buffer++ = *value;
            else
                *value = *buffer++;
        }
    return (int)(buffer - sweep->line);
}

static void receive_plane(const struct lu_sweep *sweep, double *v, int z, const int from[2], const int ghost[2])
{
    const struct lu_domain *const domain = sweep->domain;
    const int along_x = PARTS * (domain->end[X] - domain->begin[X]);
    const int along_y = PARTS * (domain->end[Y] - domain->begin[Y]);
    if (from[X] != MPI_PROC_NULL) {
        communication_receive(sweep->line, along_y, from[X], ALONG_X_TAG);
        copy_line(sweep, v, ghost[X], z, false);
    }
    if (from[Y] != MPI_PROC_NULL)
        communication_receive(v + lu_at(domain, domain->begin[X], ghost[Y], z), along_x, from[Y], ALONG_Y_TAG);
}

static void send_plane(const struct lu_sweep *sweep, double *v, int z, const int to[2], const int own[2])
{
    const struct lu_domain *const domain = sweep->domain;
    const int along_x = PARTS * (domain->end[X] - domain->begin[X]);
    if (to[X] != MPI_PROC_NULL) {
        const int count = copy_line(sweep, v, own[X], z, true);
        communication_send(sweep->line, count, to[X], ALONG_X_TAG);
    }
    if (to[Y] != MPI_PROC_NULL)
        communication_send(v + lu_at(domain, domain->begin[X], own[Y], z), along_x, to[Y], ALONG_Y_TAG);
}

static void lower_plane(const struct lu_sweep *sweep, const struct diagonal *diagonal, const double *restrict w,
                        double *restrict v, int z)
{
    const struct lu_domain *const domain = sweep->domain;
    const struct lu_axis *const axes = domain->axis;
    const int64_t *const stride = domain->stride;
    const double weight = -sweep->omega * sweep->step;
    for (int y = domain->begin[Y]; y < domain->end[Y]; y++)
        for (int x = domain->begin[X]; x < domain->end[X]; x++) {
            const int64_t at = lu_at(domain, x, y, z);
            double total[PARTS], right[PARTS];
            for (int part = 0; part < PARTS; part++)
                total[part] = sweep->step * v[at + part];
            for (int axis = AXES - 1; axis >= 0; axis--)
                add_neighbour(&axes[axis], axis, -weight * axes[axis].central, weight * axes[axis].second,
                              w + at - stride[axis], v + at - stride[axis], total);
            divide(diagonal, w + at, total, right);
            for (int part = 0; part < PARTS; part++)
                v[at + part] = right[part];
        }
}

static void upper_plane(const struct lu_sweep *sweep, const struct diagonal *diagonal, const double *restrict w,
                        double *restrict v, double relaxation, double *restrict u, int z)
{
    const struct lu_domain *const domain = sweep->domain;
    const struct lu_axis *const axes = domain->axis;
    const int64_t *const stride = domain->stride;
    const double weight = sweep->omega * sweep->step;
    for (int y = domain->end[Y] - 1; y >= domain->begin[Y]; y--)
        for (int x = domain->end[X] - 1; x >= domain->begin[X]; x--) {
            const int64_t at = lu_at(domain, x, y, z);
            double total[PARTS] = {0}, change[PARTS];
            for (int axis = AXES - 1; axis >= 0; axis--)
                add_neighbour(&axes[axis], axis, weight * axes[axis].central, weight * axes[axis].second,
                              w + at + stride[axis], v + at + stride[axis], total);
            divide(diagonal, w + at, total, change);
            for (int part = 0; part < PARTS; part++) {
                v[at + part] -= change[part];
                u[at + part] += relaxation * v[at + part];
            }
        }
}

void lu_sweep_lower(const struct lu_sweep *sweep, const double *w, double *v)
{
    const struct lu_domain *const domain = sweep->domain;
    const struct diagonal diagonal = make_diagonal(sweep);
    const int ghost[2] = {-1, -1}, own[2] = {domain->count[X] - 1, domain->count[Y] - 1};
    for (int z = domain->begin[Z]; z < domain->end[Z]; z++) {
        receive_plane(sweep, v, z, domain->before, ghost);
        timer_start(LOWER);
        lower_plane(sweep, &diagonal, w, v, z);
        timer_stop(LOWER);
        send_plane(sweep, v, z, domain->after, own);
    }
}

void lu_sweep_upper(const struct lu_sweep *sweep, const double *w, double *v, double relaxation, double *u)
{
    const struct lu_domain *const domain = sweep->domain;
    const struct diagonal diagonal = make_diagonal(sweep);
    const int ghost[2] = {domain->count[X], domain->count[Y]}, own[2] = {0, 0};
    for (int z = domain->end[Z] - 1; z >= domain->begin[Z]; z--) {
        receive_plane(sweep, v, z, domain->after, ghost);
        timer_start(UPPER);
        upper_plane(sweep, &diagonal, w, v, relaxation, u, z);
        timer_stop(UPPER);
        send_plane(sweep, v, z, domain->before, own);
    }
}
