/* SPDX-License-Identifier: MIT */
/*
 * The kit: what engines have in common whose stores know how long a client lives, and
 * nothing of leases of single locks (ZooKeeper's sessions, etcd's leases, Consul's
 * sessions). It knows claims, and no store.
 *
 * note.c is what a store remembers of a claim, as text. lapse.c ends holds that nobody
 * renews. tenure*.c has the client's lives at the store and keeps them, in a thread of its
 * own that also runs the lapses. place.c tells claims of one client on one name apart.
 */
#ifndef DIBS_KIT_H
#define DIBS_KIT_H

#include <pthread.h>

#include <dibs/engine.h>

/* ---- note.c ---- */

/* The note, as it is, then a line of ours: others read the note of a leader as its
 * proposal. `id` is the engine's name for the claim, without blanks. Returns the length. */
#define KIT_NOTE_MAX 2048
#define KIT_ID_MAX 64
int dibs__kit_note_write(char out[KIT_NOTE_MAX], const dibs_session *session,
                         const dibs_claim *claim, const char *id);

/* parse never fails: what another client has written is taken as its note. */
struct kit_note {
    char id[KIT_ID_MAX];     /* "": it is not one of ours */
    int mode;                /* enum dibs_mode; -1: unknown */
    uint32_t permits, limit; /* 0: unknown */
    dibs_party party;        /* points into `text`; lease_left_ms is the whole lease */
    char text[KIT_NOTE_MAX];
};
void dibs__kit_note_parse(struct kit_note *out, const char *data, size_t len);

/* ---- lapse.c ---- */

/* Renewing reads a claim's priv while downgrading it may write: these are safe to overlap.
 * Each word is a whole one, but the three need not be of one moment. */
void dibs__kit_priv_read(uint64_t out[3], const dibs_claim *claim);
void dibs__kit_priv_write(dibs_claim *claim, const uint64_t priv[3]);

/* What is granted is written down, with the end of its lease, until it is released; `end`
 * is called for a copy of the claim (name, mode, flags, permits, limit, lease_ms, serial,
 * priv) that is over, or whose release could not be confirmed, until it returns 1: nothing
 * is left. It should not take longer than some 50 ms. A renewal that comes too late finds
 * nothing to lengthen, and the hold is lost; core may release it all the same, or not. */
typedef struct kit_lapses kit_lapses;
typedef int kit_end_fn(void *state, dibs_claim *claim);

kit_lapses *dibs__kit_lapses_new(const dibs_host *host, kit_end_fn *end, void *state);
void dibs__kit_lapses_free(kit_lapses *lapses, int forked);

/* add: the claim is granted, until sent + lease. DIBS_OK, ENOMEM. move: it is renewed until
 * then (0: as before), or has another priv now. DIBS_OK; ELOST: it is over. released takes
 * note of what release is about to say, and returns it. */
int dibs__kit_lapse_add(kit_lapses *lapses, const dibs_claim *claim);
int dibs__kit_lapse_move(kit_lapses *lapses, const dibs_claim *claim, dibs_time until);
int dibs__kit_lapse_released(kit_lapses *lapses, const dibs_claim *claim, int rc);

/* run ends what is over, and returns when to run again (DIBS_NEVER: nothing is due). One
 * thread does so; tenures have one. Another one names, before there are any, what wakes it
 * when something is due earlier than run said; `wake` must not call back. */
dibs_time dibs__kit_lapses_run(kit_lapses *lapses);
void dibs__kit_lapses_waker(kit_lapses *lapses, void (*wake)(void *arg), void *arg);

/* ---- tenure.c ---- */

/* A tenure is one life of this client at the store: an etcd lease, a Consul session. What
 * is written in it goes with it. There is one for each class of leases (a crash costs the
 * others about a lease), shared by all claims of that class; and, for stores that take two
 * claims of one tenure for the same, an n-th one. */
typedef struct kit_tenures kit_tenures;
typedef struct kit_tenure kit_tenure;

typedef struct kit_tenure_ops {
    /* begin makes one that lives for ttl_ms without being kept (the store may give another
     * time: *ttl_ms), and names it. */
    int (*begin)(void *state, char id[KIT_ID_MAX], int64_t *ttl_ms, dibs_time deadline,
                 dibs_error *err);
    /* keep lengthens it: *safe_until is until when the store surely keeps it now, whatever
     * happens to its servers. DIBS_OK, ELOST (it is over), EUNKNOWN, EUNAVAIL. */
    int (*keep)(void *state, const char *id, int64_t ttl_ms, dibs_time *safe_until,
                dibs_time deadline, dibs_error *err);
    /* end gives it back, with all in it. DIBS_OK also if it was over. */
    int (*end)(void *state, const char *id, dibs_time deadline);
    /* lost: it is over, and so is all in it: wake who waits in it. The keeper's bell is rung
     * by the kit. */
    void (*lost)(void *state, uint64_t birth);
    /* the least and the most that the store allows, and what is added to a lease so that
     * a kept tenure always has a whole lease left: ttl = lease + lease / 3 + extra_ms */
    int64_t least_ms, most_ms, extra_ms;
    int64_t fixed_ms; /* not 0: one length for all leases (?session=) */
} kit_tenure_ops;

kit_tenures *dibs__kit_tenures_new(dibs_session *session, const kit_tenure_ops *ops,
                                   kit_lapses *lapses, void *state);
/* Ends all of them (not in a fork's child), within the deadline. Before the lapses are freed:
 * its thread runs them. */
void dibs__kit_tenures_free(kit_tenures *tenures, int forked, dibs_time deadline);

/* join finds or begins the n-th (from 0) tenure for such a lease, and counts one more user:
 * it is kept as long as it has users, and ended some time after. Never one that has too
 * little time left for that. EINVAL if the store allows none that is long enough. */
int dibs__kit_tenure_join(kit_tenures *tenures, uint32_t lease_ms, unsigned n,
                          dibs_time deadline, kit_tenure **out, dibs_error *err);
void dibs__kit_tenure_leave(kit_tenures *tenures, uint64_t birth);

/* `birth` is different for every tenure there was; 0 is none. find: NULL if it is over, and
 * then nothing in it is left, or will be soon. A tenure that was found stays readable as
 * long as its user has not left, and for minutes after that: a claim may be renewed while it
 * is released. */
kit_tenure *dibs__kit_tenure_find(kit_tenures *tenures, uint64_t birth);
uint64_t dibs__kit_tenure_birth(const kit_tenure *tenure);
const char *dibs__kit_tenure_id(const kit_tenure *tenure);
dibs_time dibs__kit_tenure_safe_until(const kit_tenure *tenure);

/* secure sees to it that the tenure lives until then at least, asking the store if it must.
 * DIBS_OK, ELOST, EUNKNOWN, EUNAVAIL, EINVAL (it is too short for that). */
int dibs__kit_tenure_secure(kit_tenures *tenures, kit_tenure *tenure, dibs_time until,
                            dibs_time deadline, dibs_error *err);
/* dead: the store has just said that it knows no such tenure. */
void dibs__kit_tenure_dead(kit_tenures *tenures, uint64_t birth);

/* A number of the engine's own that belongs to a tenure: 0 at first. */
_Atomic uint64_t *dibs__kit_tenure_word(kit_tenure *tenure);

/* ---- place.c ---- */

/* Claims of this client that are on one name at the same time have different places: the
 * least number from 0 that is free. take: the place, or -1 when out of memory; a claim may
 * have more than one. give: 1, or 0 if the claim (or the copy that a lapse has of it) had
 * given it before. So what belongs to the place, like being a tenure's user, can be given up
 * exactly once, whether release or the end of a lapse does it. */
typedef struct kit_places kit_places;
kit_places *dibs__kit_places_new(const dibs_host *host);
void dibs__kit_places_free(kit_places *places, int forked);
int dibs__kit_place_take(kit_places *places, const dibs_claim *claim);
int dibs__kit_place_give(kit_places *places, const dibs_claim *claim, int place);

#endif /* DIBS_KIT_H */
