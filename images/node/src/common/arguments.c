#include "common/arguments.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_LIMIT = sizeof((struct integer_list *)NULL)->values / sizeof(int64_t) };

static const char *a_kind(enum argument_kind kind)
{
    switch (kind) {
    case ARGUMENT_INTEGER:
        return "a whole number";
    case ARGUMENT_NUMBER:
        return "a number";
    case ARGUMENT_INTEGERS:
        return "comma-separated whole numbers";
    case ARGUMENT_TEXT:
        return "a text";
    }
    return "";
}

/* "a whole number from 1 to 64", valid until the next call. */
static const char *allowed(const struct argument *row)
{
    static char text[128];
    if (row->kind == ARGUMENT_TEXT)
        return a_kind(row->kind);
    snprintf(text, sizeof text, "%s from %.15g to %.15g", a_kind(row->kind), row->minimum, row->maximum);
    return text;
}

/* strtod() and strtoll() also take white space, a plus, hexadecimals, "inf" and "nan"; a command line does not. */
static bool begins_like_a_number(const char *word)
{
    const char *const digits = word + (word[0] == '-' ? 1 : 0);
    return isdigit((unsigned char)digits[0]) && tolower((unsigned char)digits[1]) != 'x';
}

static void refuse(const struct argument *row, const char *word, const char *why, struct problem *problem)
{
    problem_set(problem, "--%s: '%s' %s; allowed: %s", row->name, word, why, allowed(row));
}

static int64_t parse_integer(const struct argument *row, const char *word, struct problem *problem)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(word, &end, 10);
    if (!begins_like_a_number(word) || *end != '\0')
        refuse(row, word, "is not a whole number", problem);
    else if (errno == ERANGE || (double)value < row->minimum || (double)value > row->maximum)
        refuse(row, word, "is out of range", problem);
    return value;
}

static double parse_number(const struct argument *row, const char *word, struct problem *problem)
{
    char *end = NULL;
    const double value = strtod(word, &end);
    if (!begins_like_a_number(word) || *end != '\0')
        refuse(row, word, "is not a number", problem);
    else if (!isfinite(value) || value < row->minimum || value > row->maximum)
        refuse(row, word, "is out of range", problem);
    return value;
}

static void parse_list(const struct argument *row, const char *word, struct problem *problem)
{
    struct integer_list *const list = row->target.integers;
    list->count = 0;
    const char *item = word;
    while (!problem_is_set(problem)) {
        char digits[32];
        const size_t length = strcspn(item, ",");
        if (list->count == LIST_LIMIT) {
            problem_set(problem, "--%s has more than %d values; split the list", row->name, LIST_LIMIT);
        } else if (length >= sizeof digits) {
            refuse(row, item, "is out of range", problem);
        } else {
            memcpy(digits, item, length);
            digits[length] = '\0';
            list->values[list->count++] = parse_integer(row, digits, problem);
        }
        if (item[length] == '\0')
            return;
        item += length + 1;
    }
}

static void parse_value(const struct argument *row, const char *word, struct problem *problem)
{
    switch (row->kind) {
    case ARGUMENT_INTEGER:
        *row->target.integer = parse_integer(row, word, problem);
        break;
    case ARGUMENT_NUMBER:
        *row->target.number = parse_number(row, word, problem);
        break;
    case ARGUMENT_INTEGERS:
        parse_list(row, word, problem);
        break;
    case ARGUMENT_TEXT:
        *row->target.text = word;
        break;
    }
}

static const struct argument *find(struct argument_table table, const char *word, struct problem *problem)
{
    for (size_t i = 0; i < table.count; i++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, table.rows[i].name) == 0)
            return &table.rows[i];
    char known[512] = "";
    for (size_t i = 0, end = 0; i < table.count && end < sizeof known; i++)
        end += (size_t)snprintf(known + end, sizeof known - end, "%s--%s", i == 0 ? "" : ", ", table.rows[i].name);
    problem_set(problem, "'%s' is not an argument; allowed: %s", word, known);
    return NULL;
}

void arguments_parse(struct argument_table table, int argc, char *const *argv, struct problem *problem)
{
    for (int i = 1; i < argc; i += 2) {
        const struct argument *const row = find(table, argv[i], problem);
        if (row == NULL)
            return;
        for (int before = 1; before < i; before += 2)
            if (strcmp(argv[before], argv[i]) == 0)
                problem_set(problem, "--%s is given twice", row->name);
        if (i + 1 == argc)
            problem_set(problem, "--%s has no value; allowed: %s", row->name, allowed(row));
        if (problem_is_set(problem))
            return;
        parse_value(row, argv[i + 1], problem);
    }
}

bool arguments_ask_for_help(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

static void print_default(FILE *to, const struct argument *row)
{
    switch (row->kind) {
    case ARGUMENT_INTEGER:
        fprintf(to, "%" PRId64, *row->target.integer);
        break;
    case ARGUMENT_NUMBER:
        fprintf(to, "%.15g", *row->target.number);
        break;
    case ARGUMENT_INTEGERS:
        for (size_t i = 0; i < row->target.integers->count; i++)
            fprintf(to, "%s%" PRId64, i == 0 ? "" : ",", row->target.integers->values[i]);
        break;
    case ARGUMENT_TEXT:
        fputs(*row->target.text, to);
        break;
    }
}

void arguments_print_help(FILE *to, const char *program, struct argument_table table)
{
    fprintf(to, "usage: mpiexec -n RANKS %s [--name value]...\n", program);
    for (size_t i = 0; i < table.count; i++) {
        const struct argument *const row = &table.rows[i];
        fprintf(to, "  --%-14s %s\n%19s%s; default: ", row->name, row->help, "", allowed(row));
        print_default(to, row);
        fputc('\n', to);
    }
}
