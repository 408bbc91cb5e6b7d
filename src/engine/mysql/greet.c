/* SPDX-License-Identifier: MIT */
/*
 * The first words on a new connection: is this a server that can keep locks, and may it be
 * set up as our statements want it?
 */
#include "my.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARIADB_LEAST 100300
#define MYSQL_LEAST 80000

static int
refuse(const struct my_link *link, int code, const char *why, dibs_error *err)
{
    return link->login->host->fail(err, code, "%s", why);
}

static int
check_version(struct my_link *link, dibs_error *err)
{
    unsigned long least = link->is_mariadb ? MARIADB_LEAST : MYSQL_LEAST;
    if (mysql_get_server_version(link->mysql) >= least)
        return DIBS_OK;
    return link->login->host->fail(
        err, DIBS_EUNSUPPORTED, "the server is %s %s; it takes MariaDB 10.3 or MySQL 8.0",
        link->is_mariadb ? "MariaDB" : "MySQL", mysql_get_server_info(link->mysql));
}

static int
is_on(const char *value)
{
    return value && strcmp(value, "0") != 0 && strcmp(value, "OFF") != 0;
}

struct traits {
    int by_statement; /* its log has statements */
    int is_galera, is_read_only;
};

/* Commits have to be on the disk. With a binary log what is there is undone after a crash if
 * that log does not have it; unless InnoDB syncs a second time, which is 3 (MariaDB). */
static const struct sql_risk *
find_risk(const char *flush, const char *is_log_lazy)
{
    static const struct sql_risk of_server = {
        "it crashes", "innodb_flush_log_at_trx_commit is 0, and should be 1"
    };
    static const struct sql_risk of_machine = {
        "its machine fails", "innodb_flush_log_at_trx_commit is 2, and should be 1"
    };
    static const struct sql_risk of_log = {
        "its machine fails", "it has a binary log, and sync_binlog is not 1"
    };
    if (!flush)
        return NULL;
    if (*flush == '0' || *flush == '2')
        return *flush == '0' ? &of_server : &of_machine;
    return *flush != '3' && is_on(is_log_lazy) ? &of_log : NULL;
}

static int
ask_traits(struct my_link *link, const char *rest, struct traits *out, dibs_time deadline,
           dibs_error *err)
{
    char text[320];
    MYSQL_RES *found = NULL;
    (void)snprintf(text, sizeof text,
                   "SELECT CONNECTION_ID(), @@global.read_only, @@global.binlog_format, "
                   "@@global.log_bin AND @@global.sync_binlog <> 1, %s",
                   rest);
    int rc = dibs__my_link_ask(link, text, &found, deadline, err);
    if (rc)
        return rc;
    MYSQL_ROW row = mysql_fetch_row(found);
    link->is_shared = !row || !row[0] || strtoul(row[0], NULL, 10) != link->id;
    out->is_read_only = row && is_on(row[1]);
    out->by_statement = row && row[2] && strcmp(row[2], "STATEMENT") == 0;
    out->is_galera = row && is_on(row[5]);
    link->risk = row ? find_risk(row[4], row[3]) : NULL;
    mysql_free_result(found);
    return DIBS_OK;
}

/* Not every server knows (1193) what Galera is, or InnoDB. */
static int
ask_known_traits(struct my_link *link, struct traits *out, dibs_time deadline,
                 dibs_error *err)
{
    static const char *const rests[] = {
        "@@global.innodb_flush_log_at_trx_commit, @@global.wsrep_on",
        "@@global.innodb_flush_log_at_trx_commit, 0", "NULL, 0", NULL
    };
    const unsigned unknown_variable = 1193;
    int rc, i = 0;
    do {
        rc = ask_traits(link, rests[i++], out, deadline, err);
    } while (rc && rests[i] && mysql_errno(link->mysql) == unknown_variable);
    return rc;
}

static int
check_traits(struct my_link *link, struct traits *traits, dibs_time deadline,
             dibs_error *err)
{
    int rc = ask_known_traits(link, traits, deadline, err);
    if (!rc && traits->is_galera)
        rc = refuse(link, DIBS_EUNSUPPORTED,
                    "the server is a Galera node (wsrep_on): a lock that one node grants "
                    "can be undone by another when it is certified",
                    err);
    if (!rc && traits->is_read_only)
        rc = refuse(link, DIBS_EUNAVAIL, "the server is read-only: a replica?", err);
    return rc;
}

/* Times are microseconds of a clock that knows no time zone. Nothing is cut silently. A row
 * that somebody has locked by hand is not waited for longer than an answer is. Without gaps
 * being locked fewer statements meet; a log of statements does not allow it. */
static int
set_up(struct my_link *link, int by_statement, dibs_time deadline, dibs_error *err)
{
    char text[400];
    (void)snprintf(
        text, sizeof text,
        "SET SESSION time_zone = '+00:00', autocommit = 1, "
        "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
        "innodb_lock_wait_timeout = 5, lock_wait_timeout = 5, %s = 0, %s = '%s'",
        link->is_mariadb ? "max_statement_time" : "max_execution_time",
        link->is_mariadb ? "tx_isolation" : "transaction_isolation",
        by_statement ? "REPEATABLE-READ" : "READ-COMMITTED");
    return dibs__my_link_exec(link, text, deadline, err);
}

int
dibs__my_greet(struct my_link *link, dibs_time deadline, dibs_error *err)
{
    struct traits traits = { 0 };
    int rc = check_version(link, err);
    if (!rc)
        rc = check_traits(link, &traits, deadline, err);
    return rc ? rc : set_up(link, traits.by_statement, deadline, err);
}
