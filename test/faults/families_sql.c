/* SPDX-License-Identifier: MIT */
/* Kinds of servers: databases. See families.c. */
#include "lab.h"

#include <string.h>

#define DATABASE "lab"

static server *const first = &lab.set.servers[0];

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
        first, DATABASE,
        "SELECT count(*) FROM dibs_locks WHERE state <> '' AND until < %s",
        is_mariadb ? "cast(unix_timestamp(sysdate(6)) * 1000000 AS signed)"
                   : "(extract(epoch FROM clock_timestamp()) * 1000000)");
}

static int
count_sql(void)
{
    return sql_count_locks(first, DATABASE) - count_dead();
}

/* a lock of a connection is gone with it */
static int
count_sql_and_clients(void)
{
    return count_sql() + sql_count_clients(first);
}

static void
show_sql(void)
{
    sql_show(first, DATABASE);
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
