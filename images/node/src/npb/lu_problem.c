#include "npb/lu_problem.h"

#include "npb/communication.h"

#include <math.h>
#include <stdbool.h>

/* Of each part: the constant, then the coefficients of x, y, z, of their squares, cubes and fourth powers (NAS
 * RNR-94-007, section 3). */
static const double coefficients[PARTS][13] = {
    {2, 0, 0, 4, 5, 3, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1, 0, 0, 0, 1, 2, 3, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2, 2, 0, 0, 0, 2, 3, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2, 2, 0, 0, 0, 2, 3, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5, 4, 3, 2, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

static double solution_at(int part, const double at[AXES])
{
    double value = coefficients[part][0];
    for (int axis = 0; axis < AXES; axis++) {
        const double *const of = &coefficients[part][1 + axis];
        value += at[axis] * (of[0] + at[axis] * (of[3] + at[axis] * (of[6] + at[axis] * of[9])));
    }
    return value;
}

/* What the faces of the cube say of a point within. */
static double blend_at(int part, const double at[AXES])
{
    double blend[AXES];
    for (int axis = 0; axis < AXES; axis++) {
        double low[AXES] = {at[X], at[Y], at[Z]}, high[AXES] = {at[X], at[Y], at[Z]};
        low[axis] = 0;
        high[axis] = 1;
        blend[axis] = (1 - at[axis]) * solution_at(part, low) + at[axis] * solution_at(part, high);
    }
    return blend[X] + blend[Y] + blend[Z] - blend[X] * blend[Y] - blend[Y] * blend[Z] - blend[Z] * blend[X] +
           blend[X] * blend[Y] * blend[Z];
}

static void locate(const struct lu_domain *domain, int x, int y, int z, double at[AXES])
{
    const double last = domain->points - 1;
    at[X] = (domain->first[X] + x) / last;
    at[Y] = (domain->first[Y] + y) / last;
    at[Z] = z / last;
}

static void fill(const struct lu_domain *domain, double *u, bool blended)
{
    for (int z = 0; z < domain->count[Z]; z++)
        for (int y = -GHOSTS; y < domain->count[Y] + GHOSTS; y++)
            for (int x = -GHOSTS; x < domain->count[X] + GHOSTS; x++) {
                const bool within = x >= domain->begin[X] && x < domain->end[X] && y >= domain->begin[Y] &&
                                    y < domain->end[Y] && z >= domain->begin[Z] && z < domain->end[Z];
                double at[AXES];
                locate(domain, x, y, z, at);
                for (int part = 0; part < PARTS; part++)
                    u[lu_at(domain, x, y, z) + part] = blended && within ? blend_at(part, at) : solution_at(part, at);
            }
}

void lu_solution(const struct lu_domain *domain, double *u) { fill(domain, u, false); }

void lu_start(const struct lu_domain *domain, double *u) { fill(domain, u, true); }

static void finish_norms(const struct lu_domain *domain, double squares[PARTS])
{
    communication_sum(squares, PARTS);
    for (int part = 0; part < PARTS; part++)
        squares[part] = sqrt(squares[part] / pow(domain->points - 2, AXES));
}

void lu_norms(const struct lu_domain *domain, const double *v, double norms[PARTS])
{
    double squares[PARTS] = {0};
    for (int z = domain->begin[Z]; z < domain->end[Z]; z++)
        for (int y = domain->begin[Y]; y < domain->end[Y]; y++)
            for (int x = domain->begin[X]; x < domain->end[X]; x++)
                for (int part = 0; part < PARTS; part++) {
                    const double value = v[lu_at(domain, x, y, z) + part];
                    squares[part] += value * value;
                }
    finish_norms(domain, squares);
    for (int part = 0; part < PARTS; part++)
        norms[part] = squares[part];
}

void lu_errors(const struct lu_domain *domain, const double *u, double norms[PARTS])
{
    for (int part = 0; part < PARTS; part++)
        norms[part] = 0;
    for (int z = domain->begin[Z]; z < domain->end[Z]; z++)
        for (int y = domain->begin[Y]; y < domain->end[Y]; y++)
            for (int x = domain->begin[X]; x < domain->end[X]; x++) {
                double at[AXES];
                locate(domain, x, y, z, at);
                for (int part = 0; part < PARTS; part++) {
                    const double error = u[lu_at(domain, x, y, z) + part] - solution_at(part, at);
                    norms[part] += error * error;
                }
            }
    finish_norms(domain, norms);
}

/* The weight of a coordinate in the trapezoidal rule from `first` to `last`, times 2. */
static int trapezoid(int coordinate, int first, int last)
{
    if (coordinate < first || coordinate > last)
        return 0;
    return coordinate == first || coordinate == last ? 1 : 2;
}

double lu_surface_integral(const struct lu_domain *domain, const double *u)
{
    /* NPB's box, in coordinates from 0: neither centred nor the same along all axes. */
    const int first[AXES] = {1, 1, 2};
    const int last[AXES] = {domain->points - 2, domain->points - 3, domain->points - 2};
    double sum = 0;
    for (int z = first[Z]; z <= last[Z]; z++)
        for (int y = 0; y < domain->count[Y]; y++)
            for (int x = 0; x < domain->count[X]; x++) {
                const int at[AXES] = {domain->first[X] + x, domain->first[Y] + y, z};
                int weight[AXES], faces = 0;
                for (int axis = 0; axis < AXES; axis++)
                    weight[axis] = trapezoid(at[axis], first[axis], last[axis]);
                for (int axis = 0; axis < AXES; axis++)
                    if (at[axis] == first[axis] || at[axis] == last[axis])
                        faces += weight[(axis + 1) % AXES] * weight[(axis + 2) % AXES];
                const double *const point = u + lu_at(domain, x, y, z);
                const double momentum = point[1] * point[1] + point[2] * point[2] + point[3] * point[3];
                sum += faces * LU_C2 * (point[ENERGY] - 0.5 * momentum / point[DENSITY]);
            }
    communication_sum(&sum, 1);
    return 0.25 * sum / pow(domain->points - 1, 2);
}
