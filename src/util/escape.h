/* SPDX-License-Identifier: MIT */
/* Text in which some bytes may not stand as they are: those, and '%', are written as '%' and
 * two capital hexadecimal digits. There is one way to write a text, and what encoding would
 * not make is refused, so different texts stay different. In a header, so that modules have
 * it too. */
#ifndef DIBS_UTIL_ESCAPE_H
#define DIBS_UTIL_ESCAPE_H

#include <stddef.h>
#include <string.h>

/* Whether a byte has to be encoded; '%' always is. */
typedef int escape_needs(unsigned char byte);

static const char escape_digits[] = "0123456789ABCDEF";

/* The value of a capital hexadecimal digit; -1: it is none. */
static inline int
escape_value(char digit)
{
    const char *at = digit ? strchr(escape_digits, digit) : NULL;
    return at ? (int)(at - escape_digits) : -1;
}

static inline int
escape_is_needed(unsigned char byte, escape_needs *needs)
{
    return byte == '%' || needs(byte);
}

/* escape writes `text` into `room` bytes, without a NUL, and tells the length; unescape is
 * the way back, also in place. Both return 0, or -1: there is no room; or, for unescape, the
 * text is not what escape writes. Then *out_len is left alone. */
static inline int
escape(char *out, size_t room, size_t *out_len, const char *text, size_t len,
       escape_needs *needs)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        int is_encoded = escape_is_needed(byte, needs);
        if (room - at < (is_encoded ? 3 : 1))
            return -1;
        out[at++] = is_encoded ? '%' : (char)byte;
        if (is_encoded) {
            out[at++] = escape_digits[byte >> 4];
            out[at++] = escape_digits[byte & 15];
        }
    }
    *out_len = at;
    return 0;
}

/* unescape_byte reads one byte: how much of the text it took, 0 if it is none. */
static inline size_t
unescape_byte(unsigned char *byte, const char *text, size_t len, escape_needs *needs)
{
    *byte = (unsigned char)*text;
    if (*text != '%')
        return needs(*byte) ? 0 : 1;
    int high = len < 3 ? -1 : escape_value(text[1]);
    int low = high < 0 ? -1 : escape_value(text[2]);
    if (low < 0)
        return 0;
    *byte = (unsigned char)(high << 4 | low);
    return escape_is_needed(*byte, needs) ? 3 : 0;
}

static inline int
unescape(char *out, size_t room, size_t *out_len, const char *text, size_t len,
         escape_needs *needs)
{
    size_t at = 0;
    for (size_t i = 0; i < len; at++) {
        unsigned char byte;
        size_t took = unescape_byte(&byte, text + i, len - i, needs);
        if (!took || at == room)
            return -1;
        out[at] = (char)byte;
        i += took;
    }
    *out_len = at;
    return 0;
}

#endif /* DIBS_UTIL_ESCAPE_H */
