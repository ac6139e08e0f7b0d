/* The part of LU's cube that a rank has, and the numbers of the scheme (NAS RNR-94-007, section 3).
 *
 * The cube has `points` a side, the outermost being its boundary. Ranks cut it in x and y; a rank's pencil has all of
 * z, and two layers of ghosts in x and y. Each point has five numbers, which lie together: density, three of momentum,
 * energy. Local coordinates begin at 0; x is fastest. */
#ifndef MPIBED_NPB_LU_DOMAIN_H
#define MPIBED_NPB_LU_DOMAIN_H

#include <stdint.h>

enum { X, Y, Z, AXES };
enum { DENSITY, ENERGY = 4, PARTS = 5 }; /* between them the momentum along X, Y, Z: 1 + axis */
enum { GHOSTS = 2 };

/* The fluid: ratio of specific heats and what follows from it, and the viscosity of the test problem. */
#define LU_C1 1.4
#define LU_C2 0.4
#define LU_VISCOSITY 0.1 /* c3 c4 */
#define LU_C1C5 (1.4 * 1.4)
#define LU_DISSIPATION 0.25 /* of fourth order: a quarter of the largest second-order one */

/* How derivatives along an axis are weighted, by powers of the points' distance. */
struct lu_axis {
    double second;      /* 1 / h^2 */
    double central;     /* 1 / 2h */
    double first;       /* 1 / h */
    double dissipation; /* of second order */
};

struct lu_domain {
    int points;
    int first[AXES];            /* the cube's coordinate of local 0 */
    int count[AXES];            /* without ghosts */
    int begin[AXES], end[AXES]; /* without the cube's boundary: begin <= coordinate < end */
    int before[2], after[2];    /* neighbouring ranks along X and Y, or MPI_PROC_NULL */
    int64_t stride[AXES];       /* in doubles */
    int64_t size;               /* doubles of a field */
    struct lu_axis axis[AXES];
};

static inline int64_t lu_at(const struct lu_domain *domain, int x, int y, int z)
{
    return (x + GHOSTS) * domain->stride[X] + (y + GHOSTS) * domain->stride[Y] + z * domain->stride[Z];
}

#endif
