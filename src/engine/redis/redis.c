/* SPDX-License-Identifier: MIT */
/*
 * The redis engine: reads the URL, chooses the topology, opens and closes; and what comes
 * before the attempts and releases of every layout. docs/engines/redis.md is for its users.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#define WARN_MS 500
#define CONNECTIONS 4
#define CONNECTIONS_MAX 64
#define REPLICAS_WAIT_MS 1000
#define LAG_MS 10000

static const struct layout *const layouts[] = { &dibs__redis_queue_layout,
                                                &dibs__redis_redisson_layout,
                                                &dibs__redis_plain_layout,
                                                &dibs__redis_getset_layout };

static const struct {
    const char *scheme;
    const struct topology *topology;
} topologies[] = {
    { "redis", &dibs__redis_single },
    { "rediss", &dibs__redis_single },
    { "redis+unix", &dibs__redis_single },
    { "redis+sentinel", &dibs__redis_sentinel },
    { "redis+cluster", &dibs__redis_cluster },
};

/* ---- the URL ---- */

static void
choose_layout(struct redis *redis)
{
    const char *wanted = redis->session->engine->layout;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (strcmp(layouts[i]->name, wanted) == 0)
            redis->layout = layouts[i];
    }
}

static void
choose_topology(struct redis *redis, const dibs_url_parts *url)
{
    redis->topology = &dibs__redis_single;
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
        if (strcmp(topologies[i].scheme, url->scheme) == 0)
            redis->topology = topologies[i].topology;
    }
    redis->is_cluster = redis->topology == &dibs__redis_cluster;
}

/* The database: `db=`, or the path of redis:. */
static int
read_db(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    unsigned db = 0;
    int rc = redis->host->param_number(&db, url, "db", 0, 1000000, err);
    int path_is_db =
        strcmp(url->scheme, "redis") == 0 || strcmp(url->scheme, "rediss") == 0;
    if (!rc && path_is_db && url->path[0] && url->path[1]) {
        char *end;
        db = (unsigned)strtoul(url->path + 1, &end, 10);
        if (*end)
            rc = redis->host->fail(err, DIBS_ECONFIG,
                                   "the path %s is not the number of a database",
                                   url->path);
    }
    if (!rc && db && redis->is_cluster)
        rc = redis->host->fail(err, DIBS_ECONFIG, "a cluster has only database 0");
    redis->access.db = (int)db;
    return rc;
}

static int
read_durability(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const char *failover = redis->host->param(url, "failover");
    redis->wait_limit_ms = REPLICAS_WAIT_MS;
    redis->lag_ms = LAG_MS;
    int rc = redis->host->param_number(&redis->replicas, url, "replicas", 0, 100, err);
    if (!rc)
        rc = redis->host->param_ms(&redis->wait_limit_ms, url, "replicas_wait", err);
    if (!rc)
        rc = redis->host->param_ms(&redis->guard_ms, url, "guard", err);
    if (!rc)
        rc = redis->host->param_ms(&redis->lag_ms, url, "lag", err);
    if (!rc && failover && strcmp(failover, "quarantine") != 0)
        rc = redis->host->fail(err, DIBS_ECONFIG, "failover=%s: there is only quarantine",
                               failover);
    redis->quarantine = failover != NULL;
    return rc;
}

static int
read_access(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    int encrypts = strcmp(url->scheme, "rediss") == 0;
    dibs__resp_access_begin(&redis->access, url, redis->host);
    redis->access.connections = CONNECTIONS;
    int rc = redis->host->param_number(&redis->access.connections, url, "connections", 1,
                                       CONNECTIONS_MAX, err);
    if (!rc)
        rc = read_db(redis, url, err);
    if (!rc)
        rc = dibs__resp_access_tls(&redis->access, url, encrypts,
                                   "use rediss: or add tls=yes", err);
    return rc ? rc : read_durability(redis, url, err);
}

static void
set_endpoint(struct redis *redis, const dibs_url_parts *url)
{
    const char *where = strcmp(url->scheme, "redis+unix") == 0 ? url->path : url->hosts;
    (void)snprintf(redis->session->endpoint, sizeof redis->session->endpoint, "%s://%s",
                   url->scheme, *where ? where : "127.0.0.1");
}

/* ---- servers ---- */

static int
same_address(const resp_address *a, const resp_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* room for one more server, and for its listener */
static int
grow_servers(struct redis *redis)
{
    size_t count = redis->server_count;
    if (count & (count - 1))
        return DIBS_OK; /* it doubles at powers of two */
    size_t room = count ? 2 * count : 1;
    resp_server **servers = redis->host->alloc(room * sizeof *servers);
    if (!servers)
        return DIBS_ENOMEM;
    if (count)
        memcpy(servers, redis->servers, count * sizeof *servers);
    redis->host->free(redis->servers);
    redis->servers = servers;
    return DIBS_OK;
}

resp_server *
dibs__redis_server_for(struct redis *redis, const resp_address *address)
{
    resp_server *found = NULL;
    pthread_mutex_lock(&redis->servers_mutex);
    for (size_t i = 0; i < redis->server_count && !found; i++) {
        if (same_address(dibs__resp_server_address(redis->servers[i]), address))
            found = redis->servers[i];
    }
    /* what a server tells of others is not believed without end */
    if (!found && redis->server_count < SLOTS && grow_servers(redis) == DIBS_OK) {
        found = dibs__resp_server_new(&redis->access, address);
        if (found)
            redis->servers[redis->server_count++] = found;
    }
    pthread_mutex_unlock(&redis->servers_mutex);
    return found;
}

static void
free_servers(struct redis *redis, int forked)
{
    for (size_t i = 0; i < redis->server_count; i++)
        dibs__resp_server_free(redis->servers[i], forked);
    redis->host->free(redis->servers);
}

/* ---- open and close ---- */

/* a first round trip: is it there, does it let us in? */
static int
greet(struct redis *redis, dibs_time deadline, dibs_error *err)
{
    struct call call = { .flags = CALL_READS };
    redisReply *reply;
    dibs__resp_word(&call.command, "PING");
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (!rc)
        freeReplyObject(reply);
    return rc;
}

struct warning {
    const struct redis *redis;
    dibs_time deadline;
};

static int
warn_of(void *context, resp_server *server)
{
    const struct warning *warning = context;
    const struct redis *redis = warning->redis;
    dibs_session *session = redis->session;
    enum resp_care care = redis->quarantine      ? RESP_QUARANTINED
                          : redis->guard_ms != 0 ? RESP_GUARDED
                                                 : RESP_NO_CARE;
    if (!session->notice[0])
        dibs__resp_warn(session->notice, sizeof session->notice, server, care,
                        warning->deadline);
    return DIBS_OK;
}

/* It is only for a notice: so it may neither fail nor take long. */
static void
warn(struct redis *redis, dibs_time deadline)
{
    dibs_time most = redis->host->now() + WARN_MS * DIBS_MS;
    struct warning warning = { redis, deadline < most ? deadline : most };
    (void)redis->topology->each(redis, warning.deadline, warn_of, &warning, NULL);
}

void
dibs__redis_close(void *state, int forked)
{
    struct redis *redis = state;
    dibs__redis_waiters_close(redis, forked);
    if (redis->layout)
        redis->layout->close(redis);
    dibs__redis_cells_close(redis);
    dibs__redis_gate_close(redis);
    if (redis->topology)
        redis->topology->close(redis, forked);
    free_servers(redis, forked);
    dibs__resp_tls_free(redis->access.tls, redis->host);
    pthread_mutex_destroy(&redis->servers_mutex);
    pthread_mutex_destroy(&redis->waiters_mutex);
}

static int
open_parts(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
           dibs_error *err)
{
    choose_topology(redis, url);
    int rc = read_access(redis, url, err);
    if (!rc)
        rc = dibs__redis_waiters_open(redis);
    if (!rc)
        rc = redis->topology->open(redis, url, deadline, err);
    if (!rc)
        rc = greet(redis, deadline, err);
    if (!rc)
        rc = dibs__redis_gate_open(redis, url, deadline, err);
    if (!rc)
        rc = dibs__redis_cells_open(redis, err);
    if (!rc)
        warn(redis, deadline);
    return rc ? rc : redis->layout->open(redis, url, err);
}

int
dibs__redis_open(void *state, dibs_session *session, const dibs_url_parts *url,
                 dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    redis->session = session;
    redis->host = session->host;
    pthread_mutex_init(&redis->servers_mutex, NULL);
    pthread_mutex_init(&redis->waiters_mutex, NULL);
    choose_layout(redis);
    set_endpoint(redis, url);
    int rc = open_parts(redis, url, deadline, err);
    if (rc)
        dibs__redis_close(redis, 0);
    return rc;
}

/* ---- what all layouts share ---- */

int
dibs__redis_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    int rc = dibs__redis_gate_admits(redis, claim->lease_ms, err);
    if (rc)
        return rc;
    dibs__redis_sweep_if_due(redis, deadline);
    return redis->layout->attempt(redis, claim, deadline, err);
}

int
dibs__redis_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                    dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    if (linger_ms) {
        int rc = dibs__redis_gate_admits(redis, linger_ms, err);
        if (rc)
            return rc;
    }
    return redis->layout->release(redis, claim, linger_ms, deadline, err);
}

const char *const dibs__redis_schemes[] = { "redis",         "rediss",
                                            "redis+unix",    "redis+sentinel",
                                            "redis+cluster", NULL };
