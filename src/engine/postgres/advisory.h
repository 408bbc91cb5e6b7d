/* SPDX-License-Identifier: MIT */
/*
 * The layout `advisory`: PostgreSQL's own advisory locks, as other clients take them. A lock
 * belongs to a session of the server, so every hold, and everyone who waits, has a connection
 * of its own: a stake. Who waits sits in the server's queue, in a statement that does not
 * return before the lock is ours; nobody asks again and again.
 *
 * The lease is the server's too: it ends a session in which nothing was asked for so long.
 * Renewing is asking something.
 *
 * advisory.c is the slots; advisory_stake.c the connections; advisory_texts.c what is said
 * on them; advisory_watch.c the thread that sees what comes back while nobody asks.
 */
#ifndef DIBS_ENGINE_POSTGRES_ADVISORY_H
#define DIBS_ENGINE_POSTGRES_ADVISORY_H

#include "postgres.h"
#include "sql/keymap.h"

/* in the order of ?form= */
enum form { FORM_SESSION, FORM_XACT };

enum stake_state {
    STAKE_NEW,     /* nothing is asked yet */
    STAKE_WAITING, /* the statement that waits for the lock is sent */
    STAKE_HELD
};

struct stake {
    struct stake *next;
    uint64_t number; /* different for all of a client */
    uint64_t serial; /* the claim's; 0: it is idle */
    int is_in_use;   /* by a slot: see stake_find */
    enum stake_state state;
    struct pg_key key;
    int is_shared;
    int is_asked;      /* a heartbeat was sent, and is not answered yet */
    uint32_t lease_ms; /* as the server was told; 0: not yet */
    uint64_t token;
    dibs_time idle_since;
    dibs_bell *bell; /* of who waits */
    struct conn conn;
};

struct advisory {
    struct postgres *pg;
    const dibs_host *host;
    enum form form;
    pg_keymap *map;
    int has_timeout; /* the server can end a session that is idle */
    char *text_room; /* allocated: see advisory_texts.c */

    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t freed;
    struct stake *taken, *idle;
    unsigned count, most, waiting;
    uint64_t last_number;

    int epoll_fd, stop_fd;
    int is_watching;
    pthread_t thread;
};

/* ---- advisory_stake.c ---- */

/* find: the claim's stake, which is the caller's alone until it is put back or ended; NULL:
 * there is none, or (then *rc is not 0) another uses it until the deadline. take: a new one
 * for the claim, connected. end gives its connection to the next, if all is well with it. */
struct stake *dibs__advisory_find(struct advisory *advisory, uint64_t serial,
                                  dibs_time deadline, int *rc);
int dibs__advisory_take(struct advisory *advisory, const dibs_claim *claim,
                        struct stake **out, dibs_time deadline, dibs_error *err);
void dibs__advisory_put(struct advisory *advisory, struct stake *stake);
void dibs__advisory_end(struct advisory *advisory, struct stake *stake);
void dibs__advisory_stakes_free(struct advisory *advisory, int forked);

/* ---- advisory_texts.c ---- */

int dibs__advisory_texts_make(struct advisory *advisory);
/* Each is one round trip. try: DIBS_OK and the token, or EBUSY. wait sends the statement
 * that waits. won: DIBS_OK and the token when it has returned, EBUSY before. */
int dibs__advisory_try(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
                       dibs_time deadline, dibs_error *err);
int dibs__advisory_wait(struct advisory *advisory, struct stake *stake, dibs_error *err);
int dibs__advisory_won(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                       dibs_error *err);
/* give ends the lock, or the waiting for it (from another connection: cancel) */
int dibs__advisory_give(struct advisory *advisory, struct stake *stake,
                        dibs_time deadline, dibs_error *err);
int dibs__advisory_cancel(struct advisory *advisory, struct stake *stake,
                          dibs_time deadline, dibs_error *err);
int dibs__advisory_share(struct advisory *advisory, struct stake *stake,
                         dibs_time deadline, dibs_error *err);
/* A heartbeat, in two steps, so that those of many connections can be under way at once.
 * DIBS_OK, ELOST (the session is over), EUNKNOWN: the answer is still to come. */
int dibs__advisory_beat(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
                        dibs_time deadline, dibs_error *err);
int dibs__advisory_beaten(struct advisory *advisory, struct stake *stake,
                          dibs_time deadline, dibs_error *err);
/* ends all sessions that hold that key, and counts them */
int dibs__advisory_evict_key(struct advisory *advisory, const struct pg_key *key,
                             size_t *broken, dibs_time deadline, dibs_error *err);

/* ---- advisory_watch.c ---- */

int dibs__advisory_watch_open(struct advisory *advisory);
void dibs__advisory_watch_close(struct advisory *advisory, int forked);
/* add: the end of that connection is seen; await: also that something came on it. */
int dibs__advisory_watch_add(struct advisory *advisory, const struct stake *stake);
void dibs__advisory_watch_await(struct advisory *advisory, const struct stake *stake,
                                int is_awaited);

extern const dibs_engine dibs__pg_advisory;

#endif /* DIBS_ENGINE_POSTGRES_ADVISORY_H */
