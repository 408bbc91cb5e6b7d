/* SPDX-License-Identifier: MIT */
/* Locks by hand with libmariadb: a lease in a table, and GET_LOCK. */
#include "mysql_bench.h"

#define NOW "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"

static char name[] = "bench/floor", owner[] = "0123456789abcdef0123456789abcdef:1";

void *
raw_open(const void *s)
{
    const MYSQL_BIND params[] = { TEXT_BIND(name), TEXT_BIND(owner) };
    MYSQL *mysql = mysql_link(s, "bench");
    hand *h = mysql_hand(mysql);

    mysql_do(mysql, "CREATE TABLE IF NOT EXISTS floor (name VARBINARY(255) PRIMARY KEY, "
                    "owner VARCHAR(64) NOT NULL, until BIGINT NOT NULL)");
    mysql_prepare(
        h, HAND_TAKE,
        "INSERT INTO floor (name, owner, until) VALUES (?1, ?2, " NOW " + 30000000) "
        "ON DUPLICATE KEY UPDATE owner = IF(until < " NOW ", VALUES(owner), owner), "
        "until = IF(until < " NOW ", VALUES(until), until)",
        params);
    mysql_prepare(h, HAND_GIVE, "DELETE FROM floor WHERE name = ?1 AND owner = ?2",
                  params);
    mysql_prepare(h, HAND_NATIVE_TAKE, "SELECT GET_LOCK(?1, 10)", params);
    mysql_prepare(h, HAND_NATIVE_GIVE, "SELECT RELEASE_LOCK(?1)", params);
    return h;
}
