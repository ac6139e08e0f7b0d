#include "common/problem.h"

#include <stdarg.h>
#include <stdio.h>

void problem_set(struct problem *problem, const char *format, ...)
{
    if (problem_is_set(problem))
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(problem->text, sizeof problem->text, format, values);
    va_end(values);
}
