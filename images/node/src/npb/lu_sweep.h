/* The two triangular systems of LU's symmetric successive over-relaxation, solved point by point: the lower one from
 * the corner (0, 0, 0) on, the upper one back to it.
 *
 * A point needs the one before it along each axis, so a plane starts with the values of the neighbouring ranks and ends
 * by passing its own on: the ranks work as a pipeline over the planes. */
#ifndef MPIBED_NPB_LU_SWEEP_H
#define MPIBED_NPB_LU_SWEEP_H

#include "npb/lu_domain.h"

struct lu_sweep {
    const struct lu_domain *domain;
    double step;  /* of pseudo-time */
    double omega; /* of the over-relaxation */
    double *line; /* buffer for one face's line: 5 doubles for each y */
};

/* v becomes the solution of the lower system with the right-hand side step v. */
void lu_sweep_lower(const struct lu_sweep *sweep, const double *w, double *v);

/* v becomes the solution of the upper system with the diagonal times v on the right; u += relaxation v. */
void lu_sweep_upper(const struct lu_sweep *sweep, const double *w, double *v, double relaxation, double *u);

#endif
