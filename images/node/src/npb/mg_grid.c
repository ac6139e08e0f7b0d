#include "npb/mg_grid.h"

#include <string.h>

/* NAS RNR-94-007, section 2.2.2: A; the weight of its faces is 0. */
static const struct mg_stencil laplacian = {-8.0 / 3, 0, 1.0 / 6, 1.0 / 12};

struct mg_box mg_box(const int points[AXES])
{
    struct mg_box box = {.points = {points[X], points[Y], points[Z]}, .line = points[X] + 2};
    box.plane = box.line * (points[Y] + 2);
    box.size = box.plane * (points[Z] + 2);
    return box;
}

/* Of each point of a line and its two ghosts, the sums of the four neighbours in y or z, and of the four in y and z.
 * With them a stencil of 27 points costs a dozen additions a point instead of 26. */
static void add_around(const struct mg_box *box, const double *restrict at, double *restrict sides,
                       double *restrict diagonals)
{
    const int64_t line = box->line, plane = box->plane;
    for (int64_t x = 0; x < line; x++) {
        sides[x] = at[x - line] + at[x + line] + at[x - plane] + at[x + plane];
        diagonals[x] = at[x - plane - line] + at[x - plane + line] + at[x + plane - line] + at[x + plane + line];
    }
}

static void residual_line(int points, const double *restrict u, const double *restrict v, const double *restrict sides,
                          const double *restrict diagonals, double *restrict r)
{
    for (int x = 1; x <= points; x++)
        r[x] = v[x] - laplacian.centre * u[x] - laplacian.edge * (diagonals[x] + sides[x - 1] + sides[x + 1]) -
               laplacian.corner * (diagonals[x - 1] + diagonals[x + 1]);
}

void mg_residual(const struct mg_box *box, const double *u, const double *v, double *r, double *scratch)
{
    double *const sides = scratch, *const diagonals = scratch + box->line, *const right = scratch + 2 * box->line;
    for (int z = 1; z <= box->points[Z]; z++)
        for (int y = 1; y <= box->points[Y]; y++) {
            const int64_t at = mg_at(box, 0, y, z);
            add_around(box, u + at, sides, diagonals);
            memcpy(right, v + at, (size_t)box->line * sizeof *right); /* so that nothing overlaps r */
            residual_line(box->points[X], u + at, right, sides, diagonals, r + at);
        }
}

static void smooth_line(int points, struct mg_stencil weight, const double *restrict r, const double *restrict sides,
                        const double *restrict diagonals, double *restrict u)
{
    for (int x = 1; x <= points; x++)
        u[x] += weight.centre * r[x] + weight.face * (r[x - 1] + r[x + 1] + sides[x]) +
                weight.edge * (diagonals[x] + sides[x - 1] + sides[x + 1]);
}

void mg_smooth(const struct mg_box *box, struct mg_stencil stencil, const double *r, double *u, double *scratch)
{
    double *const sides = scratch, *const diagonals = scratch + box->line;
    for (int z = 1; z <= box->points[Z]; z++)
        for (int y = 1; y <= box->points[Y]; y++) {
            const int64_t at = mg_at(box, 0, y, z);
            add_around(box, r + at, sides, diagonals);
            smooth_line(box->points[X], stencil, r + at, sides, diagonals, u + at);
        }
}

void mg_restrict(const struct mg_box *fine, const double *r, const struct mg_box *coarse, double *s, double *scratch)
{
    double *const sides = scratch, *const diagonals = scratch + fine->line;
    for (int z = 1; z <= coarse->points[Z]; z++)
        for (int y = 1; y <= coarse->points[Y]; y++) {
            const double *const from = r + mg_at(fine, 0, 2 * y, 2 * z);
            double *const to = s + mg_at(coarse, 0, y, z);
            add_around(fine, from, sides, diagonals);
            for (int x = 1; x <= coarse->points[X]; x++) {
                const int at = 2 * x;
                to[x] = 0.5 * from[at] + 0.25 * (from[at - 1] + from[at + 1] + sides[at]) +
                        0.125 * (sides[at - 1] + sides[at + 1] + diagonals[at]) +
                        0.0625 * (diagonals[at - 1] + diagonals[at + 1]);
            }
        }
}

/* weight z at the coarse points of a fine line, and the mean of the two next to it between them. */
static void spread(int points, double weight, const double *restrict z, double *restrict u)
{
    for (int x = 0; x <= points; x++) {
        u[2 * x] += weight * z[x];
        u[2 * x + 1] += 0.5 * weight * (z[x] + z[x + 1]);
    }
}

void mg_interpolate(const struct mg_box *coarse, const double *z, const struct mg_box *fine, double *u, double *scratch)
{
    const int points = fine->points[X] / 2;
    const int64_t line = coarse->line, plane = coarse->plane;
    double *restrict const y_sum = scratch, *restrict const z_sum = y_sum + points + 2,
                           *restrict const sum = z_sum + points + 2;
    for (int k = 0; k <= fine->points[Z] / 2; k++)
        for (int j = 0; j <= fine->points[Y] / 2; j++) {
            const double *restrict const from = z + mg_at(coarse, 0, j, k);
            for (int x = 0; x <= points + 1; x++) {
                y_sum[x] = from[x] + from[x + line];
                z_sum[x] = from[x] + from[x + plane];
                sum[x] = y_sum[x] + from[x + plane] + from[x + plane + line];
            }
            spread(points, 1, from, u + mg_at(fine, 0, 2 * j, 2 * k));
            spread(points, 0.5, y_sum, u + mg_at(fine, 0, 2 * j + 1, 2 * k));
            spread(points, 0.5, z_sum, u + mg_at(fine, 0, 2 * j, 2 * k + 1));
            spread(points, 0.25, sum, u + mg_at(fine, 0, 2 * j + 1, 2 * k + 1));
        }
}

double mg_square(const struct mg_box *box, const double *values)
{
    double square = 0;
    for (int z = 1; z <= box->points[Z]; z++)
        for (int y = 1; y <= box->points[Y]; y++)
            for (int x = 1; x <= box->points[X]; x++) {
                const double value = values[mg_at(box, x, y, z)];
                square += value * value;
            }
    return square;
}
