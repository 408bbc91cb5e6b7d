/* SPDX-License-Identifier: MIT */
/* Names (core/name.c): printed they are one line, and tell all their bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "fuzz.h"

/* what a printed name was: the way back from \\ and \xHH */
static size_t
unprint(char *out, const char *text)
{
    size_t len = 0;
    while (*text) {
        unsigned byte = (unsigned char)*text++;
        if (byte == '\\' && *text == 'x') {
            int used = 0;
            HOLDS(sscanf(text, "x%2x%n", &byte, &used) == 1 && used == 3);
            text += used;
        } else if (byte == '\\') {
            HOLDS(*text++ == '\\');
        }
        out[len++] = (char)byte;
    }
    return len;
}

static void
check_print(const char *name, size_t len)
{
    size_t need = dibs_name_print(NULL, 0, name, len);
    char *text = malloc(need + 1), *back = malloc(need + 1);
    HOLDS(need <= 4 * len);
    HOLDS(dibs_name_print(text, need + 1, name, len) == need);
    HOLDS(strlen(text) == need && fuzz_is_line(text));
    HOLDS(fuzz_same(back, unprint(back, text), name, len));
    free(back);
    free(text);
}

/* less room: the beginning of it, and not a byte more */
static void
check_cut(const char *name, size_t len, size_t size)
{
    size_t need = dibs_name_print(NULL, 0, name, len);
    char *whole = malloc(need + 1), *cut = malloc(size ? size : 1);
    (void)dibs_name_print(whole, need + 1, name, len);
    HOLDS(dibs_name_print(cut, size, name, len) == need);
    if (size) {
        HOLDS(strlen(cut) < size);
        HOLDS(strncmp(whole, cut, strlen(cut)) == 0);
    }
    free(cut);
    free(whole);
}

static void
check_name(const char *name, size_t len)
{
    size_t found = 0;
    dibs_error err = { 0 };
    int rc = dibs__name_check(&found, name, len, "name", &err);
    int is_good = len > 0 && len <= DIBS_NAME_MAX && !memchr(name, '\0', len);
    if (len > 0)
        HOLDS(rc == (is_good ? DIBS_OK : DIBS_EINVAL) && (rc || found == len));
    HOLDS(dibs__hash(name, len) == dibs__hash(name, len));
}

static void
check_stripe(const char *key, size_t len, uint32_t stripes)
{
    char out[64];
    size_t size = len % sizeof out;
    if (dibs_stripe(out, size, "prefix", key, len, stripes, NULL) == DIBS_OK)
        HOLDS(strlen(out) < size && strncmp(out, "prefix#", 7) == 0 &&
              strtoul(out + 7, NULL, 10) < stripes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    size_t room = fuzz_byte(&input);
    char *name = fuzz_copy(input.at, input.left);
    size_t len = input.left;
    check_print(name, len);
    check_cut(name, len, room);
    if (len > 0)
        check_name(name, len);
    check_stripe(name, len, (uint32_t)room);
    free(name);
    return 0;
}
