/* What went wrong on this rank, as one sentence. Functions that can fail take a problem and fill it; program_agree()
 * makes the ranks end together when any of them has one. */
#ifndef MPIBED_COMMON_PROBLEM_H
#define MPIBED_COMMON_PROBLEM_H

#include <stdbool.h>

struct problem {
    char text[1024]; /* empty: no problem */
};

/* Describe the problem; the first description stays, since later ones tend to follow from it. */
__attribute__((format(printf, 2, 3))) void problem_set(struct problem *problem, const char *format, ...);

static inline bool problem_is_set(const struct problem *problem) { return problem->text[0] != '\0'; }

#endif
