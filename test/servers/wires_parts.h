/* SPDX-License-Identifier: MIT */
/*
 * What the files of the wires share. wires.c: the test's side, which starts the process and
 * orders it about. wires_process.c: the process. wires_way.c: what is under way from one end
 * of a connection to the other. wires_fault.c: what is done to it there. wires_whose.c: which
 * process a connection is of.
 */
#ifndef TEST_SERVERS_WIRES_PARTS_H
#define TEST_SERVERS_WIRES_PARTS_H

#include <sys/types.h>

#include "parts.h"

#define PAIRS_MAX 512
#define CHUNK_MAX 16384

enum order {
    ORDER_FLOW,
    ORDER_HOLD,
    ORDER_MUTE,
    ORDER_REFUSE,
    /* the ones before say how it is from now on, these do something once */
    ORDER_CUT,
    ORDER_COUNT,
    ORDER_BAR,
    ORDER_DEAF,
    ORDER_SPOIL
};

/* What the process is told; it answers with a wires_count, once it is done. */
struct wires_message {
    enum order order;
    int wire;
    pid_t pid; /* for ORDER_BAR */
    int way;   /* for ORDER_SPOIL */
    wires_fault fault;
};

/* What was read at once, and goes on when it is due. */
struct chunk {
    struct chunk *next;
    int64_t due_ns;
    size_t at, len; /* what is before `at` has gone on already */
    char bytes[CHUNK_MAX];
};

/* One way through a pair, from one end to the other. */
struct way {
    int from, to;
    int is_over;          /* nothing is read from `from` any more */
    int is_told;          /* ... and `to` has been told */
    int is_deaf;          /* the end of `from` is not told to `to` */
    int is_lost;          /* what is read goes nowhere */
    enum wires_once last; /* what happens when all has gone on */
    struct chunk *first, *newest;
    size_t waiting;     /* bytes in them */
    int64_t open_at_ns; /* with a rate: nothing goes on before */
    int message;        /* the number of the message that goes that way now */
    int64_t of_message; /* how much of it was read */
};

/* A fault of one way of a wire, and what has been seen there since it was set. */
struct spoil {
    wires_fault fault;
    int is_done; /* what happens once has happened */
    int messages;
    int64_t bytes;
    uint64_t random;
};

struct pair {
    int wire;    /* -1: this place is free */
    int is_held; /* it is of a process that is barred */
    int is_spared;
    int talks; /* which way bytes went last; -1: none yet */
    struct way way[2];
};

/* One wire, as the process knows it. */
struct line {
    int listener, target, passed, struck;
    int64_t refused_at; /* since when nobody listens there; 0: somebody does */
    enum order order;
    pid_t barred; /* 0: nobody */
    struct spoil spoil[2];
};

/* What the process knows; it is the only one to touch this. */
struct plant {
    int count;
    int64_t patience_ms;
    int spares; /* whether what comes from SPARED is left alone */
    struct line lines[WIRES_MAX];
    struct pair pairs[PAIRS_MAX];
};

/* ---- wires_process.c ---- */

/* wires_run is the process: it ends when the other end of the control is closed. */
_Noreturn void wires_run(struct plant *plant, int control);

/* ---- wires_way.c ---- */

/* way_add adds what was read, due at that time; if `merge`, to what is not due yet. way_due
 * says when something is to be written, INT64_MAX if nothing is. way_drain writes what is
 * due, in the pieces that the fault wants; 0 if the other end is gone. way_clear forgets. */
void way_add(struct way *way, const char *bytes, size_t len, int64_t due_ns, int merge);
int64_t way_due(const struct way *way);
int way_drain(struct way *way, const wires_fault *fault);
void way_clear(struct way *way);

/* ---- wires_fault.c ---- */

/* spoil_set sets a fault, and counts from 0 again. spoil_pass does to what was read what is
 * to be done to it, and adds to the way what is left of it. */
void spoil_set(struct spoil *spoil, const wires_fault *fault);
void spoil_pass(struct line *line, struct pair *pair, int which, char *bytes, size_t len);

/* ---- wires_whose.c ---- */

/* is_of says whether the other end of a connection here is that process's. */
int is_of(pid_t pid, int fd);

#endif /* TEST_SERVERS_WIRES_PARTS_H */
