/* SPDX-License-Identifier: MIT */
/* A hand of libmariadb: a connection, and statements that were prepared. */
#include <stdlib.h>
#include <string.h>

#include "mysql_bench.h"
#include "sql/sql.h"

enum { MARKS_MOST = 32 };

struct hand {
    MYSQL *mysql;
    MYSQL_STMT *statements[HAND_STATEMENTS]; /* NULL: it has no such one */
};

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

hand *
mysql_hand(MYSQL *mysql)
{
    hand *h = calloc(1, sizeof *h);

    if (h == NULL)
        bench_die("out of memory");
    h->mysql = mysql;
    return h;
}

/* parameters as dibs numbers them; each mark gets the one that it stands for */
void
mysql_prepare(hand *h, int which, const char *text, const MYSQL_BIND *params)
{
    MYSQL_STMT *made = mysql_stmt_init(h->mysql);
    MYSQL_BIND binds[MARKS_MOST];
    char plain[2048];
    uint8_t order[MARKS_MOST];
    size_t marks = 0;

    if (strlen(text) + 64 > sizeof plain)
        bench_die("a statement is too long");
    dibs__sql_marks(plain, text, '?', order, &marks);
    for (size_t at = 0; at < marks; at++)
        binds[at] = params[order[at] - 1];
    if (mysql_stmt_prepare(made, plain, strlen(plain)) != 0 ||
        mysql_stmt_bind_param(made, binds) != 0)
        bench_die("the server says: %s", mysql_stmt_error(made));
    h->statements[which] = made;
}

void
hand_close(void *arg)
{
    hand *h = arg;

    for (int which = 0; which < HAND_STATEMENTS; which++)
        if (h->statements[which] != NULL)
            mysql_stmt_close(h->statements[which]);
    mysql_close(h->mysql);
    free(h);
}

int
hand_change(void *arg, int which)
{
    MYSQL_STMT *statement = ((hand *)arg)->statements[which];

    if (mysql_stmt_execute(statement) != 0)
        bench_die("the server says: %s", mysql_stmt_error(statement));
    return (int)mysql_stmt_affected_rows(statement);
}

/* if it says anything, then a number above 0 */
void
hand_call(void *arg, int which)
{
    MYSQL_STMT *statement = ((hand *)arg)->statements[which];
    long long said = 0;
    MYSQL_BIND bind = NUMBER_BIND(said);

    if (mysql_stmt_execute(statement) != 0)
        bench_die("the server says: %s", mysql_stmt_error(statement));
    if (mysql_stmt_field_count(statement) == 0)
        return;
    if (mysql_stmt_bind_result(statement, &bind) || mysql_stmt_fetch(statement) != 0 ||
        said <= 0)
        bench_die("the server says %lld: %s", said, mysql_stmt_error(statement));
    mysql_stmt_free_result(statement);
}
