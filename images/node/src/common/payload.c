#include "common/payload.h"

#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014): word i of a stream is mix(start + i * STEP), so words need no predecessor. */
static const uint64_t STEP = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t SEED = UINT64_C(0x6d70696265640001);

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t stream_start(struct payload_key key)
{
    uint64_t start = mix(SEED + (uint64_t)key.sender);
    start = mix(start + STEP + (uint64_t)key.message_bytes);
    return mix(start + STEP + (uint64_t)key.number);
}

void payload_fill(unsigned char *buffer, struct payload_key key)
{
    const size_t bytes = (size_t)key.message_bytes;
    uint64_t state = stream_start(key);
    size_t offset = 0;
    for (; offset + sizeof state <= bytes; offset += sizeof state, state += STEP) {
        const uint64_t word = mix(state);
        memcpy(buffer + offset, &word, sizeof word);
    }
    const uint64_t last = mix(state);
    memcpy(buffer + offset, &last, bytes - offset);
}

struct payload_difference payload_compare(const unsigned char *buffer, struct payload_key key)
{
    const size_t bytes = (size_t)key.message_bytes;
    uint64_t state = stream_start(key);
    for (size_t offset = 0; offset < bytes; offset += sizeof state, state += STEP) {
        const uint64_t word = mix(state);
        unsigned char expected[sizeof word];
        memcpy(expected, &word, sizeof word);
        const size_t left = bytes - offset < sizeof word ? bytes - offset : sizeof word;
        if (memcmp(buffer + offset, expected, left) == 0)
            continue;
        size_t i = 0;
        while (buffer[offset + i] == expected[i])
            i++;
        return (struct payload_difference){(int64_t)(offset + i), expected[i], buffer[offset + i]};
    }
    return (struct payload_difference){.offset = -1};
}

uint64_t payload_checksum(uint64_t start, const void *data, size_t bytes)
{
    const unsigned char *const byte = data;
    uint64_t sum = mix(start + STEP + bytes); /* the length counts, so that "a" "b" differs from "ab" */
    for (size_t i = 0; i < bytes; i++)
        sum = mix((sum ^ byte[i]) + STEP);
    return sum;
}
