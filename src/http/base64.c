/* SPDX-License-Identifier: MIT */
/* Base64, as JSON has bytes. */
#include "http/http.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                              "0123456789+/";

size_t
dibs__http_base64(char *out, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    char *to = out;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)from[i] << 16;
        if (i + 1 < len)
            three |= (uint32_t)from[i + 1] << 8;
        if (i + 2 < len)
            three |= from[i + 2];
        *to++ = letters[three >> 18];
        *to++ = letters[three >> 12 & 63];
        *to++ = i + 1 < len ? letters[three >> 6 & 63] : '=';
        *to++ = i + 2 < len ? letters[three & 63] : '=';
    }
    *to = '\0';
    return (size_t)(to - out);
}

static int
value_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

int64_t
dibs__http_unbase64(void *out, const char *text, size_t len)
{
    unsigned char *to = out;
    uint32_t bits = 0;
    unsigned count = 0;
    if (len % 4 != 0)
        return -1;
    for (unsigned i = 0; i < 2 && len > 0 && text[len - 1] == '='; i++)
        len--;
    for (size_t i = 0; i < len; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -1;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            *to++ = (unsigned char)(bits >> count);
        }
    }
    return to - (unsigned char *)out;
}
