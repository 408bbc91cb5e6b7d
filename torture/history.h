/* SPDX-License-Identifier: MIT */
/*
 * What a run of torture leaves behind: turns and incidents, in memory that all processes of
 * the run share, so that a process which is killed in the middle leaves what it wrote.
 *
 * A turn is one request for a lock and what came of it, written by the process that made it.
 * Each field is written once, in the order in which things happen (but for last_held, which
 * moves), so that a turn that breaks off says how far it came. An incident is something that
 * was done to a process or to a server, written by the process that did it.
 *
 * All times are boot time in nanoseconds, read by the system call itself, so that nothing
 * which moves the clocks of a process can move these. 0 is "not (yet)".
 */
#ifndef TORTURE_HISTORY_H
#define TORTURE_HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What a turn says. */
struct turn {
    uint32_t client; /* which of the run's places for a process, from 0 */
    uint32_t life;   /* which process that was there: a killed one is replaced */
    uint32_t thread; /* which of its threads */
    uint32_t name;   /* which of the run's names */
    int32_t mode;    /* enum dibs_mode */
    uint32_t permits, limit;
    uint32_t lease_ms;
    int64_t wait_ms; /* as in dibs_request */

    _Atomic int64_t invoked;  /* before the call */
    _Atomic int64_t returned; /* after it; only then the next three are set */
    int32_t code;             /* what it returned */
    int32_t previous;
    uint64_t token;

    _Atomic int64_t first_held; /* after the first dibs_held that said 1: belief begins */
    _Atomic int64_t last_held;  /* before the last one that said 1: believed till then;
                                 * stays where it is after a downgrade */
    _Atomic int64_t not_held;   /* after the first one that said 0 */
    _Atomic int64_t held_again; /* after one that said 1 later than that */

    _Atomic int64_t lost_at; /* on_lost was called, the first time */
    _Atomic uint32_t lost_calls;

    _Atomic int64_t sealed; /* after the register took or refused the token */
    int32_t seal_code;      /* DIBS_OK, DIBS_ESTALE */
    int32_t fence_code;     /* of dibs_fence, which is called after that; 1: not called */
    _Atomic uint64_t wrote; /* the number of the write the register took; 0: none */

    _Atomic int64_t releasing; /* before the release (or abandon) */
    _Atomic int64_t released;  /* after it */
    int32_t release_code;
    int32_t abandoned; /* let to run out, not released */
};

enum incident_kind {
    INCIDENT_KILL =
        1,           /* kill -9 of a client: `from` before, `until` when it was reaped */
    INCIDENT_PAUSE,  /* a client stood still */
    INCIDENT_SERVER, /* something was done to servers, or the way to them */
    INCIDENT_LATE    /* the machine itself stood still: a sleep took far too long */
};

struct incident {
    int32_t kind;
    uint32_t client, life; /* KILL, PAUSE */
    _Atomic int64_t from;
    _Atomic int64_t until; /* 0: it was not over when the run ended */
    char what[40];         /* for people: "leader killed" */
};

/* Error texts, for the rule that no secret and no control byte may be in them. */
#define HISTORY_TEXT 512
struct said {
    _Atomic uint32_t client; /* and 1: 0 is a text that is not there */
    char text[HISTORY_TEXT];
};

#define HISTORY_TURNS ((size_t)1 << 22)
#define HISTORY_INCIDENTS ((size_t)1 << 16)
#define HISTORY_SAID ((size_t)1 << 12)

/* The register: a resource that refuses older tokens, one for each name. Writers take
 * `busy` while they change it; who is killed in there leaves its pid, which the next one
 * finds dead. `writes` counts what it took, and `sum` adds up what was written, so that a
 * write which was taken and is gone shows. */
#define HISTORY_NAMES 64
struct fenced_register {
    _Atomic int64_t busy;
    _Atomic uint64_t largest, writes, sum;
};

struct history {
    _Atomic size_t turn_count, incident_count, said_count;
    _Atomic size_t dropped; /* what there was no room for: such a run proves nothing */
    int busy; /* of a hundred moments of the run, in how many somebody lacked a processor */
    struct fenced_register registers[HISTORY_NAMES];
    struct incident incidents[HISTORY_INCIDENTS];
    struct said said[HISTORY_SAID];
    struct turn turns[HISTORY_TURNS];
};

/* history_new maps an empty one (memory is used only as it fills), or returns NULL.
 * history_free unmaps it. */
struct history *history_new(void);
void history_free(struct history *history);

/* These return a new entry, or NULL if there is no room left, which is counted. */
struct turn *history_turn(struct history *history);
struct incident *history_incident(struct history *history, int kind, const char *what);
void history_say(struct history *history, uint32_t client, const char *text);

int64_t history_now(void);

#endif /* TORTURE_HISTORY_H */
