/* SPDX-License-Identifier: MIT */
/* See keymap_mysql.h. */
#include "sql/keymap_mysql.h"

#include <stdlib.h>
#include <string.h>

#include "sql/digest.h"

/* .NET's: of so many characters that many are of the hash, if the name cannot stay */
#define DOTNET_MAX 64
#define DOTNET_HASH 32
#define DIBS_HASH 20

static int
put(char out[LOCKNAME_MAX], size_t *out_len, const char *text, size_t len)
{
    if (len > LOCKNAME_MAX - *out_len)
        return -1;
    memcpy(out + *out_len, text, len);
    *out_len += len;
    return 0;
}

int
dibs__sql_lockname_raw(char out[LOCKNAME_MAX], size_t *out_len, const char *database,
                       const char *name, size_t len)
{
    (void)database;
    *out_len = 0;
    return put(out, out_len, name, len);
}

int
dibs__sql_lockname_rails(char out[LOCKNAME_MAX], size_t *out_len, const char *database,
                         const char *name, size_t len)
{
    const char *prefix = getenv("WITH_ADVISORY_LOCK_PREFIX");
    (void)database;
    *out_len = 0;
    if (prefix && put(out, out_len, prefix, strlen(prefix)))
        return -1;
    return put(out, out_len, name, len);
}

int
dibs__sql_lockname_dibs(char out[LOCKNAME_MAX], size_t *out_len, const char *database,
                        const char *name, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char text[1024];
    uint8_t hash[64];
    size_t database_len = strlen(database), at = database_len + 1;
    if (at > sizeof text || len > sizeof text - at)
        return -1;
    memcpy(text, database, database_len);
    text[database_len] = '/';
    memcpy(text + at, name, len);
    if (dibs__sql_sha512(hash, text, at + len))
        return -1;
    *out_len = 0;
    (void)put(out, out_len, "dibs.", 5);
    for (size_t i = 0; i < DIBS_HASH; i++) {
        out[(*out_len)++] = digits[hash[i] >> 4];
        out[(*out_len)++] = digits[hash[i] & 15];
    }
    return 0;
}

/* Five bits a character, and of each byte its lowest bits first. */
static void
put_base32(char out[DOTNET_HASH], const uint8_t *hash)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    for (size_t i = 0; i < DOTNET_HASH; i++) {
        unsigned value = 0;
        for (size_t bit = 0; bit < 5; bit++) {
            size_t at = i * 5 + bit;
            value |= (unsigned)(hash[at / 8] >> at % 8 & 1) << bit;
        }
        out[i] = digits[value];
    }
}

int
dibs__sql_lockname_dotnet(char out[LOCKNAME_MAX], size_t *out_len, const char *database,
                          const char *name, size_t len)
{
    uint8_t hash[64];
    size_t kept = len < DOTNET_MAX - DOTNET_HASH ? len : DOTNET_MAX - DOTNET_HASH;
    int is_lower = 1;
    (void)database;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] > 0x7e)
            return -1;
        is_lower &= name[i] < 'A' || name[i] > 'Z';
    }
    if (is_lower && len <= DOTNET_MAX)
        return dibs__sql_lockname_raw(out, out_len, database, name, len);
    if (dibs__sql_sha512(hash, name, len))
        return -1;
    for (size_t i = 0; i < kept; i++)
        out[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i]);
    put_base32(out + kept, hash);
    *out_len = kept + DOTNET_HASH;
    return 0;
}
