/* SPDX-License-Identifier: MIT */
/*
 * The mysql engine: what its files share. MariaDB is what it is tested on; MySQL is spoken to
 * in the same words, but for a few (is_mariadb).
 *
 * mysql.c has the tables of the layouts, open and close; login.c reads how to log in from
 * the URL; link.c is one connection, driven without blocking until a deadline; greet.c makes
 * a new one fit and refuses servers that cannot keep locks; trouble.c says what an error
 * number means; statement.c is a prepared statement; drive.c is what src/sql asks for on top
 * of it. stray.c ends connections that were given up. texts.c has the statements of the
 * layout lease, and bell.c wakes its waiters: by GET_LOCK, on connections of their own, which
 * are wires. wire.c is such a connection, and the thread that hears from all of them;
 * bound.h has the layouts that need nothing else, get_lock and row. classic.c has the others.
 */
#ifndef DIBS_MY_H
#define DIBS_MY_H

#include <mysql.h>

#include <dibs/engine.h>

#include "sql/sql.h"

/* ---- login.c ---- */

#define MY_PORT 3306
#define MY_DATABASE_MAX 64

/* Texts are the URL's, and live as long as the client. */
struct my_login {
    const dibs_host *host;
    const char *hosts; /* "": this machine, or what the option files say */
    const char *user, *password, *database, *socket;
    const char *ca, *cert, *key; /* NULL: the system's, or none */
    int tls, insecure, defaults;
};
int dibs__my_login_read(struct my_login *login, const dibs_host *host,
                        const dibs_url_parts *url, dibs_error *err);
/* The server that `*rest` begins with, and *rest behind it: 0, or -1: it is none. */
struct my_address {
    char host[256];
    unsigned port;
};
int dibs__my_address_next(struct my_address *out, const char **rest);

/* ---- link.c ---- */

struct my_link;

/* A step is one operation of libmariadb that may have to wait: `ready` less than 0 begins it,
 * else it goes on with what the socket is ready for. Returns what to wait for, 0: done. */
typedef int my_step(struct my_link *link, void *of, int ready);

/* a statement that was prepared on a connection */
struct my_statement;

#define SEEN_MAX 300

struct my_link {
    const struct my_login *login;
    MYSQL *mysql;
    unsigned long id;       /* the server's number of this connection */
    char seen_as[SEEN_MAX]; /* where it comes from, for the server */
    int is_mariadb, is_broken;
    dibs_time seen_open;         /* when it was last seen not to be closed */
    int is_shared;               /* with other clients, by a proxy */
    const struct sql_risk *risk; /* what may make the server forget; NULL: nothing */
    int is_busy; /* a thread is in a call: a fork's child must not touch it */
    /* the step under way, what it waits for (0: there is none), and what it said */
    my_step *step;
    void *of;
    int waits_for;
    int said;
    MYSQL *connected;
    MYSQL_RES *stored;
    struct my_statement *statements[SQL_STATEMENTS];
};

/* open logs in at one of the servers: DIBS_OK, EUNAVAIL, ETIMEDOUT, EDENIED, ECONFIG,
 * EUNSUPPORTED, ENOMEM. A fork's child closes without a word to the server. */
int dibs__my_link_open(struct my_link *link, const struct my_login *login,
                       dibs_time deadline, dibs_error *err);
void dibs__my_link_close(struct my_link *link, int forked);
/* was it closed while nothing was asked? Then nothing that follows has been sent. One that was
 * there a moment ago is not looked at. */
int dibs__my_link_is_closed(struct my_link *link);
/* begin starts a step, proceed goes on with it when the socket may be ready, finish waits for
 * its end: 0, or -1 at the deadline; then the link is broken. do_step is begin and finish. */
void dibs__my_link_begin(struct my_link *link, my_step *step, void *of);
void dibs__my_link_proceed(struct my_link *link);
int dibs__my_link_finish(struct my_link *link, dibs_time deadline);
int dibs__my_link_do(struct my_link *link, my_step *step, void *of, dibs_time deadline);

/* the step of a text that returns nothing */
my_step dibs__my_step_query;
/* exec runs a text that returns nothing; ask one that returns rows (free with
 * mysql_free_result). Codes are those of sql_drive.run. */
int dibs__my_link_exec(struct my_link *link, const char *text, dibs_time deadline,
                       dibs_error *err);
int dibs__my_link_ask(struct my_link *link, const char *text, MYSQL_RES **out,
                      dibs_time deadline, dibs_error *err);

/* ---- greet.c ---- */

/* DIBS_OK, or why locks are not kept there */
int dibs__my_greet(struct my_link *link, dibs_time deadline, dibs_error *err);

/* ---- trouble.c ---- */

/* The code for an error number of the server or the library. `sent`: the statement had been
 * sent, so that a lost connection leaves open whether it was done. */
int dibs__my_trouble(const struct my_link *link, unsigned number, const char *text,
                     int sent, dibs_error *err);
/* one of them that leaves the connection of no more use */
int dibs__my_is_fatal(unsigned number);
/* the deadline came before the answer */
int dibs__my_too_late(struct my_link *link, dibs_error *err);

/* ---- statement.c ---- */

/* prepare: once for each connection and statement; text has ?1 ?2 .. . execute is bind, then
 * the step execute, then rows, for those who wait in between. Codes are those of
 * sql_drive.run. */
int dibs__my_prepare(struct my_link *link, struct my_statement **slot, const char *text,
                     dibs_time deadline, dibs_error *err);
int dibs__my_bind(struct my_link *link, struct my_statement *statement,
                  const struct sql_value *params, size_t n, dibs_error *err);
my_step dibs__my_step_execute;
int dibs__my_rows(struct my_link *link, struct my_statement *statement,
                  struct sql_result *out, dibs_time deadline, dibs_error *err);
int dibs__my_execute(struct my_link *link, struct my_statement *statement,
                     const struct sql_value *params, size_t n, struct sql_result *out,
                     dibs_time deadline, dibs_error *err);
void dibs__my_statement_free(const dibs_host *host, struct my_statement *statement);

/* ---- the engine ---- */

extern const sql_drive dibs__mysql_drive; /* of the layout lease */
extern const char *const dibs__mysql_texts[SQL_STATEMENTS];
extern const char *const dibs__mysql_makes[];
/* what get_lock has its tokens from, and the cells */
extern const char *const dibs__my_sequence_makes[];
extern const char *const dibs__my_row_makes[];

struct my_bells;
struct my_bound;

/* ---- stray.c ---- */

#define STRAYS_MOST 8
struct my_stray {
    unsigned long id;
    char seen_as[SEEN_MAX];
};
struct my_strays {
    pthread_mutex_t mutex;
    _Atomic unsigned count;
    struct my_stray list[STRAYS_MOST];
};

struct mysql;
/* prepare: for a link that is new. add: it was given up, and what was sent may not have
 * arrived. end ends all of them at the server: DIBS_OK, or that link is of no more use. */
int dibs__my_stray_prepare(struct my_link *link, dibs_time deadline, dibs_error *err);
void dibs__my_stray_add(struct mysql *mysql, const struct my_link *link);
int dibs__my_strays_end(struct mysql *mysql, struct my_link *link, dibs_time deadline,
                        dibs_error *err);

/* what a client has; src/sql's part comes first */
struct mysql {
    struct sql sql;
    struct my_login login;
    sql_drive drive; /* that of the layout */
    int is_mariadb;
    struct my_strays strays;
    struct my_bells *bells; /* the layout lease */
    struct my_bound *bound; /* the layouts get_lock and row */
};

/* open connects, without what only one layout has. The layout's texts and makes may be in
 * drive before; else they are those of lease. */
int dibs__mysql_open(struct mysql *mysql, dibs_session *session,
                     const dibs_url_parts *url, dibs_time deadline, dibs_error *err);
void dibs__mysql_close(void *state, int forked);

extern const char *const dibs__mysql_schemes[];
extern const dibs_engine *const dibs__mysql_layouts[];
/* of all layouts */
#define MYSQL_PARAMS                                                                     \
    "connections", "tls", "ca", "cert", "key", "insecure", "socket", "defaults"

/* what several layouts need */
#define MY_MAKE_TOKENS "CREATE SEQUENCE IF NOT EXISTS dibs_tokens"
#define MY_MAKE_CELLS                                                                    \
    "CREATE TABLE IF NOT EXISTS dibs_cells (\n"                                          \
    "    space TINYINT NOT NULL,\n"                                                      \
    "    name VARBINARY(512) NOT NULL,\n"                                                \
    "    version BIGINT NOT NULL,\n"                                                     \
    "    value BLOB,\n"                                                                  \
    "    PRIMARY KEY (space, name)\n"                                                    \
    ") ENGINE = InnoDB"

#endif /* DIBS_MY_H */
