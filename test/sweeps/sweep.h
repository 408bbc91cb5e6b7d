/* SPDX-License-Identifier: MIT */
/*
 * Sweeps: one and the same play of two clients is done again and again, and each time one
 * thing happens to one request, one answer or one byte of it, until each had its turn (or a
 * sample of them). `sweep ENGINE CASE LAYOUT` is one test.
 *
 * main.c: which faults there are, in which order, and what came of them. play.c: the play,
 * and what must be true of it whatever happens. stores.c: the servers of each engine. late.c:
 * whether the machine is too busy to tell who is late.
 *
 * Plays are done side by side, each in a lane with names and a wire of its own, because they
 * mostly wait. What an interrupted play leaves at the server is looked for at the end.
 */
#ifndef TEST_SWEEP_H
#define TEST_SWEEP_H

#include "servers.h"
#include "user.h"

#define LANES_MAX 16

/* ---- stores.c ---- */

/* The servers that an engine's clients use, in one of its layouts. */
typedef struct store {
    fault_stage stage;
    const char *engine;
    const char *layouts; /* " queue plain ": it is for these */
    int servers;         /* that a client knows */
    int spoiled;         /* to how many of them the way is spoiled: it must matter */
    void (*start)(void);
    /* a URL, from "127.0.0.1:P1,..." */
    void (*print_url)(char *out, size_t size, const char *hosts);
    int (*count_left)(void);
    void (*show_left)(void);
    int64_t remains_ms; /* how much longer than a lease a dead client's may be kept */
    int64_t silent_ms;  /* after which a connection is given up that answers nothing */
    int must_agree; /* one answer too many ends the process: its library checks that */
} store;

/* store_find finds the one for an engine and layout, or returns NULL. store_port is the port
 * of one of its servers. */
const store *store_find(const char *engine, const char *layout_name);
int store_port(int index);

/* ---- late.c ---- */

/* was_late_since says whether the machine had no time for us or the servers since then,
 * between late_watch and late_watch_end. `url` is a way there that is not spoiled. */
void late_watch(const char *url);
void late_watch_end(void);
int was_late_since(int64_t when_ms);

/* ---- play.c ---- */

#define CODES 20

/* What came of the calls of plays: how often each code, from DIBS_OK on. */
typedef struct tally {
    _Atomic int codes[CODES];
    _Atomic int lies; /* where what is heard may be wrong: what was not as it was said */
    _Atomic int late; /* calls that were excused because the machine was late */
} tally;

/* A play: `through` is the URL by which the two get to the store; the judge has a way of its
 * own, and looks what they left. */
typedef struct play {
    const store *at;
    const char *through;
    dibs *judge;
    char name[48];  /* of the lock, and of the cell */
    char fault[80]; /* for people */
    int may_fail;   /* 0: whatever happens, every call must work */
    int is_silent;  /* a connection may go silent for ever */
    int may_lie;    /* what is heard may be wrong: then only crashes and hangs count */
    tally *tally;
    int64_t began;
} play;
void play_run(play *play);

#endif /* TEST_SWEEP_H */
