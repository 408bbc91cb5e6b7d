/* SPDX-License-Identifier: MIT */
/*
 * Layouts whose locks are those of a connection: `advisory` and `row`. Every hold, and
 * everyone who waits, has a connection of its own: a stake. Who waits sits in the server's
 * queue, in a statement that does not return before the lock is ours; nobody asks again and
 * again.
 *
 * The lease is the server's too: it ends a session in which nothing was asked for so long.
 * Renewing is asking something.
 *
 * bound.c is the slots; bound_stake.c the connections; bound_words.c what is said on them
 * whatever the layout, and bound_xact.c what is if a lock is a transaction's; bound_watch.c the
 * thread that sees what comes back while nobody asks. advisory.c and row.c are the layouts.
 */
#ifndef DIBS_ENGINE_POSTGRES_BOUND_H
#define DIBS_ENGINE_POSTGRES_BOUND_H

#include "postgres.h"
#include "sql/keymap.h"

enum stake_state {
    STAKE_NEW,     /* nothing is asked yet */
    STAKE_WAITING, /* the statement that waits for the lock is sent */
    STAKE_HELD
};

/* a name in a statement: in hex, or with all its quotes doubled */
#define KEY_TEXT_MAX (2 * DIBS_NAME_MAX + 16)
#define REMEMBERED_MAX 64

struct stake {
    struct stake *next;
    uint64_t number; /* different for all of a client */
    uint64_t serial; /* the claim's; 0: it is idle */
    int is_in_use;   /* by a slot: see find */
    enum stake_state state;
    /* the name that the following is made of, if it is not too long to be remembered */
    char name[REMEMBERED_MAX];
    size_t name_len;
    struct pg_key key;           /* advisory: the number */
    char key_text[KEY_TEXT_MAX]; /* what stands for the name in plain texts */
    int is_shared;
    int is_asked;      /* a heartbeat was sent, and is not answered yet */
    uint32_t lease_ms; /* as the server was told; 0: not yet */
    uint64_t token;
    dibs_time idle_since;
    dibs_bell *bell; /* of who waits */
    struct conn conn;
};

struct bound;

/* What a layout says on a stake; each is one round trip, if nothing is in the way. */
struct bound_form {
    int is_xact; /* a lock is a transaction's, and ends with it */
    /* key writes down in the stake what the name is: DIBS_OK, EINVAL */
    int (*key)(struct bound *bound, struct stake *stake, const char *name, size_t len,
               dibs_error *err);
    /* ask takes the lock if it is free: DIBS_OK and the token, or EBUSY */
    int (*ask)(struct bound *bound, struct stake *stake, const dibs_claim *claim,
               dibs_time deadline, dibs_error *err);
    /* wait sends the statement that waits, after an ask that said EBUSY */
    int (*wait)(struct bound *bound, struct stake *stake, dibs_time deadline,
                dibs_error *err);
    /* give gives the lock back: DIBS_OK, ENOTHELD */
    int (*give)(struct bound *bound, struct stake *stake, dibs_time deadline,
                dibs_error *err);
    /* share lets sharers in; NULL: there are none */
    int (*share)(struct bound *bound, struct stake *stake, dibs_time deadline,
                 dibs_error *err);
    const char *clear; /* a text that gives back whatever it was */
};

/* The state of such a layout begins with this. */
struct bound {
    struct postgres *pg;
    const dibs_host *host;
    const struct bound_form *form;
    unsigned
        wait_most_ms; /* the longest that a statement waits; 0: as long as it takes */
    int has_timeout;  /* the server can end a session that is idle */
    char *text_room;  /* allocated, for the layout's texts */

    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t freed;
    struct stake *taken, *idle;
    unsigned count, most, waiting;
    uint64_t last_number;

    int epoll_fd, stop_fd;
    int is_watching;
    pthread_t thread;
};

/* ---- bound.c ---- */

/* open connects, and makes the layout's state of `size` bytes, which `begin` completes: it
 * chooses the form, and refuses what cannot be. */
typedef int bound_begin(struct bound *bound, const dibs_url_parts *url,
                        dibs_time deadline, dibs_error *err);
int dibs__bound_open(struct postgres *pg, dibs_session *session,
                     const dibs_url_parts *url, size_t size, bound_begin *begin,
                     dibs_time deadline, dibs_error *err);
/* Whatever went wrong, the session is over then, and with it what it had or waited for: so
 * nothing is left, and it is as if nothing had been sent. */
int dibs__bound_code(int rc, dibs_error *err);

void dibs__bound_close(void *state, int forked);
int dibs__bound_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err);
void dibs__bound_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                       dibs_time deadline, dibs_error *err);
int dibs__bound_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err);
int dibs__bound_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                        dibs_time deadline, dibs_error *err);

/* the slots of a table */
#define BOUND_SLOTS                                                                      \
    .state_size = sizeof(struct postgres), .close = dibs__bound_close,                   \
    .attempt = dibs__bound_attempt, .renew = dibs__bound_renew,                          \
    .release = dibs__bound_release, .cell_read = dibs__sql_cell_read,                    \
    .cell_swap = dibs__sql_cell_swap

/* ---- bound_stake.c ---- */

/* find: the claim's stake, which is the caller's alone until it is put back or ended; NULL:
 * there is none, or (then *rc is not 0) another uses it until the deadline. take: a new one
 * for the claim, connected. end gives its connection to the next, if all is well with it. */
struct stake *dibs__bound_find(struct bound *bound, uint64_t serial, dibs_time deadline,
                               int *rc);
int dibs__bound_take(struct bound *bound, const dibs_claim *claim, struct stake **out,
                     dibs_time deadline, dibs_error *err);
void dibs__bound_put(struct bound *bound, struct stake *stake);
void dibs__bound_end(struct bound *bound, struct stake *stake);
void dibs__bound_stakes_free(struct bound *bound, int forked);

/* ---- bound_words.c ---- */

#define TEXT_MAX 256
#define BOUND_AFTER (1000 * DIBS_MS) /* for the rest of an answer that has begun */

/* ask_number: one question with one number, or true or false, as its answer; *out is -1 if
 * there is none. ask_elsewhere: the same on a connection that is nobody's. */
int dibs__bound_ask_number(struct bound *bound, struct conn *conn, const char *text,
                           int64_t *out, dibs_time deadline, dibs_error *err);
int dibs__bound_ask_elsewhere(struct bound *bound, const char *text, int64_t *out,
                              dibs_time deadline, dibs_error *err);
/* limits: the server ends the session when it heard nothing for a lease; and while it waits
 * for a lock, no other limit that the database has shall end it. */
void dibs__bound_limits(const struct bound *bound, char out[TEXT_MAX], uint32_t lease_ms);
/* wait is form->wait, and flushed. won: DIBS_OK and the token when that has returned, EBUSY
 * before. */
int dibs__bound_wait(struct bound *bound, struct stake *stake, dibs_time deadline,
                     dibs_error *err);
int dibs__bound_won(struct bound *bound, struct stake *stake, dibs_time deadline,
                    dibs_error *err);
/* drain waits for the answer to a heartbeat that nobody has waited for long enough. give
 * ends the lock, and cancel the waiting for it, from another connection. */
int dibs__bound_drain(struct bound *bound, struct stake *stake, dibs_time deadline,
                      dibs_error *err);
int dibs__bound_give(struct bound *bound, struct stake *stake, dibs_time deadline,
                     dibs_error *err);
int dibs__bound_cancel(struct bound *bound, struct stake *stake, dibs_time deadline,
                       dibs_error *err);
/* A heartbeat, in two steps, so that those of many connections can be under way at once.
 * DIBS_OK, ELOST (the session is over), EUNKNOWN: the answer is still to come. */
int dibs__bound_beat(struct bound *bound, struct stake *stake, uint32_t lease_ms,
                     dibs_time deadline, dibs_error *err);
int dibs__bound_beaten(struct bound *bound, struct stake *stake, dibs_time deadline,
                       dibs_error *err);

/* ---- bound_xact.c ---- */

#define XACT_TEXT_MAX (TEXT_MAX + KEY_TEXT_MAX + 512)

/* ask begins a transaction and asks in it: DIBS_OK and what it answered (ask_number), or
 * EBUSY if the server says that another has it (NOWAIT). The transaction stays open, also
 * then: send, which sends a text that waits, begins it anew if it must. */
int dibs__xact_ask(struct bound *bound, struct stake *stake, const char *text,
                   uint32_t lease_ms, int64_t *out, dibs_time deadline, dibs_error *err);
int dibs__xact_send(struct bound *bound, struct stake *stake, const char *text,
                    dibs_time deadline, dibs_error *err);
int dibs__xact_give(struct bound *bound, struct stake *stake, dibs_time deadline,
                    dibs_error *err);
#define XACT_CLEAR "ROLLBACK"

/* ---- bound_watch.c ---- */

int dibs__bound_watch_open(struct bound *bound);
void dibs__bound_watch_close(struct bound *bound, int forked);
/* add: the end of that connection is seen; await: also that something came on it. */
int dibs__bound_watch_add(struct bound *bound, const struct stake *stake);
void dibs__bound_watch_await(struct bound *bound, const struct stake *stake,
                             int is_awaited);

/* ---- the layouts ---- */

extern const dibs_engine dibs__pg_advisory, dibs__pg_row;

#endif /* DIBS_ENGINE_POSTGRES_BOUND_H */
