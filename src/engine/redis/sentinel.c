/* SPDX-License-Identifier: MIT */
/*
 * redis+sentinel://s1:26379,s2,s3/NAME: the server is whoever the Sentinels call the master
 * of that name, and who says so itself. The answer is kept until something goes wrong
 * there (no connection, READONLY); then the Sentinels are asked again. A Sentinel that
 * switches masters cuts the clients of the old one off, so nobody stays behind for long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "survey.h"

#define SENTINEL_PORT 26379
#define SENTINELS_MAX 32
#define PASSWORD_MAX 512

struct sentinels {
    struct survey survey;
    resp_access access;
    char *password; /* of the Sentinels */
    const char *master_name;
    size_t count, first; /* first: who answered last time; only the one who asks writes */
    resp_server *servers[SENTINELS_MAX];
    _Atomic(resp_server *) master;
};

/* ---- asking ---- */

/* May that server be used as the master? If it may not be asked, what it answers to the
 * first command will tell. */
static int
is_master(struct sentinels *sentinels, resp_server *server, size_t others,
          dibs_time deadline)
{
    static const char *const role[] = { "ROLE", NULL };
    redisReply *reply =
        dibs__redis_survey_ask(&sentinels->survey, server, role, others, deadline);
    if (!reply)
        return 0;
    int yes = dibs__resp_is_text(dibs__resp_element(reply, 0), "master") ||
              dibs__resp_trouble(reply) == RESP_DENIED;
    if (!yes && reply->type == REDIS_REPLY_ERROR)
        dibs__redis_survey_note(&sentinels->survey, server, "%s", reply->str);
    else if (!yes)
        dibs__redis_survey_note(&sentinels->survey, server, "is not a master");
    freeReplyObject(reply);
    return yes;
}

int
dibs__redis_sentinel_named(resp_address *out, const redisReply *reply)
{
    const redisReply *host = dibs__resp_element(reply, 0);
    int64_t port = dibs__resp_integer(dibs__resp_element(reply, 1), 0);
    if (!host || host->type != REDIS_REPLY_STRING || host->len == 0 ||
        (size_t)host->len >= sizeof out->host || memchr(host->str, '\0', host->len) ||
        port <= 0 || port > UINT16_MAX)
        return -1;
    *out = (resp_address){ .port = (uint16_t)port };
    memcpy(out->host, host->str, host->len);
    return 0;
}

/* The server that a Sentinel named; NULL: it named none. */
static resp_server *
named(struct redis *redis, struct sentinels *sentinels, const resp_server *sentinel,
      const redisReply *reply)
{
    resp_address address;
    if (reply->type == REDIS_REPLY_ERROR) {
        dibs__redis_survey_note(&sentinels->survey, sentinel, "%s", reply->str);
        return NULL;
    }
    if (dibs__redis_sentinel_named(&address, reply) != 0) {
        dibs__redis_survey_note(&sentinels->survey, sentinel, "knows no master '%s'",
                                sentinels->master_name);
        return NULL;
    }
    return dibs__redis_server_for(redis, &address);
}

/* *refused is whom an earlier one named, and who is no master or does not answer: to ask it
 * once is enough. */
static resp_server *
ask_one(struct redis *redis, struct sentinels *sentinels, size_t index, size_t others,
        resp_server **refused, dibs_time deadline)
{
    const char *const words[] = { "SENTINEL", "get-master-addr-by-name",
                                  sentinels->master_name, NULL };
    resp_server *sentinel = sentinels->servers[index];
    redisReply *reply =
        dibs__redis_survey_ask(&sentinels->survey, sentinel, words, others, deadline);
    if (!reply)
        return NULL;
    resp_server *server = named(redis, sentinels, sentinel, reply);
    freeReplyObject(reply);
    if (!server || server == *refused)
        return NULL;
    if (!is_master(sentinels, server, others, deadline)) {
        *refused = server;
        return NULL;
    }
    sentinels->first = index;
    return server;
}

/* If no Sentinel can be asked, a master that still says it is one is kept: locks go on
 * while the Sentinels are down. */
static resp_server *
ask_all(struct redis *redis, struct sentinels *sentinels, dibs_time deadline)
{
    size_t first = sentinels->first;
    resp_server *refused = NULL;
    for (size_t i = 0; i < sentinels->count; i++) {
        size_t index = (first + i) % sentinels->count;
        resp_server *found =
            ask_one(redis, sentinels, index, sentinels->count - i, &refused, deadline);
        if (found)
            return found;
    }
    resp_server *known = atomic_load(&sentinels->master);
    if (!known || known == refused || !is_master(sentinels, known, 0, deadline))
        return NULL;
    return known;
}

static void
follow(struct redis *redis, struct sentinels *sentinels, resp_server *master)
{
    const resp_server *before = atomic_load(&sentinels->master);
    if (before && before != master)
        dibs__redis_gate_moved(redis);
    atomic_store(&sentinels->master, master);
}

static int
sentinel_server(struct redis *redis, uint16_t slot, dibs_time deadline, resp_server **out,
                dibs_error *err)
{
    struct sentinels *sentinels = redis->topology_state;
    struct survey *survey = &sentinels->survey;
    (void)slot;
    if (survey_is_due(survey)) {
        uint64_t doubts;
        if (dibs__redis_survey_begin(survey, 1, deadline, &doubts) == SURVEY_YOURS) {
            resp_server *found = ask_all(redis, sentinels, deadline);
            if (found)
                follow(redis, sentinels, found);
            dibs__redis_survey_end(survey, doubts, found != NULL);
            if (!found)
                return dibs__redis_survey_fail(survey, "no master to be found", err);
        }
    }
    *out = atomic_load(&sentinels->master);
    if (!*out)
        return dibs__redis_survey_fail(survey, "no master to be found", err);
    return DIBS_OK;
}

static void
sentinel_rethink(struct redis *redis, uint16_t slot, resp_server *server,
                 const char *said)
{
    struct sentinels *sentinels = redis->topology_state;
    (void)slot, (void)said;
    /* about a server that has been left meanwhile there is nothing to doubt */
    if (server == atomic_load(&sentinels->master))
        dibs__redis_survey_doubt(&sentinels->survey, server);
}

static resp_server *
sentinel_asked(struct redis *redis, const resp_server *server, const char *said)
{
    (void)redis, (void)server, (void)said;
    return NULL;
}

static int
sentinel_each(struct redis *redis, dibs_time deadline,
              int (*visit)(void *context, resp_server *server), void *context,
              dibs_error *err)
{
    resp_server *master;
    int rc = sentinel_server(redis, 0, deadline, &master, err);
    return rc ? rc : visit(context, master);
}

/* ---- the URL ---- */

/* The first line of a file, for free(); its content is never shown. */
static int
read_password(char **out, const dibs_host *host, const char *path, dibs_error *err)
{
    FILE *file = fopen(path, "re");
    char *line = host->alloc(PASSWORD_MAX);
    int ok = file && line && fgets(line, PASSWORD_MAX, file);
    if (file)
        (void)fclose(file);
    if (!ok) {
        host->free(line);
        return host->fail(err, DIBS_ECONFIG,
                          "sentinel_password_file=%s: cannot read a password there",
                          path);
    }
    line[strcspn(line, "\r\n")] = '\0';
    *out = line;
    return DIBS_OK;
}

/* Sentinels have users and passwords of their own, no databases, and are rarely asked. */
static int
read_access(struct redis *redis, struct sentinels *sentinels, const dibs_url_parts *url,
            dibs_error *err)
{
    const char *file = redis->host->param(url, "sentinel_password_file");
    if (file) {
        int rc = read_password(&sentinels->password, redis->host, file, err);
        if (rc)
            return rc;
    }
    sentinels->access = redis->access;
    sentinels->access.user = redis->host->param(url, "sentinel_user");
    sentinels->access.password = sentinels->password;
    sentinels->access.db = 0;
    sentinels->access.connections = 1;
    return DIBS_OK;
}

static int
add_sentinel(struct redis *redis, struct sentinels *sentinels, const char *text,
             size_t len, dibs_error *err)
{
    resp_address address;
    if (sentinels->count == SENTINELS_MAX ||
        dibs__resp_address_parse(&address, text, len, SENTINEL_PORT) != 0)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "'%.*s' is not an address, or there are more than %d "
                                 "Sentinels",
                                 (int)len, text, SENTINELS_MAX);
    resp_server *server = dibs__resp_server_new(&sentinels->access, &address);
    if (!server)
        return DIBS_ENOMEM;
    sentinels->servers[sentinels->count++] = server;
    return DIBS_OK;
}

static int
read_hosts(struct redis *redis, struct sentinels *sentinels, const dibs_url_parts *url,
           dibs_error *err)
{
    const char *at = url->hosts;
    int rc = DIBS_OK;
    sentinels->master_name = *url->path ? url->path + 1 : "";
    if (!*at || !*sentinels->master_name)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "redis+sentinel: wants Sentinels and the name of their "
                                 "master, as in redis+sentinel://s1,s2,s3/mymaster");
    while (!rc && *at) {
        size_t len = strcspn(at, ",");
        rc = add_sentinel(redis, sentinels, at, len, err);
        at += len + (at[len] == ',');
    }
    return rc;
}

static void
sentinel_close(struct redis *redis, int forked)
{
    struct sentinels *sentinels = redis->topology_state;
    if (!sentinels)
        return;
    for (size_t i = 0; i < sentinels->count; i++)
        dibs__resp_server_free(sentinels->servers[i], forked);
    dibs__redis_survey_done(&sentinels->survey, forked);
    redis->host->free(sentinels->password);
    redis->host->free(sentinels);
    redis->topology_state = NULL;
}

static int
sentinel_open(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
              dibs_error *err)
{
    struct sentinels *sentinels = redis->host->alloc(sizeof *sentinels);
    resp_server *master;
    if (!sentinels)
        return DIBS_ENOMEM;
    dibs__redis_survey_init(&sentinels->survey, redis->host);
    redis->topology_state = sentinels;
    int rc = read_access(redis, sentinels, url, err);
    if (!rc)
        rc = read_hosts(redis, sentinels, url, err);
    return rc ? rc : sentinel_server(redis, 0, deadline, &master, err);
}

const struct topology dibs__redis_sentinel = {
    .open = sentinel_open,
    .close = sentinel_close,
    .server = sentinel_server,
    .rethink = sentinel_rethink,
    .asked = sentinel_asked,
    .each = sentinel_each,
};
