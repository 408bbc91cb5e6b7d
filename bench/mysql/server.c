/* SPDX-License-Identifier: MIT */
/* A MariaDB of our own, with the settings that it has by itself but for room for many clients;
 * and how many statements it has run. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../serve.h"
#include "mysql_bench.h"

static int
answers(const server *s)
{
    MYSQL *mysql = mysql_try(s, NULL);

    if (mysql == NULL)
        return 0;
    mysql_close(mysql);
    return 1;
}

/* whom it runs as, should we be root */
static const char *
user_word(void)
{
    return geteuid() == 0 ? "--user=root" : "";
}

static void
make_database(const server *s)
{
    MYSQL *mysql = mysql_link(s, NULL);

    mysql_do(mysql, "CREATE DATABASE bench");
    mysql_close(mysql);
}

void
server_start(server *s, const char *dir)
{
    char line[1024];
    const char *argv[] = { "sh", "-c", line, NULL };

    sql_shell("mariadb-install-db --no-defaults %s --datadir='%s/data' --skip-test-db "
              "--auth-root-authentication-method=normal >/dev/null",
              user_word(), dir);
    s->port = serve_free_port();
    snprintf(
        line, sizeof line,
        "PATH=$PATH:/usr/sbin exec mariadbd --no-defaults %s --datadir='%s/data' "
        "--socket='%s/socket' --pid-file='%s/pid' --port=%d --bind-address=127.0.0.1 "
        "--skip-name-resolve --max-connections=400",
        user_word(), dir, dir, dir, s->port);
    s->pid = serve(argv);
    server_await(s, answers);
    make_database(s);
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    snprintf(out, size, "mysql://root@127.0.0.1:%d/bench?layout=%s", s->port, layout);
}

server_counts
server_count(const server *s)
{
    MYSQL *mysql = mysql_link(s, "bench");
    server_counts counts = { 0, 0 };
    MYSQL_RES *result;

    mysql_do(mysql, "SHOW GLOBAL STATUS LIKE 'Questions'");
    result = mysql_store_result(mysql);
    if (result == NULL || mysql_num_rows(result) != 1)
        bench_die("the server does not count");
    counts.requests = atof(mysql_fetch_row(result)[1]);
    mysql_free_result(result);
    mysql_close(mysql);
    return counts;
}
