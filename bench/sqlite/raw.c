/* SPDX-License-Identifier: MIT */
/* A lock by hand with SQLite: a lease in a table, in a file that is as safe as dibs' own. */
#include "sqlite_bench.h"

void *
raw_open(const void *s)
{
    hand *h = sqlite_hand(s, "");

    h->takes_time = 1;
    sqlite_do(h,
              "CREATE TABLE IF NOT EXISTS floor (name BLOB PRIMARY KEY, owner TEXT NOT "
              "NULL, until INTEGER NOT NULL) WITHOUT ROWID");
    sqlite_prepare(
        h, HAND_TAKE,
        "INSERT INTO floor (name, owner, until) VALUES ('bench/floor', "
        "'0123456789abcdef0123456789abcdef:1', ?1 + 30000000) ON CONFLICT (name) DO "
        "UPDATE SET owner = excluded.owner, until = excluded.until "
        "WHERE until < ?1");
    sqlite_prepare(h, HAND_GIVE,
                   "DELETE FROM floor WHERE name = 'bench/floor' AND owner = "
                   "'0123456789abcdef0123456789abcdef:1'");
    return h;
}
