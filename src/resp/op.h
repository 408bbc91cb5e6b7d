/* SPDX-License-Identifier: MIT */
/*
 * An op: one request of one caller, from sending to the last reply. And how its owner
 * sleeps and is woken. Known to the files of this folder only; link.c has the rules, and
 * means by R1, R2 and R4 what is told there.
 */
#ifndef DIBS_RESP_OP_H
#define DIBS_RESP_OP_H

#include "resp/link.h"

/* Most ops are of so few commands. */
#define OP_FEW 4
/* Replies that are given away in one go, and so how many may have to be woken. */
#define OP_BATCH 64

/* What an op's word says. DONE and LEADER are set under the link's mutex only. */
enum op_state {
    OP_PENDING, /* its owner is awake */
    OP_ASLEEP,  /* its owner sleeps on the word */
    OP_LEADER,  /* its owner is the reader from now on */
    OP_DONE     /* all has been said, and the owner may end it */
};

struct resp_op {
    resp_link *link;
    struct lane *lane;
    _Atomic uint32_t state; /* enum op_state */
    /* the rest is guarded by the link's mutex */
    resp_op *next;
    unsigned commands, received;
    uint64_t start; /* where in the stream its bytes begin */
    int ends_write; /* its bytes were the last of a write */
    int is_waiting; /* its owner is in dibs__resp_wait, and not the reader */
    int is_orphan;  /* its owner has gone */
    int code;       /* when DONE */
    unsigned room;
    redisReply **replies; /* `few`, or allocated if there may be more */
    redisReply *few[OP_FEW];
};

/* new takes one from a list of spare ones, or allocates it; NULL: out of memory. recycle
 * drops what it was replied, and puts it on that list. free_all frees a list. */
resp_op *dibs__op_new(resp_op **spare, unsigned commands, const dibs_host *host);
void dibs__op_recycle(resp_op *op, resp_op **spare);
void dibs__op_free_all(resp_op *op, const dibs_host *host);

/* Owners that are to be woken as soon as the mutex is free. Set the count to 0 first. */
struct wakes {
    unsigned count;
    _Atomic uint32_t *words[OP_BATCH + 1];
};

/* set_state puts an owner that sleeps on the list, a leader at its head; `wakes` NULL:
 * wakes it at once. From then on only the op's address is used (R4). */
void dibs__op_set_state(resp_op *op, enum op_state state, struct wakes *wakes);
void dibs__op_wake_all(struct wakes *wakes);

/* sleep returns when the word says DONE or LEADER, or at the deadline. */
void dibs__op_sleep(resp_op *op, dibs_time deadline, const dibs_host *host);

#endif /* DIBS_RESP_OP_H */
