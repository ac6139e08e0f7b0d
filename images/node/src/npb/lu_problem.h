/* LU's synthetic problem: a solution that is known, the start it is sought from, and how far one is from it. */
#ifndef MPIBED_NPB_LU_PROBLEM_H
#define MPIBED_NPB_LU_PROBLEM_H

#include "npb/lu_domain.h"

/* The known solution at all points, ghosts included. */
void lu_solution(const struct lu_domain *domain, double *u);

/* The known solution on the boundary, and a blend of its six faces within. */
void lu_start(const struct lu_domain *domain, double *u);

/* The root mean square over all ranks of each part of v, within the boundary. */
void lu_norms(const struct lu_domain *domain, const double *v, double norms[PARTS]);

/* The same of u minus the known solution. */
void lu_errors(const struct lu_domain *domain, const double *u, double norms[PARTS]);

/* The integral of the pressure over the surface of a box in the cube. */
double lu_surface_integral(const struct lu_domain *domain, const double *u);

#endif
