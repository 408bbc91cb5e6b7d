/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs with the scripts of the layout queue, sent by hand: each process has a
 * connection to ask on and one that is subscribed, and its only thread reads both. There is
 * nobody to renew, to cancel or to notice a lost connection: no client can be faster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/redis/queue_lua.h"
#include "line.h"

/* the clients' own clock must not be moved */
#define CLOCK "bench/clock"
#define LEASE "30000"
#define WAIT "3000"
#define INFO "0 1 0 " LEASE " " WAIT " 1234 4 5 hostbench"

static const char no_gate[] = "local function gate() return 0 end\n";

/* One who takes part. */
typedef struct one {
    redisContext *link, *ear;
    char key[64], line[64], ends[64], infos[64];
    char session[33], id[48];
    char take[41], give[41];
    long serial;
} one;

static void
load(one *p, const char *short_way, const char *rest, char sha[41])
{
    const char *const parts[] = { dibs__queue_lua_begin,
                                  dibs__queue_lua_together,
                                  short_way,
                                  dibs__queue_lua_clock,
                                  no_gate,
                                  dibs__queue_lua_state,
                                  dibs__queue_lua_turns,
                                  rest };
    static char script[65536];
    size_t at = 0;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        at += (size_t)snprintf(script + at, sizeof script - at, "%s", parts[i]);
    if (at >= sizeof script)
        bench_die("queue's scripts are longer than %zu bytes", sizeof script);
    raw_load(p->link, script, sha);
}

static void *
line_open(const void *key)
{
    one *p = calloc(1, sizeof *p);

    if (p == NULL)
        bench_die("out of memory");
    p->link = server_connect(0);
    p->ear = server_connect(0);
    snprintf(p->key, sizeof p->key, "%s", (const char *)key);
    snprintf(p->line, sizeof p->line, "%s" QUEUE_LINE, (const char *)key);
    snprintf(p->ends, sizeof p->ends, "%s" QUEUE_ENDS, (const char *)key);
    snprintf(p->infos, sizeof p->infos, "%s" QUEUE_INFOS, (const char *)key);
    snprintf(p->session, sizeof p->session, "%032lx", (long)getpid());
    load(p, dibs__queue_lua_join, dibs__queue_lua_take, p->take);
    load(p, dibs__queue_lua_pass, dibs__queue_lua_give, p->give);
    freeReplyObject(redisCommand(p->ear, "SUBSCRIBE " QUEUE_CHANNEL "%s", p->session));
    return p;
}

static void
line_close(void *state)
{
    one *p = state;

    redisFree(p->link);
    redisFree(p->ear);
    free(p);
}

/* 1: it is ours; 0: we are in line */
static int
ask(one *p)
{
    const char *words[] = { "EVALSHA", p->take, "5",  p->key, p->line, p->ends, p->infos,
                            CLOCK,     p->id,   INFO, LEASE,  "0",     WAIT };
    redisReply *reply = raw_ask(p->link, 13, words);
    const redisReply *first = reply->elements > 0 ? reply->element[0] : NULL;
    int is_ours = first != NULL && first->type == REDIS_REPLY_STRING;

    freeReplyObject(reply);
    return is_ours;
}

/* waits until we are told something: 'g', we have it, or 'o', we are to ask again */
static char
listen_for(one *p)
{
    redisReply *reply = NULL;
    char kind;

    if (redisGetReply(p->ear, (void **)&reply) != REDIS_OK)
        bench_die("redis-server: %s", p->ear->errstr);
    kind = reply->element[2]->str[0];
    freeReplyObject(reply);
    return kind;
}

static void
line_lock(void *state)
{
    one *p = state;

    snprintf(p->id, sizeof p->id, "%s:%ld", p->session, ++p->serial);
    while (!ask(p))
        if (listen_for(p) == 'g')
            break;
}

static void
line_unlock(void *state)
{
    one *p = state;
    const char *words[] = { "EVALSHA", p->give, "5",   p->key, p->line, p->ends,
                            p->infos,  CLOCK,   p->id, "0",    "1",     INFO };
    redisReply *reply = raw_ask(p->link, 12, words);

    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        bench_die("%s was not locked", p->key);
    freeReplyObject(reply);
}

crowd_lock
line_in_crowd(const char *key)
{
    return (crowd_lock){ line_open, line_lock, line_unlock, line_close, key };
}
