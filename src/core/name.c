/* SPDX-License-Identifier: MIT */
/*
 * Names are bytes. Nothing here folds, trims or normalises them: two names are the same if
 * and only if all their bytes are. Printing escapes, so that a name cannot move a cursor.
 */
#include "core/name.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

static uint64_t
mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
    return hash ^ hash >> 32;
}

static uint64_t
read_le32(const unsigned char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return le32toh(word);
}

/* up to seven bytes, as if zeros followed; a copy of so many would be slow to read back */
static uint64_t
read_tail(const unsigned char *at, size_t len)
{
    if (len >= 4)
        return read_le32(at) | read_le32(at + len - 4) << 8 * (len - 4);
    if (len == 0)
        return 0;
    return at[0] | (uint64_t)at[len / 2] << 8 * (len / 2) |
           (uint64_t)at[len - 1] << 8 * (len - 1);
}

/* Eight bytes at a time, as a little-endian number whatever the machine; the length goes in
 * first, so that trailing zeros count. */
uint64_t
dibs__hash(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), len), word;
    for (; len >= sizeof word; len -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mix(hash, le64toh(word));
    }
    hash = mix(hash, read_tail(at, len));
    return mix(hash, 0);
}

int
dibs__name_check(size_t *len, const char *name, size_t given_len, const char *what,
                 dibs_error *err)
{
    if (!name)
        return dibs__fail(err, DIBS_EINVAL, "%s is NULL", what);
    size_t length = given_len ? given_len : strnlen(name, DIBS_NAME_MAX + 1);
    if (length == 0)
        return dibs__fail(err, DIBS_EINVAL, "%s is empty: it needs 1 to %d bytes", what,
                          DIBS_NAME_MAX);
    if (length > DIBS_NAME_MAX)
        return dibs__fail(err, DIBS_EINVAL, "%s is longer than %d bytes", what,
                          DIBS_NAME_MAX);
    if (given_len && memchr(name, '\0', length))
        return dibs__fail(err, DIBS_EINVAL, "%s contains a NUL byte", what);
    *len = length;
    return DIBS_OK;
}

/* length of a valid UTF-8 sequence of a printable character beyond ASCII, or 0 */
static size_t
utf8_length(const unsigned char *at, size_t left)
{
    uint32_t point;
    size_t length;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        length = 2, point = at[0] & 0x1fu;
    else if (at[0] >= 0xe0 && at[0] <= 0xef)
        length = 3, point = at[0] & 0x0fu;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        length = 4, point = at[0] & 0x07u;
    else
        return 0;
    if (left < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3fu);
    }
    static const uint32_t smallest[] = { 0, 0, 0xa0, 0x800, 0x10000 };
    int surrogate = point >= 0xd800 && point <= 0xdfff;
    /* direction marks and their like would let a name disguise itself */
    int sly = point == 0x61c || (point >= 0x200b && point <= 0x200f) ||
              (point >= 0x2028 && point <= 0x202e) ||
              (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
    return point < smallest[length] || point > 0x10ffff || surrogate || sly ? 0 : length;
}

size_t
dibs_name_print(char *out, size_t size, const char *name, size_t len)
{
    const unsigned char *at = (const unsigned char *)name;
    size_t need = 0;
    if (size)
        out[0] = '\0';
    for (size_t i = 0; i < len;) {
        char piece[5];
        size_t step = utf8_length(at + i, len - i);
        size_t wide = step;
        if (step) {
            memcpy(piece, at + i, step);
        } else {
            step = 1;
            if (at[i] == '\\')
                wide = (size_t)snprintf(piece, sizeof piece, "\\\\");
            else if (at[i] < 0x20 || at[i] >= 0x7f)
                wide = (size_t)snprintf(piece, sizeof piece, "\\x%02x", at[i]);
            else
                piece[0] = (char)at[i], wide = 1;
        }
        if (need + wide < size) {
            memcpy(out + need, piece, wide);
            out[need + wide] = '\0';
        }
        need += wide;
        i += step;
    }
    return need;
}

int
dibs_stripe(char *out, size_t size, const char *prefix, const void *key, size_t key_len,
            uint32_t stripes, dibs_error *err)
{
    if (!out || !prefix || (!key && key_len))
        return dibs__fail(err, DIBS_EINVAL, "out, prefix or key is NULL");
    if (stripes == 0)
        return dibs__fail(err, DIBS_EINVAL, "stripes is 0");
    char name[DIBS_NAME_MAX + 1];
    int used = snprintf(name, sizeof name, "%s#%u", prefix,
                        (unsigned)(dibs__hash(key, key_len) % stripes));
    if (used < 0 || (size_t)used >= size || (size_t)used >= sizeof name)
        return dibs__fail(err, DIBS_EINVAL, "the stripe's name does not fit");
    memcpy(out, name, (size_t)used + 1);
    return DIBS_OK;
}
