/* SPDX-License-Identifier: MIT */
/*
 * Requests as they are written: text that grows. A tree of JSON values would be built only
 * to be printed, and takes an allocation for every field of it.
 */
#include "http/http.h"

#include <stdlib.h>
#include <string.h>

#include "util/digits.h"

#define ROOM_FIRST 256

struct http_text {
    char *bytes; /* NUL-terminated, if there are any */
    size_t len, room;
    int is_lacking; /* something could not be added */
};

http_text *
dibs__http_text_new(void)
{
    return calloc(1, sizeof(http_text));
}

void
dibs__http_text_free(http_text *text)
{
    if (text)
        free(text->bytes);
    free(text);
}

/* Where `len` bytes and a NUL can be written; NULL: out of memory, now or before. */
static char *
make_room(http_text *text, size_t len)
{
    if (!text || text->is_lacking)
        return NULL;
    if (text->room - text->len > len)
        return text->bytes + text->len;
    size_t room = text->room ? text->room : ROOM_FIRST;
    while (room - text->len <= len)
        room *= 2;
    char *bytes = realloc(text->bytes, room);
    text->is_lacking = !bytes;
    if (!bytes)
        return NULL;
    text->bytes = bytes;
    text->room = room;
    return bytes + text->len;
}

void
dibs__http_text_bytes(http_text *text, const char *bytes, size_t len)
{
    char *to = make_room(text, len);
    if (!to)
        return;
    memcpy(to, bytes, len);
    to[len] = '\0';
    text->len += len;
}

void
dibs__http_text_add(http_text *text, const char *words)
{
    dibs__http_text_bytes(text, words, strlen(words));
}

static int
is_plain(char byte)
{
    return byte != '"' && byte != '\\' && (unsigned char)byte >= 0x20;
}

static void
add_escaped(http_text *text, char byte)
{
    static const char hex[] = "0123456789abcdef";
    const char escaped[] = { '\\', 'u', '0', '0', hex[byte >> 4 & 15], hex[byte & 15] };
    dibs__http_text_bytes(text, escaped, sizeof escaped);
}

void
dibs__http_text_string(http_text *text, const char *words, size_t len)
{
    dibs__http_text_add(text, "\"");
    for (size_t at = 0; at < len; at++) {
        size_t plain = at;
        while (plain < len && is_plain(words[plain]))
            plain++;
        dibs__http_text_bytes(text, words + at, plain - at);
        if (plain < len)
            add_escaped(text, words[plain]);
        at = plain;
    }
    dibs__http_text_add(text, "\"");
}

void
dibs__http_text_base64(http_text *text, const void *bytes, size_t len)
{
    dibs__http_text_add(text, "\"");
    char *to = make_room(text, HTTP_BASE64_SIZE(len));
    if (to)
        text->len += dibs__http_base64(to, bytes, len);
    dibs__http_text_add(text, "\"");
}

void
dibs__http_text_number(http_text *text, uint64_t number)
{
    char digits[DIGITS_MAX];
    dibs__http_text_bytes(text, digits, put_digits(digits, number));
}

void
dibs__http_text_move(http_text *text, http_text *from)
{
    if (text && (!from || from->is_lacking))
        text->is_lacking = 1;
    else if (from && from->len)
        dibs__http_text_bytes(text, from->bytes, from->len);
    dibs__http_text_free(from);
}

const char *
dibs__http_text_get(const http_text *text, size_t *len)
{
    if (!text || text->is_lacking)
        return NULL;
    *len = text->len;
    return text->bytes ? text->bytes : "";
}
