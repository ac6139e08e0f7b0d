#include "mpiio/multiply.h"

#include <string.h>

/* Contraction to fused multiply-adds is allowed, and off by default in GCC's ISO mode; Clang has it on. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

/* A block of ROWS x LANES of C stays in registers while DEPTH steps are added to it: 6 x 8 fills the 16 registers of
 * AVX2. A slab of DEPTH rows of B is copied so that what a block reads of it lies together:
 *
 *     B, rows k..k+DEPTH      | 8 columns | 8 columns | ...      ->   scratch: DEPTH x 8, DEPTH x 8, ...
 */
enum { LANES = 8, ROWS = 6, DEPTH = 256 };

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(LANES * sizeof(double))));

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t slivers(size_t columns) { return (columns + LANES - 1) / LANES; }

size_t multiply_scratch_bytes(size_t columns) { return slivers(columns) * LANES * DEPTH * sizeof(double); }

static void pack(const struct multiply *task, size_t first, size_t depth)
{
    double *to = task->scratch;
    for (size_t column = 0; column < task->columns; column += LANES) {
        const size_t width = least(LANES, task->columns - column);
        for (size_t k = 0; k < depth; k++, to += LANES) {
            const double *const from = task->b + (first + k) * task->columns + column;
            for (size_t lane = 0; lane < LANES; lane++)
                to[lane] = lane < width ? from[lane] : 0;
        }
    }
}

/* Adds A[row.., first..] times one sliver of the slab to C. Beyond the last row, that row is computed again and not
 * stored, so that every block is a full one. */
static inline __attribute__((always_inline)) void block(const struct multiply *task, size_t row, size_t column,
                                                        size_t first, size_t depth)
{
    const size_t height = least(ROWS, task->rows - row);
    const size_t width = least(LANES, task->columns - column);
    const double *a[ROWS];
    lanes sum[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        a[i] = task->a + (row + least(i, height - 1)) * task->depth + first;
        sum[i] = (lanes){0};
    }
    const lanes *const b = (const lanes *)(const void *)(task->scratch + column * depth);
    for (size_t k = 0; k < depth; k++) {
        const lanes here = b[k];
        sum[0] += a[0][k] * here;
        sum[1] += a[1][k] * here;
        sum[2] += a[2][k] * here;
        sum[3] += a[3][k] * here;
        sum[4] += a[4][k] * here;
        sum[5] += a[5][k] * here;
    }
    for (size_t i = 0; i < height; i++) {
        double *const c = task->c + (row + i) * task->columns + column;
        for (size_t lane = 0; lane < width; lane++)
            c[lane] += sum[i][lane];
    }
}

static inline __attribute__((always_inline)) void slab(const struct multiply *task, size_t first, size_t depth)
{
    for (size_t column = 0; column < task->columns; column += LANES)
        for (size_t row = 0; row < task->rows; row += ROWS)
            block(task, row, column, first, depth);
}

typedef void slab_function(const struct multiply *task, size_t first, size_t depth);

static void slab_anywhere(const struct multiply *task, size_t first, size_t depth) { slab(task, first, depth); }

#if defined(__x86_64__)
/* The same for newer processors, chosen when the program runs: an image is built once for all. */
__attribute__((target("avx2,fma"))) static void slab_avx2(const struct multiply *task, size_t first, size_t depth)
{
    slab(task, first, depth);
}

__attribute__((target("avx512f,avx512vl,fma"))) static void slab_avx512(const struct multiply *task, size_t first,
                                                                        size_t depth)
{
    slab(task, first, depth);
}

static slab_function *fastest(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return slab_avx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? slab_avx2 : slab_anywhere;
}
#else
static slab_function *fastest(void) { return slab_anywhere; }
#endif

void multiply(const struct multiply *task)
{
    slab_function *const add_slab = fastest();
    memset(task->c, 0, task->rows * task->columns * sizeof *task->c);
    for (size_t first = 0; first < task->depth; first += DEPTH) {
        const size_t depth = least(DEPTH, task->depth - first);
        pack(task, first, depth);
        add_slab(task, first, depth);
    }
}
