/* SPDX-License-Identifier: MIT */
/*
 * Statements are written with ?1 ?2 .. for their parameters; PostgreSQL wants $1 $2 .., and
 * MySQL a bare ? for each, in the order in which they stand.
 */
#include "sql/sql.h"

#include <ctype.h>
#include <string.h>

#define MARKS_MAX 32

/* where the quoted text that begins here ends; a doubled quote just begins another one */
static const char *
skip_quoted(const char *text)
{
    char quote = *text++;
    while (*text && *text != quote)
        text++;
    return *text ? text + 1 : text;
}

static int
is_mark(const char *text)
{
    return text[0] == '?' && isdigit((unsigned char)text[1]);
}

/* writes the mark that begins at `text`, and returns what follows it */
static const char *
put_mark(char **out, const char *text, char style, uint8_t *number)
{
    *number = 0;
    *(*out)++ = style;
    for (text++; isdigit((unsigned char)*text); text++) {
        *number = (uint8_t)(*number * 10 + (*text - '0'));
        if (style != '?')
            *(*out)++ = *text;
    }
    return text;
}

void
dibs__sql_marks(char *out, const char *text, char style, uint8_t order[32], size_t *count)
{
    size_t marks = 0;
    while (*text) {
        const char *from = text;
        uint8_t number;
        if (is_mark(text)) {
            text = put_mark(&out, text, style, &number);
            if (order && marks < MARKS_MAX)
                order[marks] = number;
            marks++;
            continue;
        }
        text = strchr("'\"`", *text) ? skip_quoted(text) : text + 1;
        memcpy(out, from, (size_t)(text - from));
        out += text - from;
    }
    *out = '\0';
    if (count)
        *count = marks;
}
