/* SPDX-License-Identifier: MIT */
/*
 * Claims: what lock.c and semaphore.c have in common.
 *
 * stake.c remembers what is known of a claim, epoch.c makes requests of before harmless, and
 * turn.c is one call for a claim: from looking up its stake to what is left of it. watch.c
 * wakes those who wait.
 */
#ifndef DIBS_CONSUL_CLAIM_H
#define DIBS_CONSUL_CLAIM_H

#include "consul.h"

/* ---- stakes ---- */

enum stake_flag {
    STAKE_GRANTED = 1u << 0,
    STAKE_UNSURE = 1u << 1,  /* a request of ours was not answered: it may be done yet */
    STAKE_SHARED = 1u << 2,  /* since it was taken, or since a downgrade */
    STAKE_TURNING = 1u << 3, /* a downgrade is under way, or its outcome not known */
    STAKE_MOVING = 1u << 4,  /* so is a move to other sessions */
    STAKE_MARKED = 1u << 5   /* there may be an entry that keeps more sharers out */
};

/* A session of ours, and the place that tells it from the others on that name. */
struct seat {
    _Atomic uint64_t birth; /* of the tenure; 0: not taken yet */
    int place;
};

/* Another session that the claim uses, or may have used: it stays there for the claim. */
struct past {
    struct past *next;
    uint64_t birth;
};

/* One that waits for a name; watch.c's own. */
struct waiter {
    struct waiter *next;
    struct watch *watch; /* NULL: it waits for nothing */
    dibs_bell *bell;
    int mode; /* of the claim */
    int is_rung;
    dibs_time since, rung_at;
    dibs_time
        moment; /* how long it may let pass before it tries; 0: it has not lost yet */
};

/* What is known of a claim, from its first attempt until nothing is left of it. Permits take
 * as many sessions as there are of them, so it has no room in the claim. It is changed by
 * attempts, by a downgrade, and by a renewal that moves it. */
struct stake {
    struct stake *next;
    uint64_t serial, name_hash;
    unsigned users;         /* of this memory; the table is one */
    int is_forgotten;       /* not in the table any more */
    _Atomic unsigned flags; /* enum stake_flag */
    _Atomic uint64_t index; /* ModifyIndex of what we hold */
    uint64_t seen; /* X-Consul-Index of when it was busy; 0: watched, or not busy */
    struct waiter waiter;
    struct {
        unsigned count; /* how often the lock-delay was the reason */
        dibs_time until;
        uint64_t expected; /* what the entry is then */
    } delay;
    struct past *past;
    uint32_t count;
    struct seat seats[];
};

int dibs__consul_stakes_open(struct consul *consul);
void dibs__consul_stakes_close(struct consul *consul, int forked);

/* take finds or makes it; find: NULL if there is none. Both count a user; put is the end of
 * that. forget takes it away from the claim: with the last user its seats are given up. */
struct stake *dibs__consul_stake_take(struct consul *consul, const dibs_claim *claim);
struct stake *dibs__consul_stake_find(struct consul *consul, const dibs_claim *claim);
void dibs__consul_stake_put(struct consul *consul, struct stake *stake);
void dibs__consul_stake_forget(struct consul *consul, struct stake *stake);
/* keep makes the stake the user of another tenure, which has been joined, for as long as it
 * lives. DIBS_OK, ENOMEM: it has been left. */
int dibs__consul_stake_keep(struct consul *consul, struct stake *stake, uint64_t birth);
/* swap: one that is kept is a seat's now, which had the other one */
void dibs__consul_stake_swap(struct consul *consul, struct stake *stake, uint64_t birth,
                             uint64_t old);

/* ---- turns ---- */

/* not a code: something has changed meanwhile, so do it once more */
#define TURN_AGAIN 1

struct turn {
    struct consul *consul;
    dibs_claim *claim;
    struct stake *stake;
    struct key lock;
    dibs_time deadline;
    dibs_error *err;
    char id[KIT_ID_MAX]; /* the claim's, in its note */
    uint64_t expected; /* lock.c: the ModifyIndex of the lock's entry, as far as known */
    uint64_t gate;     /* and that of the gate */
    int by_id;         /* what is held is to be looked for: it may be elsewhere */
};

void dibs__consul_turn_begin(struct turn *turn, struct consul *consul, dibs_claim *claim,
                             struct stake *stake, dibs_time deadline, dibs_error *err);
/* note writes what is remembered of the claim, and returns its length; token: only if it is
 * not that of the entry. is_ours: the entry was written for this claim. */
size_t dibs__consul_note(char out[KIT_NOTE_MAX], const struct turn *turn, int mode,
                         uint64_t token);
int dibs__consul_is_ours(const struct turn *turn, const struct entry *entry);
void dibs__consul_set_flag(struct stake *stake, unsigned flag);
void dibs__consul_clear_flag(struct stake *stake, unsigned flag);
int dibs__consul_has_flag(struct stake *stake, unsigned flag);

/* The session of a seat; "": it is over. */
const char *dibs__consul_session_of(const struct turn *turn, uint32_t seat);

/* run is txn_run for what takes something, and begins with the check of the epoch. Takes the
 * txn; `rc` is what became of making it. TURN_AGAIN: the epoch was another one, or a session
 * is over, and that is seen to. Marks the stake UNSURE when it must. */
int dibs__consul_turn_run(struct turn *turn, struct txn *txn, int rc,
                          struct answer *answer);

/* attempt sees to it that there are sessions that live for a whole lease, and does rounds
 * until one says something else than TURN_AGAIN; and then what is left to do: a grant is
 * written down, what is not queued is forgotten. */
typedef int round_fn(struct turn *turn);
int dibs__consul_attempt(struct consul *consul, dibs_claim *claim, round_fn *round,
                         dibs_time deadline, dibs_error *err);

/* granted: all is held since that ModifyIndex. busy: wait for what comes after `seen`. */
int dibs__consul_granted(struct turn *turn, uint64_t index);
int dibs__consul_busy(struct turn *turn, uint64_t seen);

/* release is the slot. lapsed ends what a lapse has a copy of. */
int dibs__consul_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                         dibs_time deadline, dibs_error *err);
int dibs__consul_lapsed(void *state, dibs_claim *claim);

/* ---- epochs ---- */

/* check is the first op of every txn that takes something; bump makes it fail for those that
 * were sent before (DIBS_OK, EUNKNOWN, EUNAVAIL, ...; DIBS_OK also if the session is over).
 * reload: the check has failed. */
int dibs__consul_epoch_check(struct turn *turn, struct txn *txn);
int dibs__consul_epoch_bump(struct turn *turn);
int dibs__consul_epoch_reload(struct turn *turn);

/* ---- ways to hold ---- */

/* round is one of an attempt. end ends what the claim has, if it has: *was_held, else left
 * alone. DIBS_OK, EUNKNOWN, EUNAVAIL, ... */
int dibs__consul_lock_round(struct turn *turn);
int dibs__consul_lock_end(struct turn *turn, int *was_held);
int dibs__consul_share_round(struct turn *turn);
int dibs__consul_share_end(struct turn *turn, int *was_held);
int dibs__consul_permits_round(struct turn *turn);
int dibs__consul_permits_end(struct turn *turn, int *was_held);
int dibs__consul_observe_round(struct turn *turn);

/* How many permits one claim can have: all that is to be done with them is done in one
 * transaction. */
#define PERMITS_MOST 31

/* see_listed: what became of a transaction that took the entry of a holder in a list, or of
 * a sharer. */
int dibs__consul_see_listed(struct turn *turn, struct answer *answer);
/* see asks for all entries of the claim's name. contender_key is that of the entry of a
 * sharer, or of one with permits. find_ours finds those that were written for this claim, the
 * next one after *at, which is 0 at first: 0, or -1: no more. */
int dibs__consul_see(struct turn *turn, struct view *view, struct answer *answer);
void dibs__consul_unsee(struct view *view, struct answer *answer);
void dibs__consul_contender_key(struct key *out, const struct turn *turn,
                                const char *session);
int dibs__consul_find_ours(const struct turn *turn, const struct view *view, size_t *at,
                           struct entry *out);
/* add_gate deletes the gate, if nobody has passed it since: for who ends sharing. */
int dibs__consul_add_gate(struct txn *txn, const struct turn *turn, uint64_t gate);
/* add_list writes the list of a semaphore, if that is as it was. */
int dibs__consul_add_list(struct txn *txn, const struct turn *turn, uint64_t index,
                          uint32_t limit, json_t *holders);

int dibs__consul_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                           dibs_error *err);
void dibs__consul_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                        dibs_time deadline, dibs_error *err);
/* move takes a hold to sessions that are long enough for its lease: DIBS_OK, ELOST,
 * EUNKNOWN, EUNAVAIL, ... */
int dibs__consul_move(struct turn *turn);

/* ---- waiting ---- */

int dibs__consul_watches_open(struct consul *consul);
void dibs__consul_watches_close(struct consul *consul, int forked);
/* watch rings the claim's bell when there is something new since stake->seen. still_watching:
 * it was set up less than ten seconds ago, and nothing has been heard. unwatch forgets it. */
void dibs__consul_watch(struct consul *consul, dibs_claim *claim, struct stake *stake);
int dibs__consul_still_watching(struct consul *consul, const struct stake *stake);
void dibs__consul_unwatch(struct consul *consul, struct stake *stake);

/* ---- sessions ---- */

/* fixed_ms: ?session=, or 0 */
void dibs__consul_session_ops(struct consul *consul, int64_t fixed_ms);
/* at the end: those that we do not know of */
void dibs__consul_sessions_end(struct consul *consul, dibs_time deadline);

#endif /* DIBS_CONSUL_CLAIM_H */
