/* SPDX-License-Identifier: MIT */
/* What dibs itself sends, by hand with libmariadb: its lease, and its locks of GET_LOCK. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mysql/my.h"
#include "mysql_bench.h"

enum { FIRST, TAKE, GIVE, NATIVE_TAKE, NATIVE_GIVE, STATEMENTS };
enum { MARKS_MOST = 32 };

static char its_name[] = ITS_NAME, its_record[] = ITS_RECORD, its_key[] = "bench/its";
static long long its_lease = ITS_LEASE_US, its_wait;

/* one as it was prepared */
typedef struct its_statement {
    MYSQL_STMT *stmt;
    MYSQL_BIND binds[MARKS_MOST];
} its_statement;

typedef struct its {
    MYSQL *mysql;
    its_statement statements[STATEMENTS];
} its;

static MYSQL_BIND
text_bind(char *text, size_t size)
{
    return (MYSQL_BIND){ .buffer_type = MYSQL_TYPE_STRING,
                         .buffer = text,
                         .buffer_length = size - 1 };
}

static MYSQL_BIND
number_bind(long long *number)
{
    return (MYSQL_BIND){ .buffer_type = MYSQL_TYPE_LONGLONG,
                         .buffer = number,
                         .buffer_length = sizeof *number };
}

/* parameters as dibs numbers them; each mark gets the one that it stands for */
static void
prepare(its *i, int which, const char *text, const MYSQL_BIND *params)
{
    its_statement *made = &i->statements[which];
    char plain[2048];
    uint8_t order[MARKS_MOST];
    size_t marks = 0;

    if (strlen(text) + 64 > sizeof plain)
        bench_die("a statement is too long");
    dibs__sql_marks(plain, text, '?', order, &marks);
    for (size_t at = 0; at < marks; at++)
        made->binds[at] = params[order[at] - 1];
    made->stmt = mysql_stmt_init(i->mysql);
    if (mysql_stmt_prepare(made->stmt, plain, strlen(plain)) != 0 ||
        mysql_stmt_bind_param(made->stmt, made->binds) != 0)
        bench_die("the server says: %s", mysql_stmt_error(made->stmt));
}

static void
prepare_all(its *i)
{
    const MYSQL_BIND lease[] = { text_bind(its_name, sizeof its_name),
                                 text_bind(its_record, sizeof its_record),
                                 number_bind(&its_lease) };
    const MYSQL_BIND native[] = { text_bind(its_key, sizeof its_key),
                                  number_bind(&its_wait) };

    prepare(i, FIRST, dibs__mysql_texts[SQL_TAKE], lease);
    prepare(i, TAKE, dibs__mysql_texts[SQL_RETAKE], lease);
    prepare(i, GIVE, dibs__mysql_texts[SQL_GIVE], lease);
    prepare(i, NATIVE_TAKE,
            "SELECT CASE GET_LOCK(?1, ?2)"
            " WHEN 1 THEN NEXTVAL(dibs_tokens) WHEN 0 THEN 0 END",
            native);
    prepare(i, NATIVE_GIVE, "DO RELEASE_LOCK(?1)", native);
}

static void
make(MYSQL *mysql)
{
    for (const char *const *text = dibs__mysql_makes; *text != NULL; text++)
        mysql_do(mysql, *text);
    for (const char *const *text = dibs__my_sequence_makes; *text != NULL; text++)
        mysql_do(mysql, *text);
}

static unsigned long long
change(its *i, int which)
{
    MYSQL_STMT *stmt = i->statements[which].stmt;

    if (mysql_stmt_execute(stmt) != 0)
        bench_die("the server says: %s", mysql_stmt_error(stmt));
    return mysql_stmt_affected_rows(stmt);
}

static void
change_one(its *i, int which)
{
    if (change(i, which) != 1)
        bench_die("a statement of dibs changes nothing");
}

/* with the settings that dibs has */
void *
its_open(const void *s)
{
    its *i = calloc(1, sizeof *i);

    if (i == NULL)
        bench_die("out of memory");
    i->mysql = mysql_link(s, "bench");
    mysql_do(i->mysql,
             "SET SESSION time_zone = '+00:00', tx_isolation = 'READ-COMMITTED', "
             "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    make(i->mysql);
    prepare_all(i);
    if (change(i, FIRST) != 0)
        change_one(i, GIVE);
    return i;
}

void
its_close(void *arg)
{
    its *i = arg;

    for (int which = 0; which < STATEMENTS; which++)
        mysql_stmt_close(i->statements[which].stmt);
    mysql_close(i->mysql);
    free(i);
}

void
its_lock(void *i)
{
    change_one(i, TAKE);
}

void
its_unlock(void *i)
{
    change_one(i, GIVE);
}

/* it must say a token */
void
its_native_lock(void *arg)
{
    its *i = arg;
    MYSQL_STMT *stmt = i->statements[NATIVE_TAKE].stmt;
    long long token = 0;
    MYSQL_BIND bind = number_bind(&token);

    if (mysql_stmt_execute(stmt) != 0 || mysql_stmt_bind_result(stmt, &bind) ||
        mysql_stmt_fetch(stmt) != 0 || token <= 0)
        bench_die("the server says %lld: %s", token, mysql_stmt_error(stmt));
    mysql_stmt_free_result(stmt);
}

void
its_native_unlock(void *i)
{
    (void)change(i, NATIVE_GIVE);
}
