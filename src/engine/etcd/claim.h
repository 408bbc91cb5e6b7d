/* SPDX-License-Identifier: MIT */
/*
 * What the layouts remember of a claim, and the steps that they have in common.
 *
 * A claim is one key, which its create revision tells from all that ever had that name. It
 * is remembered in the claim's priv, so nothing is allocated for it: which tenure it lives
 * in, what it is called, when it was created.
 */
#ifndef DIBS_ETCD_CLAIM_H
#define DIBS_ETCD_CLAIM_H

#include "etcd.h"

enum mine_flag {
    MINE_STRAY = 1u << 0, /* a request to create the key may still be under way */
    MINE_GRANTED = 1u << 1,
    MINE_MOVING = 1u << 2, /* the key may be in another tenure already */
    MINE_MARKED = 1u << 3, /* a marker may say that it is shared now */
    MINE_FLAGS = 15,
    MINE_KIND_SHIFT = 4,
    MINE_BITS =
        8 /* there is room: a token has the create revision in its upper 56 bits */
};

/* What the key of a claim is called. */
enum kind {
    KIND_LOCK,    /* NAME/LEASE */
    KIND_READ,    /* NAME/read/LEASE */
    KIND_WRITE,   /* NAME/write/LEASE */
    KIND_PERMITS, /* NAME/permits/LEASE */
    KIND_SINGLE   /* NAME; layout single */
};

struct mine {
    uint64_t birth; /* of the tenure; 0: nothing was sent */
    unsigned place; /* among the claims of this client on the name */
    int64_t lease;  /* that the key is named after */
    int64_t create; /* revision; 0: there is no key that we know of */
    unsigned flags; /* enum mine_flag */
    enum kind kind;
};

struct mine dibs__etcd_mine(const dibs_claim *claim);
void dibs__etcd_mine_store(dibs_claim *claim, const struct mine *mine);

/* The name of a claim's key, and what it says; both as the claim is when it is called. */
void dibs__etcd_own_key(struct key *out, const struct etcd *etcd, const dibs_claim *claim,
                        const struct mine *mine);
#define VALUE_MAX KIT_NOTE_MAX
size_t dibs__etcd_own_value(char out[VALUE_MAX], const struct etcd *etcd,
                            const dibs_claim *claim, const struct mine *mine);
/* the lease that puts are made with; 0: the tenure is over */
int64_t dibs__etcd_lease_of(const kit_tenure *tenure);

/* ---- turns ---- */

/* One call for one claim. */
struct turn {
    struct etcd *etcd;
    dibs_claim *claim;
    dibs_time deadline;
    dibs_error *err;
    kit_tenure *tenure; /* NULL: there is none, or it is over, and the key with it */
    struct mine mine;
    struct key line, end; /* NAME/, and the end of all that begins so */
    struct key own;
    int64_t revision; /* of the answer that is being judged */
};

/* Not a code: what was found is out of date, look again. */
#define TURN_AGAIN 1

/* How a claim is made, in a certain mode. */
struct way {
    enum kind kind;
    /* needs: what must be so for the key to be made at all; NULL: nothing. look adds the
     * ranges that `judge` reads, behind the first `op` answers of a transaction that found
     * or made the key; refuse reads those of one that did not. */
    http_text *(*needs)(const struct turn *turn);
    http_text *(*look)(const struct turn *turn, http_text *list);
    int (*judge)(struct turn *turn, struct answer *answer, int op);
    int (*refuse)(struct turn *turn, struct answer *answer, int op);
};

/* attempt makes the key, or looks where it stands, and returns a code of the slot; it leaves
 * nothing behind where core expects nothing. release ends what there is. */
int dibs__etcd_claim_attempt(struct etcd *etcd, dibs_claim *claim, const struct way *way,
                             dibs_time deadline, dibs_error *err);
int dibs__etcd_claim_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                             dibs_time deadline, dibs_error *err);
/* for lapses */
int dibs__etcd_claim_end(void *state, dibs_claim *claim);

/* ask is dibs__etcd_ask, and remembers the revision; what ended with its tenure is to be
 * made again: TURN_AGAIN. */
int dibs__etcd_turn_ask(struct turn *turn, http_text *txn, unsigned flags,
                        struct answer *answer);
/* what judge says in the end */
int dibs__etcd_granted(struct turn *turn);
struct spot;
int dibs__etcd_busy(struct turn *turn, const struct spot *before,
                    const struct spot *beside);
int dibs__etcd_mismatch(const struct turn *turn, const char *how);

/* rewrite puts the own key again: where it stands in the line does not change. DIBS_OK,
 * ELOST: it is not there (or the lease is not), or a code of ask. */
struct rewriting {
    const char *value; /* NULL: the old one */
    size_t len;
    int64_t lease; /* 0: the old one */
};
int dibs__etcd_rewrite(struct etcd *etcd, const dibs_claim *claim,
                       const struct mine *mine, const struct rewriting *what,
                       dibs_time deadline, dibs_error *err);

/* ---- waiting: watch.c ---- */

/* What is waited for: a key, or all up to `end`. */
struct spot {
    const struct key *key, *end; /* end NULL: that key only */
    int sees_puts;               /* else only what is deleted counts */
};

#define SPOTS 3
/* wait rings the claim's bell when something happens at one of the spots (NULL: none) that
 * the answer of that revision does not show. Takes the place of what the claim waited for
 * before. DIBS_EBUSY: it is watched; TURN_AGAIN: something may have happened already. With
 * hint_ms set nobody watches, so the claim has to look. */
int dibs__etcd_wait(struct etcd *etcd, dibs_claim *claim,
                    const struct spot *const spots[SPOTS], int64_t revision,
                    dibs_time deadline, dibs_error *err);
/* still_waits: the claim waits, nothing was heard, and it has looked less than ten seconds
 * ago: there is nothing to see yet. unwait forgets it; free if it does not wait. */
int dibs__etcd_still_waits(struct etcd *etcd, const dibs_claim *claim);
void dibs__etcd_unwait(struct etcd *etcd, const dibs_claim *claim);
/* rings all that wait in a tenure */
void dibs__etcd_wake_tenure(struct etcd *etcd, uint64_t birth);

int dibs__etcd_watches_open(struct etcd *etcd, dibs_error *err);
void dibs__etcd_watches_close(struct etcd *etcd, int forked);
/* signed_in: streams have to be opened again */
void dibs__etcd_watches_signed_in(struct etcd *etcd);

/* ---- tenures: lease.c ---- */

extern const kit_tenure_ops dibs__etcd_tenure_ops;
/* ends leases that may have been granted without our knowing */
void dibs__etcd_end_strays(struct etcd *etcd, dibs_time deadline);

/* ---- lines: line.c ---- */

/* under: does a key of the line begin with this, behind NAME/ ? */
int dibs__etcd_under(const struct turn *turn, const struct key *key, const char *folder);
/* before reads the nearest of the range that the op answered that is not the own key. 1,
 * 0: there is none, -1: it cannot be read. */
int dibs__etcd_before(struct turn *turn, struct answer *answer, int op, struct kv *out);
/* nearest adds a range to a list of ops: what is in it before the own key, newest first. */
http_text *dibs__etcd_nearest(const struct turn *turn, http_text *list,
                              const struct key *from, const struct key *end,
                              unsigned flags);
/* shares: a key of an exclusive claim that was downgraded says so */
int dibs__etcd_shares(const struct kv *kv);

/* ---- version.c ---- */

/* sets the session's notice, if there is something to know */
void dibs__etcd_note_version(struct etcd *etcd, dibs_time deadline);

/* ---- the slots of the layouts ---- */

extern const struct way dibs__etcd_permits;
int dibs__etcd_observe(struct etcd *etcd, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err);
int dibs__etcd_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err);
int dibs__etcd_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err);
int dibs__etcd_single_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                              dibs_error *err);
void dibs__etcd_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                      dibs_time deadline, dibs_error *err);

#endif /* DIBS_ETCD_CLAIM_H */
