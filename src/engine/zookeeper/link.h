/* SPDX-License-Identifier: MIT */
/*
 * What lies below the layouts: sessions, and how the client library is driven.
 *
 * The library is single-threaded: a session's mutex guards its handle. Whoever waits for an
 * answer drives the library for all who wait at the same session; while nobody does, the
 * pump's thread looks after it. While a session is not connected only the pump drives.
 *
 * Locks are taken in this order: the list of sessions, a session, then watches, names or
 * xids.
 */
#ifndef DIBS_ZK_LINK_H
#define DIBS_ZK_LINK_H

#include <stdatomic.h>

#include "zk.h"

/* ---- how long a session lives: life.c ---- */

#define LIFE_SIGNS 64

/* What we know about the time at which the servers could end a session. */
struct life {
    dibs_time timeout, tick, margin;
    dibs_time
        attached;   /* when the connect request of this connection was sent; 0: none */
    unsigned count; /* signs there were on this connection */
    struct {
        dibs_time sent, answered;
    } signs[LIFE_SIGNS];
    dibs_time weighed; /* when the last op that a quorum stands behind was sent */
    _Atomic dibs_time safe_until;
};

void dibs__zk_life_attach(struct life *life, dibs_time sent, int64_t timeout_ms,
                          int64_t tick_ms, int is_new);
void dibs__zk_life_detach(struct life *life);
void dibs__zk_life_sign(struct life *life, dibs_time sent, dibs_time answered,
                        int by_quorum);
/* need_ms is the shortest session that such a lease can be kept in. */
int64_t dibs__zk_life_need_ms(int64_t lease_ms, int64_t tick_ms);

/* ---- sessions: session.c ---- */

struct batch;

struct session {
    struct zk *zk; /* these four: constant */
    struct session *next;
    uint64_t birth;
    int64_t wanted_ms;

    pthread_mutex_t mutex;  /* for all below that is not atomic */
    pthread_cond_t changed; /* connected, or dead */
    zhandle_t *handle;      /* NULL: dead */
    int fd;                 /* -1: none */
    int driver;             /* a caller drives */
    short events;           /* for poll, as the library said last */
    int was_connected, connected;
    int has_debris; /* a send failed: the library keeps requests it must not send again */
    int fate;       /* why it is dead: ZSESSIONEXPIRED, ZAUTHFAILED, ZCLOSING; 0: alive */
    int trouble;    /* errno of the last failure to connect */
    int64_t granted_ms;
    dibs_time connect_sent;
    struct batch *waiting; /* of callers */
    unsigned flights;      /* requests without an answer */
    size_t watch_bytes;    /* what the library needs to set its watches again, at most */
    int is_behind;         /* a new handle does not know what the old one has seen */
    int beat_flies;
    dibs_time asked_any, asked_quorum; /* when such requests were sent last */
    dibs_time asked_first; /* when the first one of those without an answer was */
    struct life life;

    _Atomic unsigned watchers; /* claims that wait for something of this session */
    _Atomic dibs_time used;    /* when a claim was last seen to; 0: never */

    unsigned addresses;     /* how many the handle has */
    unsigned failures;      /* to connect, since it was connected */
    dibs_time heard;        /* when something came last, or an attempt to connect began */
    dibs_time patience;     /* how long such an attempt may take */
    uint64_t names_edition; /* of the addresses that the handle has */
    dibs_time due;          /* when the pump has to look */
    dibs_time pause;        /* before the next attempt to connect */
    uint32_t mask;          /* of its fd in the pump's epoll; 0: it is not in there */
};

struct sessions {
    pthread_mutex_t mutex;
    struct session *_Atomic first; /* only growing; the dead stay until close */
    uint64_t births;
};

/* remake gives a session that is not connected a new handle, which has no watches. */
void dibs__zk_remake(struct session *session);
/* bury ends a session that the servers ended, or refuse. The mutex is held. */
void dibs__zk_bury(struct session *session, int fate);

/* ---- requests: batch.c ---- */

/* What one call of run sends. It is on the heap, as a caller whose time is up leaves without
 * its answers: then `ops` is NULL, and the last completion frees it. */
struct batch {
    struct session *session;
    struct op *ops;     /* the caller's; NULL: it has left */
    struct batch *next; /* these two: of callers that sleep */
    pthread_cond_t answered;
    int is_beat;
    int pending; /* requests without an answer */
    dibs_time sent;
    int count;
    struct flight *flights;
};

/* NULL: out of memory. Everything an answer needs is there before anything is sent. */
struct batch *dibs__zk_batch_new(struct session *session, struct op *ops, int count);
void dibs__zk_batch_free(struct batch *batch);
/* send with the session's mutex held, and only while it is connected. */
void dibs__zk_batch_send(struct batch *batch);
/* leave: the caller goes; frees the batch, now or with its last answer. */
void dibs__zk_batch_leave(struct batch *batch);
/* whether an rc is an answer of the server */
int dibs__zk_is_answer(int rc);

/* the library counts requests in one place for all handles, and has no lock for it */
void dibs__zk_xid_lock(void);
void dibs__zk_xid_unlock(void);

/* ---- driving: link.c ---- */

/* All with the session's mutex held. interest lets the library send pings, and connect if it
 * is not; `events` is for poll then, *wait says when to come back at the latest. Not 0:
 * there is nothing to poll. */
int dibs__zk_interest(struct session *session, dibs_time *wait);
/* process handles what poll said. ZNOTHING: there was nothing. */
int dibs__zk_process(struct session *session, short revents);
/* check sees what sending may have done to the connection. */
void dibs__zk_check(struct session *session);
/* await_connection: DIBS_OK, EUNAVAIL at the deadline, ELOST, EDENIED. */
int dibs__zk_await_connection(struct session *session, dibs_time deadline,
                              dibs_error *err);
/* catch_up lets all that is asked from here on see what the session has seen before. */
void dibs__zk_catch_up(struct session *session);
/* beat sends a request that nobody waits for, to keep the session and to know that it is
 * kept. */
void dibs__zk_beat(struct session *session, int by_quorum);

/* ---- the pump: pump.c ---- */

int dibs__zk_pump_open(struct zk *zk, dibs_error *err);
void dibs__zk_pump_close(struct zk *zk, int forked);
/* Its thread runs from `start` to `park`, which says since when nobody looks. Under the
 * mutex of the list of sessions, all but is_on. */
int dibs__zk_pump_start(struct zk *zk, dibs_error *err);
void dibs__zk_pump_park(struct zk *zk);
int dibs__zk_pump_is_on(const struct zk *zk);
dibs_time dibs__zk_pump_parked(const struct zk *zk);
/* wake makes it look at all sessions that are due. */
void dibs__zk_pump_wake(struct zk *zk);
/* A caller takes over from the pump, or leaves the session to it. The mutex is held. */
void dibs__zk_pump_hush(struct session *session);
void dibs__zk_pump_resume(struct session *session);

/* ---- names of servers: names.c ---- */

int dibs__zk_names_open(struct zk *zk);
void dibs__zk_names_close(struct zk *zk, int forked);
/* await returns when there are addresses: DIBS_OK, EUNAVAIL, ENOMEM. */
int dibs__zk_names_await(struct zk *zk, dibs_time deadline, dibs_error *err);
/* copy gives the addresses if they are others than those of that edition, else NULL. */
char *dibs__zk_names_copy(struct zk *zk, uint64_t *edition);
/* doubt: nobody answers at the addresses, so the names are looked up again some time. */
void dibs__zk_names_doubt(struct zk *zk);

/* ---- watches: watch.c ---- */

int dibs__zk_watches_open(struct zk *zk);
void dibs__zk_watches_close(struct zk *zk);
/* The library's watcher for ops with `watch`; the context is the session. */
void dibs__zk_watch_fired(zhandle_t *handle, int type, int state, const char *path,
                          void *context);
/* how much of a request a watch takes when it is set again */
size_t dibs__zk_watch_len(const char *path);
/* all who watch in this session are rung, and watch no longer */
void dibs__zk_watch_lost(struct session *session);

#endif /* DIBS_ZK_LINK_H */
