#include "npb/lu_operator.h"

void lu_primitive(const struct lu_domain *domain, const double *restrict u, double *restrict w)
{
    for (int64_t at = 0; at < domain->size; at += PARTS) {
        const double inverse = 1 / u[at + DENSITY];
        w[at] = inverse;
        for (int part = 1; part < PARTS; part++)
            w[at + part] = inverse * u[at + part];
    }
}

/* What flows through a point along an axis without friction. */
static inline void convection(int axis, const double *restrict u, const double *restrict w, double *restrict flux)
{
    const double speed = w[1 + axis];
    const double kinetic = 0.5 * (u[1] * w[1] + u[2] * w[2] + u[3] * w[3]);
    flux[0] = u[1 + axis];
    for (int part = 1; part < ENERGY; part++)
        flux[part] = u[part] * speed;
    flux[1 + axis] += LU_C2 * (u[ENERGY] - kinetic);
    flux[ENERGY] = (LU_C1 * u[ENERGY] - LU_C2 * kinetic) * speed;
}

static inline double squared_speed(const double *w) { return w[1] * w[1] + w[2] * w[2] + w[3] * w[3]; }

/* What friction moves between a point and the one after it; flux[0] is unused, as density has none. */
static inline void friction(int axis, double first, const double *restrict w, const double *restrict after,
                            double *restrict flux)
{
    for (int part = 1; part < ENERGY; part++)
        flux[part] = (part == 1 + axis ? 4.0 / 3 : 1.0) * first * (after[part] - w[part]);
    const double along = after[1 + axis] * after[1 + axis] - w[1 + axis] * w[1 + axis];
    flux[ENERGY] = first * (0.5 * (1 - LU_C1C5) * (squared_speed(after) - squared_speed(w)) + along / 6 +
                            LU_C1C5 * (after[ENERGY] - w[ENERGY]));
}

/* Along one line: `at` is the first point within the boundary, `index` its coordinate in the cube. */
static inline void add_line(const struct lu_domain *domain, int axis, int index, int64_t at, const double *restrict u,
                            const double *restrict w, double *restrict sum)
{
    const struct lu_axis weights = domain->axis[axis];
    const int64_t stride = domain->stride[axis];
    const int last = domain->points - 2;
    const int count = domain->end[axis] - domain->begin[axis];
    double flux[3][PARTS], drag[2][PARTS]; /* at the point before, here and after; before and after this point */
    convection(axis, u + at - stride, w + at - stride, flux[0]);
    convection(axis, u + at, w + at, flux[1]);
    friction(axis, weights.first, w + at - stride, w + at, drag[0]);
    for (int i = 0; i < count; i++, index++, at += stride) {
        convection(axis, u + at + stride, w + at + stride, flux[2]);
        friction(axis, weights.first, w + at, w + at + stride, drag[1]);
        /* Near the boundary the fourth difference leaves out what lies beyond, and next to it the boundary too. */
        const double before = index > 1 ? -4 : 0, far_before = index > 2 ? 1 : 0;
        const double after = index < last ? -4 : 0, far_after = index < last - 1 ? 1 : 0;
        const double here = index == 1 || index == last ? 5 : 6;
        const double *const point = u + at;
        const double *const beyond_before = point - (index > 2 ? 2 * stride : 0);
        const double *const beyond_after = point + (index < last - 1 ? 2 * stride : 0);
        for (int part = 0; part < PARTS; part++) {
            const double previous = point[part - stride], own = point[part], next = point[part + stride];
            double change = -weights.central * (flux[2][part] - flux[0][part]) +
                            weights.dissipation * weights.second * (previous - 2 * own + next) -
                            LU_DISSIPATION * (far_before * beyond_before[part] + before * previous + here * own +
                                              after * next + far_after * beyond_after[part]);
            if (part != DENSITY)
                change += weights.first * LU_VISCOSITY * (drag[1][part] - drag[0][part]);
            sum[at + part] += change;
        }
        for (int part = 0; part < PARTS; part++) {
            flux[0][part] = flux[1][part];
            flux[1][part] = flux[2][part];
            drag[0][part] = drag[1][part];
        }
    }
}

void lu_add_derivatives(const struct lu_domain *domain, const double *u, const double *w, double *sum)
{
    const int *const begin = domain->begin;
    const int *const end = domain->end;
    for (int z = begin[Z]; z < end[Z]; z++) {
        for (int y = begin[Y]; y < end[Y]; y++)
            add_line(domain, X, domain->first[X] + begin[X], lu_at(domain, begin[X], y, z), u, w, sum);
        for (int x = begin[X]; x < end[X]; x++)
            add_line(domain, Y, domain->first[Y] + begin[Y], lu_at(domain, x, begin[Y], z), u, w, sum);
    }
    for (int y = begin[Y]; y < end[Y]; y++)
        for (int x = begin[X]; x < end[X]; x++)
            add_line(domain, Z, begin[Z], lu_at(domain, x, y, begin[Z]), u, w, sum);
}
