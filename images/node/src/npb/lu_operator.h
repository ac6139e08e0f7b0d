/* The right-hand side of LU's differential equations. */
#ifndef MPIBED_NPB_LU_OPERATOR_H
#define MPIBED_NPB_LU_OPERATOR_H

#include "npb/lu_domain.h"

/* What is needed of u again and again, at each of its points, ghosts included: 1 / density, the velocities, and energy
 * over density. */
void lu_primitive(const struct lu_domain *domain, const double *u, double *w);

/* Adds the spatial derivatives of u to `sum`, within the boundary: convection, diffusion, and the dissipation of second
 * and fourth order. u must be right two ghosts deep. */
void lu_add_derivatives(const struct lu_domain *domain, const double *u, const double *w, double *sum);

#endif
