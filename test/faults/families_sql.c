/* SPDX-License-Identifier: MIT */
/* Kinds of servers: databases. See families.c. */
#include "lab.h"

#include <string.h>

#define DATABASE "lab"

static server *const first = &lab.set.servers[0];

/* the one that has the locks */
static const server *
keeper(void)
{
    int (*leader)(const server_set *) = lab.stage->family->leader;
    return leader != NULL ? &lab.set.servers[leader(&lab.set)] : first;
}

static void
make_database(void)
{
    sql_do(first, NULL, "CREATE DATABASE " DATABASE);
}

static void
start_pgbouncer(void)
{
    make_database();
    lab.set.count = 2;
    lab.door = 1;
    pgbouncer_start(&lab.set.servers[1], first, NULL);
}

static void
start_pair(void)
{
    server_options options = options_of_stage();
    options.config = (lab.stage->is & IS_SYNCED) != 0 ? POSTGRES_SYNCED : NULL;
    postgres_start_pair(&lab.set, &options, &lab.between);
    make_database();
}

/* who waits for the connection to be told on may try again a second later */
static int64_t
heal_pair(int64_t lease_ms)
{
    (void)lease_ms;
    return slowly(1000);
}

/* The layout with a table of ours keeps the row of a holder that was killed until somebody
 * comes; when its lease is over that is nobody's lock. */
static int
count_dead(void)
{
    int is_mariadb = lab.stage->family == &family_mysql;
    if (strstr(lab.stage->parameters, "layout=") != NULL) {
        return 0;
    }
    return (int)sql_number(
        keeper(), DATABASE,
        "SELECT count(*) FROM dibs_locks WHERE state <> '' AND until < %s",
        is_mariadb ? "cast(unix_timestamp(sysdate(6)) * 1000000 AS signed)"
                   : "(extract(epoch FROM clock_timestamp()) * 1000000)");
}

static int
count_sql(void)
{
    return sql_count_locks(keeper(), DATABASE) - count_dead();
}

/* a lock of a connection is gone with it */
static int
count_sql_and_clients(void)
{
    return count_sql() + sql_count_clients(keeper());
}

static void
show_sql(void)
{
    sql_show(keeper(), DATABASE);
}

#define OF_SQL .path = "/" DATABASE, .show_left = show_sql

const struct family family_postgres = { OF_SQL,
                                        .engine = "postgres",
                                        .title = "postgres",
                                        .is_present = postgres_present,
                                        .scheme = "postgres://",
                                        .user = "postgres@",
                                        .start_one = postgres_start,
                                        .start = make_database,
                                        .count_left = count_sql_and_clients,
                                        .can =
                                            CAN_KILL | CAN_CUT | CAN_WIRE | CAN_CLOCK };

const struct family family_postgres_pair = { OF_SQL,
                                             .engine = "postgres",
                                             .title = "postgres",
                                             .is_present = postgres_present,
                                             .scheme = "postgres://",
                                             .user = "postgres@",
                                             .start = start_pair,
                                             .leader = postgres_primary,
                                             .fail_over = fail_over_postgres,
                                             .count_left = count_sql_and_clients,
                                             .heal_ms = heal_pair,
                                             .can = CAN_FAIL_OVER };

const struct family family_pgbouncer = { OF_SQL,
                                         .engine = "postgres",
                                         .title = "pgbouncer",
                                         .is_present = pgbouncer_present,
                                         .scheme = "postgres://",
                                         .user = "postgres@",
                                         .start_one = postgres_start,
                                         .start = start_pgbouncer,
                                         .count_left = count_sql,
                                         .can = CAN_KILL | CAN_CUT | CAN_WIRE };

const struct family family_mysql = { OF_SQL,
                                     .engine = "mysql",
                                     .title = "mariadb",
                                     .is_present = mariadb_present,
                                     .scheme = "mysql://",
                                     .user = "root@",
                                     .start_one = mariadb_start,
                                     .start = make_database,
                                     .count_left = count_sql_and_clients,
                                     .can = CAN_KILL | CAN_CUT | CAN_WIRE | CAN_CLOCK };
