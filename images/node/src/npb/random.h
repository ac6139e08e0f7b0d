/* The random numbers of NPB: x' = a x mod 2^46, of which x' 2^-46 is the uniform number (D. Bailey et al., "The NAS
 * Parallel Benchmarks", RNR-94-007, section 2.3).
 *
 * Products wrap at 2^64, of which 2^46 is a divisor, so the low 46 bits of an unsigned product are exact. */
#ifndef MPIBED_NPB_RANDOM_H
#define MPIBED_NPB_RANDOM_H

#include <stdint.h>

#define RANDOM_MULTIPLIER UINT64_C(1220703125) /* 5^13 */
#define RANDOM_MASK ((UINT64_C(1) << 46) - 1)

static inline uint64_t random_multiply(uint64_t a, uint64_t x) { return a * x & RANDOM_MASK; }

static inline double random_uniform(uint64_t x) { return (double)(int64_t)x * 0x1p-46; }

/* a^n: multiplying by it advances a sequence by n. */
static inline uint64_t random_power(uint64_t a, int64_t n)
{
    uint64_t power = 1;
    for (uint64_t square = a; n > 0; n >>= 1, square = random_multiply(square, square))
        if (n & 1)
            power = random_multiply(power, square);
    return power;
}

#endif
