/* SPDX-License-Identifier: MIT */
/*
 * redis+cluster://h1:p1,h2:p2: the server is the master of the key's slot. The map of
 * slots comes from any node (CLUSTER SLOTS, which every version has), and is asked for
 * again when a node says MOVED or cannot be reached. What MOVED says counts at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "survey.h"

#define CLUSTER_PORT 6379

struct cluster {
    struct survey survey;
    /* whom MOVED named last: the newest owner knows the newest map */
    _Atomic(resp_server *) guide;
    _Atomic(resp_server *) owners[SLOTS]; /* NULL: nobody */
};

/* a map while it is read */
struct map {
    struct redis *redis;
    const resp_server *teller;
    resp_server **owners; /* SLOTS of them */
};

/* ---- addresses ---- */

/* A node without a host name is where the answer came from. */
static resp_server *
server_at(struct redis *redis, const resp_server *teller, const char *host, size_t len,
          int64_t port)
{
    resp_address address = { .port = (uint16_t)port };
    if (len >= sizeof address.host || port <= 0 || port > UINT16_MAX)
        return NULL;
    if (len)
        memcpy(address.host, host, len);
    else
        memcpy(address.host, dibs__resp_server_address(teller)->host,
               sizeof address.host);
    return dibs__redis_server_for(redis, &address);
}

/* "MOVED 3999 127.0.0.1:6381": host and port are parted by the last colon, as an IPv6
 * address stands there without brackets. A host of "?" is unknown to the teller. */
static resp_server *
redirected(struct redis *redis, const resp_server *teller, const char *said)
{
    const char *host = strrchr(said, ' ');
    const char *colon = host ? strrchr(host, ':') : NULL;
    if (!colon || strncmp(host, " ?:", 3) == 0)
        return NULL;
    return server_at(redis, teller, host + 1, (size_t)(colon - host - 1),
                     strtol(colon + 1, NULL, 10));
}

/* ---- the map ---- */

/* [host, port, id, [more names]]: if the host is "?", perhaps its address is among the
 * other names. */
static resp_server *
node_of(const struct map *map, const redisReply *node)
{
    const redisReply *host = dibs__resp_element(node, 0);
    const redisReply *names = dibs__resp_element(node, 3);
    int64_t port = dibs__resp_integer(dibs__resp_element(node, 1), 0);
    for (size_t i = 0; dibs__resp_is_text(host, "?") && dibs__resp_element(names, i + 1);
         i += 2) {
        if (dibs__resp_is_text(names->element[i], "ip"))
            host = names->element[i + 1];
    }
    if (dibs__resp_is_text(host, "?"))
        return NULL;
    int named = host && host->type == REDIS_REPLY_STRING;
    return server_at(map->redis, map->teller, named ? host->str : "",
                     named ? (size_t)host->len : 0, port);
}

/* [first slot, last slot, master, replica, ...]. Replicas are not used, but one of them
 * may be the only one left to ask next time. */
static int
read_range(struct map *map, const redisReply *range)
{
    int64_t first = dibs__resp_integer(dibs__resp_element(range, 0), -1);
    int64_t last = dibs__resp_integer(dibs__resp_element(range, 1), -1);
    resp_server *owner = node_of(map, dibs__resp_element(range, 2));
    if (first < 0 || last >= SLOTS || first > last || !owner)
        return -1;
    for (int64_t slot = first; slot <= last; slot++)
        map->owners[slot] = owner;
    for (size_t i = 3; i < range->elements; i++)
        (void)node_of(map, range->element[i]);
    return 0;
}

int
dibs__redis_cluster_map(struct redis *redis, const resp_server *teller,
                        const redisReply *reply, resp_server *owners[SLOTS])
{
    struct map map = { redis, teller, owners };
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > SLOTS)
        return -1;
    for (size_t i = 0; i < reply->elements; i++) {
        if (read_range(&map, reply->element[i]) != 0)
            return -1;
    }
    return (int)reply->elements;
}

static int
ask_one(struct redis *redis, resp_server **owners, resp_server *node, size_t others,
        dibs_time deadline)
{
    static const char *const words[] = { "CLUSTER", "SLOTS", NULL };
    struct cluster *cluster = redis->topology_state;
    redisReply *reply =
        dibs__redis_survey_ask(&cluster->survey, node, words, others, deadline);
    if (!reply)
        return 0;
    memset(owners, 0, SLOTS * sizeof *owners);
    int ranges = dibs__redis_cluster_map(redis, node, reply, owners);
    if (ranges <= 0)
        dibs__redis_survey_note(&cluster->survey, node, "%s",
                                reply->type == REDIS_REPLY_ERROR ? reply->str
                                : ranges == 0
                                    ? "has no slots"
                                    : "answers CLUSTER SLOTS with something else");
    freeReplyObject(reply);
    return ranges > 0;
}

/* A slot that is moved in peace is not told apart from a failover. */
static void
follow(struct redis *redis, struct cluster *cluster, size_t slot, resp_server *owner)
{
    const resp_server *before = atomic_load(&cluster->owners[slot]);
    if (before && owner && before != owner)
        dibs__redis_gate_moved(redis);
    atomic_store(&cluster->owners[slot], owner);
}

/* ---- whom to ask ---- */

struct nodes {
    size_t count;
    resp_server **servers;
};

/* Everybody we know: first the one that MOVED named, last the one that failed, and those
 * between in turn, so that none which is behind the times is asked again and again. */
static int
list_nodes(struct redis *redis, struct cluster *cluster, struct nodes *nodes)
{
    resp_server *guide = atomic_exchange(&cluster->guide, NULL);
    resp_server *suspect = atomic_load(&cluster->survey.suspect);
    pthread_mutex_lock(&redis->servers_mutex);
    size_t count = redis->server_count, turn = (size_t)redis->host->random() % count;
    nodes->servers = redis->host->alloc((count + 1) * sizeof(resp_server *));
    nodes->count = 0;
    if (nodes->servers && guide)
        nodes->servers[nodes->count++] = guide;
    for (size_t i = 0; nodes->servers && i < count; i++) {
        resp_server *server = redis->servers[(turn + i) % count];
        if (server != guide && server != suspect)
            nodes->servers[nodes->count++] = server;
    }
    if (nodes->servers && suspect && suspect != guide)
        nodes->servers[nodes->count++] = suspect;
    pthread_mutex_unlock(&redis->servers_mutex);
    return nodes->servers ? DIBS_OK : DIBS_ENOMEM;
}

static int
ask_all(struct redis *redis, struct cluster *cluster, dibs_time deadline)
{
    struct nodes nodes;
    resp_server **owners = redis->host->alloc(SLOTS * sizeof *owners);
    int found = 0;
    if (owners && list_nodes(redis, cluster, &nodes) == DIBS_OK) {
        for (size_t i = 0; !found && i < nodes.count; i++)
            found =
                ask_one(redis, owners, nodes.servers[i], nodes.count - i - 1, deadline);
        redis->host->free(nodes.servers);
    }
    for (size_t slot = 0; found && slot < SLOTS; slot++)
        follow(redis, cluster, slot, owners[slot]);
    redis->host->free(owners);
    return found;
}

/* Renews the map, if that is due and not too soon. Whoever needs the server that failed
 * waits for it; the others go on. */
static int
look_again(struct redis *redis, struct cluster *cluster, const resp_server *owner,
           dibs_time deadline, dibs_error *err)
{
    struct survey *survey = &cluster->survey;
    uint64_t doubts;
    if (!survey_is_due(survey))
        return DIBS_OK;
    int wait = !owner || owner == atomic_load(&survey->suspect);
    if (dibs__redis_survey_begin(survey, wait, deadline, &doubts) != SURVEY_YOURS)
        return DIBS_OK;
    int found = ask_all(redis, cluster, deadline);
    dibs__redis_survey_end(survey, doubts, found);
    if (!found && !owner)
        return dibs__redis_survey_fail(survey, "no node of the cluster tells its slots",
                                       err);
    return DIBS_OK;
}

/* ---- the topology ---- */

static int
cluster_server(struct redis *redis, uint16_t slot, dibs_time deadline, resp_server **out,
               dibs_error *err)
{
    struct cluster *cluster = redis->topology_state;
    resp_server *owner = atomic_load(&cluster->owners[slot]);
    if (!owner && !survey_is_due(&cluster->survey))
        dibs__redis_survey_doubt(&cluster->survey, NULL); /* it may have got one */
    int rc = look_again(redis, cluster, owner, deadline, err);
    if (rc)
        return rc;
    owner = atomic_load(&cluster->owners[slot]);
    if (!owner)
        return redis->host->fail(err, DIBS_EUNAVAIL,
                                 "slot %u has no server in this cluster", (unsigned)slot);
    *out = owner;
    return DIBS_OK;
}

static void
cluster_rethink(struct redis *redis, uint16_t slot, resp_server *server, const char *said)
{
    struct cluster *cluster = redis->topology_state;
    atomic_fetch_add(&redis->upsets, 1);
    if (said && strncmp(said, "MOVED ", 6) == 0) {
        resp_server *owner = redirected(redis, server, said);
        if (owner)
            follow(redis, cluster, slot, owner);
        atomic_store(&cluster->guide, owner ? owner : server);
        dibs__redis_survey_doubt(&cluster->survey, NULL);
    } else if (server == atomic_load(&cluster->owners[slot])) {
        dibs__redis_survey_doubt(&cluster->survey, server);
    }
}

static int
cluster_each(struct redis *redis, dibs_time deadline,
             int (*visit)(void *context, resp_server *server), void *context,
             dibs_error *err)
{
    struct cluster *cluster = redis->topology_state;
    int rc = look_again(redis, cluster, NULL, deadline, err);
    resp_server *last = NULL;
    struct nodes seen = { 0 };
    if (rc)
        return rc;
    seen.servers = redis->host->alloc(SLOTS * sizeof *seen.servers);
    if (!seen.servers)
        return DIBS_ENOMEM;
    for (size_t slot = 0; !rc && slot < SLOTS; slot++) {
        resp_server *owner = atomic_load(&cluster->owners[slot]);
        size_t i = 0;
        if (!owner || owner == last)
            continue;
        last = owner;
        while (i < seen.count && seen.servers[i] != owner)
            i++;
        if (i < seen.count)
            continue;
        seen.servers[seen.count++] = owner;
        rc = visit(context, owner);
    }
    redis->host->free(seen.servers);
    return rc;
}

/* ---- open and close ---- */

static int
read_hosts(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const char *at = *url->hosts ? url->hosts : "127.0.0.1";
    if (url->path[0] && url->path[1])
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "a cluster has no databases: nothing stands behind the "
                                 "hosts, and here is %s",
                                 url->path);
    while (*at) {
        resp_address address;
        size_t len = strcspn(at, ",");
        if (dibs__resp_address_parse(&address, at, len, CLUSTER_PORT) != 0)
            return redis->host->fail(err, DIBS_ECONFIG, "'%.*s' is not an address",
                                     (int)len, at);
        if (!dibs__redis_server_for(redis, &address))
            return DIBS_ENOMEM;
        at += len + (at[len] == ',');
    }
    return DIBS_OK;
}

static void
cluster_close(struct redis *redis, int forked)
{
    struct cluster *cluster = redis->topology_state;
    if (!cluster)
        return;
    dibs__redis_survey_done(&cluster->survey, forked);
    redis->host->free(cluster);
    redis->topology_state = NULL;
}

static int
cluster_open(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
             dibs_error *err)
{
    struct cluster *cluster = redis->host->alloc(sizeof *cluster);
    if (!cluster)
        return DIBS_ENOMEM;
    dibs__redis_survey_init(&cluster->survey, redis->host);
    redis->topology_state = cluster;
    int rc = read_hosts(redis, url, err);
    if (!rc)
        rc = look_again(redis, cluster, NULL, deadline, err);
    if (rc == DIBS_EUNAVAIL && strstr(cluster->survey.said, "cluster support disabled"))
        rc = redis->host->fail(
            err, DIBS_ECONFIG,
            "this is not a cluster (%s): use redis:", cluster->survey.said);
    return rc;
}

const struct topology dibs__redis_cluster = {
    .open = cluster_open,
    .close = cluster_close,
    .server = cluster_server,
    .rethink = cluster_rethink,
    .asked = redirected,
    .each = cluster_each,
};
