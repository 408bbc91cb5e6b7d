/* SPDX-License-Identifier: MIT */
/* Names as the numbers and names that other clients of databases use (sql/keymap.c,
 * keymap_mysql.c): always the same, within bounds, and a number stands for itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sql/keymap.h"
#include "sql/keymap_mysql.h"

static pg_keymap *const maps[] = { dibs__sql_key_dibs,  dibs__sql_key_dotnet,
                                   dibs__sql_key_rails, dibs__sql_key_rails_migration,
                                   dibs__sql_key_tooz,  dibs__sql_key_raw };

static int
is_same(const struct pg_key *a, const struct pg_key *b)
{
    return a->is_pair == b->is_pair && a->big == b->big && a->first == b->first &&
           a->second == b->second;
}

static void
check_maps(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        struct pg_key one, other;
        int rc = maps[i](&one, name, len);
        HOLDS(rc == maps[i](&other, name, len));
        HOLDS(rc || is_same(&one, &other));
        HOLDS(rc || (one.is_pair ? one.big == 0 : one.first == 0 && one.second == 0));
    }
}

static void
check_raw(const char *name, size_t len)
{
    struct pg_key key, again;
    char text[64];
    if (dibs__sql_key_raw(&key, name, len) != 0)
        return;
    int wrote = key.is_pair ? snprintf(text, sizeof text, "%" PRId32 ",%" PRId32,
                                       key.first, key.second)
                            : snprintf(text, sizeof text, "%" PRId64, key.big);
    HOLDS(dibs__sql_key_raw(&again, text, (size_t)wrote) == 0 && is_same(&key, &again));
}

/* .NET's short names are kept in the key: two of them never have one key */
static void
check_dotnet(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct pg_key one, other;
    if (a_len > 9 || b_len > 9 || dibs__sql_key_dotnet(&one, a, a_len) ||
        dibs__sql_key_dotnet(&other, b, b_len) || !one.is_pair || !other.is_pair)
        return;
    HOLDS(is_same(&one, &other) == fuzz_same(a, a_len, b, b_len));
}

static void
check_locknames(const char *name, size_t len)
{
    my_lockname *const all[] = { dibs__sql_lockname_raw, dibs__sql_lockname_rails,
                                 dibs__sql_lockname_dibs, dibs__sql_lockname_dotnet };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *out = malloc(LOCKNAME_MAX);
        size_t out_len = 0;
        if (all[i](out, &out_len, "database", name, len) == 0)
            HOLDS(out_len > 0 && out_len <= LOCKNAME_MAX);
        free(out);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    const char *a, *b;
    size_t a_len, b_len;
    if (fuzz_name(&input, &a, &a_len))
        return 0;
    char *name = fuzz_copy(a, a_len);
    check_maps(name, a_len);
    check_raw(name, a_len);
    check_locknames(name, a_len);
    if (fuzz_name(&input, &b, &b_len) == 0)
        check_dotnet(name, a_len, b, b_len);
    free(name);
    return 0;
}
