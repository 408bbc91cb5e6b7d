/* SPDX-License-Identifier: MIT */
/* Locks by hand with libmariadb: a lease in a table, and GET_LOCK. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql_bench.h"

#define NOW "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"

enum { TAKE, GIVE, NATIVE_TAKE, NATIVE_GIVE, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [TAKE] = "INSERT INTO floor (name, owner, until) VALUES (?, ?, " NOW " + 30000000) "
             "ON DUPLICATE KEY UPDATE owner = IF(until < " NOW ", VALUES(owner), owner), "
             "until = IF(until < " NOW ", VALUES(until), until)",
    [GIVE] = "DELETE FROM floor WHERE name = ? AND owner = ?",
    [NATIVE_TAKE] = "SELECT GET_LOCK(?, 10)",
    [NATIVE_GIVE] = "SELECT RELEASE_LOCK(?)",
};

typedef struct raw {
    MYSQL *mysql;
    MYSQL_STMT *statements[STATEMENTS];
} raw;

MYSQL *
mysql_try(const server *s, const char *database)
{
    MYSQL *mysql = mysql_init(NULL);

    if (mysql_real_connect(mysql, "127.0.0.1", "root", NULL, database, (unsigned)s->port,
                           NULL, 0) != NULL)
        return mysql;
    mysql_close(mysql);
    return NULL;
}

MYSQL *
mysql_link(const server *s, const char *database)
{
    MYSQL *mysql = mysql_try(s, database);

    if (mysql == NULL)
        bench_die("cannot connect");
    return mysql;
}

void
mysql_do(MYSQL *mysql, const char *text)
{
    if (mysql_query(mysql, text) != 0)
        bench_die("the server says: %s", mysql_error(mysql));
}

static MYSQL_STMT *
prepare(MYSQL *mysql, const char *text)
{
    static char name[] = "bench/floor", owner[] = "0123456789abcdef0123456789abcdef:1";
    MYSQL_STMT *statement = mysql_stmt_init(mysql);
    MYSQL_BIND binds[2];

    memset(binds, 0, sizeof binds);
    binds[0] = (MYSQL_BIND){ .buffer_type = MYSQL_TYPE_STRING,
                             .buffer = name,
                             .buffer_length = sizeof name - 1 };
    binds[1] = (MYSQL_BIND){ .buffer_type = MYSQL_TYPE_STRING,
                             .buffer = owner,
                             .buffer_length = sizeof owner - 1 };
    if (mysql_stmt_prepare(statement, text, strlen(text)) != 0 ||
        mysql_stmt_bind_param(statement, binds) != 0)
        bench_die("the server says: %s", mysql_stmt_error(statement));
    return statement;
}

void *
raw_open(const void *s)
{
    raw *r = calloc(1, sizeof *r);

    if (r == NULL)
        bench_die("out of memory");
    r->mysql = mysql_link(s, "bench");
    mysql_do(r->mysql,
             "CREATE TABLE IF NOT EXISTS floor (name VARBINARY(255) PRIMARY KEY, "
             "owner VARCHAR(64) NOT NULL, until BIGINT NOT NULL)");
    for (int i = 0; i < STATEMENTS; i++)
        r->statements[i] = prepare(r->mysql, texts[i]);
    return r;
}

void
raw_close(void *arg)
{
    raw *r = arg;

    for (int i = 0; i < STATEMENTS; i++)
        mysql_stmt_close(r->statements[i]);
    mysql_close(r->mysql);
    free(r);
}

static void
change_one(raw *r, int which)
{
    MYSQL_STMT *statement = r->statements[which];

    if (mysql_stmt_execute(statement) != 0)
        bench_die("the server says: %s", mysql_stmt_error(statement));
    if (mysql_stmt_affected_rows(statement) != 1)
        bench_die("a statement changes nothing");
}

void
raw_lock(void *r)
{
    change_one(r, TAKE);
}

void
raw_unlock(void *r)
{
    change_one(r, GIVE);
}

/* it must say 1 */
static void
call(raw *r, int which)
{
    MYSQL_STMT *statement = r->statements[which];
    int said = 0;
    MYSQL_BIND bind = { .buffer_type = MYSQL_TYPE_LONG, .buffer = &said };

    if (mysql_stmt_execute(statement) != 0 || mysql_stmt_bind_result(statement, &bind) ||
        mysql_stmt_fetch(statement) != 0 || said != 1)
        bench_die("the server says %d: %s", said, mysql_stmt_error(statement));
    mysql_stmt_free_result(statement);
}

void
raw_native_lock(void *r)
{
    call(r, NATIVE_TAKE);
}

void
raw_native_unlock(void *r)
{
    call(r, NATIVE_GIVE);
}
