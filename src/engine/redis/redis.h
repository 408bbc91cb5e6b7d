/* SPDX-License-Identifier: MIT */
/*
 * The redis engine: what its files share.
 *
 * redis.c is what the tables of all layouts have in common: the URL, open, close.
 * A layout (`?layout=`) is how a lock is written down: queue*.c (ours), redisson*.c,
 * plain*.c, getset.c; the last two share notice.c (waiting) and renewal.c. A topology (the
 * URL's scheme) says which server to ask: single.c, sentinel.c, cluster.c; survey.c asks
 * around for the last two. call.c runs commands and scripts there, and verdict.c says what
 * an answer means (redirections, missing scripts, loading servers). key.c and script.c
 * make what is sent. wake.c knows who of this process waits for a message. gate.c is the
 * amnesia guard and the failover quarantine, sweep.c the same for all slots of a cluster.
 * cell.c has the cells, which are the same for every layout.
 */
#ifndef DIBS_REDIS_H
#define DIBS_REDIS_H

#include <pthread.h>

#include <dibs/engine.h>

#include "resp/resp.h"

struct redis;
struct call;

/* ---- tokens ---- */

/* A hybrid clock on the server counts ticks: microseconds of its wall clock, or one more
 * than the last tick if that clock stood still or went back. Scripts count ticks, which
 * stay exact in Lua up to 2^53; a token is a tick with room for hand-overs behind it. */
#define TICK_ROOM 64
#define TICK_MOST (INT64_C(1) << 53)
static inline uint64_t
token_of_tick(int64_t tick)
{
    return (uint64_t)tick * TICK_ROOM;
}

/* ---- keys ---- */

#define KEY_MAX (3 * DIBS_NAME_MAX + 64)

/* A key, or a family of keys that begin alike. */
struct key {
    size_t len;
    char text[KEY_MAX];
};

/* key_set makes prefix + "{" + name + "}" + suffix, in which '{', '}' and '%' of the name
 * are written as %7B, %7D and %25: one slot per name in a cluster, whatever the name.
 * key_name undoes it: 0 and the name if the key has that prefix and suffix, else -1. */
void dibs__redis_key_set(struct key *key, const char *prefix, const char *name,
                         size_t len, const char *suffix);
int dibs__redis_key_name(const char *text, size_t len, const char *prefix,
                         const char *suffix, char name[DIBS_NAME_MAX], size_t *name_len);
uint16_t dibs__redis_slot(const char *key, size_t len);

/* clock_key is the key of the hybrid clock that can be used together with `key`: one for
 * a server; in a cluster one per slot ("dibs:clock:{n}" with the least n of that slot). */
void dibs__redis_clock_key(struct redis *redis, const struct key *lock, struct key *out);
void dibs__redis_born_key(struct redis *redis, const struct key *lock, struct key *out);

/* slot_key is the key of such a family in one slot of a cluster. learn_slots prepares it
 * for all of them, which takes no longer than for a few of them one by one. */
#define SLOTS 16384
#define BORN_KEY "dibs:born"
void dibs__redis_slot_key(struct key *out, const char *base, uint16_t slot);
void dibs__redis_learn_slots(void);

/* A claim's identity as text: 32 hex digits of the session, ':', the serial. */
#define ID_MAX 56
size_t dibs__redis_id(const struct redis *redis, const dibs_claim *claim,
                      char out[ID_MAX]);

/* ---- scripts and calls ---- */

/* A script in Lua. `parts` are put one behind the other; NULL ends them. */
struct script {
    const char *name;
    char *text;
    resp_script lua; /* of that text */
};

int dibs__redis_script_new(struct script *script, const char *name,
                           const char *const *parts, const dibs_host *host);
void dibs__redis_script_free(struct script *script, const dibs_host *host);

/* Lua for scripts that grant to begin with. It sets `now`, the server's time in ms, and
 * defines tick(clock_key), which moves the hybrid clock on and returns the tick. */
extern const char dibs__redis_lua_tick[];

/* gate.c: the amnesia guard and the failover quarantine. gate_lua is a part for scripts
 * that grant, behind lua_tick: it defines gate(), for how many ms nothing may be granted
 * (0: go ahead). While they are off it costs nothing: gate_lua's gate() returns 0, and
 * gate_keys (0) and gate_args add nothing. Else gate_key adds the last of the keys and
 * gate_args the last of the arguments. `scratch` must outlive the call. */
const char *dibs__redis_gate_lua(const struct redis *redis);
unsigned dibs__redis_gate_keys(const struct redis *redis);
void dibs__redis_gate_key(struct redis *redis, struct call *call, const struct key *lock,
                          struct key *scratch);
void dibs__redis_gate_args(struct redis *redis, struct call *call);
int dibs__redis_gate_open(struct redis *redis, const dibs_url_parts *url,
                          dibs_time deadline, dibs_error *err);
void dibs__redis_gate_close(struct redis *redis);
/* close_ms: what gate() returns when it has just been closed */
int64_t dibs__redis_gate_close_ms(const struct redis *redis);
/* moved: before another server than till now is asked as the master. is_new: so recently
 * that the one before may still grant what this one would prolong. */
void dibs__redis_gate_moved(struct redis *redis);
int dibs__redis_gate_is_new(const struct redis *redis);
/* admits: DIBS_OK, or DIBS_EINVAL if a lease is longer than the guard allows for */
int dibs__redis_gate_admits(const struct redis *redis, int64_t lease_ms, dibs_error *err);

/* sweep.c: in a cluster, closes the gates of all slots of a server when that of one is. */
int dibs__redis_sweep_open(struct redis *redis, dibs_time deadline);
void dibs__redis_sweep_close(struct redis *redis);
void dibs__redis_sweep_if_due(struct redis *redis, dibs_time deadline);

enum call_flag {
    CALL_WRITES = 1u << 0, /* with ?replicas=N, replicas must confirm it */
    CALL_READS = 1u << 1,  /* changes nothing: after a lost reply it is simply repeated */
    CALL_LASTS = 1u << 2   /* makes a hold begin, or last longer: see gate_is_new */
};

/* One command for the server that has `key`. For a script: script_call, then the keys,
 * then the arguments, with dibs__resp_word and so on. Else put the words in `command`. */
struct call {
    const struct script *script; /* NULL: a plain command */
    const struct key *key;       /* NULL: any server */
    uint64_t hash;               /* chooses the connection: the claim's name_hash */
    unsigned flags;
    resp_command command;
};

/* A hash for the i-th of many calls whose order does not matter: they travel together on
 * a few connections, which their own hashes would scatter. */
static inline uint64_t
any_order(size_t i)
{
    return i % 4;
}

void dibs__redis_script_call(struct call *call, const struct script *script,
                             unsigned key_count, const struct key *key, uint64_t hash);

/* run sends it and returns the reply; free it. Redirections, NOSCRIPT and the like have
 * been dealt with, and an error reply became a code and a text:
 *   DIBS_OK; EUNAVAIL (nothing was changed; also LOADING, READONLY, ...); EUNKNOWN (it may
 *   have been: no reply, or too few replicas confirmed); EDENIED; EMISMATCH (another kind
 *   of value under the key); ECORRUPT (anything else the server said); ENOMEM.
 * run_many sends n of them in as few writes as it can, and gives each its code. */
int dibs__redis_run(struct redis *redis, struct call *call, dibs_time deadline,
                    redisReply **reply, dibs_error *err);
void dibs__redis_run_many(struct redis *redis, struct call *calls, size_t n,
                          dibs_time deadline, redisReply **replies, int *codes,
                          dibs_error *err);

/* ---- topologies ---- */

/* Which server to ask. Servers are kept until close, so pointers to them stay good. */
struct topology {
    int (*open)(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
                dibs_error *err);
    void (*close)(struct redis *redis, int forked);
    /* server finds who has that slot now; may ask around */
    int (*server)(struct redis *redis, uint16_t slot, dibs_time deadline,
                  resp_server **out, dibs_error *err);
    /* rethink: this server could not be reached, or said MOVED, READONLY, ... (`said`,
     * NULL if it said nothing). Makes the next `server` look again. */
    void (*rethink)(struct redis *redis, uint16_t slot, resp_server *server,
                    const char *said);
    /* asked: the server that an ASK redirection from `server` names; NULL: none */
    resp_server *(*asked)(struct redis *redis, const resp_server *server,
                          const char *said);
    /* each calls visit for every server that has keys, until it returns not 0 */
    int (*each)(struct redis *redis, dibs_time deadline,
                int (*visit)(void *context, resp_server *server), void *context,
                dibs_error *err);
};

extern const struct topology dibs__redis_single, dibs__redis_sentinel,
    dibs__redis_cluster;

/* dibs__redis_server_for returns the server object for an address, the same each time. NULL:
 * there is no memory, or there are more of them than a cluster has slots. */
resp_server *dibs__redis_server_for(struct redis *redis, const resp_address *address);

/* ---- layouts ---- */

/* A layout is a table of the engine, and what stands behind the slots that all of them
 * share: their meaning is that of engine.h. `heard` gets every message of the client's
 * listener. */
struct layout {
    const char *name;
    int (*open)(struct redis *redis, const dibs_url_parts *url, dibs_error *err);
    void (*close)(struct redis *redis);
    int (*attempt)(struct redis *redis, dibs_claim *claim, dibs_time deadline,
                   dibs_error *err);
    int (*release)(struct redis *redis, dibs_claim *claim, uint32_t linger_ms,
                   dibs_time deadline, dibs_error *err);
    void (*heard)(struct redis *redis, const char *channel, size_t channel_len,
                  const char *message, size_t message_len);
};

extern const struct layout dibs__redis_queue_layout, dibs__redis_redisson_layout,
    dibs__redis_plain_layout, dibs__redis_getset_layout;
extern const dibs_engine dibs__redis_redisson, dibs__redis_plain, dibs__redis_getset;

/* What their tables have in common (redis.c). */
extern const char *const dibs__redis_schemes[];
int dibs__redis_open(void *state, dibs_session *session, const dibs_url_parts *url,
                     dibs_time deadline, dibs_error *err);
void dibs__redis_close(void *state, int forked);
int dibs__redis_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err);
int dibs__redis_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                        dibs_time deadline, dibs_error *err);

#define REDIS_PARAMS                                                                     \
    "db", "connections", "tls", "ca", "cert", "key", "sni", "insecure", "replicas",      \
        "replicas_wait", "guard", "failover", "lag", "sentinel_user",                    \
        "sentinel_password_file"
#define REDIS_ENGINE                                                                     \
    .abi = DIBS_ENGINE_ABI, .name = "redis", .schemes = dibs__redis_schemes,             \
    .min_lease_ms = 20, .state_size = sizeof(struct redis), .open = dibs__redis_open,    \
    .close = dibs__redis_close, .attempt = dibs__redis_attempt,                          \
    .release = dibs__redis_release, .sleep = dibs__redis_sleep,                          \
    .rouse = dibs__redis_rouse, .cell_read = dibs__redis_cell_read,                      \
    .cell_swap = dibs__redis_cell_swap

/* ---- waiting ---- */

/* A claim that waits, as wake.c knows it. It is in claim->priv[0] from `wait` to `done`.
 * Only the thread that has the claim reads it, but for what stands under the mutex, and for
 * `rouse`, which is called while that thread sleeps. */
struct waiter {
    struct waiter *next; /* these five: guarded by the redis' waiters mutex */
    uint64_t match;      /* what a message is matched by */
    dibs_bell *bell;
    size_t message_len; /* the last message that was for it; 0: none */
    char message[128];
    resp_listener *listener; /* where it is subscribed; NULL: not yet */
    char *channel;
    size_t channel_len;
    int sharded;
    uint64_t epoch;  /* of the listener when that was confirmed */
    dibs_time asked; /* when the server last said "queued", by the clock before sending */
    uint64_t own[2]; /* the layout's */
};

/* wait registers the claim, if it is not yet; `match` is its serial, or the hash of a
 * channel. NULL: out of memory. done forgets it, and its subscription. */
struct waiter *dibs__redis_waiter(struct redis *redis, dibs_claim *claim, uint64_t match);
static inline struct waiter *
waiter_of(const dibs_claim *claim)
{
    return (struct waiter *)(uintptr_t)claim->priv[0];
}
void dibs__redis_waiter_done(struct redis *redis, dibs_claim *claim);

/* listen subscribes the waiter's client to a channel (of the server that has `key`, if
 * sharded), and returns when that is confirmed. heard_all says whether nothing can have
 * been missed since. take copies the last message out, and forgets it. */
int dibs__redis_listen(struct redis *redis, struct waiter *waiter, const char *channel,
                       size_t len, const struct key *sharded, dibs_time deadline,
                       dibs_error *err);
int dibs__redis_heard_all(const struct waiter *waiter);
size_t dibs__redis_take_message(struct redis *redis, struct waiter *waiter,
                                char out[128]);

/* The table of waiters and the listeners. */
int dibs__redis_waiters_open(struct redis *redis);
void dibs__redis_waiters_close(struct redis *redis, int forked);

/* check_listener makes the listeners see whether their connections still work: another
 * one has just failed. */
void dibs__redis_check_listener(struct redis *redis);

/* Slots: who waits reads the subscription itself if nobody else does. */
void dibs__redis_sleep(void *state, dibs_claim *claim, dibs_time deadline);
void dibs__redis_rouse(void *state, dibs_claim *claim);

/* tell gives a message to all who match, or to the first one only, and rings them. */
void dibs__redis_tell(struct redis *redis, uint64_t match, int first_only,
                      const char *message, size_t len);

/* ---- the client ---- */

struct redis {
    dibs_session *session;
    const dibs_host *host;
    const struct layout *layout;
    const struct topology *topology;
    resp_access access;

    /* options of the URL */
    unsigned replicas;     /* WAIT for that many */
    int64_t wait_limit_ms; /* ... for at most that long */
    int64_t guard_ms;      /* amnesia guard: longest lease in the fleet; 0: off */
    int quarantine;        /* after a failover; uses guard_ms */
    int64_t lag_ms;        /* ... and the longest that replication may be behind */
    int is_cluster;

    /* servers we know, only growing */
    pthread_mutex_t servers_mutex;
    resp_server **servers;
    size_t server_count;
    void *topology_state;

    /* waiting */
    pthread_mutex_t waiters_mutex;
    struct waiter **waiters; /* by match */
    resp_listener *listener;
    struct shard *shards;  /* in a cluster, the listeners at single servers */
    resp_server *listened; /* the listener's own: where it is, */
    size_t listen_turn;    /* and how often it had to move */

    void *layout_state;
    void *gate_state;
    _Atomic dibs_time moved_at; /* 0: never */
    void *sweep_state;
    _Atomic uint64_t upsets; /* how often a node failed, or a slot was found elsewhere */
    void *cell_state;
};

/* ---- cells ---- */

int dibs__redis_cells_open(struct redis *redis, dibs_error *err);
void dibs__redis_cells_close(struct redis *redis);
int dibs__redis_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                          dibs_time deadline, dibs_error *err);
int dibs__redis_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                          const void *value, size_t len, uint64_t *new_version,
                          dibs_time deadline, dibs_error *err);

#endif /* DIBS_REDIS_H */
