/* SPDX-License-Identifier: MIT */
/* Escaped text (util/escape.h): there and back, and only one way to write each text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "util/escape.h"

static int
is_slash(unsigned char byte)
{
    return byte == '/';
}

static int
is_no_word(unsigned char byte)
{
    return byte <= ' ' || byte > '~';
}

static int
is_any(unsigned char byte)
{
    (void)byte;
    return 1;
}

static escape_needs *const all[] = { is_slash, is_no_word, is_any };

/* any bytes: written, in just enough room, and read back; also in place */
static void
check_there_and_back(const char *bytes, size_t len, escape_needs *needs)
{
    char *room = malloc(3 * len + 1);
    size_t wrote = 77, again = 77, back = 77;
    HOLDS(escape(room, 3 * len, &wrote, bytes, len, needs) == 0 && wrote <= 3 * len);
    char *tight = malloc(wrote + 1);
    HOLDS(escape(tight, wrote, &again, bytes, len, needs) == 0 && again == wrote);
    again = 77;
    if (wrote > 0)
        HOLDS(escape(tight, wrote - 1, &again, bytes, len, needs) != 0 && again == 77);
    HOLDS(unescape(room, len, &back, room, wrote, needs) == 0);
    HOLDS(fuzz_same(room, back, bytes, len));
    free(tight);
    free(room);
}

/* any text: if it is one that escape writes, escape writes just that */
static void
check_one_way(const char *text, size_t len, escape_needs *needs)
{
    char *plain = malloc(len + 1), *back = malloc(3 * len + 1);
    size_t got = 77, again = 77;
    if (unescape(plain, len, &got, text, len, needs) == 0) {
        HOLDS(got <= len);
        HOLDS(escape(back, 3 * len, &again, plain, got, needs) == 0);
        HOLDS(fuzz_same(back, again, text, len));
    } else {
        HOLDS(got == 77);
    }
    free(back);
    free(plain);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_there_and_back(bytes, size, all[i]);
        check_one_way(bytes, size, all[i]);
    }
    free(bytes);
    return 0;
}
