/* SPDX-License-Identifier: MIT */
/*
 * Who of this process waits for a message. A claim that has to wait gets a waiter, which
 * messages find by what they match: its serial, or the hash of a channel. Whoever reads the
 * subscription leaves the message with the waiter and rings the caller's bell; the caller
 * looks at it in its next attempt. That is one of the callers that wait, so that the message
 * for it costs no switch of threads; only while none does is it the listener's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "redis.h"

#define BUCKETS 1024

/* Sharded channels are heard only at the server that has their slot: a listener there. */
struct shard {
    struct shard *next;
    struct redis *redis;
    resp_server *server;
    resp_listener *listener;
};

static struct waiter **
bucket_of(struct redis *redis, uint64_t match)
{
    return &redis->waiters[(match * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

int
dibs__redis_waiters_open(struct redis *redis)
{
    redis->waiters = redis->host->alloc(BUCKETS * sizeof *redis->waiters);
    return redis->waiters ? DIBS_OK : DIBS_ENOMEM;
}

void
dibs__redis_waiters_close(struct redis *redis, int forked)
{
    dibs__resp_listener_free(redis->listener, forked);
    while (redis->shards) {
        struct shard *shard = redis->shards;
        redis->shards = shard->next;
        dibs__resp_listener_free(shard->listener, forked);
        redis->host->free(shard);
    }
    redis->host->free(redis->waiters);
}

/* ---- the table ---- */

struct waiter *
dibs__redis_waiter(struct redis *redis, dibs_claim *claim, uint64_t match)
{
    struct waiter *waiter = waiter_of(claim);
    if (waiter)
        return waiter;
    waiter = redis->host->alloc(sizeof *waiter);
    if (!waiter)
        return NULL;
    waiter->match = match;
    waiter->bell = claim->bell;
    claim->priv[0] = (uint64_t)(uintptr_t)waiter;
    pthread_mutex_lock(&redis->waiters_mutex);
    /* at the end: the first one told is the one that has waited longest */
    struct waiter **link = bucket_of(redis, match);
    while (*link)
        link = &(*link)->next;
    *link = waiter;
    pthread_mutex_unlock(&redis->waiters_mutex);
    return waiter;
}

static void
stop_listening(struct waiter *waiter)
{
    if (waiter->listener)
        dibs__resp_unsubscribe(waiter->listener, waiter->channel, waiter->channel_len,
                               waiter->sharded);
    waiter->listener = NULL;
}

void
dibs__redis_waiter_done(struct redis *redis, dibs_claim *claim)
{
    struct waiter *gone = waiter_of(claim);
    if (!gone)
        return;
    claim->priv[0] = 0;
    pthread_mutex_lock(&redis->waiters_mutex);
    struct waiter **link = bucket_of(redis, gone->match);
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&redis->waiters_mutex);
    stop_listening(gone);
    redis->host->free(gone->channel);
    redis->host->free(gone);
}

void
dibs__redis_tell(struct redis *redis, uint64_t match, int first_only, const char *message,
                 size_t len)
{
    pthread_mutex_lock(&redis->waiters_mutex);
    for (struct waiter *waiter = *bucket_of(redis, match); waiter;
         waiter = waiter->next) {
        if (waiter->match != match || (first_only && waiter->message_len))
            continue;
        waiter->message_len = len < sizeof waiter->message ? len : sizeof waiter->message;
        memcpy(waiter->message, message, waiter->message_len);
        redis->host->ring(waiter->bell);
        if (first_only)
            break;
    }
    pthread_mutex_unlock(&redis->waiters_mutex);
}

size_t
dibs__redis_take_message(struct redis *redis, struct waiter *waiter, char out[128])
{
    pthread_mutex_lock(&redis->waiters_mutex);
    size_t len = waiter->message_len;
    memcpy(out, waiter->message, len);
    waiter->message_len = 0;
    pthread_mutex_unlock(&redis->waiters_mutex);
    return len;
}

/* ---- the listener's side ---- */

/* choosing one of several servers */
struct choice {
    size_t skip;
    resp_server *server;
};

static int
choose(void *context, resp_server *server)
{
    struct choice *choice = context;
    choice->server = server;
    return choice->skip-- == 0;
}

/* Any server that has keys will do: in a cluster, all hear what is published at one. If we
 * are here again the last one was not good for long, so look whether it is still one of
 * them, and take the next. Only the listener's thread comes here. */
static int
locate(void *context, resp_address *address, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = context;
    struct choice choice = { redis->listened ? redis->listen_turn++ % 8 : 0, NULL };
    if (redis->listened)
        redis->topology->rethink(redis, 0, redis->listened, NULL);
    int rc = redis->topology->each(redis, deadline, choose, &choice, err);
    if (!choice.server)
        return rc ? rc : DIBS_EUNAVAIL;
    redis->listened = choice.server;
    *address = *dibs__resp_server_address(choice.server);
    return DIBS_OK;
}

static int
locate_shard(void *context, resp_address *address, dibs_time deadline, dibs_error *err)
{
    const struct shard *shard = context;
    (void)deadline, (void)err;
    *address = *dibs__resp_server_address(shard->server);
    return DIBS_OK;
}

static void
heard(void *context, const char *channel, size_t channel_len, const char *message,
      size_t message_len)
{
    struct redis *redis = context;
    redis->layout->heard(redis, channel, channel_len, message, message_len);
}

/* messages may have been missed: everybody looks for themselves, holders too */
static void
gap(void *context)
{
    struct redis *redis = context;
    pthread_mutex_lock(&redis->waiters_mutex);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct waiter *waiter = redis->waiters[i]; waiter; waiter = waiter->next)
            redis->host->ring(waiter->bell);
    }
    pthread_mutex_unlock(&redis->waiters_mutex);
}

static void
heard_shard(void *context, const char *channel, size_t channel_len, const char *message,
            size_t message_len)
{
    const struct shard *shard = context;
    heard(shard->redis, channel, channel_len, message, message_len);
}

static void
gap_shard(void *context)
{
    const struct shard *shard = context;
    gap(shard->redis);
}

static const resp_listener_events events = { locate, heard, gap };
static const resp_listener_events shard_events = { locate_shard, heard_shard, gap_shard };

static resp_listener *
common_listener(struct redis *redis)
{
    pthread_mutex_lock(&redis->waiters_mutex);
    if (!redis->listener)
        redis->listener = dibs__resp_listener_new(&redis->access, &events, redis);
    resp_listener *listener = redis->listener;
    pthread_mutex_unlock(&redis->waiters_mutex);
    return listener;
}

static struct shard *
shard_new(struct redis *redis, resp_server *server)
{
    struct shard *shard = redis->host->alloc(sizeof *shard);
    if (!shard) {
        errno = ENOMEM;
        return NULL;
    }
    shard->redis = redis;
    shard->server = server;
    shard->listener = dibs__resp_listener_new(&redis->access, &shard_events, shard);
    if (!shard->listener) {
        redis->host->free(shard);
        return NULL;
    }
    shard->next = redis->shards;
    redis->shards = shard;
    return shard;
}

static resp_listener *
listener_at(struct redis *redis, resp_server *server)
{
    pthread_mutex_lock(&redis->waiters_mutex);
    struct shard *shard = redis->shards;
    while (shard && shard->server != server)
        shard = shard->next;
    if (!shard)
        shard = shard_new(redis, server);
    pthread_mutex_unlock(&redis->waiters_mutex);
    return shard ? shard->listener : NULL;
}

void
dibs__redis_check_listener(struct redis *redis)
{
    pthread_mutex_lock(&redis->waiters_mutex);
    if (redis->listener)
        dibs__resp_listener_check(redis->listener);
    for (struct shard *shard = redis->shards; shard; shard = shard->next)
        dibs__resp_listener_check(shard->listener);
    pthread_mutex_unlock(&redis->waiters_mutex);
}

/* without descriptors one goes on asking, until there are some */
static int
no_listener(const struct redis *redis, dibs_error *err)
{
    return redis->host->fail(err, errno == ENOMEM ? DIBS_ENOMEM : DIBS_EUNAVAIL,
                             "cannot listen: %s", strerror(errno));
}

static int
subscribe(struct redis *redis, struct waiter *waiter, resp_listener *listener,
          int sharded, dibs_time deadline, dibs_error *err)
{
    if (!listener)
        return no_listener(redis, err);
    int rc = dibs__resp_subscribe(listener, waiter->channel, waiter->channel_len, sharded,
                                  deadline, err);
    if (rc)
        return rc;
    waiter->epoch = dibs__resp_listener_epoch(listener);
    waiter->listener = listener;
    waiter->sharded = sharded;
    return DIBS_OK;
}

/* The slot may have moved since the map was read: then the next look finds out. */
static int
subscribe_at_owner(struct redis *redis, struct waiter *waiter, const struct key *key,
                   dibs_time deadline, dibs_error *err)
{
    uint16_t slot = dibs__redis_slot(key->text, key->len);
    int rc = DIBS_EUNAVAIL;
    for (int tries = 0; rc == DIBS_EUNAVAIL && tries < 2; tries++) {
        resp_server *server;
        dibs_error why = { 0 };
        rc = redis->topology->server(redis, slot, deadline, &server, &why);
        if (!rc) {
            rc = subscribe(redis, waiter, listener_at(redis, server), 1, deadline, &why);
            if (rc == DIBS_EUNAVAIL)
                redis->topology->rethink(redis, slot, server, strstr(why.text, "MOVED "));
        }
        if (rc && err)
            *err = why;
    }
    return rc;
}

int
dibs__redis_listen(struct redis *redis, struct waiter *waiter, const char *channel,
                   size_t len, const struct key *sharded, dibs_time deadline,
                   dibs_error *err)
{
    if (waiter->listener && dibs__redis_heard_all(waiter))
        return DIBS_OK;
    stop_listening(waiter);
    if (!waiter->channel) {
        waiter->channel = redis->host->alloc(len + 1);
        if (!waiter->channel)
            return DIBS_ENOMEM;
        memcpy(waiter->channel, channel, len);
        waiter->channel_len = len;
    }
    if (sharded && redis->is_cluster)
        return subscribe_at_owner(redis, waiter, sharded, deadline, err);
    return subscribe(redis, waiter, common_listener(redis), 0, deadline, err);
}

int
dibs__redis_heard_all(const struct waiter *waiter)
{
    return waiter->listener && waiter->epoch &&
           dibs__resp_listener_epoch(waiter->listener) == waiter->epoch;
}

/* ---- the caller that sleeps ---- */

void
dibs__redis_sleep(void *state, dibs_claim *claim, dibs_time deadline)
{
    const struct waiter *waiter = waiter_of(claim);
    (void)state;
    if (waiter && waiter->listener)
        dibs__resp_listener_borrow(waiter->listener, claim->bell, claim->seen, deadline);
}

/* the caller sleeps, so its waiter stays as it is */
void
dibs__redis_rouse(void *state, dibs_claim *claim)
{
    const struct waiter *waiter = waiter_of(claim);
    (void)state;
    if (waiter && waiter->listener)
        dibs__resp_listener_rouse(waiter->listener);
}
