/* SPDX-License-Identifier: MIT */
/* sql/keymap.c: the numbers that other clients make of the same names. */
#include "unit.h"

#include <stdlib.h>

#include "sql/keymap.h"

static struct pg_key
key_of(pg_keymap *map, const char *name)
{
    struct pg_key key = { 0 };
    assert_int_equal(map(&key, name, strlen(name)), 0);
    return key;
}

static void
assert_big(pg_keymap *map, const char *name, int64_t big)
{
    struct pg_key key = key_of(map, name);
    assert_false(key.is_pair);
    assert_true(key.big == big);
}

static void
assert_pair(pg_keymap *map, const char *name, int32_t first, int32_t second)
{
    struct pg_key key = key_of(map, name);
    assert_true(key.is_pair);
    assert_int_equal(key.first, first);
    assert_int_equal(key.second, second);
}

CASE(dotnet)
{
    assert_pair(dibs__sql_key_dotnet, "dibs", -911796425, -1);
    assert_pair(dibs__sql_key_dotnet, "orders", -540334498, 1558183935);
    assert_pair(dibs__sql_key_dotnet, "", 2147483647, -1);
    assert_big(dibs__sql_key_dotnet, "my-long-lock-name", -6292990556957758089);
    assert_big(dibs__sql_key_dotnet, "00000000000000ff", 255);
    assert_pair(dibs__sql_key_dotnet, "00000001,ffffffff", 1, -1);
}

CASE(rails)
{
    unsetenv("WITH_ADVISORY_LOCK_PREFIX");
    assert_pair(dibs__sql_key_rails, "dibs", 1287743044, 0);
    assert_pair(dibs__sql_key_rails, "orders", 1697644014, 0);
    setenv("WITH_ADVISORY_LOCK_PREFIX", "7", 1);
    assert_pair(dibs__sql_key_rails, "dibs", 1287743044, 7);
    setenv("WITH_ADVISORY_LOCK_PREFIX", "app", 1);
    assert_pair(dibs__sql_key_rails, "dibs", 1287743044, 0);
    assert_big(dibs__sql_key_rails_migration, "app_production", 4615154450383096620);
}

CASE(tooz)
{
    assert_pair(dibs__sql_key_tooz, "dibs", 192, 235);
    assert_pair(dibs__sql_key_tooz, "orders", 18, 197);
}

CASE(raw)
{
    static const char *const wrong[] = {
        "",   "x",  "1,",           "1,2,3", " 1",
        "1 ", "+1", "3000000000,1", "1,x",   "9223372036854775808"
    };
    struct pg_key key;
    assert_big(dibs__sql_key_raw, "42", 42);
    assert_big(dibs__sql_key_raw, "-9223372036854775808", INT64_MIN);
    assert_pair(dibs__sql_key_raw, "1,-2", 1, -2);
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(dibs__sql_key_raw(&key, wrong[i], strlen(wrong[i])), -1);
}

CASE(own)
{
    /* ('x' || left(md5('dibs'), 16))::bit(64)::bigint */
    assert_big(dibs__sql_key_dibs, "dibs", (int64_t)0xc0eb34a26b4a8f41u);
}
