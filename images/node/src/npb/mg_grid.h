/* One level of MG's grids: a cube of 2^level points a side, periodic, of which this rank has a box, wrapped in one
 * layer of ghost points. Points are numbered x fastest, from 1 in each direction; ghosts are 0 and points + 1. */
#ifndef MPIBED_NPB_MG_GRID_H
#define MPIBED_NPB_MG_GRID_H

#include <stdint.h>

enum { X, Y, Z, AXES };

struct mg_box {
    int points[AXES];
    int64_t line;  /* from one y to the next */
    int64_t plane; /* from one z to the next */
    int64_t size;  /* with ghosts */
};

struct mg_box mg_box(const int points[AXES]);

static inline int64_t mg_at(const struct mg_box *box, int x, int y, int z)
{
    return z * box->plane + y * box->line + x;
}

/* Of a stencil, the weights by how many coordinates of a neighbour differ: the point itself, faces, edges, corners. */
struct mg_stencil {
    double centre, face, edge, corner;
};

/* Doubles of scratch space that each of the following needs. */
static inline int64_t mg_scratch(const struct mg_box *box) { return 3 * box->line; }

/* r = v - A u with MG's operator A; v may be r. */
void mg_residual(const struct mg_box *box, const double *u, const double *v, double *r, double *scratch);

/* u += S r, where S has no corners. */
void mg_smooth(const struct mg_box *box, struct mg_stencil stencil, const double *r, double *u, double *scratch);

/* The residual on the next coarser level: full weighting. */
void mg_restrict(const struct mg_box *fine, const double *r, const struct mg_box *coarse, double *s, double *scratch);

/* u += the trilinear interpolation of z, ghosts included. z is the fine box's own part, which may lie in a larger
 * array: `coarse` gives the distances. */
void mg_interpolate(const struct mg_box *coarse, const double *z, const struct mg_box *fine, double *u,
                    double *scratch);

/* The sum of squares without ghosts. */
double mg_square(const struct mg_box *box, const double *values);

#endif
