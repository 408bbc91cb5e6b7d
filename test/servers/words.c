/* SPDX-License-Identifier: MIT */
/* The words of a command that starts a server. See parts.h. */
#include <stdarg.h>
#include <unistd.h>

#include "parts.h"

void
word_add(struct words *to, const char *word)
{
    CHECK(to->count < WORDS_MAX);
    to->list[to->count++] = word;
}

void
word_pair(struct words *to, const char *option, const char *value)
{
    word_add(to, option);
    word_add(to, value);
}

void
word_list(struct words *to, const char *const *list)
{
    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        word_add(to, list[i]);
    }
}

const char *
word_make(struct words *in, const char *format, ...)
{
    CHECK(in->made_count < WORDS_MADE_MAX);
    char *text = in->made[in->made_count++];
    va_list args;
    va_start(args, format);
    CHECK(vsnprintf(text, sizeof(in->made[0]), format, args) < (int)sizeof(in->made[0]));
    va_end(args);
    return text;
}

/* those who are not root may not have this on their path */
const char *
word_daemon(struct words *in, const char *name)
{
    const char *path = word_make(in, "/usr/sbin/%s", name);
    return access(path, X_OK) == 0 ? path : name;
}
