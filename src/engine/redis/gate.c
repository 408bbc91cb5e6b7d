/* SPDX-License-Identifier: MIT */
/*
 * The gate: when a server must not grant anything yet, because it may have forgotten holds
 * that still stand. Off unless the URL asks for it.
 *
 * The amnesia guard, ?guard=LEASE. A server that lost its data (a restart without
 * persistence, FLUSHALL) lost its holds as well, but their holders go on until their
 * leases end. So the longest lease of the fleet is written down in the server, under a key
 * that never expires. When that key is gone, so may others be: the first to notice writes
 * it anew, and nothing is granted for one longest lease.
 *
 * The quarantine, ?failover=quarantine. A replica that becomes master lacks what the old
 * master did not send in time, and the old master may go on for a while (`lag`) before it
 * notices. So the key also says which process of a server wrote it, and if that is another
 * one than answers now, nothing is granted for a longest lease and the lag. That holds for
 * a restart with persistence as well, which may lack the last second.
 *
 * The script that grants decides, at the server, by the server's clock and with the run id
 * of the very process that runs it: nothing a client knew before can be out of date.
 *
 * Renewals and releases do not ask it: what survived goes on. But the old master does not
 * hear of what is renewed at the new one, and while it goes on it would grant what it takes
 * for expired. So a client renews nothing at a master that is new to it, and takes no grant
 * from it, until the old one must have noticed: models/failover.pml.
 */
#include <stdio.h>
#include <string.h>

#include "redis.h"

/* A master counts the silence of its replicas in whole seconds, once a second. */
#define GRAIN_MS 2000

struct gate {
    int64_t close_ms; /* how long nothing is granted */
    char terms[80];   /* all clients of a server must have the same */
};

/* ---- in the server ---- */

#define LUA_GATE                                                                         \
    "local function gate()\n"                                                            \
    "  local key, terms = KEYS[#KEYS], ARGV[#ARGV - 1]\n"                                \
    "  local close = tonumber(ARGV[#ARGV])\n"                                            \
    "  local run = run_id()\n"                                                           \
    "  local born = redis.call('GET', key) or ''\n"                                      \
    "  local was, till, by = string.match(born, '^(.-) till=(%d+) run=(%S+)')\n"         \
    "  if was and was ~= terms then\n"                                                   \
    "    error('{{' .. key .. ' at the server says ' .. was .. ', and this client ' "    \
    "..\n"                                                                               \
    "      terms .. ': all clients need the same; DEL the key to begin anew}}')\n"       \
    "  end\n"                                                                            \
    "  if by == run then\n"                                                              \
    "    local left = tonumber(till) - now\n"                                            \
    "    if left <= 0 then return 0 end\n"                                               \
    "    if left <= close then return left end\n"                                        \
    "  end\n"                                                                            \
    "  redis.call('SET', key, string.format('%s till=%.0f run=%s born=%.0f', terms,\n"   \
    "    now + close, run, now))\n"                                                      \
    "  return close\n"                                                                   \
    "end\n"

static const char lua_open[] = "local function gate() return 0 end\n";
static const char lua_guard[] = "local function run_id() return '-' end\n" LUA_GATE;
static const char lua_quarantine[] =
    "local function run_id()\n"
    "  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')\n"
    "end\n" LUA_GATE;

const char *
dibs__redis_gate_lua(const struct redis *redis)
{
    if (!redis->guard_ms)
        return lua_open;
    return redis->quarantine ? lua_quarantine : lua_guard;
}

unsigned
dibs__redis_gate_keys(const struct redis *redis)
{
    return redis->guard_ms ? 1 : 0;
}

void
dibs__redis_gate_key(struct redis *redis, struct call *call, const struct key *lock,
                     struct key *scratch)
{
    if (!redis->guard_ms)
        return;
    dibs__redis_born_key(redis, lock, scratch);
    dibs__resp_bytes(&call->command, scratch->text, scratch->len);
}

void
dibs__redis_gate_args(struct redis *redis, struct call *call)
{
    const struct gate *gate = redis->gate_state;
    if (!redis->guard_ms)
        return;
    dibs__resp_word(&call->command, gate->terms);
    dibs__resp_number(&call->command, gate->close_ms);
}

int64_t
dibs__redis_gate_close_ms(const struct redis *redis)
{
    const struct gate *gate = redis->gate_state;
    return gate->close_ms;
}

void
dibs__redis_gate_moved(struct redis *redis)
{
    atomic_store(&redis->moved_at, redis->host->now());
}

int
dibs__redis_gate_is_new(const struct redis *redis)
{
    dibs_time moved_at = atomic_load(&redis->moved_at);
    return redis->quarantine && moved_at &&
           redis->host->now() - moved_at < (redis->lag_ms + GRAIN_MS) * DIBS_MS;
}

int
dibs__redis_gate_admits(const struct redis *redis, int64_t lease_ms, dibs_error *err)
{
    if (!redis->guard_ms || lease_ms <= redis->guard_ms)
        return DIBS_OK;
    return redis->host->fail(err, DIBS_EINVAL,
                             "a lease of %lld ms is longer than guard= allows, %lld ms",
                             (long long)lease_ms, (long long)redis->guard_ms);
}

/* ---- is the server set up for a quarantine? ---- */

/* one visit of a server that has keys */
struct check {
    struct redis *redis;
    dibs_time deadline;
    dibs_error *err;
};

static int
ask(const struct check *check, resp_server *server, const char *const *words,
    redisReply **reply)
{
    resp_command command = { 0 };
    resp_request request = { 0 };
    for (size_t i = 0; words[i]; i++)
        dibs__resp_word(&command, words[i]);
    int rc = dibs__resp_add(&request, &command);
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, check->deadline, reply, check->err);
    dibs__resp_request_free(&request);
    return rc;
}

/* A setting that is a number. -1: the server does not let us see it. */
static int
setting(const struct check *check, resp_server *server, const char *name, int64_t *value)
{
    const char *const words[] = { "CONFIG", "GET", name, NULL };
    redisReply *reply;
    int rc = ask(check, server, words, &reply);
    if (rc)
        return rc;
    *value = dibs__resp_integer(dibs__resp_element(reply, 1), -1);
    freeReplyObject(reply);
    return DIBS_OK;
}

/* INFO shows this line only if min-replicas-to-write is set; and gate() needs INFO. */
static int
check_by_info(const struct check *check, resp_server *server)
{
    static const char *const words[] = { "INFO", "replication", NULL };
    const dibs_host *host = check->redis->host;
    redisReply *reply;
    int rc = ask(check, server, words, &reply);
    if (rc)
        return rc;
    if (reply->type == REDIS_REPLY_ERROR)
        rc = host->fail(check->err, DIBS_EDENIED,
                        "failover=quarantine needs the right to use INFO; the server "
                        "said: %s",
                        reply->str);
    else if (!reply->str || !strstr(reply->str, "min_slaves_good_slaves"))
        rc = host->fail(check->err, DIBS_ECONFIG,
                        "failover=quarantine needs min-replicas-to-write of at least 1 "
                        "at the servers, and it is 0");
    freeReplyObject(reply);
    return rc;
}

/* A master that was left alone must stop by itself within `lag`. With Sentinels it does
 * so if it wants replicas to write. */
static int
check_master(void *context, resp_server *server)
{
    const struct check *check = context;
    const dibs_host *host = check->redis->host;
    int64_t replicas, seconds;
    int rc = setting(check, server, "min-replicas-to-write", &replicas);
    if (!rc)
        rc = setting(check, server, "min-replicas-max-lag", &seconds);
    if (rc)
        return rc;
    if (replicas < 0 || seconds < 0)
        return check_by_info(check, server);
    if (replicas == 0 || seconds == 0)
        return host->fail(check->err, DIBS_ECONFIG,
                          "failover=quarantine needs min-replicas-to-write of at least 1 "
                          "and min-replicas-max-lag, and they are %lld and %lld",
                          (long long)replicas, (long long)seconds);
    if (seconds * 1000 > check->redis->lag_ms)
        return host->fail(check->err, DIBS_ECONFIG,
                          "lag=%lldms is less than min-replicas-max-lag, %lld s",
                          (long long)check->redis->lag_ms, (long long)seconds);
    return DIBS_OK;
}

/* In a cluster a master that sees no majority stops after the node time-out. */
static int
check_node(void *context, resp_server *server)
{
    const struct check *check = context;
    int64_t timeout_ms;
    int rc = setting(check, server, "cluster-node-timeout", &timeout_ms);
    if (rc || timeout_ms <= check->redis->lag_ms)
        return rc;
    return check->redis->host->fail(check->err, DIBS_ECONFIG,
                                    "lag=%lldms is less than cluster-node-timeout, "
                                    "%lld ms",
                                    (long long)check->redis->lag_ms,
                                    (long long)timeout_ms);
}

static int
check_servers(struct redis *redis, dibs_time deadline, dibs_error *err)
{
    struct check check = { redis, deadline, err };
    if (redis->topology == &dibs__redis_single)
        return DIBS_OK; /* there is no failover, only restarts */
    return redis->topology->each(
        redis, deadline, redis->is_cluster ? check_node : check_master, &check, err);
}

/* ---- open and close ---- */

static int
check_terms(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    if (redis->quarantine && !redis->guard_ms)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "failover=quarantine wants guard=, the longest lease "
                                 "that anybody asks for");
    if (!redis->quarantine && redis->host->param(url, "lag"))
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "lag= belongs to failover=quarantine");
    return DIBS_OK;
}

static void
set_terms(struct redis *redis, struct gate *gate, const dibs_url_parts *url)
{
    int alone = redis->topology == &dibs__redis_single;
    if (alone && !redis->host->param(url, "lag"))
        redis->lag_ms = 0; /* nobody goes on where nobody replaces it */
    gate->close_ms = redis->guard_ms;
    int len = snprintf(gate->terms, sizeof gate->terms, "guard=%lldms",
                       (long long)redis->guard_ms);
    if (!redis->quarantine)
        return;
    gate->close_ms += redis->lag_ms + (alone ? 0 : GRAIN_MS);
    (void)snprintf(gate->terms + len, sizeof gate->terms - (size_t)len,
                   " failover=quarantine lag=%lldms", (long long)redis->lag_ms);
}

int
dibs__redis_gate_open(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
                      dibs_error *err)
{
    int rc = check_terms(redis, url, err);
    if (rc || !redis->guard_ms)
        return rc;
    struct gate *gate = redis->host->alloc(sizeof *gate);
    if (!gate)
        return DIBS_ENOMEM;
    redis->gate_state = gate;
    set_terms(redis, gate, url);
    rc = redis->quarantine ? check_servers(redis, deadline, err) : DIBS_OK;
    if (!rc && redis->is_cluster)
        rc = dibs__redis_sweep_open(redis, deadline);
    return rc;
}

void
dibs__redis_gate_close(struct redis *redis)
{
    dibs__redis_sweep_close(redis);
    redis->host->free(redis->gate_state);
    redis->gate_state = NULL;
}
