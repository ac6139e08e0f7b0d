/* What messages carry, and how a receiver knows that it got exactly that.
 *
 * The bytes follow from a key and the offset alone, so the receiver computes what it should have got and nothing has to
 * be sent along. All ranks must have the same byte order. */
#ifndef MPIBED_COMMON_PAYLOAD_H
#define MPIBED_COMMON_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

/* Names one message of a run. Messages with different keys have different contents, so a stale, misplaced or repeated
 * message is noticed like a damaged one. */
struct payload_key {
    int sender;
    int64_t message_bytes;
    int64_t number; /* which of the sender's messages of that size */
};

struct payload_difference {
    int64_t offset; /* of the first wrong byte; -1 when every byte is right */
    unsigned char expected;
    unsigned char found;
};

void payload_fill(unsigned char *buffer, struct payload_key key);

/* Compares every byte of a message with what `key` says it should be. */
struct payload_difference payload_compare(const unsigned char *buffer, struct payload_key key);

/* 64 bits that differ for different data with high probability; chain calls by passing the last result as `start`. */
uint64_t payload_checksum(uint64_t start, const void *data, size_t bytes);

#endif
