/* SPDX-License-Identifier: MIT */
/* Locks by hand with libpq: a lease in a table, and advisory locks. */
#include "postgres.h"

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

void *
raw_open(const void *s)
{
    static const params lease = {
        .count = 2, .values = { "bench/floor", "0123456789abcdef0123456789abcdef:1" }
    };
    static const params native = { .count = 1, .values = { "4711" } };
    PGconn *pg = postgres_connect(s, "bench");
    hand *h = postgres_hand(pg);

    PQclear(postgres_check(
        pg, PQexec(pg, "CREATE TABLE IF NOT EXISTS floor (name bytea PRIMARY KEY, owner "
                       "text NOT NULL, until bigint NOT NULL)")));
    postgres_prepare(
        h, HAND_TAKE,
        "INSERT INTO floor AS f (name, owner, until) VALUES (?1, ?2, " NOW
        " + 30000000) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until "
        "= excluded.until WHERE f.until < " NOW,
        lease);
    postgres_prepare(h, HAND_GIVE, "DELETE FROM floor WHERE name = ?1 AND owner = ?2",
                     lease);
    postgres_prepare(h, HAND_NATIVE_TAKE, "SELECT pg_advisory_lock(?1)", native);
    postgres_prepare(h, HAND_NATIVE_GIVE, "SELECT pg_advisory_unlock(?1)", native);
    return h;
}
