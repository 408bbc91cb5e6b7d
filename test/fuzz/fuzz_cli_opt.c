/* SPDX-License-Identifier: MIT */
/* Command lines (cli/opt.c): every one is understood or refused, and nothing that is set is out
 * of bounds. An input is the words, each ended by a NUL; the first one chooses the verb. What
 * is said about it goes nowhere. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "opt.h"

#define WORDS_MAX 40

/* the streams, not the descriptors: a report of a sanitizer is still seen */
static void
hush(void)
{
    static int is_hushed;
    if (!is_hushed++) {
        stdout = fopen("/dev/null", "we");
        stderr = fopen("/dev/null", "we");
    }
}

static void
check_options(const struct options *options, int first, int count)
{
    HOLDS(options->verb && first >= 1 && first <= count);
    HOLDS(options->wait_ms == DIBS_WAIT_FOREVER || options->wait_ms == DIBS_WAIT_NONE ||
          options->wait_ms > 0);
    HOLDS(options->mode >= DIBS_EXCLUSIVE && options->mode <= DIBS_PERMITS);
    HOLDS(options->mode != DIBS_PERMITS || options->slots > 0);
    HOLDS(options->busy_exit >= -1 && options->busy_exit <= 255);
    HOLDS(options->on_lost <= ON_LOST_IGNORE);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    char *words[WORDS_MAX + 1];
    int count = 1, first = -1;
    struct options options;
    hush();
    const char *verb = verbs[fuzz_byte(&input) % verb_count].name;
    words[0] = fuzz_text(verb, strlen(verb));
    while (input.left && count < WORDS_MAX) {
        size_t len;
        const char *word = fuzz_part(&input, 4000, &len);
        words[count++] = fuzz_text(word, len);
    }
    words[count] = NULL;
    int end = opt_parse(&options, &first, count, words);
    HOLDS(end == -1 || end == 0 || end == 64 || end == 78);
    if (end < 0)
        check_options(&options, first, count);
    for (int i = 0; i < count; i++)
        free(words[i]);
    return 0;
}
