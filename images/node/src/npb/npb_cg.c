/* CG, conjugate gradient: the smallest eigenvalue of a sparse random matrix by inverse iteration, each step of which
 * solves a system by 25 iterations of conjugate gradients (NAS RNR-94-007, section 2.2.3).
 *
 * Ranks form a grid of R rows and C columns, C = R or 2 R, that the matrix is cut along. Vectors are cut like the
 * matrix's columns, each part being held by all ranks of a grid column. A product takes three steps:
 *
 *     multiply      own block times own part of the vector: a share of the products of the block's rows
 *     add           the shares within a grid row, by swaps between ranks that are 1, 2 ... C/2 columns apart
 *     transpose     one swap, after which ranks hold the part of the product that belongs to their columns
 *
 * With C = 2 R two blocks side by side share rows that are the columns of two blocks; the first swap then gives each
 * rank only the half that it will have to pass on. */
#include "npb/cg_matrix.h"
#include "npb/communication.h"
#include "npb/kernel.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { SOLVER_ITERATIONS = 25 };
enum { MULTIPLY = TIMER_PHASE };
enum { ADD_TAG, TRANSPOSE_TAG, SUM_TAG };

struct size {
    char class;
    struct cg_shape shape;
    int iterations;
    double zeta; /* NPB 3.4, cg verification */
};

static const struct size sizes[] = {
    {'S', {1400, 7, 10}, 15, 8.5971775078648},   {'W', {7000, 8, 12}, 15, 10.362595087124},
    {'A', {14000, 11, 20}, 15, 17.130235054029}, {'B', {75000, 13, 60}, 75, 22.712745482631},
    {'P', {14000, 11, 20}, 15, 17.130235054029},
};

struct cg {
    const struct size *size;
    int rank;
    int grid_rows, grid_columns;
    int half_start, half; /* of the rows' sums, what this rank passes on: everything if the grid is square */
    int transpose_partner;
    bool filled;
    struct cg_vectors vectors;
    struct cg_scratch scratch;
    struct cg_block block;
    double *x, *z, *p, *q, *r; /* parts of vectors */
    double *sums, *received;   /* a number for each of the block's rows */
    double residual;           /* |x - A z|; NPB prints it */
    double zeta;
};

static void choose(void *state, const struct npb *npb, struct problem *problem)
{
    struct cg *const self = state;
    self->size = sizes;
    while (self->size->class != npb->class)
        self->size++;
    self->rank = npb->rank;
    const int exponent = npb_log2(npb->ranks);
    self->grid_rows = 1 << (exponent < 0 ? 0 : exponent / 2);
    self->grid_columns = npb->ranks / self->grid_rows;
    if (exponent < 0)
        problem_set(problem, "CG cannot run on %d ranks; allowed: 1, 2, 4, 8 and further powers of two", npb->ranks);
    if (self->grid_columns > self->size->shape.rows)
        problem_set(problem, "class %c has %d rows, too few for %d ranks; allowed: fewer ranks", npb->class,
                    self->size->shape.rows, npb->ranks);
    if (problem_is_set(problem))
        return;

    const int halves = self->grid_columns / self->grid_rows; /* parts that a block of rows is cut into */
    const int all = self->size->shape.rows;
    const int grid_row = npb->rank / self->grid_columns;
    const int grid_column = npb->rank % self->grid_columns;
    const int first_row = npb_first(all, grid_row, self->grid_rows);
    const int rows = npb_first(all, grid_row + 1, self->grid_rows) - first_row;
    const int above = npb_first(all, grid_column / halves, self->grid_rows); /* the rows that are our columns */
    const int length = npb_first(all, grid_column / halves + 1, self->grid_rows) - above;
    const int which = grid_column % halves;
    self->block = (struct cg_block){
        .first_row = first_row,
        .rows = rows,
        .first_column = above + npb_first(length, which, halves),
        .columns = npb_first(length, which + 1, halves) - npb_first(length, which, halves),
    };
    self->half_start = npb_first(rows, which, halves);
    self->half = npb_first(rows, which + 1, halves) - self->half_start;
    self->transpose_partner = grid_column / halves * self->grid_columns + halves * grid_row + which;
}

static void allocate(void *state, struct npb *npb)
{
    struct cg *const self = state;
    struct cg_block *const block = &self->block;
    const int64_t all = self->size->shape.rows;
    const int64_t entries = all * (self->size->shape.nonzeros + 1);
    self->vectors = (struct cg_vectors){.shape = self->size->shape,
                                        .count = npb_allocate(npb, all, sizeof(int)),
                                        .position = npb_allocate(npb, entries, sizeof(int)),
                                        .value = npb_doubles(npb, entries)};
    self->scratch = (struct cg_scratch){.users = npb_allocate(npb, entries, sizeof(int)),
                                        .user_start = npb_allocate(npb, all + 1, sizeof(int)),
                                        .seen = npb_allocate(npb, all, sizeof(int)),
                                        .sum = npb_doubles(npb, all)};
    double **const parts[] = {&self->x, &self->z, &self->p, &self->q, &self->r};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        *parts[i] = npb_doubles(npb, block->columns);
    self->sums = npb_doubles(npb, block->rows);
    self->received = npb_doubles(npb, block->rows);
    block->start = npb_allocate(npb, block->rows + 1, sizeof(int64_t));
    if (npb->out_of_memory)
        return;
    cg_draw(&self->vectors); /* the block's size follows from it */
    const int64_t limit = cg_count(&self->vectors, block);
    block->column = npb_allocate(npb, limit, sizeof(int));
    block->value = npb_doubles(npb, limit);
}

static int row_partner(const struct cg *self, int distance)
{
    const int grid_column = self->rank % self->grid_columns;
    return self->rank - grid_column + (grid_column ^ distance);
}

/* The sum over the parts of a vector, which the ranks of a grid row hold one each. Both partners add the same two
 * numbers, so all ranks end with the same bits. */
static double sum_parts(const struct cg *self, double own)
{
    for (int distance = 1; distance < self->grid_columns; distance *= 2) {
        const int partner = row_partner(self, distance);
        double other = 0;
        communication_exchange(&own, 1, partner, &other, 1, partner, SUM_TAG);
        own += other;
    }
    return own;
}

static double dot(const struct cg *self, const double *restrict a, const double *restrict b)
{
    double even = 0, odd = 0; /* two sums, since one would wait for itself */
    const int count = self->block.columns;
    for (int i = 0; i + 1 < count; i += 2) {
        even += a[i] * b[i];
        odd += a[i + 1] * b[i + 1];
    }
    if (count % 2 == 1)
        even += a[count - 1] * b[count - 1];
    return sum_parts(self, even + odd);
}

static void multiply_block(const struct cg_block *block, const double *restrict vector, double *restrict sums)
{
    const double *restrict value = block->value;
    const int *restrict column = block->column;
    for (int row = 0; row < block->rows; row++) {
        const int64_t end = block->start[row + 1];
        int64_t i = block->start[row];
        double a = 0, b = 0, c = 0, d = 0; /* four sums, since one would wait for itself */
        for (; i + 3 < end; i += 4) {
            a += value[i] * vector[column[i]];
            b += value[i + 1] * vector[column[i + 1]];
            c += value[i + 2] * vector[column[i + 2]];
            d += value[i + 3] * vector[column[i + 3]];
        }
        for (; i < end; i++)
            a += value[i] * vector[column[i]];
        sums[row] = (a + b) + (c + d);
    }
}

/* Adds what a partner has of `count` sums from `start` on, while giving it `give_count` from `give_start` on. */
static void swap_and_add(const struct cg *self, int partner, int give_start, int give_count, int start, int count)
{
    double *restrict sums = self->sums;
    const double *restrict received = self->received;
    communication_exchange(sums + give_start, give_count, partner, self->received, count, partner, ADD_TAG);
    for (int i = 0; i < count; i++)
        sums[start + i] += received[i];
}

/* product = A vector */
static void multiply(const struct cg *self, const double *vector, double *product)
{
    timer_start(MULTIPLY);
    multiply_block(&self->block, vector, self->sums);
    timer_stop(MULTIPLY);
    const bool halved = self->half < self->block.rows;
    if (halved)
        swap_and_add(self, row_partner(self, 1), self->half_start == 0 ? self->half : 0, self->block.rows - self->half,
                     self->half_start, self->half);
    for (int distance = halved ? 2 : 1; distance < self->grid_columns; distance *= 2)
        swap_and_add(self, row_partner(self, distance), self->half_start, self->half, self->half_start, self->half);
    if (self->transpose_partner == self->rank)
        memcpy(product, self->sums + self->half_start, (size_t)self->half * sizeof *product);
    else
        communication_exchange(self->sums + self->half_start, self->half, self->transpose_partner, product,
                               self->block.columns, self->transpose_partner, TRANSPOSE_TAG);
}

/* z = A^-1 x, nearly: the solver stops after a fixed number of iterations. */
static void solve(struct cg *self)
{
    const int count = self->block.columns;
    const double *restrict x = self->x;
    double *restrict z = self->z, *restrict p = self->p, *restrict q = self->q, *restrict r = self->r;
    const size_t bytes = (size_t)count * sizeof(double);
    memset(z, 0, bytes);
    memcpy(r, x, bytes);
    memcpy(p, x, bytes);
    double square = dot(self, r, r);
    for (int iteration = 0; iteration < SOLVER_ITERATIONS; iteration++) {
        multiply(self, p, q);
        const double step = square / dot(self, p, q);
        for (int i = 0; i < count; i++) {
            z[i] += step * p[i];
            r[i] -= step * q[i];
        }
        const double before = square;
        square = dot(self, r, r);
        const double turn = square / before;
        for (int i = 0; i < count; i++)
            p[i] = r[i] + turn * p[i];
    }
    multiply(self, z, r);
    for (int i = 0; i < count; i++)
        q[i] = x[i] - r[i];
    self->residual = sqrt(dot(self, q, q));
}

static void iterate(struct cg *self)
{
    solve(self);
    const double overlap = dot(self, self->x, self->z);
    const double scale = 1 / sqrt(dot(self, self->z, self->z));
    self->zeta = self->size->shape.shift + 1 / overlap;
    for (int i = 0; i < self->block.columns; i++)
        self->x[i] = scale * self->z[i];
}

static void start_over(struct cg *self)
{
    for (int i = 0; i < self->block.columns; i++)
        self->x[i] = 1;
}

static void prepare(void *state)
{
    struct cg *const self = state;
    if (!self->filled)
        cg_fill(&self->block, &self->vectors, self->scratch);
    self->filled = true;
    start_over(self);
    iterate(self);
    start_over(self);
}

static void run(void *state)
{
    struct cg *const self = state;
    for (int i = 0; i < self->size->iterations; i++)
        iterate(self);
}

static void verify(void *state, struct problem *problem)
{
    const struct cg *const self = state;
    npb_compare("zeta", self->zeta, self->size->zeta, 1e-10, problem);
}

static const char *check(const void *state)
{
    (void)state;
    return "verification: zeta within 1e-10 of NPB's";
}

/* NPB's count, of multiplications and additions (cg.f90, at the end of the program). */
static double operations(const void *state)
{
    const struct size *const size = ((const struct cg *)state)->size;
    const double entries = size->shape.nonzeros * (size->shape.nonzeros + 1.0);
    return 2.0 * size->iterations * size->shape.rows * (3 + entries + SOLVER_ITERATIONS * (5 + entries) + 3);
}

int main(int argc, char **argv)
{
    struct cg state = {0};
    return npb_main(argc, argv,
                    &(struct npb_kernel){.phases = {"multiply_time"},
                                         .choose = choose,
                                         .allocate = allocate,
                                         .prepare = prepare,
                                         .run = run,
                                         .verify = verify,
                                         .check = check,
                                         .operations = operations},
                    &state);
}
