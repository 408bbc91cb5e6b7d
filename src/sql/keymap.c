/* SPDX-License-Identifier: MIT */
/* See keymap.h. What each does is written down in docs/engines/postgres.md. */
#include "sql/keymap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sql/digest.h"

#define LOW_31 0x7FFFFFFFu

static void
set_big(struct pg_key *out, uint64_t bits)
{
    *out = (struct pg_key){ .big = (int64_t)bits };
}

static void
set_pair(struct pg_key *out, uint32_t first, uint32_t second)
{
    *out = (struct pg_key){ .is_pair = 1,
                            .first = (int32_t)first,
                            .second = (int32_t)second };
}

int
dibs__sql_key_dibs(struct pg_key *out, const char *name, size_t len)
{
    uint8_t digest[16];
    uint64_t bits = 0;
    if (dibs__sql_md5(digest, name, len))
        return -1;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | digest[i];
    set_big(out, bits);
    return 0;
}

/* ---- .NET ---- */

#define ASCII_MOST 9 /* characters of 7 bits that 64 bits have room for */

static int
is_short_ascii(const char *name, size_t len)
{
    for (size_t i = 0; i < len && i <= ASCII_MOST; i++) {
        if ((unsigned char)name[i] >= 0x80)
            return 0;
    }
    return len <= ASCII_MOST;
}

/* a bit that is 0 ends the name, and bits that are 1 fill the rest */
static void
set_ascii(struct pg_key *out, const char *name, size_t len)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < len; i++)
        bits = bits << 7 | (unsigned char)name[i];
    unsigned rest = (unsigned)(63 - 7 * len);
    bits = bits << 1;
    for (unsigned i = 0; i < rest; i++)
        bits = bits << 1 | 1;
    set_pair(out, (uint32_t)(bits >> 32), (uint32_t)bits);
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "0123456789abcdef" or "01234567,89abcdef" */
static int
read_hex(struct pg_key *out, const char *name, size_t len)
{
    uint64_t bits = 0;
    int is_pair = len == 17 && name[8] == ',';
    if (len != 16 && !is_pair)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (is_pair && i == 8)
            continue;
        int digit = hex_digit(name[i]);
        if (digit < 0)
            return -1;
        bits = bits << 4 | (unsigned)digit;
    }
    if (is_pair)
        set_pair(out, (uint32_t)(bits >> 32), (uint32_t)bits);
    else
        set_big(out, bits);
    return 0;
}

int
dibs__sql_key_dotnet(struct pg_key *out, const char *name, size_t len)
{
    uint8_t digest[20];
    uint64_t bits = 0;
    if (is_short_ascii(name, len)) {
        set_ascii(out, name, len);
        return 0;
    }
    if (read_hex(out, name, len) == 0)
        return 0;
    if (dibs__sql_sha1(digest, name, len))
        return -1;
    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | digest[i];
    set_big(out, bits);
    return 0;
}

/* ---- Ruby ---- */

static uint32_t
crc32(const char *data, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

int
dibs__sql_key_rails(struct pg_key *out, const char *name, size_t len)
{
    const char *prefix = getenv("WITH_ADVISORY_LOCK_PREFIX");
    uint32_t second = prefix ? (uint32_t)strtoll(prefix, NULL, 10) : 0;
    set_pair(out, crc32(name, len) & LOW_31, second & LOW_31);
    return 0;
}

int
dibs__sql_key_rails_migration(struct pg_key *out, const char *name, size_t len)
{
    set_big(out, 2053462845u * (uint64_t)crc32(name, len));
    return 0;
}

/* ---- Python ---- */

int
dibs__sql_key_tooz(struct pg_key *out, const char *name, size_t len)
{
    uint8_t digest[16];
    if (dibs__sql_md5(digest, name, len))
        return -1;
    set_pair(out, digest[0], digest[1]);
    return 0;
}

/* ---- numbers ---- */

static int
read_number(int64_t *out, const char *text, const char **end, int64_t least, int64_t most)
{
    char *stop = NULL;
    errno = 0;
    long long number = strtoll(text, &stop, 10);
    int is_digit = *text == '-' || (*text >= '0' && *text <= '9');
    if (errno || !is_digit || stop == text || number < least || number > most)
        return -1;
    *end = stop;
    *out = number;
    return 0;
}

int
dibs__sql_key_raw(struct pg_key *out, const char *name, size_t len)
{
    char text[48];
    const char *end = text;
    int64_t first, second;
    if (len >= sizeof text || memchr(name, '\0', len))
        return -1;
    memcpy(text, name, len);
    text[len] = '\0';
    if (read_number(&first, text, &end, INT64_MIN, INT64_MAX))
        return -1;
    if (!*end) {
        set_big(out, (uint64_t)first);
        return 0;
    }
    if (*end != ',' || first < INT32_MIN || first > INT32_MAX ||
        read_number(&second, end + 1, &end, INT32_MIN, INT32_MAX) || *end)
        return -1;
    set_pair(out, (uint32_t)first, (uint32_t)second);
    return 0;
}
