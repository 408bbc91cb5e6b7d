/* SPDX-License-Identifier: MIT */
/*
 * Fuzz targets: fuzz_X.c reads any bytes as what a parser of ours gets, and says what must be
 * true of what comes out, whatever went in. Two things run a target: libFuzzer, which looks
 * for new inputs (scripts/fuzz), and replay.c, which goes through corpus/X and changes it at
 * random for a second (the test fuzz/X).
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include <dibs/engine.h>

/* What a target is: it returns 0, or does not return. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* broken says which property does not hold, and ends the process. */
_Noreturn void fuzz_broken(const char *file, int line, const char *what);
#define HOLDS(condition)                                                                 \
    do {                                                                                 \
        if (!(condition))                                                                \
            fuzz_broken(__FILE__, __LINE__, #condition);                                 \
    } while (0)

/* copy makes a copy in memory of just that size, so that a byte too far is seen; text adds a
 * NUL. For free(). */
void *fuzz_copy(const void *bytes, size_t len);
char *fuzz_text(const void *bytes, size_t len);

/* An input from which parts are taken. byte: 0 at the end. part: up to the next NUL, which is
 * skipped, and `most` bytes at most. */
struct input {
    const uint8_t *at;
    size_t left;
};
uint8_t fuzz_byte(struct input *input);
const char *fuzz_part(struct input *input, size_t most, size_t *len);

/* name: a part that is the name of a lock; 0, or -1: it is empty. */
int fuzz_name(struct input *input, const char **name, size_t *len);

/* same: the same bytes. */
int fuzz_same(const void *a, size_t a_len, const void *b, size_t b_len);

/* is_line: nothing in a text could move a cursor, or end the line. */
int fuzz_is_line(const char *text);

/* A sink that reads all it is told, and wants names before parties. */
struct counting_sink {
    dibs_sink sink;
    size_t locks, parties;
};
void fuzz_sink(struct counting_sink *sink);

#endif /* TEST_FUZZ_H */
