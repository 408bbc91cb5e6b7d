/* SPDX-License-Identifier: MIT */
/*
 * The redis engine: reads the URL, chooses the layout and the topology, and passes every
 * slot on to the layout. docs/engines/redis.md is for its users.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redis.h"

#define CONNECTIONS 4
#define CONNECTIONS_MAX 64
#define REPLICAS_WAIT_MS 1000
#define LAG_MS 10000

static const struct layout *const layouts[] = { &dibs__redis_queue, &dibs__redis_redisson,
                                                &dibs__redis_plain, &dibs__redis_getset };

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

static int
is_yes(const char *text)
{
    return text && (strcmp(text, "yes") == 0 || strcmp(text, "1") == 0 ||
                    strcmp(text, "true") == 0);
}

/* A whole number of at most `most`; leaves *out alone if the parameter is absent. */
static int
number_param(const struct redis *redis, const dibs_url_parts *url, const char *name,
             unsigned least, unsigned most, unsigned *out, dibs_error *err)
{
    const char *text = redis->host->param(url, name);
    if (!text)
        return DIBS_OK;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < least || value > most)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "%s=%s: a number from %u to %u, please", name, text,
                                 least, most);
    *out = (unsigned)value;
    return DIBS_OK;
}

static int
choose_layout(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const char *wanted = redis->host->param(url, "layout");
    redis->layout = layouts[0];
    if (!wanted)
        return DIBS_OK;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        redis->layout = layouts[i];
        if (strcmp(layouts[i]->name, wanted) == 0)
            return DIBS_OK;
    }
    return redis->host->fail(err, DIBS_ECONFIG,
                             "layout=%s: there are queue, redisson, plain and getset",
                             wanted);
}

/* Parameters that only one layout has are refused with the others. */
static int
check_params(const struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *const *param = layouts[i]->params;
        if (layouts[i] == redis->layout)
            continue;
        for (; param && *param; param++) {
            if (redis->host->param(url, *param))
                return redis->host->fail(err, DIBS_ECONFIG,
                                         "%s= belongs to layout=%s, and this is %s",
                                         *param, layouts[i]->name, redis->layout->name);
        }
    }
    return DIBS_OK;
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
    int rc = number_param(redis, url, "db", 0, 1000000, &db, err);
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
read_tls(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = redis->host;
    resp_tls_files files = { .ca = host->param(url, "ca"),
                             .cert = host->param(url, "cert"),
                             .key = host->param(url, "key"),
                             .name = host->param(url, "sni"),
                             .insecure = is_yes(host->param(url, "insecure")) };
    if (strcmp(url->scheme, "rediss") == 0 || is_yes(host->param(url, "tls")))
        return dibs__resp_tls_new(&redis->access.tls, &files, host, err);
    if (files.ca || files.cert || files.key || files.name || files.insecure)
        return host->fail(err, DIBS_ECONFIG,
                          "ca=, cert=, key=, sni= and insecure= are for TLS: use rediss: "
                          "or add tls=yes");
    return DIBS_OK;
}

static int
read_durability(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const char *failover = redis->host->param(url, "failover");
    redis->wait_limit_ms = REPLICAS_WAIT_MS;
    redis->lag_ms = LAG_MS;
    int rc = number_param(redis, url, "replicas", 0, 100, &redis->replicas, err);
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
    redis->access.host = redis->host;
    redis->access.user = url->user && *url->user ? url->user : NULL;
    redis->access.password = url->password;
    redis->access.client_name = "dibs";
    redis->access.connections = CONNECTIONS;
    int rc = number_param(redis, url, "connections", 1, CONNECTIONS_MAX,
                          &redis->access.connections, err);
    if (!rc)
        rc = read_db(redis, url, err);
    if (!rc)
        rc = read_tls(redis, url, err);
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
    if (!found && grow_servers(redis) == DIBS_OK) {
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

static void
describe_self(struct redis *redis)
{
    for (int i = 0; i < 16; i++)
        (void)snprintf(redis->session_hex + 2 * i, 3, "%02x", redis->session->id[i]);
    if (gethostname(redis->host_name, sizeof redis->host_name - 1) != 0)
        redis->host_name[0] = '\0';
    redis->pid = getpid();
}

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

static void
redis_close(void *state, int forked)
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
    int rc = choose_layout(redis, url, err);
    if (!rc)
        rc = check_params(redis, url, err);
    choose_topology(redis, url);
    if (!rc)
        rc = read_access(redis, url, err);
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
    return rc ? rc : redis->layout->open(redis, url, err);
}

static int
redis_open(void *state, dibs_session *session, const dibs_url_parts *url,
           dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    redis->session = session;
    redis->host = session->host;
    pthread_mutex_init(&redis->servers_mutex, NULL);
    pthread_mutex_init(&redis->waiters_mutex, NULL);
    describe_self(redis);
    set_endpoint(redis, url);
    int rc = open_parts(redis, url, deadline, err);
    if (rc)
        redis_close(redis, 0);
    else
        session->caps &= redis->layout->caps;
    return rc;
}

/* ---- the slots ---- */

static int
redis_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    int rc = dibs__redis_gate_admits(redis, claim->lease_ms, err);
    if (rc)
        return rc;
    dibs__redis_sweep_if_due(redis, deadline);
    return redis->layout->attempt(redis, claim, deadline, err);
}

static int
redis_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return redis->layout->watch(redis, claim, deadline, err);
}

static void
redis_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
            dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    redis->layout->renew(redis, claims, results, n, deadline, err);
}

static int
redis_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
              dibs_error *err)
{
    struct redis *redis = state;
    if (linger_ms) {
        int rc = dibs__redis_gate_admits(redis, linger_ms, err);
        if (rc)
            return rc;
    }
    return redis->layout->release(redis, claim, linger_ms, deadline, err);
}

static int
redis_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return redis->layout->downgrade(redis, claim, deadline, err);
}

static int
redis_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return redis->layout->list(redis, sink, deadline, err);
}

static int
redis_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
              dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return redis->layout->inspect(redis, name, name_len, name_hash, sink, deadline, err);
}

static int
redis_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
            size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return redis->layout->evict(redis, name, name_len, name_hash, broken, deadline, err);
}

static int
redis_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                dibs_time deadline, dibs_error *err)
{
    return dibs__redis_cell_read(state, cell, out, deadline, err);
}

static int
redis_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                const void *value, size_t len, uint64_t *new_version, dibs_time deadline,
                dibs_error *err)
{
    return dibs__redis_cell_swap(state, cell, version, value, len, new_version, deadline,
                                 err);
}

static const char *const schemes[] = { "redis",          "rediss",        "redis+unix",
                                       "redis+sentinel", "redis+cluster", NULL };

static const char *const params[] = { "layout", "db", "connections", "tls", "ca", "cert",
                                      "key", "sni", "insecure", "replicas",
                                      "replicas_wait", "guard", "failover", "lag",
                                      "sentinel_user", "sentinel_password_file",
                                      /* of one layout */
                                      "waiter", "form", "fair_wait", "unit", NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;
const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "redis",
    .schemes = schemes,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |
            DIBS_CAP_TOKEN | DIBS_CAP_PREVIOUS | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_BREAK | DIBS_CAP_LINGER | DIBS_CAP_WAKE | DIBS_CAP_DETAIL,
    .min_lease_ms = 20,
    .state_size = sizeof(struct redis),
    .open = redis_open,
    .close = redis_close,
    .attempt = redis_attempt,
    .watch = redis_watch,
    .renew = redis_renew,
    .release = redis_release,
    .downgrade = redis_downgrade,
    .list = redis_list,
    .inspect = redis_inspect,
    .evict = redis_evict,
    .cell_read = redis_cell_read,
    .cell_swap = redis_cell_swap,
};
