/* SPDX-License-Identifier: MIT */
/*
 * The queue layout: what its files share. queue.c has the table, queue_take.c asks and
 * waits, queue_look.c looks and breaks; queue_lua.c has what runs on the server.
 */
#ifndef DIBS_REDIS_QUEUE_H
#define DIBS_REDIS_QUEUE_H

#include "queue_lua.h"
#include "redis.h"

#define CROWDED 4096

struct queue {
    struct script take_free, give_lone;
    struct script take, give, observe, renew, share, evict, look;
    int has_gate;              /* then nothing is granted without asking it */
    int64_t waiter_ms;         /* how long a place in line lasts without a word */
    char self[QUEUE_SELF_MAX]; /* what all our parties say of themselves */
    size_t self_len;
    char channel[64]; /* of this client */
    size_t channel_len;
    _Atomic int listens; /* the channel is subscribed to, until close */
    /* by name: it was not free, or not ours alone, when we last looked. Says which script
     * to ask first; a wrong guess costs a round trip. */
    _Atomic uint8_t crowded[CROWDED];
};

static inline struct queue *
queue_of(const struct redis *redis)
{
    return redis->layout_state;
}

static inline int
is_crowded(const struct queue *queue, uint64_t name_hash)
{
    return atomic_load_explicit(&queue->crowded[name_hash % CROWDED],
                                memory_order_relaxed);
}

static inline void
set_crowded(struct queue *queue, uint64_t name_hash, int crowded)
{
    atomic_store_explicit(&queue->crowded[name_hash % CROWDED], (uint8_t)crowded,
                          memory_order_relaxed);
}

/* A call of one of the scripts, and the keys it speaks of. */
struct queue_call {
    struct call call;
    struct key lock, line, ends, infos, clock, gate;
};

/* dibs__queue_call begins a call with the keys of a name; arguments come next, and then
 * dibs__redis_gate_args. */
void dibs__queue_call(struct redis *redis, struct queue_call *out,
                      const struct script *script, const char *name, size_t name_len,
                      uint64_t name_hash);

/* dibs__queue_claim_call is that for a claim, with its id as the first argument. */
void dibs__queue_claim_call(struct redis *redis, struct queue_call *out,
                            const struct script *script, const dibs_claim *claim,
                            char id[ID_MAX]);

/* dibs__queue_mark writes how the record of a lone holder begins, "L ID ". */
#define MARK_MAX (ID_MAX + 4)
size_t dibs__queue_mark(const struct redis *redis, const dibs_claim *claim,
                        char mark[MARK_MAX]);

/* dibs__queue_info writes what a claim says of itself: numbers, what is the same for all of
 * this client's claims, and the note. With the id in front it is a waiter's name in line. */
#define INFO_MAX (64 + QUEUE_SELF_MAX + DIBS_NOTE_MAX)
size_t dibs__queue_info(const struct redis *redis, const dibs_claim *claim,
                        char info[INFO_MAX]);

/* dibs__queue_number runs a call that is answered by a number. */
int dibs__queue_number(struct redis *redis, struct queue_call *call, dibs_time deadline,
                       int64_t *number, dibs_error *err);

/* dibs__queue_wait_ms is how long this claim's place in line lasts. */
uint32_t dibs__queue_wait_ms(const struct redis *redis, const dibs_claim *claim);

/* What the server says, read: answer is what becomes of an attempt, which was asked then;
 * read_grant a message that tells of a grant (0, or -1: it does not); report what a lock
 * looks like. */
struct queue_grant {
    uint64_t ticket, tick, previous;
};
int dibs__queue_answer(struct redis *redis, dibs_claim *claim, const redisReply *reply,
                       dibs_time asked, dibs_error *err);
int dibs__queue_read_grant(struct queue_grant *out, const char *message);
int dibs__queue_report(const char *name, size_t name_len, const redisReply *reply,
                       dibs_sink *sink);

/* slots in other files */
int dibs__queue_attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err);
int dibs__queue_watch(void *state, dibs_claim *claim, dibs_time deadline,
                      dibs_error *err);
void dibs__queue_heard(struct redis *redis, const char *channel, size_t channel_len,
                       const char *message, size_t message_len);
int dibs__queue_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__queue_inspect(void *state, const char *name, size_t name_len,
                        uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                        dibs_error *err);
int dibs__queue_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                      size_t *broken, dibs_time deadline, dibs_error *err);

#endif /* DIBS_REDIS_QUEUE_H */
