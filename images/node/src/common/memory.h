/* How much memory a node has left, so that a program can refuse a size instead of being killed half-way: Linux grants
 * allocations that it cannot keep, and ends a process only when it touches the pages. */
#ifndef MPIBED_COMMON_MEMORY_H
#define MPIBED_COMMON_MEMORY_H

#include <stdint.h>

/* Bytes that all processes of this node together can still take: what the kernel has available, or the limit of the
 * container if that is less. INT64_MAX when neither can be read. */
int64_t memory_available_bytes(void);

#endif
