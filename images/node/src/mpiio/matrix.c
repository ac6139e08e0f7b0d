#include "mpiio/matrix.h"

#include <inttypes.h>
#include <mpi.h>
#include <string.h>

enum { X_VALUES = 1 << 13 };

/* SplitMix64's finaliser (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void matrix_fill_row(enum matrix matrix, int64_t row, int64_t order, double *elements)
{
    const uint64_t start = mix(((uint64_t)row << 1 | (uint64_t)matrix) + UINT64_C(0x9e3779b97f4a7c15));
    for (int64_t column = 0; column < order; column++)
        elements[column] = (double)(mix(start + (uint64_t)column) >> 60) - 8;
}

struct rows matrix_share(int64_t order, int rank, int ranks)
{
    return (struct rows){order * rank / ranks, order * (rank + 1) / ranks};
}

/* result[rows of this rank] = matrix * vector, then those of all ranks. */
static void multiply_vector(const struct matrix_check *check, enum matrix matrix, const int64_t *vector,
                            int64_t *result)
{
    memset(result, 0, (size_t)check->order * sizeof *result);
    for (int64_t row = check->rows.first; row < check->rows.end; row++) {
        matrix_fill_row(matrix, row, check->order, check->row);
        for (int64_t column = 0; column < check->order; column++)
            result[row] += (int64_t)check->row[column] * vector[column];
    }
    MPI_Allreduce(MPI_IN_PLACE, result, (int)check->order, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void fill_x(struct matrix_check *check, int64_t number)
{
    const uint64_t start = mix((uint64_t)number + 1);
    for (int64_t i = 0; i < check->order; i++)
        check->x[i] = 1 + (int64_t)(mix(start + (uint64_t)i) % X_VALUES);
}

void matrix_check_prepare(struct matrix_check *check, int64_t number)
{
    fill_x(check, number);
    multiply_vector(check, MATRIX_B, check->x, check->product);
    memcpy(check->x, check->product, (size_t)check->order * sizeof *check->x);
    multiply_vector(check, MATRIX_A, check->x, check->product);
    fill_x(check, number);
}

void matrix_check_row(const struct matrix_check *check, int64_t row, const double *elements, struct problem *problem)
{
    const double largest = 64.0 * (double)check->order; /* of any sum of products; also keeps NaN out below */
    int64_t sum = 0;
    for (int64_t column = 0; column < check->order; column++) {
        const double element = elements[column];
        if (!(element >= -largest && element <= largest) || element != (double)(int64_t)element) {
            problem_set(problem, "C[%" PRId64 "][%" PRId64 "] is %g, which no sum of these products is", row, column,
                        element);
            return;
        }
        sum += (int64_t)element * check->x[column];
    }
    if (sum != check->product[row])
        problem_set(problem, "row %" PRId64 " of C is wrong: (C x) is %" PRId64 ", (A (B x)) is %" PRId64, row, sum,
                    check->product[row]);
}
