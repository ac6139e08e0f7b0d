#include "common/memory.h"

#include <inttypes.h>
#include <stdio.h>

/* The number in the first line of the file that matches `format`; INT64_MAX when there is none. */
static int64_t read_number(const char *path, const char *format)
{
    FILE *const file = fopen(path, "r");
    if (file == NULL)
        return INT64_MAX;
    int64_t number = INT64_MAX;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, format, &number) == 1)
            break;
    fclose(file);
    return number;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t memory_available_bytes(void)
{
    const int64_t kernel_kib = read_number("/proc/meminfo", "MemAvailable: %" SCNd64);
    const int64_t kernel = kernel_kib == INT64_MAX ? INT64_MAX : kernel_kib * 1024;
    /* Control groups, version 2 and 1. The limit itself, not what is left of it: used memory includes caches that the
     * kernel gives up on demand. An unlimited version 2 group says "max", which is no number. */
    const int64_t limit = least(read_number("/sys/fs/cgroup/memory.max", "%" SCNd64),
                                read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "%" SCNd64));
    return least(kernel, limit);
}
