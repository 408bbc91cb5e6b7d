/* SPDX-License-Identifier: MIT */
/* What dibs itself sends, by hand with libmariadb: its lease, and its locks of GET_LOCK. */
#include "engine/mysql/my.h"
#include "mysql_bench.h"

static char its_name[] = ITS_NAME, its_record[] = ITS_RECORD;
static long long its_lease = ITS_LEASE_US, its_wait;

static void
prepare_all(hand *h)
{
    const MYSQL_BIND lease[] = { TEXT_BIND(its_name), TEXT_BIND(its_record),
                                 NUMBER_BIND(its_lease) };
    const MYSQL_BIND native[] = { TEXT_BIND(its_name), NUMBER_BIND(its_wait) };

    mysql_prepare(h, HAND_FIRST, dibs__mysql_texts[SQL_TAKE], lease);
    mysql_prepare(h, HAND_TAKE, dibs__mysql_texts[SQL_RETAKE], lease);
    mysql_prepare(h, HAND_GIVE, dibs__mysql_texts[SQL_GIVE], lease);
    mysql_prepare(h, HAND_NATIVE_TAKE,
                  "SELECT CASE GET_LOCK(?1, ?2)"
                  " WHEN 1 THEN NEXTVAL(dibs_tokens) WHEN 0 THEN 0 END",
                  native);
    mysql_prepare(h, HAND_NATIVE_GIVE, "DO RELEASE_LOCK(?1)", native);
}

static void
make(MYSQL *mysql)
{
    for (const char *const *text = dibs__mysql_makes; *text != NULL; text++)
        mysql_do(mysql, *text);
    for (const char *const *text = dibs__my_sequence_makes; *text != NULL; text++)
        mysql_do(mysql, *text);
}

/* with the settings that dibs has */
void *
its_open(const void *s)
{
    MYSQL *mysql = mysql_link(s, "bench");
    hand *h = mysql_hand(mysql);

    mysql_do(mysql, "SET SESSION time_zone = '+00:00', tx_isolation = 'READ-COMMITTED', "
                    "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    make(mysql);
    prepare_all(h);
    hand_warm_up(h);
    return h;
}
