/* SPDX-License-Identifier: MIT */
/*
 * What the layouts remember of a claim, and the steps that they have in common.
 *
 * A claim is remembered in its priv, so nothing is allocated for it: which session its
 * nodes are in, their numbers, and how far it has come. What a claim's node is called
 * follows from that.
 */
#ifndef DIBS_ZK_CLAIM_H
#define DIBS_ZK_CLAIM_H

#include "zk.h"

enum mine_flag {
    MINE_UNSURE = 1u << 0, /* something was sent, and whether it was done is not known */
    MINE_NODE = 1u << 1,   /* has its node: the lock's, or that of a semaphore's mutex */
    MINE_LEASES = 1u << 2, /* has its leases of a semaphore */
    MINE_GRANTED = 1u << 3,
    MINE_READER = 1u << 4, /* its node is a reader's */
    MINE_MOVING = 1u << 5, /* its nodes may be in another session already */
    MINE_FLAG_BITS = 6     /* there is room: a token has the czxid in its upper 56 bits */
};

struct mine {
    uint64_t birth;  /* of the session; 0: nothing was sent */
    unsigned flags;  /* enum mine_flag */
    int32_t number;  /* of the node */
    uint32_t beside; /* the number of the first lease; without leases, the position */
    int64_t czxid;   /* of the node or the leases */
};

/* Renewing reads a claim while downgrading it writes: these are safe to overlap. */
struct mine dibs__zk_mine(const dibs_claim *claim);
void dibs__zk_mine_store(dibs_claim *claim, const struct mine *mine);

/* One call for one claim. */
struct turn {
    struct zk *zk;
    dibs_claim *claim;
    dibs_time deadline;
    dibs_error *err;
    struct session *session; /* NULL: it has ended, and the claim's nodes with it */
    struct mine mine;
    int is_new;       /* the claim's node was made, or found again, in this call */
    int armed;        /* the leases that are listed are watched since before */
    struct path lock; /* ROOT/NAME */
};

/* Not a code: what was found is out of date, look again. */
#define TURN_AGAIN 1
/* How often; what is out of date that often will be looked at later. */
#define TURN_ROUNDS 8

/* begin finds the claim's session, or with `opens` a new one if there is none. From then on
 * paths of the claim's own nodes are not too long. */
int dibs__zk_turn_begin(struct turn *turn, struct zk *zk, dibs_claim *claim, int opens,
                        dibs_time deadline, dibs_error *err);
/* How a layout ends what there is of a claim: DIBS_OK if nothing is left. take_back does so,
 * and then the turn knows of nothing. */
typedef int ending_fn(struct turn *turn, int *was_there);
int dibs__zk_take_back(struct turn *turn, ending_fn *end);
/* rounds begins a turn, calls `round` until it says something else than TURN_AGAIN, and
 * makes a code of attempt of it. Nothing is left behind where core expects nothing: then
 * it is taken back by `end`. */
int dibs__zk_rounds(struct zk *zk, dibs_claim *claim, int (*round)(struct turn *turn),
                    ending_fn *end, dibs_time deadline, dibs_error *err);

/* run, and what it says of the session: after ELOST the claim has nothing any more, and the
 * code is TURN_AGAIN, as turn_lost says it. */
int dibs__zk_turn_run(struct turn *turn, struct op *ops, int count);
int dibs__zk_turn_lost(struct turn *turn);
/* store writes down what the turn knows. unsure does so before something is sent. */
void dibs__zk_turn_store(struct turn *turn);
void dibs__zk_turn_unsure(struct turn *turn);
/* whether the answer to an op came */
int dibs__zk_was_answered(const struct op *op);
/* the number that the server gave to a node */
int dibs__zk_created(const struct op *op, int32_t *number);

/* granted sets what a grant says. wait_at watches something and answers EBUSY; wait_for a
 * child of a folder, or TURN_AGAIN if that has gone. */
int dibs__zk_granted(struct turn *turn);
int dibs__zk_wait_at(struct turn *turn, const char *path, enum watch_kind kind,
                     int *gone);
int dibs__zk_wait_for(struct turn *turn, const struct path *folder, const char *child,
                      uint32_t position);

/* node_path is that of the claim's own node, in `folder`. */
int dibs__zk_node_path(struct path *out, const struct turn *turn,
                       const struct path *folder, enum contender_kind kind,
                       int32_t number);
enum contender_kind dibs__zk_kind(const struct zk *zk, const dibs_claim *claim,
                                  const struct mine *mine);

/* each_node calls back with the paths of the nodes that make the claim a granted one. */
int dibs__zk_each_node(struct zk *zk, const dibs_claim *claim, const struct mine *mine,
                       int (*each)(void *arg, const char *path), void *arg);
/* move takes the nodes of a granted claim into a session that suits its lease, if it is in
 * another: DIBS_OK, with the session that they are in. A code of renew else. */
int dibs__zk_move(struct zk *zk, dibs_claim *claim, dibs_time deadline,
                  struct session **out, dibs_error *err);

/* ---- semaphore.c ---- */

int dibs__zk_permits_attempt(struct zk *zk, dibs_claim *claim, dibs_time deadline,
                             dibs_error *err);
int dibs__zk_permits_release(struct turn *turn);
/* DIBS_EMISMATCH if somebody uses the name as a semaphore, as the children tell. */
int dibs__zk_no_semaphore(struct turn *turn, const struct String_vector *children);

/* ---- observe.c ---- */

int dibs__zk_observe(struct zk *zk, dibs_claim *claim, dibs_time deadline,
                     dibs_error *err);

#endif /* DIBS_ZK_CLAIM_H */
