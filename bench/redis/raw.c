/* SPDX-License-Identifier: MIT */
/* A lock by hand: what every other lock on Redis costs more than. */
#include <stdio.h>
#include <string.h>

#include "redis.h"

static const char compare_and_delete[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
    "else return 0 end";

redisReply *
raw_ask(redisContext *link, int count, const char **words)
{
    redisReply *reply = redisCommandArgv(link, count, words, NULL);

    if (reply == NULL)
        bench_die("redis-server: %s", link->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        bench_die("redis-server: %s", reply->str);
    return reply;
}

void
raw_load(redisContext *link, const char *script, char sha[41])
{
    const char *words[] = { "SCRIPT", "LOAD", script };
    redisReply *reply = raw_ask(link, 3, words);

    snprintf(sha, 41, "%s", reply->str);
    freeReplyObject(reply);
}

void
raw_open(raw *r, int i)
{
    r->link = server_connect(i);
    raw_load(r->link, compare_and_delete, r->sha);
}

void
raw_close(raw *r)
{
    redisFree(r->link);
}

void
raw_append_lock(raw *r, const char *name)
{
    const char *words[] = { "SET", name, RAW_VALUE, "NX", "PX", "30000" };

    (void)redisAppendCommandArgv(r->link, 6, words, NULL);
}

void
raw_locked(raw *r, const char *name)
{
    redisReply *reply = NULL;

    if (redisGetReply(r->link, (void **)&reply) != REDIS_OK)
        bench_die("redis-server: %s", r->link->errstr);
    if (reply->type != REDIS_REPLY_STATUS)
        bench_die("%s is locked already", name);
    freeReplyObject(reply);
}

void
raw_lock(raw *r, const char *name)
{
    raw_append_lock(r, name);
    raw_locked(r, name);
}

void
raw_unlock(raw *r, const char *name)
{
    const char *words[] = { "EVALSHA", r->sha, "1", name, RAW_VALUE };
    redisReply *reply = raw_ask(r->link, 5, words);

    if (reply->integer != 1)
        bench_die("%s was not locked", name);
    freeReplyObject(reply);
}
