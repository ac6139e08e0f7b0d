/* Command lines of the form `--name value --name value`, read from a table that a program declares.
 *
 * Strict: anything unknown, missing, malformed, repeated or out of range is a problem that names the value found and
 * what is allowed. The value a target holds beforehand is its default. */
#ifndef MPIBED_COMMON_ARGUMENTS_H
#define MPIBED_COMMON_ARGUMENTS_H

#include "common/problem.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct integer_list { /* written 0,1,2 */
    size_t count;
    int64_t values[256];
};

enum argument_kind { ARGUMENT_INTEGER, ARGUMENT_NUMBER, ARGUMENT_INTEGERS, ARGUMENT_TEXT };

struct argument {
    const char *name; /* without the dashes */
    enum argument_kind kind;
    union {
        int64_t *integer;
        double *number;
        struct integer_list *integers;
        const char **text; /* points into argv afterwards */
    } target;
    double minimum; /* both inclusive, of each value in a list; a text has no bounds */
    double maximum;
    const char *help;
};

struct argument_table {
    const struct argument *rows;
    size_t count;
};

/* Set the targets. After a problem some may be set and some not. */
void arguments_parse(struct argument_table table, int argc, char *const *argv, struct problem *problem);

/* Whether --help is among the words. */
bool arguments_ask_for_help(int argc, char *const *argv);

/* Call before arguments_parse(), as it prints what the targets hold as defaults. */
void arguments_print_help(FILE *to, const char *program, struct argument_table table);

#endif
