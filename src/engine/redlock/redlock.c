/* SPDX-License-Identifier: MIT */
/*
 * The redlock engine: its URL, its opening and closing, and its table.
 * docs/engines/redlock.md is for its users; redlock.h says what is in which file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

#define DEFAULT_PORT 6379
#define RUN_ID_LEN 40
/* how long open waits for the servers, and for more of them when it has a majority */
#define GREET_LIMIT (1000 * DIBS_MS)
#define GREET_REST (50 * DIBS_MS)

/* ---- the URL ---- */

static int
is_known(const struct redlock *redlock, const resp_address *address)
{
    for (int i = 0; i < redlock->count; i++) {
        const resp_address *other = dibs__resp_server_address(redlock->nodes[i].server);
        if (other->port == address->port && strcmp(other->host, address->host) == 0)
            return 1;
    }
    return 0;
}

static int
add_node(struct redlock *redlock, const char *text, size_t len, dibs_error *err)
{
    const dibs_host *host = redlock->host;
    resp_address address;
    if (dibs__resp_address_parse(&address, text, len, DEFAULT_PORT))
        return host->fail(err, DIBS_ECONFIG, "'%.*s' is not HOST or HOST:PORT", (int)len,
                          text);
    if (is_known(redlock, &address))
        return host->fail(err, DIBS_ECONFIG,
                          "'%.*s' is there twice, and would have two votes", (int)len,
                          text);
    if (redlock->count == NODES_MAX)
        return host->fail(err, DIBS_ECONFIG, "more than %d servers", NODES_MAX);
    resp_server *server = dibs__resp_server_new(&redlock->access, &address);
    if (!server)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    redlock->nodes[redlock->count++].server = server;
    return DIBS_OK;
}

static int
read_nodes(struct redlock *redlock, const dibs_url_parts *url, dibs_error *err)
{
    const char *at = url->hosts;
    int rc = DIBS_OK;
    if (!*at)
        return redlock->host->fail(err, DIBS_ECONFIG,
                                   "name the servers: redlock://HOST:PORT,HOST:PORT,...");
    while (!rc) {
        size_t len = strcspn(at, ",");
        rc = add_node(redlock, at, len, err);
        if (!at[len])
            break;
        at += len + 1;
    }
    redlock->majority = redlock->count / 2 + 1;
    return rc;
}

static int
read_url(struct redlock *redlock, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = redlock->host;
    dibs__resp_access_begin(&redlock->access, url, host);
    /* one each: what is sent to a server later is done later, whatever happens */
    redlock->access.connections = 1;
    unsigned db = 0;
    int rc = host->param_number(&db, url, "db", 0, 1000000, err);
    redlock->access.db = (int)db;
    if (!rc)
        rc = host->param_ms(&redlock->node_timeout_ms, url, "node_timeout", err);
    if (!rc)
        rc = host->param_ms(&redlock->guard_ms, url, "guard", err);
    if (!rc)
        rc = dibs__resp_access_tls(&redlock->access, url, 0, "add tls=yes", err);
    return rc ? rc : read_nodes(redlock, url, err);
}

/* ---- open and close ---- */

size_t
dibs__redlock_value(const struct redlock *redlock, const dibs_claim *claim,
                    char out[VALUE_MAX])
{
    return (size_t)snprintf(out, VALUE_MAX, "%s:%llu", redlock->session->id_hex,
                            (unsigned long long)claim->serial);
}

/* The id of the server's process, if it tells; else an empty text. */
static void
read_run_id(char out[RUN_ID_LEN + 1], const redisReply *info)
{
    const char *found = info && info->str && info->type == REDIS_REPLY_STRING
                            ? strstr(info->str, "run_id:")
                            : NULL;
    out[0] = '\0';
    if (found && strlen(found) >= 7 + RUN_ID_LEN)
        (void)snprintf(out, RUN_ID_LEN + 1, "%s", found + 7);
}

static void
read_clock(struct redlock *redlock, int node, const redisReply *time)
{
    int64_t seconds = dibs__resp_integer(dibs__resp_element(time, 0), 0);
    int64_t micros = dibs__resp_integer(dibs__resp_element(time, 1), 0);
    if (seconds > 0)
        dibs__redlock_saw_clock(redlock, node, seconds * 1000000 + micros);
}

/* One server under two names would have two votes. */
static int
check_different(const struct redlock *redlock, char ids[][RUN_ID_LEN + 1],
                dibs_error *err)
{
    for (int i = 0; i < redlock->count; i++) {
        for (int j = 0; j < i; j++) {
            const resp_address *a = dibs__resp_server_address(redlock->nodes[i].server);
            const resp_address *b = dibs__resp_server_address(redlock->nodes[j].server);
            if (ids[i][0] && strcmp(ids[i], ids[j]) == 0)
                return redlock->host->fail(
                    err, DIBS_ECONFIG,
                    "%s:%u and %s:%u are one server, which would have two votes", b->host,
                    (unsigned)b->port, a->host, (unsigned)a->port);
        }
    }
    return DIBS_OK;
}

static void
warn_of(const struct redlock *redlock, const struct round *round, int node)
{
    dibs_session *session = redlock->session;
    if (!session->notice[0])
        dibs__resp_judge(session->notice, sizeof session->notice,
                         &round->replies[(unsigned)node * round->count + 2],
                         redlock->guard_ms != 0 ? RESP_GUARDED : RESP_NO_CARE);
}

/* a first round: are they there, do they let us in, what time is it? */
static int
greet(struct redlock *redlock, dibs_time deadline, dibs_error *err)
{
    char ids[NODES_MAX][RUN_ID_LEN + 1] = { "" };
    resp_command commands[2 + RESP_RISKS] = { 0 };
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_NONE,
                           .commands = commands,
                           .count = 2 + RESP_RISKS,
                           .nodes = dibs__redlock_all(redlock) };
    dibs_time limit = redlock->host->now() + GREET_LIMIT;
    int answered = 0, denied = 0;
    round.deadline = deadline < limit ? deadline : limit;
    dibs__resp_word(&commands[0], "TIME");
    dibs__resp_word(&commands[1], "INFO");
    dibs__resp_word(&commands[1], "server");
    dibs__resp_ask_risk(&commands[2]);
    int rc = dibs__redlock_begin(&round, err);
    if (rc)
        return rc;
    while (dibs__redlock_next(&round) >= 0) {
        /* a majority will do; the rest may say something if it is quick */
        limit = redlock->host->now() + GREET_REST;
        if (__builtin_popcount(round.heard) >= redlock->majority &&
            limit < round.deadline)
            round.deadline = limit;
    }
    for (int i = 0; i < redlock->count; i++) {
        denied |= round.codes[i] == DIBS_EDENIED;
        if (round.codes[i] != DIBS_OK)
            continue;
        answered++;
        read_clock(redlock, i, reply_of(&round, i, 0));
        read_run_id(ids[i], reply_of(&round, i, 1));
        warn_of(redlock, &round, i);
    }
    dibs__redlock_end_round(&round);
    if (answered < redlock->majority)
        return dibs__redlock_few(redlock, denied ? DIBS_EDENIED : DIBS_EUNAVAIL, answered,
                                 &round.said, err);
    return check_different(redlock, ids, err);
}

static void
redlock_close(void *state, int forked)
{
    struct redlock *redlock = state;
    dibs__redlock_waiters_close(redlock, forked);
    for (int i = 0; i < redlock->count; i++)
        dibs__resp_server_free(redlock->nodes[i].server, forked);
    dibs__resp_tls_free(redlock->access.tls, redlock->host);
    pthread_mutex_destroy(&redlock->mutex);
}

static int
redlock_open(void *state, dibs_session *session, const dibs_url_parts *url,
             dibs_time deadline, dibs_error *err)
{
    struct redlock *redlock = state;
    redlock->session = session;
    redlock->host = session->host;
    atomic_store(&redlock->listens_at, -1);
    pthread_mutex_init(&redlock->mutex, NULL);
    (void)snprintf(session->endpoint, sizeof session->endpoint, "redlock://%s",
                   url->hosts);
    int rc = dibs__redlock_scripts_init(redlock->scripts);
    if (!rc)
        rc = read_url(redlock, url, err);
    if (!rc)
        rc = greet(redlock, deadline, err);
    if (rc)
        redlock_close(redlock, 0);
    return rc;
}

/* ---- the slots ---- */

static int
check_claim(const struct redlock *redlock, const dibs_claim *claim, dibs_error *err)
{
    const dibs_host *host = redlock->host;
    if (claim->mode != DIBS_EXCLUSIVE)
        return host->fail(err, DIBS_EUNSUPPORTED, "there are only exclusive locks here");
    if (claim->name_len == strlen(TOKEN_KEY) &&
        memcmp(claim->name, TOKEN_KEY, claim->name_len) == 0)
        return host->fail(err, DIBS_EINVAL, "%s is the key with the tokens", TOKEN_KEY);
    if (redlock->guard_ms && claim->lease_ms > redlock->guard_ms)
        return host->fail(err, DIBS_EINVAL,
                          "the lease of %u ms is longer than guard= allows (%lld ms)",
                          (unsigned)claim->lease_ms, (long long)redlock->guard_ms);
    return DIBS_OK;
}

static int
redlock_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redlock *redlock = state;
    struct waiter *waiter = waiter_of(claim);
    struct look look = { 0 };
    int rc = check_claim(redlock, claim, err);
    if (!rc && waiter && !dibs__redlock_look_begin(redlock, waiter, &look)) {
        claim->hint_ms = waiter->hint_ms;
        return DIBS_EBUSY;
    }
    if (!rc)
        rc = dibs__redlock_take(redlock, claim, &look, deadline, err);
    if (rc != DIBS_EBUSY && rc != DIBS_EUNKNOWN && rc != DIBS_EUNAVAIL)
        dibs__redlock_waiter_done(redlock, claim);
    return rc;
}

static int
redlock_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    (void)err;
    return dibs__redlock_watch(state, claim, deadline);
}

static void
redlock_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
              dibs_time deadline, dibs_error *err)
{
    dibs__redlock_renew(state, claims, results, n, deadline, err);
}

static int
redlock_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
                dibs_error *err)
{
    struct redlock *redlock = state;
    if (redlock->guard_ms && linger_ms > redlock->guard_ms)
        return redlock->host->fail(err, DIBS_EINVAL,
                                   "to keep it for %u ms is longer than guard= allows "
                                   "(%lld ms)",
                                   (unsigned)linger_ms, (long long)redlock->guard_ms);
    set_ending(claim);
    dibs__redlock_waiter_done(redlock, claim);
    return dibs__redlock_end_claim(redlock, claim, dibs__redlock_all(redlock), linger_ms,
                                   claim->token != 0, deadline, err);
}

static int
redlock_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    return dibs__redlock_list(state, sink, deadline, err);
}

static int
redlock_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    (void)name_hash;
    return dibs__redlock_inspect(state, name, name_len, sink, deadline, err);
}

static int
redlock_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
              size_t *broken, dibs_time deadline, dibs_error *err)
{
    (void)name_hash;
    return dibs__redlock_evict(state, name, name_len, broken, deadline, err);
}

static const char *const schemes[] = { "redlock", NULL };

static const char *const params[] = { "node_timeout", "guard", "db",       "tls", "ca",
                                      "cert",         "key",   "insecure", "sni", NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;
const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "redlock",
    .schemes = schemes,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_INSPECT | DIBS_CAP_BREAK |
            DIBS_CAP_LINGER | DIBS_CAP_WAKE,
    .min_lease_ms = 50,
    .state_size = sizeof(struct redlock),
    .open = redlock_open,
    .close = redlock_close,
    .attempt = redlock_attempt,
    .watch = redlock_watch,
    .renew = redlock_renew,
    .release = redlock_release,
    .list = redlock_list,
    .inspect = redlock_inspect,
    .evict = redlock_evict,
};
