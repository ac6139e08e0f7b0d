#include "npb/cg_matrix.h"

#include "npb/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(314159265)

static int width(const struct cg_vectors *vectors) { return vectors->shape.nonzeros + 1; }

static int find(const int *positions, int count, int position)
{
    int i = 0;
    while (i < count && positions[i] != position)
        i++;
    return i;
}

void cg_draw(struct cg_vectors *self)
{
    const int rows = self->shape.rows;
    int64_t power = 1; /* positions are drawn below the next power of two; those beyond the last row are dropped */
    while (power < rows)
        power *= 2;
    uint64_t x = random_multiply(RANDOM_MULTIPLIER, SEED);
    for (int vector = 0; vector < rows; vector++) {
        int *const positions = self->position + (int64_t)vector * width(self);
        double *const values = self->value + (int64_t)vector * width(self);
        int count = 0;
        while (count < self->shape.nonzeros) {
            x = random_multiply(RANDOM_MULTIPLIER, x);
            const double value = random_uniform(x);
            x = random_multiply(RANDOM_MULTIPLIER, x);
            const int position = (int)((double)power * random_uniform(x));
            if (position >= rows || find(positions, count, position) < count)
                continue;
            positions[count] = position;
            values[count++] = value;
        }
        const int diagonal = find(positions, count, vector);
        positions[diagonal] = vector;
        values[diagonal] = 0.5;
        self->count[vector] = diagonal == count ? count + 1 : count;
    }
}

static int count_within(const struct cg_vectors *vectors, int vector, int first, int length)
{
    const int *const positions = vectors->position + (int64_t)vector * width(vectors);
    int within = 0;
    for (int i = 0; i < vectors->count[vector]; i++)
        within += positions[i] >= first && positions[i] < first + length;
    return within;
}

int64_t cg_count(const struct cg_vectors *vectors, const struct cg_block *block)
{
    int64_t entries = 0;
    for (int vector = 0; vector < vectors->shape.rows; vector++)
        entries += (int64_t)count_within(vectors, vector, block->first_row, block->rows) *
                   count_within(vectors, vector, block->first_column, block->columns);
    return entries;
}

/* For each position, the indices of the entries that vectors have there, by rising vector. */
static void list_users(const struct cg_vectors *vectors, struct cg_scratch scratch)
{
    const int rows = vectors->shape.rows;
    memset(scratch.user_start, 0, ((size_t)rows + 1) * sizeof *scratch.user_start);
    for (int vector = 0; vector < rows; vector++)
        for (int i = 0; i < vectors->count[vector]; i++)
            scratch.user_start[vectors->position[vector * width(vectors) + i] + 1]++;
    for (int row = 0; row < rows; row++)
        scratch.user_start[row + 1] += scratch.user_start[row];
    for (int vector = rows - 1; vector >= 0; vector--)
        for (int i = 0; i < vectors->count[vector]; i++) {
            const int entry = vector * width(vectors) + i;
            scratch.users[--scratch.user_start[vectors->position[entry] + 1]] = entry;
        }
    /* Each start has moved one place to the right by now. */
    memmove(scratch.user_start, scratch.user_start + 1, (size_t)rows * sizeof *scratch.user_start);
    scratch.user_start[rows] = 0;
    for (int vector = 0; vector < rows; vector++)
        scratch.user_start[rows] += vectors->count[vector];
}

static int rising(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

void cg_fill(struct cg_block *block, const struct cg_vectors *vectors, struct cg_scratch scratch)
{
    const struct cg_shape shape = vectors->shape;
    list_users(vectors, scratch);
    for (int i = 0; i < block->columns; i++)
        scratch.seen[i] = -1;
    int64_t entries = 0;
    for (int local = 0; local < block->rows; local++) {
        const int row = block->first_row + local;
        block->start[local] = entries;
        for (int i = scratch.user_start[row]; i < scratch.user_start[row + 1]; i++) {
            const int vector = scratch.users[i] / width(vectors);
            const double weight = pow(CG_SMALLEST, (double)vector / shape.rows) * vectors->value[scratch.users[i]];
            for (int j = vector * width(vectors); j < vector * width(vectors) + vectors->count[vector]; j++) {
                const int column = vectors->position[j] - block->first_column;
                if (column < 0 || column >= block->columns)
                    continue;
                if (scratch.seen[column] != row) {
                    scratch.seen[column] = row;
                    scratch.sum[column] = 0;
                    block->column[entries++] = column;
                }
                scratch.sum[column] += weight * vectors->value[j];
                if (vector == row && vectors->position[j] == row)
                    scratch.sum[column] += CG_SMALLEST - shape.shift;
            }
        }
        qsort(block->column + block->start[local], (size_t)(entries - block->start[local]), sizeof(int), rising);
        for (int64_t i = block->start[local]; i < entries; i++)
            block->value[i] = scratch.sum[block->column[i]];
    }
    block->start[block->rows] = entries;
}
