/* SPDX-License-Identifier: MIT */
/*
 * How databases are asked: by the commands that come with them, so that tests need no
 * libraries of theirs. See servers.h.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

void
sql_words(struct words *to, const server *of, const char *database, const char *text)
{
    if (of->kind == KIND_MARIADB) {
        mariadb_ask_words(to, of, database, text);
    } else {
        postgres_ask_words(to, of, database, text);
    }
}

static char *
ask(const server *of, const char *database, const char *text, int *status)
{
    struct words words;
    memset(&words, 0, sizeof(words));
    sql_words(&words, of, database, text);
    return run_words(&words, status);
}

static char *
ask_printed(const server *of, const char *database, const char *format, va_list args,
            int surely)
{
    char *text = NULL;
    int status = 0;
    CHECK(vasprintf(&text, format, args) >= 0);
    char *answer = ask(of, database, text, &status);
    if (status != 0 && surely) {
        FAIL("the database at port %d answers '%s' with %s", of->port, text, answer);
    }
    if (status != 0) {
        free(answer);
        answer = NULL;
    }
    free(text);
    return answer;
}

char *
sql_ask(const server *of, const char *database, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *answer = ask_printed(of, database, format, args, 0);
    va_end(args);
    return answer;
}

void
sql_do(const server *of, const char *database, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    free(ask_printed(of, database, format, args, 1));
    va_end(args);
}

int64_t
sql_number(const server *of, const char *database, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *answer = ask_printed(of, database, format, args, 1), *end = answer;
    va_end(args);
    int64_t number = strtoll(answer, &end, 10);
    if (end == answer || *end != '\n' || end[1] != '\0') {
        FAIL("'%s' answers with '%s', which is no number", format, answer);
    }
    free(answer);
    return number;
}

int
sql_is_ready(const server *of)
{
    char *answer = sql_ask(of, NULL, "SELECT 1");
    int ready = answer != NULL && strcmp(answer, "1\n") == 0;
    free(answer);
    return ready;
}

void
sql_drop(const server *of, const char *database)
{
    char text[128];
    struct words words;
    memset(&words, 0, sizeof(words));
    (void)snprintf(text, sizeof(text), "DROP DATABASE %s%s", database,
                   of->kind == KIND_MARIADB ? "" : " WITH (FORCE)");
    sql_words(&words, of, NULL, text);
    (void)reap(spawn_program(words.list, "/dev/null"), slowly(10000));
}

/* ---- clients ---- */

#define POSTGRES_CLIENTS                                                                 \
    "FROM pg_stat_activity WHERE backend_type = 'client backend' AND "                   \
    "pid <> pg_backend_pid()"
#define MARIADB_CLIENTS                                                                  \
    "FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND "               \
    "command <> 'Daemon'"

int
sql_count_clients(const server *of)
{
    return (int)sql_number(of, NULL, "SELECT count(*) %s",
                           of->kind == KIND_MARIADB ? MARIADB_CLIENTS : POSTGRES_CLIENTS);
}

static void
cut_mariadb(const server *of)
{
    char *ids = sql_ask(of, NULL, "SELECT concat('KILL ', id, ';') " MARIADB_CLIENTS);
    CHECK(ids != NULL);
    for (char *rest = NULL, *line = strtok_r(ids, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        /* it may have ended by itself */
        free(sql_ask(of, NULL, "%s", line));
    }
    free(ids);
}

void
sql_cut(const server *of)
{
    if (of->kind == KIND_MARIADB) {
        cut_mariadb(of);
    } else {
        sql_do(of, NULL, "SELECT pg_terminate_backend(pid) " POSTGRES_CLIENTS);
    }
}

/* ---- locks ---- */

/* the clock in microseconds, and as a time in UTC */
#define POSTGRES_US "extract(epoch FROM clock_timestamp()) * 1000000"
#define POSTGRES_UTC "(clock_timestamp() AT TIME ZONE 'UTC')"
#define MARIADB_US "UNIX_TIMESTAMP(SYSDATE(6)) * 1000000"
#define MARIADB_UTC "UTC_TIMESTAMP(6)"

/* The tables of the layouts, and which of their rows are locks that somebody has: NULL, or
 * also those of which `until` is later than the clock */
static const struct {
    const char *table, *taken, *until;
    int is_utc;
} tables[] = {
    { "dibs_locks", "state <> ''", NULL, 0 },
    { "dibs_unique", "count > 0", "until", 0 },
    { "dibs_status", "status <> 'free'", "until", 0 },
    { "shedlock", "locked_by <> ''", "lock_until", 1 },
    { "INT_LOCK", "CLIENT_ID <> ''", "EXPIRED_AFTER", 1 },
};

/* writes which rows are locks that somebody has */
static void
print_taken(char *out, size_t size, const server *of, size_t table)
{
    int is_mariadb = of->kind == KIND_MARIADB;
    const char *us = is_mariadb ? MARIADB_US : POSTGRES_US;
    const char *utc = is_mariadb ? MARIADB_UTC : POSTGRES_UTC;
    int len = snprintf(out, size, "%s", tables[table].taken);
    if (tables[table].until != NULL) {
        (void)snprintf(out + len, size - (size_t)len, " AND %s > %s", tables[table].until,
                       tables[table].is_utc ? utc : us);
    }
}

#define POSTGRES_ADVISORY                                                                \
    "SELECT l.pid, l.classid, l.objid FROM pg_locks l JOIN pg_database d "               \
    "ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = "               \
    "current_database()"

/* the names of the tables there are, a line each */
static char *
list_tables(const server *of, const char *database)
{
    char *names = sql_ask(of, database,
                          "SELECT concat('.', table_name, '.') FROM "
                          "information_schema.tables WHERE table_schema = %s",
                          of->kind == KIND_MARIADB ? "database()" : "current_schema()");
    CHECK(names != NULL);
    return names;
}

static int
has_table(const char *names, const char *table)
{
    char quoted[96];
    (void)snprintf(quoted, sizeof(quoted), ".%s.", table);
    return strcasestr(names, quoted) != NULL;
}

int
sql_count_locks(const server *of, const char *database)
{
    char *names = list_tables(of, database), query[2048], taken[160];
    int len = snprintf(query, sizeof(query), "SELECT 0");
    if (of->kind == KIND_POSTGRES) {
        len += snprintf(query + len, sizeof(query) - (size_t)len,
                        " + (SELECT count(*) FROM (" POSTGRES_ADVISORY ") a)");
    }
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (has_table(names, tables[i].table)) {
            print_taken(taken, sizeof(taken), of, i);
            len +=
                snprintf(query + len, sizeof(query) - (size_t)len,
                         " + (SELECT count(*) FROM %s WHERE %s)", tables[i].table, taken);
            CHECK((size_t)len < sizeof(query));
        }
    }
    free(names);
    return (int)sql_number(of, database, "%s", query);
}

static void
show(const server *of, const char *database, const char *what, const char *query)
{
    char *rows = sql_ask(of, database, "%s", query);
    fprintf(stderr, "%s:\n%s", what, rows != NULL ? rows : "there is no such table\n");
    free(rows);
}

void
sql_show(const server *of, const char *database)
{
    char query[256], taken[160];
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        print_taken(taken, sizeof(taken), of, i);
        (void)snprintf(query, sizeof(query), "SELECT * FROM %s WHERE %s", tables[i].table,
                       taken);
        show(of, database, tables[i].table, query);
    }
    if (of->kind == KIND_POSTGRES) {
        show(of, database, "advisory locks", POSTGRES_ADVISORY);
    }
}
