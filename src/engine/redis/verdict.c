/* SPDX-License-Identifier: MIT */
/*
 * What a server's answer means for a call: whether to go on, to go elsewhere or to give
 * up, and then with which code and words. An error reply means that nothing was done:
 * servers check before they begin, and our scripts write only once they know that they
 * may.
 */
#include <stdio.h>
#include <string.h>

#include "verdict.h"

#define REDIRECTIONS_MAX 5
#define TEXTS_MAX 2 /* how often the text of a script is sent */

/* What to do about it, by the first word of the error. */
static const struct {
    const char *kind, *advice;
} advices[] = {
    { "LOADING", "it is still loading its data" },
    { "TRYAGAIN", "the slot is being moved to another node" },
    { "CLUSTERDOWN", "see CLUSTER INFO on its nodes" },
    { "BUSY", "a script runs for too long there; SCRIPT KILL may end it" },
    { "MISCONF", "it cannot write to its disk; see its log" },
    { "NOREPLICAS", "min-replicas-to-write asks for more replicas than it has" },
    { "OOM", "raise its maxmemory, and keep maxmemory-policy at noeviction" },
    { "READONLY", "it is a replica" },
    { "MASTERDOWN", "it is a replica without a master" },
    { "NOAUTH", "give a password, in the URL or in a file" },
    { "WRONGPASS", "check user and password" },
    { "NOPERM", "give the user that right with ACL SETUSER" },
};

static const char *
advice_for(const char *said)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) {
        size_t len = strlen(advices[i].kind);
        if (strncmp(said, advices[i].kind, len) == 0 && !strchr("_", said[len]))
            return advices[i].advice;
    }
    return NULL;
}

static int
refuse(const struct redis *redis, const struct trip *trip, int code, const char *said,
       dibs_error *err)
{
    const resp_address *address = dibs__resp_server_address(trip->server);
    const char *advice = advice_for(said);
    return redis->host->fail(err, code, "%s:%u said: %.250s%s%s", address->host,
                             (unsigned)address->port, said, advice ? "; " : "",
                             advice ? advice : "");
}

/* ---- errors inside scripts ---- */

/* Servers before 7.0 wrap what a command in a script said: "ERR Error running script
 * (call to f_...): @user_script:3: -OOM command not allowed". Returns the words of the
 * command, or NULL. */
static const char *
inner_words(const char *said)
{
    static const char *const kinds[] = { "OOM",        "READONLY", "MISCONF",
                                         "NOREPLICAS", "NOPERM",   "WRONGTYPE",
                                         "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN" };
    if (strncmp(said, "ERR Error running script", 24) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *at = strstr(said, kinds[i]);
        if (at && (at[-1] == ' ' || at[-1] == '-'))
            return at;
    }
    return NULL;
}

static enum resp_trouble
trouble_of(const redisReply *reply, const char **said)
{
    enum resp_trouble trouble = dibs__resp_trouble(reply);
    const char *inner = trouble == RESP_OTHER ? inner_words(reply->str) : NULL;
    *said = reply->str;
    if (!inner)
        return trouble;
    redisReply unwrapped = *reply;
    unwrapped.str = reply->str + (inner - reply->str);
    unwrapped.len = reply->len - (inner - reply->str);
    *said = inner;
    return dibs__resp_trouble(&unwrapped);
}

/* What our own scripts raise stands between {{ and }}: two clients do not agree. */
static int
verdict_on_other(const struct redis *redis, const struct trip *trip, const char *said,
                 dibs_error *err)
{
    const char *ours = strstr(said, "{{");
    const char *end = ours ? strstr(ours, "}}") : NULL;
    if (end)
        return redis->host->fail(err, DIBS_EMISMATCH, "%.*s", (int)(end - ours - 2),
                                 ours + 2);
    if (strstr(said, "Script killed by user")) /* only one that wrote nothing can be */
        return refuse(redis, trip, DIBS_EUNAVAIL, said, err);
    if (strstr(said, "can't run this command") || strstr(said, "can't access at least"))
        return refuse(redis, trip, DIBS_EDENIED, said, err);
    return refuse(redis, trip, DIBS_ECORRUPT, said, err);
}

/* ---- going on ---- */

static int
go_elsewhere(struct redis *redis, struct trip *trip, const char *said, int ask,
             dibs_error *err)
{
    if (!redis->is_cluster)
        return redis->host->fail(err, DIBS_EUNSUPPORTED,
                                 "this is a node of a cluster (it said %.100s): use "
                                 "redis+cluster:",
                                 said);
    if (trip->redirections++ == REDIRECTIONS_MAX)
        return refuse(redis, trip, DIBS_EUNAVAIL, said, err);
    if (!ask)
        redis->topology->rethink(redis, trip->slot, trip->server, said);
    trip->server = ask ? redis->topology->asked(redis, trip->server, said) : NULL;
    trip->asking = (uint8_t)(trip->server != NULL);
    return VERDICT_AGAIN;
}

static int
ask_for_master(struct redis *redis, struct trip *trip, const char *said, dibs_error *err)
{
    redis->topology->rethink(redis, trip->slot, trip->server, said);
    if (trip->rethinks++)
        return refuse(redis, trip, DIBS_EUNAVAIL, said, err);
    trip->server = NULL;
    trip->asking = 0;
    return VERDICT_AGAIN;
}

static int
verdict_on_error(struct redis *redis, struct trip *trip, enum resp_trouble trouble,
                 const char *said, dibs_error *err)
{
    switch (trouble) {
    case RESP_NOSCRIPT:
        if (!trip->call->script || trip->unknown_script++ > TEXTS_MAX)
            return refuse(redis, trip, DIBS_EUNAVAIL, said, err);
        return VERDICT_AGAIN;
    case RESP_MOVED:
        return go_elsewhere(redis, trip, said, 0, err);
    case RESP_ASK:
        return go_elsewhere(redis, trip, said, 1, err);
    case RESP_NOT_HERE:
        return ask_for_master(redis, trip, said, err);
    case RESP_NOT_NOW:
        return refuse(redis, trip, DIBS_EUNAVAIL, said, err);
    case RESP_DENIED:
        return refuse(redis, trip, DIBS_EDENIED, said, err);
    case RESP_WRONGTYPE:
        return refuse(redis, trip, DIBS_EMISMATCH, said, err);
    default:
        return verdict_on_other(redis, trip, said, err);
    }
}

int
dibs__redis_verdict(struct redis *redis, struct trip *trip, const redisReply *reply,
                    dibs_error *err)
{
    const char *said;
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return DIBS_OK;
    enum resp_trouble trouble = trouble_of(reply, &said);
    return verdict_on_error(redis, trip, trouble, said, err);
}
