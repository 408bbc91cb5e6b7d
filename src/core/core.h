/* SPDX-License-Identifier: MIT */
/*
 * Core's data structures, and what its files call of each other. Read in this order:
 *
 *   dibs_hold    what a caller has: a handle, released once
 *   dibs__grant  what the engine granted: one claim and its lease; several holds of one
 *                owner share it (re-entry), and it may pass from thread to thread
 *   dibs__seat   a name in use in this process: its grants, and the threads that queue
 *                here for it
 *   dibs         the client: an engine, the seats, the keeper
 *
 * Lock order: a shard's mutex, then the keeper's, then a canceller's. None is held while
 * the engine or a callback runs, or while a thread sleeps. docs/internals/threading.md.
 */
#ifndef DIBS_CORE_CORE_H
#define DIBS_CORE_CORE_H

#include <assert.h>

#include <dibs/engine.h>

#include "core/error.h"
#include "core/lease.h"
#include "core/mem.h"
#include "core/name.h"
#include "core/sys.h"
#include "core/url.h"
#include "util/uncancelled.h"

#define DIBS__SHARDS 16
/* names shorter than this need no memory of their own */
#define DIBS__SHORT_NAME 24

/* a grant whose `until` is this has been lost, once and for all */
#define DIBS__LOST ((dibs_time)0)

typedef struct dibs__grant dibs__grant;
typedef struct dibs__seat dibs__seat;
typedef struct dibs__shard dibs__shard;

/* ---- who re-enters ---- */

typedef struct dibs__owner {
    uint64_t thread; /* the thread's number; 0 if `text` says who */
    char *text;
} dibs__owner;

/* ---- holds ---- */

enum dibs__hold_state { DIBS__HELD, DIBS__HOLD_LOST, DIBS__RELEASED };

struct dibs_hold {
    dibs *client;
    dibs__grant *grant;  /* counted, until the hold is freed; NULL: none yet */
    dibs_hold *next;     /* in grant->holds; guarded by the shard's mutex */
    _Atomic int state;   /* enum dibs__hold_state; leaves HELD once */
    _Atomic int lost_fd; /* -1: nobody asked */
    uint64_t token;
    void (*on_lost)(dibs_hold *hold, void *arg);
    void *on_lost_arg;
    _Atomic uint32_t telling; /* an on_lost is running: freeing waits for it */
    dibs_bell told;           /* rung when it has ended */
    _Atomic uint64_t teller; /* the thread that runs it, which may free without waiting */
    dibs_hold *next_told;    /* in the list of one notifier */
    uint8_t previous;
    uint8_t counted; /* among the shard's handles */
};

/* ---- seats ---- */

enum dibs__verdict {
    DIBS__QUEUED, /* wait on */
    DIBS__LEAD,   /* ask the engine, for all of us */
    DIBS__HANDED  /* the grant is yours */
};

/* a thread that queues in this process; lives on that thread's stack */
typedef struct dibs__waiter {
    struct dibs__waiter *next, *prev;
    dibs_bell bell;
    int verdict;         /* enum dibs__verdict; guarded by the shard's mutex */
    dibs__grant *wanted; /* what it would ask for; its hold is what gets filled */
} dibs__waiter;

/* A seat stands inside the grant that first used the name, its home, and those that come
 * to use it too count as users of that grant's memory. */
struct dibs__seat {
    dibs__seat *next; /* in its bucket */
    uint64_t hash;
    const char *name;
    uint32_t users; /* listed grants, and threads on their way; at 0 it is no more */
    uint16_t name_len;
    uint8_t occupied; /* a thread of ours asks the engine for exclusive use, or has it */
    dibs__grant *grants; /* granted, or the only one that asks */
    dibs__grant *asking; /* the others: may be thousands, and re-entry need not look */
    dibs__waiter *first, *last;
};

/* ---- grants ---- */

enum dibs__phase { DIBS__ASKING, DIBS__GRANTED, DIBS__ENDING };

struct dibs__grant {
    dibs_hold hold;   /* the handle made along with it: one of `refs` until it is freed */
    dibs_claim claim; /* its name is the seat's */
    dibs__seat *seat; /* its own or another's, whose home it then counts as a user of */
    dibs__seat own_seat;
    char short_name[DIBS__SHORT_NAME]; /* of own_seat; a longer one is allocated */
    dibs__grant *next, *prev;  /* in a list of the seat; guarded by the shard's mutex */
    dibs_hold *holds;          /* not yet released; guarded by the shard's mutex */
    dibs__owner owner;         /* guarded by the shard's mutex */
    _Atomic dibs_time until;   /* held before this; DIBS__LOST for ever after a loss */
    _Atomic uint32_t refs;     /* holds, the seat's list, the keeper */
    _Atomic uint8_t releasing; /* one thread, the first, tells the engine */
    _Atomic uint8_t phase;     /* enum dibs__phase; changed under the shard's mutex */
    uint8_t occupies;     /* this one's exclusive use is what seat->occupied is about */
    uint8_t queued;       /* in seat->asking, not in seat->grants */
    uint8_t sharing;      /* downgraded, or maybe: the reply was lost */
    uint8_t left;         /* out of its seat already */
    uint8_t renews;       /* the keeper renews it */
    uint8_t renewing;     /* in a batch now; guarded by the keeper's mutex */
    uint8_t round;        /* last checked in this round; its mutex */
    _Atomic uint8_t kept; /* the keeper had it once */
    uint32_t calls;       /* of the engine; by the thread that asks, then the mutex */
    uint32_t handed;      /* passed on this often; guarded by the shard's mutex */
    uint32_t kept_at;     /* place in the keeper's heap plus 1; its mutex */
    dibs_time granted_at; /* by the engine; only with a lease */
    dibs__lease lease;    /* guarded by the keeper's mutex once granted */
    /* while the reaper has it; guarded by the keeper's mutex */
    dibs__grant *next_orphan;
    dibs_time retry_at, give_up_at;
};

/* all of a shard is guarded by its mutex */
struct dibs__shard {
    dibs__mutex mutex;
    dibs__seat **buckets;
    uint32_t mask, count;
    uint64_t serials; /* given to claims so far */
    uint64_t handles; /* holds that are not freed yet */
    uint64_t reentered, handed_over, released;
    uint64_t ended; /* grants that came from the engine and are over */
    uint64_t calls; /* of the engine, by grants that are over */
};

/* ---- cancelling ---- */

typedef struct dibs__cancel_link {
    struct dibs__cancel_link *next, *prev;
    dibs_bell *bell;
    dibs *client;
    dibs_claim *claim; /* its caller may sleep in the engine; NULL: it does not */
} dibs__cancel_link;

struct dibs_canceller {
    dibs__mutex mutex;
    _Atomic int fired;
    dibs__cancel_link *first; /* guarded by mutex */
    dibs_canceller *outer;    /* another one that ends the same waits; NULL: none */
};

void dibs__canceller_init(dibs_canceller *canceller);

enum dibs__wake { DIBS__RUNG, DIBS__TIMED_OUT, DIBS__CANCELED };

/* dibs__wait sleeps on a bell until it rings, the deadline has passed, or one of the
 * request's canceller (may be NULL) and the client's closing ends it. */
int dibs__wait(dibs *client, dibs_canceller *cancel, dibs_bell *bell, uint32_t seen,
               dibs_time deadline);
/* dibs__wait_claim is that for a claim, where its engine would have it sleep. */
int dibs__wait_claim(dibs *client, dibs_canceller *cancel, dibs_claim *claim,
                     dibs_time deadline);
int dibs__cancel_fired(const dibs *client, const dibs_canceller *cancel);

/* ---- the keeper and the alarm ---- */

/* all of it is guarded by its mutex */
typedef struct dibs__keeper {
    dibs__mutex mutex;
    dibs__thread thread, alarm;
    int running, alarm_running, stopping;
    dibs__grant **heap; /* all kept grants; the one to be renewed first at the top */
    uint32_t count, room, reserved;
    dibs__grant *orphans;   /* what the reaper has to release */
    dibs_time sleeps_until; /* the keeper; 0: it is awake */
    dibs_time alarm_at;     /* the alarm looks then; 0: it is awake */
    dibs_bell alarm_bell;
    dibs_bell batch_done; /* rung after each batch */
    uint32_t own_rings;   /* rings of keeper_bell that came from core itself */
    uint32_t bell_at;     /* keeper_bell when those were last counted */
    dibs_time rang_at;    /* when an engine's ring was last seen */
    uint8_t round;        /* of checking all */
} dibs__keeper;

/* ---- the client ---- */

struct dibs {
    const dibs_engine *engine;
    void *state;
    dibs_session session;
    dibs__url url;
    char app[64];
    dibs_options options; /* every default filled in */
    uint32_t fork_mark;
    _Atomic uint64_t last_observer;
    int closed; /* only handles are left; guarded by every shard's mutex */
    _Atomic uint64_t handles_left; /* once closed: the last one frees the client */
    _Atomic uint32_t inside;       /* waits, ops and notifiers that closing waits for */
    dibs__shard shards[DIBS__SHARDS];
    dibs__keeper keeper;
    dibs_canceller closing;
    /* counters; those of the hot path are in the shards */
    _Atomic uint64_t waited, timed_out, canceled, lost, renewals, renewals_failed, reaped,
        engine_calls;
    _Atomic int64_t lateness_max_ms;
};

/* dibs__count_call counts a call of the engine that no grant has counted. */
static inline void
dibs__count_call(dibs *client)
{
    atomic_fetch_add_explicit(&client->engine_calls, 1, memory_order_relaxed);
}

/* client.c */
/* dibs__client_free frees the memory; nobody uses the client any more. */
void dibs__client_free(dibs *client);
void dibs__client_enter(dibs *client);
void dibs__client_leave(dibs *client);
/* dibs__client_check refuses a client that is NULL, or that a parent process opened. */
int dibs__client_check(const dibs *client, dibs_error *err);

/* dibs__where returns where the client is connected, for messages. */
const char *dibs__where(const dibs *client);
/* dibs__fail_at is dibs__fail with "cannot PHRASE 'NAME' at WHERE: " before the text. */
int dibs__fail_at(const dibs *client, dibs_error *err, int code, const char *phrase,
                  const char *name, size_t name_len, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

static inline int
dibs__has(const dibs *client, uint32_t cap)
{
    return (client->session.caps & cap) != 0;
}

/* No public function is a place to be cancelled at (pthread_cancel). Those that may come to a
 * system call begin with UNCANCELLED. Taking and giving back are spared that where they are as
 * cheap as memory: what they seldom need there (watch, a descriptor to close) sees to it
 * itself, and so does the engine. */
static inline int
dibs__is_quick(const dibs *client)
{
    return dibs__has(client, DIBS_CAP_DIRECT) && !client->options.trace;
}

/* dispatch.c: the only way to an engine. Same meaning as the slots of engine.h; a failure
 * comes back with the whole message. */
typedef struct dibs__fault_point {
    const char *verb;
    const char *name;
    size_t name_len;
    int after; /* 0: before the engine is called, 1: after */
    int code;  /* after: what it returned */
} dibs__fault_point;
/* dibs__set_fault installs a hook (NULL: none) that may return a code instead of letting
 * the engine be called, or instead of what it returned; 1 means "as it is". For tests. */
void dibs__set_fault(int (*hook)(const dibs__fault_point *point, void *arg), void *arg);

int dibs__engine_open(dibs *client, dibs_time deadline, dibs_error *err);
void dibs__engine_close(dibs *client, int forked);
int dibs__engine_attempt(dibs *client, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err);
int dibs__engine_watch(dibs *client, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err);
/* where a caller sleeps, if the engine has a place for it; neither traced nor counted */
void dibs__engine_sleep(dibs *client, dibs_claim *claim, dibs_time deadline);
void dibs__engine_rouse(dibs *client, dibs_claim *claim);
void dibs__engine_renew(dibs *client, dibs_claim *const *claims, int *results, size_t n,
                        dibs_time deadline, dibs_error *err);
int dibs__engine_release(dibs *client, dibs_claim *claim, uint32_t linger_ms,
                         dibs_time deadline, dibs_error *err);
int dibs__engine_downgrade(dibs *client, dibs_claim *claim, dibs_time deadline,
                           dibs_error *err);
int dibs__engine_list(dibs *client, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__engine_inspect(dibs *client, const char *name, size_t len, dibs_sink *sink,
                         dibs_time deadline, dibs_error *err);
int dibs__engine_evict(dibs *client, const char *name, size_t len, size_t *broken,
                       dibs_time deadline, dibs_error *err);
int dibs__engine_cell_read(dibs *client, const dibs_cell_key *key, dibs_cell *out,
                           dibs_time deadline, dibs_error *err);
int dibs__engine_cell_swap(dibs *client, const dibs_cell_key *key, uint64_t version,
                           const void *value, size_t len, uint64_t *new_version,
                           dibs_time deadline, dibs_error *err);

/* grant.c */
/* dibs__grant_new prepares a grant and the hold inside it; dibs__grant_of is the way from
 * the hold to the memory it is in. NULL when out of memory. */
dibs__grant *dibs__grant_new(dibs *client, const dibs_request *request);
dibs__grant *dibs__grant_of(dibs_hold *hold);
void dibs__grant_ref(dibs__grant *grant);
/* dibs__grant_count sets the number of users, of a grant that no other thread can reach. */
static inline void
dibs__grant_count(dibs__grant *grant, uint32_t users)
{
    atomic_store_explicit(&grant->refs, users, memory_order_relaxed);
}
void dibs__grant_unref(dibs__grant *grant);
/* dibs__grant_stands says whether the grant is surely still ours; once 0, it stays 0.
 * Signal-safe. */
int dibs__grant_stands(dibs__grant *grant);

/* arbiter.c: who in this process asks the engine, and who waits for whom here */
int dibs__arbiter_init(dibs *client, dibs_error *err);
void dibs__arbiter_done(dibs *client);
dibs__shard *dibs__shard_of(dibs *client, const dibs__seat *seat);
/* dibs__home_of returns the grant whose memory a seat stands in. */
dibs__grant *dibs__home_of(dibs__seat *seat);

enum dibs__entry {
    DIBS__ENTRY_ASK,       /* ask the engine with this grant */
    DIBS__ENTRY_REENTERED, /* hold->grant is one that this owner had already */
    DIBS__ENTRY_HANDED     /* hold->grant came from another thread of ours */
};
/* dibs__arbiter_enter gives the grant its seat and finds out which of these it is, waiting
 * for our own threads if need be. DIBS_OK, EBUSY, ETIMEDOUT, ECANCELED, EDEADLOCK, ENOMEM.
 * With ENTRY_ASK the grant is in its seat, and granted or gave_up must follow. */
int dibs__arbiter_enter(int *entry, dibs *client, const dibs_request *request,
                        size_t name_len, dibs__grant *grant, dibs_time deadline);
void dibs__arbiter_granted(dibs *client, dibs__grant *grant);
void dibs__arbiter_gave_up(dibs *client, dibs__grant *grant);
/* dibs__arbiter_reenter attaches asking's hold to a grant of the same owner if there is one by
 * now: an owner that is a text can come to a grant while another of its threads waits. */
int dibs__arbiter_reenter(dibs *client, const dibs_request *request, dibs__grant *asking);
/* dibs__arbiter_forget counts a handle as freed. Returns 1 if it was the last one of a
 * client that is closed, to be freed now. */
int dibs__arbiter_forget(dibs *client, const dibs__seat *seat);
/* dibs__arbiter_asking says whether a thread is asking the engine for something. */
int dibs__arbiter_asking(dibs *client);
/* dibs__arbiter_close leaves the client to its handles. Returns 1 if there are none. */
int dibs__arbiter_close(dibs *client);
/* dibs__arbiter_count adds the shards' counters up. */
void dibs__arbiter_count(dibs_stats *out, dibs *client);
/* dibs__arbiter_leave takes a released hold off its grant. Returns 1 if it was the last one
 * and the grant was not handed on: tell the engine, and then vacate. `how`: bits below. */
enum dibs__leave {
    DIBS__LEAVE_HAND_OVER = 1, /* may be handed on */
    DIBS__LEAVE_FREE = 2,      /* the handle is freed next */
    DIBS__LEAVE_TELL = 4       /* the engine will be told: count that call */
};
int dibs__arbiter_leave(dibs *client, dibs_hold *hold, int how);
void dibs__arbiter_vacate(dibs *client, dibs__grant *grant);
/* dibs__arbiter_share lets our other threads ask, after a downgrade. */
void dibs__arbiter_share(dibs *client, dibs__grant *grant);
/* dibs__arbiter_unshare takes back what was assumed of a downgrade that was never sent. */
void dibs__arbiter_unshare(dibs *client, dibs__grant *grant, int before);
/* dibs__arbiter_lost marks all holds of a lost grant, tells them, and lets our other
 * threads ask. */
void dibs__arbiter_lost(dibs *client, dibs__grant *grant);
/* dibs__arbiter_take_any returns (counted) some grant that has holds, marked released;
 * NULL when there is none left. For closing. */
dibs__grant *dibs__arbiter_take_any(dibs *client);

/* keeper.c */
void dibs__keeper_init(dibs *client);
void dibs__keeper_stop(dibs *client);
/* dibs__keeper_reserve makes sure, before anything is sent, that a grant can be kept;
 * needs_alarm: that its end will be told in time. */
int dibs__keeper_reserve(dibs *client, int needs_alarm, dibs_error *err);
void dibs__keeper_unreserve(dibs *client);
/* dibs__keeper_add keeps a grant, using up one reservation. */
void dibs__keeper_add(dibs *client, dibs__grant *grant);
/* dibs__keeper_ensure keeps a grant that was not kept so far. */
int dibs__keeper_ensure(dibs *client, dibs__grant *grant, dibs_error *err);
void dibs__keeper_remove(dibs *client, dibs__grant *grant);
/* dibs__keeper_end_at lets a kept grant end at that time, if it would not sooner. */
void dibs__keeper_end_at(dibs *client, dibs__grant *grant, dibs_time end_at);
/* dibs__keeper_renew renews one grant now, on the caller's thread, with another lease (0:
 * the same). DIBS_OK, DIBS_ELOST, DIBS_EUNKNOWN, DIBS_EUNAVAIL. */
int dibs__keeper_renew(dibs *client, dibs__grant *grant, uint32_t lease_ms,
                       dibs_error *err);
/* dibs__keeper_adopt goes on releasing a grant, from `when` on, until that is confirmed or
 * its lease is over: the reaper. */
void dibs__keeper_adopt(dibs *client, dibs__grant *grant, dibs_time when);

/* hold.c */
void dibs__hold_init(dibs_hold *hold, dibs *client, const dibs_request *request);
/* dibs__hold_discard frees the handle, and nothing else. It may take the shard's mutex. */
void dibs__hold_discard(dibs_hold *hold);
/* dibs__hold_lose marks a hold as lost and signals its fd. Returns 1 if it has an on_lost
 * to be called: then the caller counts as using the memory until dibs__hold_notify has
 * run, and freeing the hold waits for that. */
int dibs__hold_lose(dibs_hold *hold);
/* dibs__grant_end takes a grant that has no holds any more off the keeper and the engine,
 * or leaves it to the reaper; a deadline of 0 stands for the usual one. DIBS_OK, DIBS_ELOST,
 * DIBS_EUNKNOWN. */
int dibs__grant_end(dibs *client, dibs__grant *grant, uint32_t linger_ms, int lost,
                    dibs_time deadline, dibs_error *err);
/* dibs__hold_undo releases a hold that its caller will not get; what cannot be done by the
 * deadline is left to the reaper. */
void dibs__hold_undo(dibs_hold *hold, dibs_time deadline);
/* dibs__hold_notify calls on_lost for a list of holds, on a thread of its own. */
void dibs__hold_notify(dibs *client, dibs_hold *list);

/* acquire.c */
dibs_time dibs__deadline_of(int64_t wait_ms);
/* dibs__io_deadline limits one call of the engine for somebody who has until `deadline`. */
dibs_time dibs__io_deadline(dibs_time deadline, uint32_t lease_ms);

#endif /* DIBS_CORE_CORE_H */
