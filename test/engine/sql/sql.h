/* SPDX-License-Identifier: MIT */
/*
 * What can be done to a database, and what a user of dibs sees of it. The cases are the same
 * for the engines postgres and mysql; what they need of an engine is in its faults.c. What is
 * true of other servers too is in members.h: that is built into the same programs.
 *
 * connections.c: an administrator ends connections, servers end those that are idle, or have
 * no more. isolation.c: transactions that the server undoes. access.c: users, passwords,
 * servers that take no changes, TLS. clock.c: the clock of the database is moved. rows.c:
 * what is in the table. bound.c: layouts whose locks are those of a connection. row.c: the layout
 * row, and tables of others.
 */
#ifndef TEST_SQL_H
#define TEST_SQL_H

#include "members.h"

/* where the locks are */
#define DATABASE "locks"

/* What an engine's faults.c says of it, besides `engine`. */
typedef struct sql_engine {
    void (*start)(server *out, const server_options *options);
    /* servers that end connections after a second, have ten connections, and undo
     * transactions that meet */
    server_options brief, few, strict;
    /* the condition for the row of NAME; the clock in microseconds; statements, with two
     * numbers, that add old rows to dibs_locks and dibs_unique */
    const char *is_name, *now, *old_rows, *old_unique;
    /* the user "app" with the password "secret": statements without a database, and in it */
    const char *create_user, *grant_connect, *grant_all, *grant_use;
    /* parameters for TLS with an authority and a certificate of `folder` */
    void (*print_tls)(char *out, size_t size, const char *authority);
    void (*make_read_only)(server *server);
} sql_engine;
extern const sql_engine database;

/* members_engine's start_one: with the database DATABASE. */
void sql_start(server *out, const server_options *options);

/* For members_engine: sql_count_records counts those who hold or wait, for NAME or, if
 * `prefix` is "", for any name; sql_is_line says whether those who wait are written down. */
int sql_count_records(const server *of, const char *prefix);
void sql_show_all(const server *of);
int sql_is_line(void);

/* What `engine` and `stage` say of every database. */
#define SQL_MEMBERS                                                                      \
    .has_layouts = 1, .start_one = sql_start, .count_keys = sql_count_records,           \
    .count_lives = sql_count_clients, .most_lives = 10, .show = sql_show_all,            \
    .root = "", .is_line = sql_is_line
#define SQL_STAGE .layout = "lease", .limit_s = 60, .clean_up = members_clean_up

/* try_url opens a URL and tries to take NAME there; print_url writes one of `one`, with
 * "user:password@" and further parameters. */
int try_url(const char *url);
void print_url(char *out, size_t size, const char *user, const char *parameters);
int try_as(const char *user, const char *parameters);

#endif /* TEST_SQL_H */
