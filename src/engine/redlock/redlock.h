/* SPDX-License-Identifier: MIT */
/*
 * The redlock engine: what its files share.
 *
 * A lock is a key on each of several independent Redis servers, and who has it on a
 * majority of them holds it. redlock.c reads the URL and has the engine's table. round.c
 * asks all servers at once. take.c takes a lock, end.c gives it back or breaks it, renew.c
 * keeps it and look.c looks at it. token.c says how tokens only rise, though servers come, go and forget.
 * wake.c is for those who wait. script.c is what runs on the servers.
 */
#ifndef DIBS_REDLOCK_H
#define DIBS_REDLOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include <dibs/engine.h>

#include "resp/resp.h"

#define NODES_MAX 15

/* One of the servers. */
struct node {
    resp_server *server;
    _Atomic int64_t clock_us; /* its wall clock less our boot clock; 0: not known yet */
    _Atomic dibs_time down_until; /* could not be reached: not asked before then */
    _Atomic int knows_end;        /* it has run SCRIPT_END, and needs no text of it */
};

/* ---- scripts ---- */

enum script {
    SCRIPT_TAKE,
    SCRIPT_RENEW,
    SCRIPT_END,
    SCRIPT_EVICT,
    SCRIPT_LOOK,
    SCRIPT_COUNT,
    SCRIPT_NONE = SCRIPT_COUNT /* a plain command */
};

/* The one key there is per server: a hash with the newest tick of every bucket of names,
 * and when the server was first seen. It cannot be the name of a lock. */
#define TOKEN_KEY "dibs:token"

/* What SCRIPT_TAKE answers first; then come the last tick of the bucket and the server's
 * time in microseconds. */
enum take_answer {
    TAKE_OURS = 1,
    TAKE_THEIRS = 2, /* then: for how many ms (-1: for ever), and their value */
    TAKE_WRONG_TYPE = 3,
    TAKE_CLOSED = 4 /* the server may have forgotten locks; then: for how many ms */
};

/* What SCRIPT_RENEW answers. */
enum renew_answer { RENEW_THEIRS = 0, RENEW_OURS = 1, RENEW_ABSENT = 2 };

int dibs__redlock_scripts_init(resp_script scripts[SCRIPT_COUNT]);

/* ---- the client ---- */

#define TOKEN_BUCKETS 256

struct redlock {
    dibs_session *session;
    const dibs_host *host;
    resp_access access;
    int count, majority;
    struct node nodes[NODES_MAX];
    int64_t node_timeout_ms; /* for one server's answer; 0: a part of the lease */
    int64_t guard_ms;        /* the longest lease there is; 0: no guard */
    resp_script scripts[SCRIPT_COUNT];
    _Atomic int64_t seen[TOKEN_BUCKETS]; /* token.c */

    /* waiting */
    pthread_mutex_t mutex;  /* for the next two, and what they point to */
    struct waiter *waiters; /* a list */
    resp_listener *listener;
    _Atomic int listens_at; /* the node at which we listen; -1: none yet */
};

/* A claim's value under its key: 32 hex digits of the session, ':', the serial. */
#define VALUE_MAX 56
size_t dibs__redlock_value(const struct redlock *redlock, const dibs_claim *claim,
                           char out[VALUE_MAX]);

/* ---- rounds ---- */

/* One request to several servers at once. Set the first seven, then begin; next returns the
 * index of a server that has answered or will not, -1 when there is none left; end frees
 * what came. codes[i] is then
 *   DIBS_OK: its replies are there; EUNAVAIL: surely nothing was done; EUNKNOWN: sent, but
 *   no answer; EDENIED, ECORRUPT: it refused.
 * `said` is what was said by the last that failed. */
struct round {
    struct redlock *redlock;
    enum script script;
    resp_command *commands; /* for all the same */
    unsigned count;         /* of them */
    uint32_t nodes;         /* whom to ask, a bit for each */
    uint32_t must;          /* of these also those that could not be reached just now */
    dibs_time deadline;

    dibs_time began;
    uint32_t waiting;  /* asked, and not collected yet */
    uint32_t stalled;  /* will be late: not waited for, unless we must */
    uint32_t heard;    /* answers are there, until end */
    uint32_t repeated; /* asked twice, because the connection was lost the first time */
    resp_op *ops[NODES_MAX];
    int codes[NODES_MAX];
    redisReply **replies; /* `count` for each server */
    redisReply *few[NODES_MAX];
    dibs_error said;
};

int dibs__redlock_begin(struct round *round, dibs_error *err);
int dibs__redlock_next(struct round *round);
void dibs__redlock_end_round(struct round *round);

static inline redisReply *
reply_of(const struct round *round, int node, unsigned command)
{
    return round->replies[(unsigned)node * round->count + command];
}

/* deadline_of is when a round about a lease must be over. */
dibs_time dibs__redlock_deadline(const struct redlock *redlock, uint32_t lease_ms,
                                 dibs_time deadline);
uint32_t dibs__redlock_all(const struct redlock *redlock);

/* command starts a call of a script on a name. */
void dibs__redlock_command(const struct redlock *redlock, resp_command *command,
                           enum script script, const char *name, size_t name_len);
/* take_command is SCRIPT_TAKE for a claim. `value` must outlive it. */
void dibs__redlock_take_command(const struct redlock *redlock, resp_command *command,
                                const dibs_claim *claim, const char *value, int64_t tick,
                                int64_t guard_ms);

/* few says that too few servers answered, and why. */
int dibs__redlock_few(const struct redlock *redlock, int code, int answered,
                      const dibs_error *said, dibs_error *err);

/* ---- tokens ---- */

/* Ticks stay exact in Lua up to 2^53; a token is a tick with room for hand-overs. */
#define TICK_ROOM 64
#define TICK_MAX ((INT64_C(1) << 53) - 2)

static inline unsigned
bucket_of(const dibs_claim *claim)
{
    return (unsigned)(claim->name_hash % TOKEN_BUCKETS);
}

int64_t dibs__redlock_propose(struct redlock *redlock, unsigned bucket);
void dibs__redlock_saw(struct redlock *redlock, unsigned bucket, int64_t tick);
void dibs__redlock_saw_clock(struct redlock *redlock, int node, int64_t server_us);

/* ---- taking, ending ---- */

/* How a look at the servers is done, and what was found. */
struct look {
    int modest;   /* ask one server first, and go on only if that one agrees */
    int collided; /* found: several tried at once, and nobody has a majority */
    int foreign;  /* found: who has it will not ring when it is done */
};

int dibs__redlock_take(struct redlock *redlock, dibs_claim *claim, struct look *look,
                       dibs_time deadline, dibs_error *err);

/* end_claim ends it on those servers. `ring`: tell who waits, also where it was gone. */
int dibs__redlock_end_claim(struct redlock *redlock, const dibs_claim *claim,
                            uint32_t nodes, uint32_t linger_ms, int ring,
                            dibs_time deadline, dibs_error *err);

/* Where a claim's key may be, a bit for each server that was asked for it. */
static inline uint32_t
asked_nodes(const dibs_claim *claim)
{
    return (uint32_t)__atomic_load_n(&claim->priv[1], __ATOMIC_SEQ_CST);
}

static inline void
add_asked_nodes(dibs_claim *claim, uint32_t nodes)
{
    (void)__atomic_fetch_or(&claim->priv[1], nodes, __ATOMIC_SEQ_CST);
}

/* ending is whether the claim's release has begun; renewals then heal it no more. */
static inline int
is_ending(const dibs_claim *claim)
{
    return __atomic_load_n(&claim->priv[2], __ATOMIC_SEQ_CST) != 0;
}

static inline void
set_ending(dibs_claim *claim)
{
    __atomic_store_n(&claim->priv[2], 1, __ATOMIC_SEQ_CST);
}

void dibs__redlock_renew(struct redlock *redlock, dibs_claim *const *claims, int *results,
                         size_t n, dibs_time deadline, dibs_error *err);
int dibs__redlock_evict(struct redlock *redlock, const char *name, size_t name_len,
                        size_t *broken, dibs_time deadline, dibs_error *err);

int dibs__redlock_inspect(struct redlock *redlock, const char *name, size_t name_len,
                          dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__redlock_list(struct redlock *redlock, dibs_sink *sink, dibs_time deadline,
                       dibs_error *err);

/* ---- waiting ---- */

#define CHANNEL_MAX (3 * DIBS_NAME_MAX + 16)
size_t dibs__redlock_channel(char out[CHANNEL_MAX], const char *name, size_t len);

/* A claim that waits; in claim->priv[0] from the first watch to done. */
struct waiter {
    struct waiter *next;
    dibs_bell *bell;
    uint64_t rings; /* these two: guarded by the redlock's mutex */
    int modest;
    uint64_t looked; /* the rings there were when we last looked */
    int listening, fresh;
    unsigned polls; /* looks in a row that nobody rang for */
    uint32_t hint_ms;
    size_t channel_len;
    char channel[]; /* of the name */
};

static inline struct waiter *
waiter_of(const dibs_claim *claim)
{
    return (struct waiter *)(uintptr_t)claim->priv[0];
}

int dibs__redlock_watch(struct redlock *redlock, dibs_claim *claim, dibs_time deadline);
void dibs__redlock_waiter_done(struct redlock *redlock, dibs_claim *claim);

/* look_begin says how to look; 0 if there is no need to, for nothing has happened since
 * the last look. hint sets how long to sleep if nobody rings. */
int dibs__redlock_look_begin(struct redlock *redlock, struct waiter *waiter,
                             struct look *look);
uint32_t dibs__redlock_hint(struct redlock *redlock, struct waiter *waiter,
                            const struct look *look, int64_t free_in_ms);
/* listener_check: the server at which we listen seems to be gone. Look, and go on to the
 * next one if it is. */
void dibs__redlock_listener_check(struct redlock *redlock);
void dibs__redlock_waiters_close(struct redlock *redlock, int forked);

#endif /* DIBS_REDLOCK_H */
