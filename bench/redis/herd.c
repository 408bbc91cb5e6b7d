/* SPDX-License-Identifier: MIT */
/*
 * A lock that tells everybody when it is free, in the manner of Redisson: a hash with the
 * owner's count, and a channel that all who wait have subscribed to. They all try again,
 * and one wins. Subscribed only while waiting, and tried once more after that, as Redisson
 * does it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "herd.h"

static const char acquire[] = "if redis.call('exists', KEYS[1]) == 0 or "
                              "redis.call('hexists', KEYS[1], ARGV[2]) == 1 "
                              "then redis.call('hincrby', KEYS[1], ARGV[2], 1) "
                              "redis.call('pexpire', KEYS[1], ARGV[1]) return nil end "
                              "return redis.call('pttl', KEYS[1])";
static const char release[] =
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end "
    "if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end "
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1";

/* One who takes part, with its two connections. */
typedef struct herd {
    redisContext *link, *ear;
    char name[64], channel[80], me[32];
    char acquire_sha[41], release_sha[41];
} herd;

static void *
herd_open(const void *name)
{
    herd *h = calloc(1, sizeof *h);

    if (h == NULL)
        bench_die("out of memory");
    h->link = server_connect(0);
    h->ear = server_connect(0);
    snprintf(h->name, sizeof h->name, "%s", (const char *)name);
    snprintf(h->channel, sizeof h->channel, "channel:{%s}", h->name);
    snprintf(h->me, sizeof h->me, "%ld:1", (long)getpid());
    raw_load(h->link, acquire, h->acquire_sha);
    raw_load(h->link, release, h->release_sha);
    return h;
}

static void
herd_close(void *state)
{
    herd *h = state;

    redisFree(h->link);
    redisFree(h->ear);
    free(h);
}

/* -1: got it; else for how long somebody else has it */
static long long
try_lock(herd *h)
{
    const char *words[] = { "EVALSHA", h->acquire_sha, "1", h->name, "30000", h->me };
    redisReply *reply = raw_ask(h->link, 6, words);
    long long left = reply->type == REDIS_REPLY_NIL ? -1 : reply->integer;

    freeReplyObject(reply);
    return left;
}

/* the reply to SUBSCRIBE and UNSUBSCRIBE comes behind messages that were on their way */
static void
tell_ear(herd *h, const char *verb)
{
    redisReply *reply = NULL;
    int confirmed = 0;

    if (redisAppendCommand(h->ear, "%s %s", verb, h->channel) != REDIS_OK)
        bench_die("redis-server: %s", h->ear->errstr);
    while (!confirmed) {
        if (redisGetReply(h->ear, (void **)&reply) != REDIS_OK)
            bench_die("redis-server: %s", h->ear->errstr);
        confirmed = strcasecmp(reply->element[0]->str, verb) == 0;
        freeReplyObject(reply);
    }
}

/* waits for a message, or until the lease of the holder is over */
static void
listen_for(herd *h, long long left_ms)
{
    struct pollfd ear = { .fd = h->ear->fd, .events = POLLIN };
    redisReply *reply = NULL;

    /* it may be in the buffer already */
    if (redisReaderGetReply(h->ear->reader, (void **)&reply) == REDIS_OK &&
        reply == NULL && poll(&ear, 1, (int)left_ms) == 1 &&
        redisGetReply(h->ear, (void **)&reply) != REDIS_OK)
        bench_die("redis-server: %s", h->ear->errstr);
    if (reply != NULL)
        freeReplyObject(reply);
}

static void
herd_lock(void *state)
{
    herd *h = state;
    long long left = try_lock(h);

    if (left < 0)
        return;
    tell_ear(h, "subscribe");
    while ((left = try_lock(h)) >= 0)
        listen_for(h, left);
    tell_ear(h, "unsubscribe");
}

static void
herd_unlock(void *state)
{
    herd *h = state;
    const char *words[] = { "EVALSHA", h->release_sha, "2", h->name, h->channel, h->me };
    redisReply *reply = raw_ask(h->link, 6, words);

    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        bench_die("%s was not locked", h->name);
    freeReplyObject(reply);
}

crowd_lock
herd_in_crowd(const char *name)
{
    return (crowd_lock){ herd_open, herd_lock, herd_unlock, herd_close, name };
}
