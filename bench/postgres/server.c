/* SPDX-License-Identifier: MIT */
/* A PostgreSQL of our own, with the settings that it has by itself but for room for many
 * clients; and how many statements it has run. It does not run as root. */
#include <glob.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../serve.h"
#include "postgres.h"

enum { END_MS = 5000, SERVERS_MAX = LOGS };

static pid_t started[SERVERS_MAX], starter;

/* where Debian keeps the newest; "": on the path */
static void
find_programs(char *out, size_t size)
{
    glob_t found;

    snprintf(out, size, "%s", "");
    if (glob("/usr/lib/postgresql/*/bin/", 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (strverscmp(found.gl_pathv[i], out) > 0)
            snprintf(out, size, "%s", found.gl_pathv[i]);
    globfree(&found);
}

/* asked to end, it leaves nothing in the system; killed, it would */
static void
end_all(void)
{
    if (getpid() != starter)
        return;
    for (int i = 0; i < SERVERS_MAX; i++)
        if (started[i] > 0)
            kill(started[i], SIGQUIT);
    for (int i = 0; i < SERVERS_MAX; i++)
        for (int ms = 0; started[i] > 0 && serve_runs(started[i]) && ms < END_MS; ms += 5)
            bench_nap_ms(5);
}

static int
answers(const server *s)
{
    char target[96];
    PGconn *pg;
    int is_up;

    snprintf(target, sizeof target,
             "host=127.0.0.1 port=%d user=postgres dbname=postgres", s->port);
    pg = PQconnectdb(target);
    is_up = PQstatus(pg) == CONNECTION_OK;
    PQfinish(pg);
    return is_up;
}

static void
make_data(const char *programs, const char *dir, const char *as)
{
    if (*as != '\0')
        sql_shell("chmod a+x '%s/..' && chown postgres '%s'", dir, dir);
    sql_shell("cd / && setpriv %s '%sinitdb' -D '%s/data' -U postgres -A trust -E UTF8 "
              "--no-sync --no-locale >/dev/null",
              as, programs, dir);
}

static const char *
user_words(void)
{
    return geteuid() == 0 ? "--reuid=postgres --regid=postgres --init-groups" : "";
}

void
server_start(server *s, const char *dir)
{
    char programs[256], line[1024];
    const char *argv[] = { "sh", "-c", line, NULL };

    find_programs(programs, sizeof programs);
    make_data(programs, dir, user_words());
    s->port = serve_free_port();
    snprintf(line, sizeof line,
             "cd / && exec setpriv %s --pdeathsig QUIT '%spostgres' -D '%s/data' -p %d "
             "-c listen_addresses=127.0.0.1 -c unix_socket_directories='%s' "
             "-c max_connections=400 -c shared_preload_libraries=pg_stat_statements "
             "-c dynamic_shared_memory_type=mmap",
             user_words(), programs, dir, s->port, dir);
    s->pid = serve(argv);
    started[s->log] = s->pid;
    if (starter == 0)
        atexit(end_all);
    starter = getpid();
    server_await(s, answers);
    postgres_do(s, "postgres", "CREATE DATABASE bench");
    postgres_do(s, "bench", "CREATE EXTENSION pg_stat_statements");
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    snprintf(out, size, "postgres://postgres@127.0.0.1:%d/bench?layout=%s", s->port,
             layout);
}

void
postgres_do(const server *s, const char *database, const char *text)
{
    PGconn *pg = postgres_connect(s, database);

    PQclear(postgres_check(pg, PQexec(pg, text)));
    PQfinish(pg);
}

server_counts
server_count(const server *s)
{
    PGconn *pg = postgres_connect(s, "bench");
    PGresult *result =
        postgres_check(pg, PQexec(pg, "SELECT sum(calls) FROM pg_stat_statements"));
    server_counts counts = { atof(PQgetvalue(result, 0, 0)), 0 };

    PQclear(result);
    PQfinish(pg);
    return counts;
}
