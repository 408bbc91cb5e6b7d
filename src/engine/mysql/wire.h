/* SPDX-License-Identifier: MIT */
/*
 * Wires: connections on which a lock is waited for, mostly GET_LOCK's, each for one claim at a time, and one
 * thread that hears from all of them. Users of it say what an answer means.
 *
 * A wire in state BUSY belongs to the thread that made it so, and is worked on without the
 * mutex. In all other states it is touched under the mutex only.
 */
#ifndef DIBS_MY_WIRE_H
#define DIBS_MY_WIRE_H

#include "my.h"

enum my_wire_state {
    WIRE_OFF,     /* there is no connection */
    WIRE_IDLE,    /* connected, and nobody's */
    WIRE_BUSY,    /* somebody's, who is at work on it */
    WIRE_ASKING,  /* GET_LOCK is under way */
    WIRE_HELD,    /* the lock is ours */
    WIRE_LETTING, /* RELEASE_LOCK is under way */
};

enum my_wire_statement { WIRE_GET, WIRE_LET, WIRE_TOKEN, WIRE_TRY, WIRE_STATEMENTS };

#define WIRE_NAME_MAX 512

struct my_wire {
    struct my_wire *next;
    struct my_link link;
    enum my_wire_state state;
    uint64_t serial; /* of the claim; 0: nobody's */
    dibs_bell *bell; /* where its caller sleeps; NULL: it does not */
    size_t name_len;
    char name[WIRE_NAME_MAX];
    int64_t answer;  /* what GET_LOCK gave; -1: NULL, or it failed */
    int was_lost;    /* the session of a HELD lock has ended */
    int is_unwanted; /* it is to be closed by whom it belongs to */
    int is_quiet;    /* the thread will be told of its end, and only of that */
    enum my_wire_statement asked; /* what was begun last */
    char before[65];              /* a bell: the one that is waited for */
    dibs_time keeps_until;        /* and until when it is not let go for nothing */
    char text[48];                /* of what is under way */
    unsigned lease_s;             /* what the server knows as wait_timeout; 0: its own */
};

struct my_wires {
    dibs_session *session;
    const dibs_host *host;
    const struct my_login *login;
    /* called with the mutex: what was under way is done; or, if was_lost, a HELD is over */
    void (*heard)(struct my_wires *wires, struct my_wire *wire);
    void *owner;
    const char *texts[WIRE_STATEMENTS];
    unsigned most;
    pthread_cond_t calm;   /* a wire is not BUSY any more */
    pthread_mutex_t mutex; /* for all below */
    struct my_wire *all;
    unsigned count;
    int epoll, wake; /* descriptors */
    int is_running, is_ending;
    pthread_t thread;
};

int dibs__my_wires_open(struct my_wires *wires, dibs_error *err);
void dibs__my_wires_close(struct my_wires *wires, int forked);

/* take: a connected wire, BUSY, for a claim. DIBS_OK; EUNAVAIL: there are too many, or what
 * link_open says. put: it is nobody's any more; a broken one is closed. */
int dibs__my_wire_take(struct my_wires *wires, struct my_wire **out, uint64_t serial,
                       dibs_time deadline, dibs_error *err);
void dibs__my_wire_put(struct my_wires *wires, struct my_wire *wire);
struct my_wire *dibs__my_wire_find_locked(struct my_wires *wires, uint64_t serial);
void dibs__my_wire_put_locked(struct my_wires *wires, struct my_wire *wire);
/* await_calm waits while it is BUSY with another thread: 0, or -1 at the deadline */
int dibs__my_wire_await_calm_locked(struct my_wires *wires, struct my_wire *wire,
                                    dibs_time deadline);
/* listen: from now on the thread, which start starts, hears of it; not 0: it cannot */
int dibs__my_wires_start_locked(struct my_wires *wires);
int dibs__my_wire_listen_locked(struct my_wires *wires, struct my_wire *wire);
/* run prepares a statement and waits for its end, on a BUSY wire. begin does not wait, and
 * wants one that was prepared. The codes of sql_drive.run. */
int dibs__my_wire_run(struct my_wires *wires, struct my_wire *wire,
                      enum my_wire_statement which, const struct sql_value *params,
                      size_t n, struct sql_result *out, dibs_time deadline,
                      dibs_error *err);
int dibs__my_wire_prepare(struct my_wires *wires, struct my_wire *wire,
                          enum my_wire_statement which, dibs_time deadline,
                          dibs_error *err);
int dibs__my_wire_begin(struct my_wire *wire, enum my_wire_statement which,
                        const struct sql_value *params, size_t n, dibs_error *err);
/* answer reads the number that the statement gave, when it is done; -1: NULL or an error */
int64_t dibs__my_wire_answer(struct my_wire *wire, enum my_wire_statement which);

#endif /* DIBS_MY_WIRE_H */
