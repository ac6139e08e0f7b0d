#include "common/output.h"

#include <inttypes.h>

/* Bytes of the UTF-8 character that begins here; 0 if these bytes are none. */
static int character_bytes(const unsigned char *text)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; /* of so many bytes; less is an overlong form */
    const unsigned char lead = text[0];
    const int bytes = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xe ? 3 : lead >> 3 == 0x1e ? 4 : 0;
    if (bytes < 2)
        return bytes;
    uint32_t code = lead & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 0x2) /* also stops at the end of the text */
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    const int is_surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < smallest[bytes] || is_surrogate || code > 0x10ffff ? 0 : bytes;
}

static void write_string(FILE *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', to);
    while (*at != '\0') {
        const int bytes = character_bytes(at);
        if (bytes == 0)
            fputs("\\ufffd", to);
        else if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(to, "\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)bytes, to);
        at += bytes == 0 ? 1 : bytes;
    }
    fputc('"', to);
}

/* `before` holds the punctuation and the key, so that a record reads here as it does in the output. */
static void write_member(FILE *to, const char *before, const char *text)
{
    fputs(before, to);
    write_string(to, text);
}

void output_program(FILE *to, const struct program_facts *facts)
{
    write_member(to, "{\"program\": {\"name\": ", facts->name);
    fprintf(to, ", \"ranks\": %d", facts->ranks);
    write_member(to, ", \"clock\": ", facts->clock);
    fprintf(to, ", \"clock_resolution_s\": %.17g", facts->clock_resolution_s);
    write_member(to, ", \"mpi_library\": ", facts->mpi_library);
    write_member(to, ", \"mpi_standard\": ", facts->mpi_standard);
    write_member(to, ", \"compiler\": ", facts->compiler);
    for (int rank = 0; rank < facts->ranks; rank++)
        write_member(to, rank == 0 ? ", \"hostnames\": [" : ", ", facts->hostnames[rank]);
    fputs("]}}\n", to);
}

void output_observation(FILE *to, const struct observation *observation)
{
    write_member(to, "{\"metric\": ", observation->metric);
    fprintf(to, ", \"value\": %.17g", observation->value);
    write_member(to, ", \"unit\": ", observation->unit);
    write_member(to, ", \"phase\": ", observation->phase == PHASE_WARMUP ? "warmup" : "measure");
    fprintf(to, ", \"repetition\": %" PRId64, observation->repetition);
    if (observation->rank == ALL_RANKS)
        fputs(", \"rank\": \"all\"", to);
    else
        fprintf(to, ", \"rank\": %d", observation->rank);
    fprintf(to, ", \"operations\": %" PRId64, observation->operations);
    const struct swept_value *const end = observation->swept + sizeof observation->swept / sizeof observation->swept[0];
    for (const struct swept_value *swept = observation->swept; swept < end && swept->parameter != NULL; swept++) {
        write_member(to, ", ", swept->parameter);
        fprintf(to, ": %" PRId64, swept->value);
    }
    fputs("}\n", to);
}

void output_status(FILE *to, const char *check, const char *error)
{
    write_member(to, "{\"status\": ", error == NULL ? "ok" : "failed");
    write_member(to, ", \"check\": ", check);
    if (error != NULL)
        write_member(to, ", \"error\": ", error);
    fputs("}\n", to);
}
