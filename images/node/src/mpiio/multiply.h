/* C = A B of dense matrices in double precision: good enough that storage is not hidden behind the arithmetic. */
#ifndef MPIBED_MPIIO_MULTIPLY_H
#define MPIBED_MPIIO_MULTIPLY_H

#include <stddef.h>

/* Bytes of scratch memory that multiplying needs for so many columns of B. */
size_t multiply_scratch_bytes(size_t columns);

struct multiply {   /* all row by row without gaps */
    size_t rows;    /* of A and C */
    size_t depth;   /* columns of A, rows of B */
    size_t columns; /* of B and C */
    const double *a;
    const double *b;
    double *c;
    double *scratch; /* aligned to 64 B */
};

void multiply(const struct multiply *task);

#endif
