/* A program that does with images/node/src/common what no benchmark does yet: it observes --value / --divisor under
 * the name --metric, after checking that a payload with any one byte changed is told from the right one. */
#include "common/payload.h"
#include "common/program.h"

#include <mpi.h>

static void check_payload(struct problem *problem)
{
    enum { LONGEST = 40 }; /* several words and every remainder */
    unsigned char buffer[LONGEST];
    for (int bytes = 0; bytes <= LONGEST; bytes++) {
        const struct payload_key key = {.sender = 3, .message_bytes = bytes, .number = 7};
        payload_fill(buffer, key);
        if (payload_compare(buffer, key).offset != -1)
            problem_set(problem, "a right payload of %d B is said to be wrong", bytes);
        for (int wrong = 0; wrong < bytes; wrong++) {
            const unsigned char right = buffer[wrong];
            buffer[wrong] ^= 0x80;
            const struct payload_difference difference = payload_compare(buffer, key);
            if (difference.offset != wrong || difference.expected != right || difference.found != buffer[wrong])
                problem_set(problem, "a wrong byte at offset %d of %d is not found", wrong, bytes);
            buffer[wrong] = right;
        }
    }
}

int main(int argc, char **argv)
{
    const char *metric = "ratio";
    double value = 1;
    double divisor = 1;
    const struct argument rows[] = {
        {"metric", ARGUMENT_TEXT, {.text = &metric}, 0, 0, "name of the metric"},
        {"value", ARGUMENT_NUMBER, {.number = &value}, -1e300, 1e300, "what is divided"},
        {"divisor", ARGUMENT_NUMBER, {.number = &divisor}, 0, 1e300, "by what"},
    };
    struct program program;
    program_begin(&program, argc, argv, (struct argument_table){rows, sizeof rows / sizeof *rows});
    struct problem problem = {0};
    check_payload(&problem);
    program_agree(&program, "payload", &problem);
    program_observe(&program, &(struct observation){.metric = metric,
                                                    .unit = "1",
                                                    .value = value / divisor,
                                                    .phase = PHASE_MEASURE,
                                                    .rank = ALL_RANKS,
                                                    .operations = 1});
    program_publish(&program);
    return program_end(&program, "payload: every wrong byte found");
}
