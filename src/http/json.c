/* SPDX-License-Identifier: MIT */
/*
 * JSON that has larger integers than jansson, which would refuse all of it: Consul's flags
 * are unsigned numbers of 64 bits. Those are read as strings.
 */
#include "http/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)
#define LARGE 19 /* digits, from which on a number may not fit */

/* How many bytes at `at` are an integer that does not fit; 0: none are. */
static size_t
large_integer(const char *at)
{
    size_t sign = *at == '-';
    size_t len = sign + strspn(at + sign, "0123456789");
    if (len < LARGE || (at[len] && strchr(".eE", at[len])))
        return 0;
    errno = 0;
    (void)strtoll(at, NULL, 10);
    return errno == ERANGE ? len : 0;
}

/* How many bytes at `at` belong together: a string, a number or a single character. */
static size_t
piece(const char *at, const char *end)
{
    size_t len = strspn(at, "+-.0123456789eE");
    if (*at != '"')
        return len > 0 ? len : 1;
    for (len = 1; at + len < end && at[len] != '"'; len++)
        len += at[len] == '\\' && at + len + 1 < end;
    return at + len < end ? len + 1 : len;
}

static size_t
quote(char *out, const char *text, size_t len)
{
    char *to = out;
    for (const char *at = text, *end = text + len; at < end;) {
        size_t part = piece(at, end);
        int is_large = large_integer(at) > 0;
        if (is_large)
            *to++ = '"';
        memcpy(to, at, part);
        to += part;
        at += part;
        if (is_large)
            *to++ = '"';
    }
    return (size_t)(to - out);
}

json_t *
dibs__http_json(const char *text, size_t len)
{
    json_error_t error;
    json_t *json = json_loadb(text, len, FLAGS, &error);
    if (json || json_error_code(&error) != json_error_numeric_overflow)
        return json;
    char *quoted = malloc(len + 2 * (len / LARGE) + 1);
    if (!quoted)
        return NULL;
    json = json_loadb(quoted, quote(quoted, text, len), FLAGS, NULL);
    free(quoted);
    return json;
}
