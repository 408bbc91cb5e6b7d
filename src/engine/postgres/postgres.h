/* SPDX-License-Identifier: MIT */
/*
 * The `postgres:` engine: locks in the tables of a PostgreSQL, and PostgreSQL's own advisory
 * locks. src/sql has what is the same on every database; this is the rest.
 *
 * In the order in which to read: postgres.c is the tables of the engine, open and close;
 * address.c turns the URL into what libpq is told; connect.c connects, and finds out what is
 * at the other end, which risk.c may warn of; drive.c runs statements; verdict.c says what an
 * error means; ghost.c ends what was given up; texts.c has the statements; listen.c hears of
 * what others do. bound.h has the layouts `advisory` and `row`.
 */
#ifndef DIBS_ENGINE_POSTGRES_H
#define DIBS_ENGINE_POSTGRES_H

#include <libpq-fe.h>

#include "sql/sql.h"

/* ---- address.c ---- */

/* What libpq takes from a URL under the same name. It reads the rest where psql does: from
 * the service file, the password file and the environment. */
#define LIBPQ_PARAMS                                                                     \
    "host", "port", "service", "passfile", "options", "application_name",                \
        "target_session_attrs", "sslmode", "sslrootcert", "sslcert", "sslkey",           \
        "sslpassword", "sslcrl", "sslcrldir", "sslsni", "ssl_min_protocol_version",      \
        "ssl_max_protocol_version", "channel_binding", "gssencmode", "krbsrvname",       \
        "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"

#define ADDRESS_MAX 48
#define HOSTS_MAX 16
struct address {
    const char *names[ADDRESS_MAX], *values[ADDRESS_MAX];
    size_t count;
    char *hosts; /* allocated: those of the URL, which these point into */
    const char *host_names[HOSTS_MAX], *host_ports[HOSTS_MAX];
    size_t host_count; /* 0: libpq knows where */
};

int dibs__pg_address_read(struct address *out, const dibs_session *session,
                          const dibs_url_parts *url, dibs_error *err);
void dibs__pg_address_free(struct address *address, const dibs_host *host);
/* begin begins to connect to the n-th host, from 0 */
PGconn *dibs__pg_address_begin(const struct address *address, size_t host);

/* ---- the client ---- */

/* Behind a pooler that lends its connections for single transactions, nothing may be left
 * on a connection: no prepared statement, no LISTEN, no setting, no lock. */
enum pooler { POOLER_UNKNOWN, POOLER_NONE, POOLER_TRANSACTIONS };

struct listener;
struct bound;

/* see ghost.c */
#define GHOSTS_MAX 16
struct ghosts {
    pthread_mutex_t mutex;
    _Atomic unsigned count;
    int pids[GHOSTS_MAX];
    dibs_time since[GHOSTS_MAX];
};

/* Besides those of sql.h, the layout advisory has some. */
#define ADVISORY_STATEMENTS 14
#define STATEMENT_NAME_MAX 12
#define PG_STATEMENTS (SQL_STATEMENTS + ADVISORY_STATEMENTS)

struct postgres {
    struct sql sql; /* the first */
    dibs_session *session;
    const dibs_host *host;
    struct address address;
    _Atomic size_t good_host; /* the one that was connected to last */
    enum pooler pooler;       /* known when open is done; the same: */
    int server_version;
    sql_drive drive; /* dibs__pg_drive with the layout's own texts and makes */
    char *text_room; /* allocated, for: */
    const char *texts[PG_STATEMENTS];
    char names[PG_STATEMENTS][STATEMENT_NAME_MAX]; /* of those that are prepared */
    pthread_mutex_t starting;                      /* for the first: */
    struct listener *_Atomic listener;
    struct ghosts ghosts;
    struct bound *bound; /* the layouts advisory and row */
};

/* ---- connect.c ---- */

struct conn {
    PGconn *pg;
    uint8_t uses[PG_STATEMENTS]; /* 0, 1; 2: it is prepared */
    int pid;                     /* the server's process */
    dibs_time used_at;           /* when it was last looked at */
    uint8_t dead;                /* of no more use */
    uint8_t busy;                /* in a call: a fork's child must not touch it */
};

int dibs__pg_connect(void *db, void *own, dibs_time deadline, dibs_error *err);
void dibs__pg_disconnect(void *db, void *own, int forked);

/* ---- risk.c ---- */

/* sets dibs_notice by what connect.c found: a process, and three settings */
void dibs__pg_warn(struct postgres *pg, const PGresult *found);

/* ---- drive.c ---- */

extern const sql_drive dibs__pg_drive;

/* run is the drive's. send only sends: DIBS_OK, EUNAVAIL; ask below waits for it. `which`
 * is less than PG_STATEMENTS. */
int dibs__pg_run(void *db, void *own, enum sql_statement which,
                 const struct sql_value *values, size_t n, struct sql_result *out,
                 dibs_time deadline, dibs_error *err);
int dibs__pg_send(const struct postgres *pg, struct conn *conn, enum sql_statement which,
                  const struct sql_value *values, size_t n, dibs_error *err);
int dibs__pg_exec(void *db, void *own, const char *text, dibs_time deadline,
                  dibs_error *err);
/* query is exec for what is no matter of locks: it does not look for ghosts before. `out`,
 * if it is not NULL, gets the result. */
int dibs__pg_query(struct postgres *pg, struct conn *conn, const char *text,
                   PGresult **out, dibs_time deadline, dibs_error *err);

/* wait_for waits until one of `events` is there on a socket, or until the deadline: what is
 * there, or 0. */
int dibs__pg_wait_for(int fd, int events, dibs_time deadline, const dibs_host *host);
/* is_open says whether the connection is not known to be over, before something is sent. */
int dibs__pg_is_open(struct conn *conn, dibs_time now, const dibs_host *host);
/* ask waits for what was sent: DIBS_OK and its last result (to be freed with PQclear), or
 * what run of a drive says. */
int dibs__pg_ask(struct postgres *pg, struct conn *conn, PGresult **out,
                 dibs_time deadline, dibs_error *err);
/* ready waits until a result can be read without waiting, or the deadline: 1, or 0. */
int dibs__pg_ready(const struct postgres *pg, struct conn *conn, dibs_time deadline);
/* a number of a result that is in binary; 0 if it is none */
int64_t dibs__pg_number(const PGresult *result, int row, int column);

/* ---- ghost.c ---- */

/* add: the answer to a statement on that connection will not be heard. end ends the sessions
 * of all of those, if there are any, by that connection: DIBS_OK, or it is not settled yet what
 * they did. */
void dibs__pg_ghost_add(struct postgres *pg, const struct conn *conn);
int dibs__pg_ghosts_end(struct postgres *pg, struct conn *conn, dibs_time deadline,
                        dibs_error *err);

/* ---- verdict.c ---- */

/* What an error of a statement that was sent means, as run of a drive says it. */
int dibs__pg_verdict(const dibs_host *host, struct conn *conn, const PGresult *result,
                     dibs_error *err);
/* Why a connection could not be made. */
int dibs__pg_refusal(const dibs_host *host, PGconn *pg, dibs_error *err);
/* the first line of a message of libpq, for ours */
#define LINE_MAX_LEN 160
void dibs__pg_line(char out[LINE_MAX_LEN], const char *message);

/* ---- texts.c, classic_texts.c ---- */

extern const char *const dibs__pg_texts[SQL_STATEMENTS];
extern const char *const dibs__pg_makes[];
/* A holder has a token and the 255 numbers after it, for its own process. */
#define PG_MAKE_TOKENS "CREATE SEQUENCE IF NOT EXISTS dibs_tokens INCREMENT BY 256"
#define PG_MAKE_CELLS                                                                    \
    "CREATE TABLE IF NOT EXISTS dibs_cells (space integer, name bytea, "                 \
    "version bigint NOT NULL, value bytea, PRIMARY KEY (space, name))"

/* ---- listen.c ---- */

/* listen begins to listen, and returns when nothing will be missed any more. */
int dibs__pg_listen(struct postgres *pg, dibs_time deadline, dibs_error *err);
void dibs__pg_listener_free(struct postgres *pg, int forked);
/* slots: who waits reads what is told by itself */
void dibs__pg_sleep(void *state, dibs_claim *claim, dibs_time deadline);
void dibs__pg_rouse(void *state, dibs_claim *claim);

/* ---- postgres.c ---- */

/* open reads the URL and connects; what follows is the layout's. A layout with statements
 * or tables of its own sets pg->drive.texts and makes before. close undoes it. */
int dibs__pg_open(struct postgres *pg, dibs_session *session, const dibs_url_parts *url,
                  dibs_time deadline, dibs_error *err);
void dibs__pg_close(struct postgres *pg, int forked);

extern const char *const dibs__pg_schemes[];
extern const dibs_engine *const dibs__pg_layouts[]; /* NULL-terminated */
#define PG_PARAMS LIBPQ_PARAMS, "connect_timeout", "pooler", "connections"

#endif /* DIBS_ENGINE_POSTGRES_H */
