/* SPDX-License-Identifier: MIT */
/* What the targets share. See fuzz.h. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
fuzz_broken(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

void *
fuzz_copy(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

char *
fuzz_text(const void *bytes, size_t len)
{
    char *text = malloc(len + 1);
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

uint8_t
fuzz_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

const char *
fuzz_part(struct input *input, size_t most, size_t *len)
{
    const char *part = (const char *)input->at;
    *len = input->left ? strnlen(part, input->left < most ? input->left : most) : 0;
    size_t skip = *len + (*len < input->left && part[*len] == '\0');
    input->at += skip;
    input->left -= skip;
    return part;
}

int
fuzz_name(struct input *input, const char **name, size_t *len)
{
    *name = fuzz_part(input, DIBS_NAME_MAX, len);
    return *len ? 0 : -1;
}

int
fuzz_same(const void *a, size_t a_len, const void *b, size_t b_len)
{
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

int
fuzz_is_line(const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            return 0;
    }
    return 1;
}

static int
count_lock(dibs_sink *sink, const char *name, size_t name_len, int mode, uint32_t limit)
{
    struct counting_sink *to = (struct counting_sink *)sink;
    char bytes[DIBS_NAME_MAX];
    HOLDS(name_len > 0 && name_len <= sizeof bytes);
    HOLDS(mode >= DIBS_EXCLUSIVE && mode <= DIBS_PERMITS);
    (void)limit;
    memcpy(bytes, name, name_len);
    to->locks++;
    return DIBS_OK;
}

static int
count_party(dibs_sink *sink, int waiting, const dibs_party *party)
{
    struct counting_sink *to = (struct counting_sink *)sink;
    HOLDS(to->locks > 0);
    HOLDS(waiting == 0 || waiting == 1);
    HOLDS(party->host && party->app && party->note);
    HOLDS(strlen(party->host) + strlen(party->app) + strlen(party->note) < SIZE_MAX);
    to->parties++;
    return DIBS_OK;
}

void
fuzz_sink(struct counting_sink *sink)
{
    *sink = (struct counting_sink){ .sink = { count_lock, count_party } };
}
