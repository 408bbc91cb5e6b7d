/* SPDX-License-Identifier: MIT */
/* sql/keymap_mysql.c: the names that other clients give to GET_LOCK. */
#include "unit.h"

#include <stdlib.h>

#include "sql/keymap_mysql.h"

static void
assert_name(my_lockname *map, const char *name, const char *expected)
{
    char out[LOCKNAME_MAX];
    size_t len = 0;
    assert_int_equal(map(out, &len, "shop", name, strlen(name)), 0);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(out, expected, len);
}

static void
assert_refused(my_lockname *map, const char *name, size_t name_len)
{
    char out[LOCKNAME_MAX];
    size_t len = 0;
    assert_int_equal(map(out, &len, "shop", name, name_len), -1);
}

CASE(dotnet)
{
    char xs[71];
    memset(xs, 'x', 70);
    xs[70] = '\0';
    assert_name(dibs__sql_lockname_dotnet, "dibs", "dibs");
    assert_name(dibs__sql_lockname_dotnet, "Orders",
                "orders7col6v7a2vpxbxbpw2bcg5rzsgfwgenc");
    assert_name(dibs__sql_lockname_dotnet, xs,
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxa2c43imllfpmlp6d4lwcyytrulj2ticu");
    xs[64] = '\0';
    assert_name(dibs__sql_lockname_dotnet, xs, xs);
    assert_refused(dibs__sql_lockname_dotnet,
                   "b\xc3\xbc"
                   "cher",
                   7);
}

CASE(rails)
{
    unsetenv("WITH_ADVISORY_LOCK_PREFIX");
    assert_name(dibs__sql_lockname_rails, "Orders", "Orders");
    setenv("WITH_ADVISORY_LOCK_PREFIX", "app:", 1);
    assert_name(dibs__sql_lockname_rails, "Orders", "app:Orders");
}

CASE(raw)
{
    char xs[LOCKNAME_MAX + 1];
    memset(xs, 'x', sizeof xs);
    assert_name(dibs__sql_lockname_raw, "Orders ", "Orders ");
    assert_refused(dibs__sql_lockname_raw, xs, sizeof xs);
}

/* printf shop/orders | sha512sum */
CASE(own)
{
    assert_name(dibs__sql_lockname_dibs, "orders",
                "dibs.e48eaa8c4ae2fb6db572b8e3648c56597f6c5c87");
}
