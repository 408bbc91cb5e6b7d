/* SPDX-License-Identifier: MIT */
/*
 * The redisson layout: locks exactly as Redisson, the Java client, writes them, so that
 * its processes and ours exclude and wake each other. What its files share.
 *
 * A lock is a hash under the lock's own name: owner -> count, with a TTL. Owners are
 * "<uuid>:<number>"; Redisson's number is a thread, ours the serial of a claim. Four forms
 * (`?form=`): lock (RLock), fenced (RFencedLock: a counter gives tokens), fair
 * (RedissonFairLock: a list of waiters and a sorted set of their deadlines, by the clients'
 * clocks) and rw (RReadWriteLock: a field "mode", owners that write have ":write" behind
 * them, and each read has a key whose TTL is its lease).
 *
 * redisson.c is the layout's table: attempt, watch, renew, release, downgrade.
 * redisson_look.c looks at locks and breaks them. redisson_lua.c has the scripts, and
 * redisson_name.c what things are called.
 */
#ifndef DIBS_REDISSON_H
#define DIBS_REDISSON_H

#include "redis.h"

enum form { FORM_LOCK, FORM_FAIR, FORM_FENCED, FORM_RW };

/* In redis->layout_state. */
struct redisson {
    enum form form;
    int64_t fair_wait_ms; /* what Redisson calls fairLockWaitTimeout */
    struct script take;   /* exclusively */
    struct script take_shared;
    struct script renew, give, downgrade;
    struct script evict, look;
};

static inline struct redisson *
redisson_of(const struct redis *redis)
{
    return redis->layout_state;
}

/* ---- redisson_name.c ---- */

/* What belongs to a lock besides its hash. */
enum thing {
    THE_QUEUE,      /* list of owners that wait for a fair lock */
    THE_TIMEOUTS,   /* ... and their deadlines */
    THE_TOKEN,      /* counter of a fenced lock */
    THE_CHANNEL,    /* where the end of a lock is published */
    THE_RW_CHANNEL, /* ... of a read-write lock */
    THE_TURN,       /* ours: a writer waits, so new readers stand back */
    THE_READ,       /* the key with the lease of our read */
    THE_AFTERGLOW,  /* ... after a release that lets it linger */
    THE_PREFIX      /* what such keys begin with, whose ever they are */
};

#define OWNER_MAX 64
#define THINGS_ROOM 4096

/* All names of one lock, made as they are needed; what was put into a call lives here. */
struct naming {
    struct key lock; /* the name itself */
    size_t me_len, afterglow_len;
    char me[OWNER_MAX];        /* our owner id, if there is a claim */
    char afterglow[OWNER_MAX]; /* who owns what lingers: nobody can release that */
    size_t used;
    char room[THINGS_ROOM];
};

/* name sets the names up. In a cluster it refuses names whose keys would not be together:
 * DIBS_EINVAL. claim_name does the same for a claim. */
int dibs__redisson_name(struct naming *naming, const struct redis *redis,
                        const char *name, size_t len, dibs_error *err);
int dibs__redisson_claim_name(struct naming *naming, const struct redis *redis,
                              const dibs_claim *claim, dibs_error *err);

/* thing returns one of the names, put adds it to a command. */
const char *dibs__redisson_thing(struct naming *naming, enum thing thing, size_t *len);
void dibs__redisson_put(struct call *call, struct naming *naming, enum thing thing);

/* channel is what a waiting claim listens to. */
const char *dibs__redisson_channel(struct naming *naming, enum form form, size_t *len);

/* is_owner says whether a field of a hash looks like an owner that holds something. */
int dibs__redisson_is_owner(const char *field, size_t len);

/* ---- redisson_lua.c ---- */

int dibs__redisson_scripts_new(struct redisson *redisson, const struct redis *redis);
void dibs__redisson_scripts_free(struct redisson *redisson, const dibs_host *host);

/* ---- redisson_look.c ---- */

/* The clients' clock, by which fair locks measure deadlines. */
int64_t dibs__redisson_wall_ms(void);

/* other_dialect fails with DIBS_EMISMATCH and says what else is under the key. */
int dibs__redisson_other_dialect(struct redis *redis, const struct naming *naming,
                                 uint64_t hash, dibs_time deadline, dibs_error *err);

/* report tells the sink what the script that looks has seen. DIBS_OK, ECORRUPT, or what the
 * sink said. */
int dibs__redisson_report(const char *name, size_t name_len, const redisReply *reply,
                          dibs_sink *sink);

int dibs__redisson_list(void *state, dibs_sink *sink, dibs_time deadline,
                        dibs_error *err);
int dibs__redisson_inspect(void *state, const char *name, size_t name_len,
                           uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                           dibs_error *err);
int dibs__redisson_evict(void *state, const char *name, size_t name_len,
                         uint64_t name_hash, size_t *broken, dibs_time deadline,
                         dibs_error *err);

#endif /* DIBS_REDISSON_H */
