/* SPDX-License-Identifier: MIT */
/*
 * The queue layout, ours and the default: locks, read-write locks and semaphores with one
 * fair line, kept by scripts on the server. queue_lua.c says how a lock is written down.
 * Here: open and close, and what happens to a claim that was granted.
 */
#include <stdio.h>
#include <string.h>

#include "queue.h"

#define WAITER_MS 3000
#define WAITER_LEAST_MS 30
#define WAITER_MOST_MS 60000

/* ---- calls ---- */

static void
add_key(struct call *call, struct key *key, const struct key *lock, const char *suffix)
{
    size_t more = strlen(suffix);
    memcpy(key->text, lock->text, lock->len);
    memcpy(key->text + lock->len, suffix, more);
    key->len = lock->len + more;
    dibs__resp_bytes(&call->command, key->text, key->len);
}

void
dibs__queue_call(struct redis *redis, struct queue_call *out, const struct script *script,
                 const char *name, size_t name_len, uint64_t name_hash)
{
    struct call *call = &out->call;
    dibs__redis_key_set(&out->lock, QUEUE_PREFIX, name, name_len, "");
    dibs__redis_script_call(call, script, 5 + dibs__redis_gate_keys(redis), &out->lock,
                            name_hash);
    dibs__resp_bytes(&call->command, out->lock.text, out->lock.len);
    add_key(call, &out->line, &out->lock, QUEUE_LINE);
    add_key(call, &out->ends, &out->lock, QUEUE_ENDS);
    add_key(call, &out->infos, &out->lock, QUEUE_INFOS);
    dibs__redis_clock_key(redis, &out->lock, &out->clock);
    dibs__resp_bytes(&call->command, out->clock.text, out->clock.len);
    dibs__redis_gate_key(redis, call, &out->lock, &out->gate);
}

void
dibs__queue_claim_call(struct redis *redis, struct queue_call *out,
                       const struct script *script, const dibs_claim *claim,
                       char id[ID_MAX])
{
    dibs__queue_call(redis, out, script, claim->name, claim->name_len, claim->name_hash);
    size_t len = dibs__redis_id(redis, claim, id);
    dibs__resp_bytes(&out->call.command, id, len);
}

size_t
dibs__queue_mark(const struct redis *redis, const dibs_claim *claim, char mark[MARK_MAX])
{
    memcpy(mark, "L ", 2);
    size_t len = 2 + dibs__redis_id(redis, claim, mark + 2);
    mark[len++] = ' ';
    return len;
}

int
dibs__queue_number(struct redis *redis, struct queue_call *call, dibs_time deadline,
                   int64_t *number, dibs_error *err)
{
    redisReply *reply;
    int rc = dibs__redis_run(redis, &call->call, deadline, &reply, err);
    if (rc)
        return rc;
    *number = dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    return DIBS_OK;
}

uint32_t
dibs__queue_wait_ms(const struct redis *redis, const dibs_claim *claim)
{
    int64_t most = queue_of(redis)->waiter_ms;
    return claim->lease_ms < most ? claim->lease_ms : (uint32_t)most;
}

/* ---- keeping ---- */

/* What a renewal needs besides its call: small, for there may be very many of them. */
struct renewal {
    struct key lock;
    char id[ID_MAX];
};

#define RENEWALS 64 /* at a time */

/* The other keys of a lock are written behind each other into `text`. */
static void
renewal_call(struct redis *redis, struct call *call, struct renewal *renewal,
             const dibs_claim *claim, char *text)
{
    static const char *const suffixes[] = { QUEUE_LINE, QUEUE_ENDS, QUEUE_INFOS };
    const struct key *lock = &renewal->lock;
    dibs__redis_key_set(&renewal->lock, QUEUE_PREFIX, claim->name, claim->name_len, "");
    dibs__redis_script_call(call, &queue_of(redis)->renew, 4, lock, claim->name_hash);
    call->flags |= CALL_LASTS;
    dibs__resp_bytes(&call->command, lock->text, lock->len);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t len = lock->len + strlen(suffixes[i]);
        memcpy(text, lock->text, lock->len);
        memcpy(text + lock->len, suffixes[i], len - lock->len);
        dibs__resp_bytes(&call->command, text, len);
        text += len;
    }
    dibs__resp_bytes(&call->command, renewal->id,
                     dibs__redis_id(redis, claim, renewal->id));
    dibs__resp_number(&call->command, claim->lease_ms);
}

static size_t
text_size(const dibs_claim *claim)
{
    return 3 * ((size_t)claim->name_len * 3 + 16);
}

static int
renewal_result(int code, const redisReply *reply)
{
    switch (code) {
    case DIBS_OK:
        return dibs__resp_integer(reply, 0) == 1 ? DIBS_OK : DIBS_ELOST;
    case DIBS_EMISMATCH:
        return DIBS_ELOST; /* something else stands there now */
    case DIBS_EUNKNOWN:
        return DIBS_EUNKNOWN;
    default:
        return DIBS_EUNAVAIL;
    }
}

static void
renew_some(struct redis *redis, dibs_claim *const *claims, int *results, size_t n,
           dibs_time deadline, dibs_error *err)
{
    redisReply *replies[RENEWALS] = { 0 };
    struct call *calls;
    struct renewal *renewals;
    size_t size = n * (sizeof *calls + sizeof *renewals);
    for (size_t i = 0; i < n; i++)
        size += text_size(claims[i]);
    calls = redis->host->alloc(size);
    for (size_t i = 0; i < n; i++)
        results[i] = DIBS_EUNAVAIL;
    if (!calls)
        return;
    renewals = (struct renewal *)(void *)(calls + n);
    char *text = (char *)(renewals + n);
    for (size_t i = 0; i < n; i++) {
        renewal_call(redis, &calls[i], &renewals[i], claims[i], text);
        calls[i].hash = any_order(i); /* late ones find another id, or '+' before it */
        text += text_size(claims[i]);
    }
    dibs__redis_run_many(redis, calls, n, deadline, replies, results, err);
    for (size_t i = 0; i < n; i++) {
        results[i] = renewal_result(results[i], replies[i]);
        freeReplyObject(replies[i]);
    }
    redis->host->free(calls);
}

static void
queue_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
            dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    for (size_t at = 0; at < n; at += RENEWALS) {
        size_t some = n - at < RENEWALS ? n - at : RENEWALS;
        renew_some(redis, claims + at, results + at, some, deadline, err);
    }
}

/* ---- ending ---- */

/* Gives back what nobody else waits for. DIBS_EMISMATCH: there are others. */
static int
release_lone(struct redis *redis, const dibs_claim *claim, dibs_time deadline,
             int64_t *held, dibs_error *err)
{
    struct call call;
    struct key lock;
    char mark[MARK_MAX];
    redisReply *reply;
    dibs__redis_key_set(&lock, QUEUE_PREFIX, claim->name, claim->name_len, "");
    dibs__redis_script_call(&call, &queue_of(redis)->give_lone, 1, &lock,
                            claim->name_hash);
    dibs__resp_bytes(&call.command, lock.text, lock.len);
    dibs__resp_bytes(&call.command, mark, dibs__queue_mark(redis, claim, mark));
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return rc;
    *held = dibs__resp_integer(reply, 0);
    rc = reply->type == REDIS_REPLY_NIL ? DIBS_EMISMATCH : DIBS_OK;
    freeReplyObject(reply);
    return rc;
}

static int
release_among_others(struct redis *redis, const dibs_claim *claim, uint32_t linger_ms,
                     dibs_time deadline, int64_t *held, dibs_error *err)
{
    struct queue_call call;
    char id[ID_MAX], info[INFO_MAX];
    dibs__queue_claim_call(redis, &call, &queue_of(redis)->give, claim, id);
    dibs__resp_number(&call.call.command, linger_ms);
    dibs__resp_number(&call.call.command,
                      claim->token && claim->mode != DIBS_OBSERVE ? claim->permits : 0);
    dibs__resp_bytes(&call.call.command, info, dibs__queue_info(redis, claim, info));
    dibs__redis_gate_args(redis, &call.call);
    return dibs__queue_number(redis, &call, deadline, held, err);
}

static int
queue_release(struct redis *redis, dibs_claim *claim, uint32_t linger_ms,
              dibs_time deadline, dibs_error *err)
{
    struct queue *queue = queue_of(redis);
    int64_t held = 0;
    int rc = DIBS_EMISMATCH;
    dibs__redis_waiter_done(redis, claim);
    if (!linger_ms && !is_crowded(queue, claim->name_hash))
        rc = release_lone(redis, claim, deadline, &held, err);
    if (rc == DIBS_EMISMATCH) {
        set_crowded(queue, claim->name_hash, 1);
        rc = release_among_others(redis, claim, linger_ms, deadline, &held, err);
    }
    if (rc)
        return rc == DIBS_EMISMATCH ? DIBS_ENOTHELD : rc;
    return held ? DIBS_OK : DIBS_ENOTHELD;
}

static int
queue_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct queue_call call;
    char id[ID_MAX];
    int64_t held;
    dibs__queue_claim_call(redis, &call, &queue_of(redis)->share, claim, id);
    dibs__redis_gate_args(redis, &call.call);
    int rc = dibs__queue_number(redis, &call, deadline, &held, err);
    if (rc)
        return rc == DIBS_EMISMATCH ? DIBS_ELOST : rc;
    if (!held)
        return DIBS_ELOST;
    claim->mode = DIBS_SHARED;
    return DIBS_OK;
}

/* ---- open and close ---- */

/* What the scripts are made of. */
static int
make_scripts(struct redis *redis, struct queue *queue)
{
    const char *begin = dibs__queue_lua_begin, *tick = dibs__queue_lua_clock;
    const char *ears =
        redis->is_cluster ? dibs__queue_lua_apart : dibs__queue_lua_together;
    const char *join = queue->has_gate ? "" : dibs__queue_lua_join;
    const char *pass = queue->has_gate ? "" : dibs__queue_lua_pass;
    const char *gate = dibs__redis_gate_lua(redis);
    const char *state = dibs__queue_lua_state, *turns = dibs__queue_lua_turns;
    const struct {
        struct script *script;
        const char *name, *parts[9];
    } made_of[] = {
        { &queue->take_free, "take_free", { dibs__queue_lua_take_free } },
        { &queue->give_lone, "give_lone", { dibs__queue_lua_give_lone } },
        { &queue->take,
          "take",
          { begin, ears, join, tick, gate, state, turns, dibs__queue_lua_take } },
        { &queue->give,
          "give",
          { begin, ears, pass, tick, gate, state, turns, dibs__queue_lua_give } },
        { &queue->observe,
          "observe",
          { begin, ears, tick, gate, state, turns, dibs__queue_lua_observe } },
        { &queue->renew, "renew", { begin, dibs__queue_lua_renew } },
        { &queue->share,
          "share",
          { begin, ears, tick, gate, state, turns, dibs__queue_lua_share } },
        { &queue->evict,
          "evict",
          { begin, ears, tick, gate, state, turns, dibs__queue_lua_evict } },
        { &queue->look,
          "look",
          { begin, ears, tick, gate, state, turns, dibs__queue_lua_look } },
    };
    int rc = DIBS_OK;
    for (size_t i = 0; !rc && i < sizeof made_of / sizeof *made_of; i++)
        rc = dibs__redis_script_new(made_of[i].script, made_of[i].name, made_of[i].parts,
                                    redis->host);
    return rc;
}

static void
describe_self(const struct redis *redis, struct queue *queue)
{
    const char *host = redis->session->machine, *app = redis->session->app;
    queue->channel_len = (size_t)snprintf(queue->channel, sizeof queue->channel,
                                          QUEUE_CHANNEL "%s", redis->session->id_hex);
    queue->self_len = (size_t)snprintf(queue->self, sizeof queue->self, QUEUE_INFO_SELF,
                                       (long long)redis->session->pid, strnlen(host, 64),
                                       strnlen(app, 128), host, app);
}

static int
queue_open(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    struct queue *queue = redis->host->alloc(sizeof *queue);
    if (!queue)
        return DIBS_ENOMEM;
    redis->layout_state = queue;
    queue->waiter_ms = WAITER_MS;
    queue->has_gate = dibs__redis_gate_keys(redis) > 0;
    describe_self(redis, queue);
    int rc = redis->host->param_ms(&queue->waiter_ms, url, "waiter", err);
    if (!rc && (queue->waiter_ms < WAITER_LEAST_MS || queue->waiter_ms > WAITER_MOST_MS))
        rc = redis->host->fail(err, DIBS_ECONFIG, "waiter= wants %d ms to %d s",
                               WAITER_LEAST_MS, WAITER_MOST_MS / 1000);
    return rc ? rc : make_scripts(redis, queue);
}

static void
queue_close(struct redis *redis)
{
    struct queue *queue = redis->layout_state;
    if (!queue)
        return;
    struct script *const scripts[] = { &queue->take_free, &queue->give_lone,
                                       &queue->take,      &queue->give,
                                       &queue->observe,   &queue->renew,
                                       &queue->share,     &queue->evict,
                                       &queue->look };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        dibs__redis_script_free(scripts[i], redis->host);
    redis->host->free(queue);
    redis->layout_state = NULL;
}

const struct layout dibs__redis_queue_layout = {
    .name = "queue",
    .open = queue_open,
    .close = queue_close,
    .attempt = dibs__queue_attempt,
    .release = queue_release,
    .heard = dibs__queue_heard,
};

static const char *const params[] = { "waiter", REDIS_PARAMS, NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

static const dibs_engine *const layouts[] = { &dibs_engine_table, &dibs__redis_redisson,
                                              &dibs__redis_plain, &dibs__redis_getset,
                                              NULL };

const dibs_engine dibs_engine_table = {
    REDIS_ENGINE,
    .layout = "queue",
    .layouts = layouts,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |
            DIBS_CAP_TOKEN | DIBS_CAP_PREVIOUS | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_DETAIL | DIBS_CAP_OBSERVE | DIBS_CAP_BREAK | DIBS_CAP_LINGER |
            DIBS_CAP_WAKE,
    .watch = dibs__queue_watch,
    .renew = queue_renew,
    .downgrade = queue_downgrade,
    .list = dibs__queue_list,
    .inspect = dibs__queue_inspect,
    .evict = dibs__queue_evict,
};
