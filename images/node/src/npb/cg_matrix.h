/* The matrix of CG, as NPB makes it: n rank-one matrices of sparse random vectors, added with weights that fall from 1
 * to CG_SMALLEST, plus (CG_SMALLEST - shift) I (NAS RNR-94-007, section 2.2.3: MAKEA). */
#ifndef MPIBED_NPB_CG_MATRIX_H
#define MPIBED_NPB_CG_MATRIX_H

#include <stdint.h>

#define CG_SMALLEST 0.1

struct cg_shape {
    int rows;     /* of the whole matrix, and its columns */
    int nonzeros; /* drawn for each vector; its diagonal position may come on top */
    double shift;
};

/* What the whole matrix is made of. Vector v has the entries from v (nonzeros + 1) on, count[v] of them. */
struct cg_vectors {
    struct cg_shape shape;
    int *count;
    int *position;
    double *value;
};

/* A block of the matrix, row by row; columns are counted from the block's first and rise within a row. */
struct cg_block {
    int first_row, rows;
    int first_column, columns;
    int64_t *start; /* rows + 1 */
    int *column;
    double *value;
};

/* Draw the vectors: the same on all ranks. */
void cg_draw(struct cg_vectors *vectors);

/* No block has more entries than this. */
int64_t cg_count(const struct cg_vectors *vectors, const struct cg_block *block);

/* Fill in the arrays of a block. `users` has room for one number for each entry of each vector, `user_start` and `seen`
 * for one more than the matrix has rows, `sum` for a row. */
struct cg_scratch {
    int *users;
    int *user_start;
    int *seen;
    double *sum;
};
void cg_fill(struct cg_block *block, const struct cg_vectors *vectors, struct cg_scratch scratch);

#endif
