/* The matrices A and B, whose elements follow from their place alone, and the check of C = A B.
 *
 * Elements are whole numbers from -8 to 7, so every sum of up to 2^46 products is exact in a double, whatever the order
 * of summation. C is checked as R. Freivalds proposed (Probabilistic machines can use less running time, IFIP 1977):
 * for a vector x, C x = A (B x) in O(n^2), here in whole numbers without rounding. x has elements from 1 to 2^13, so
 * one wrong element in a row is always noticed, and several with a probability of at least 1 - 2^-13 a row. */
#ifndef MPIBED_MPIIO_MATRIX_H
#define MPIBED_MPIIO_MATRIX_H

#include "common/problem.h"

#include <stdbool.h>
#include <stdint.h>

enum matrix { MATRIX_A, MATRIX_B };

/* Fill `row` with a row of a matrix of that order. */
void matrix_fill_row(enum matrix matrix, int64_t row, int64_t order, double *elements);

struct rows { /* from first to end - 1 */
    int64_t first;
    int64_t end;
};

/* This rank's share of the rows of a matrix; the shares of all ranks are all rows. */
struct rows matrix_share(int64_t order, int rank, int ranks);

struct matrix_check {
    int64_t order;
    struct rows rows; /* of C that this rank looks at */
    int64_t *x;       /* order elements */
    int64_t *product; /* A (B x), order elements */
    double *row;      /* scratch, order elements */
};

/* For the rows of this rank; `number` chooses x. Collective over MPI_COMM_WORLD. */
void matrix_check_prepare(struct matrix_check *check, int64_t number);

/* Whether a row of C is right. */
void matrix_check_row(const struct matrix_check *check, int64_t row, const double *elements, struct problem *problem);

#endif
