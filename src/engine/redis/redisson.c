/* SPDX-License-Identifier: MIT */
/*
 * The redisson layout: taking, keeping and giving back locks that Redisson knows. See
 * redisson.h for what is written where.
 *
 * Waiting is Redisson's way too: subscribe to the lock's channel, try again, sleep until a
 * message comes or the holder's lease would end. The end of a lock wakes one waiter per
 * process, and all of them run for it; only the fair form wakes the next one alone. Its
 * deadlines are wall-clock times of the clients, because Redisson's are: clocks that differ
 * by minutes make it drop waiters early or late, never grant twice.
 *
 * In this order: opening, attempt, watch, renew, release and downgrade, the table.
 */
#include "redisson.h"

#include <string.h>

#define FAIR_WAIT_MS 300000
#define RENEW_BATCH 64

/* ---- open and close ---- */

static int
choose_form(struct redis *redis, const dibs_url_parts *url, enum form *form,
            dibs_error *err)
{
    static const char *const forms[] = { [FORM_LOCK] = "lock",
                                         [FORM_FAIR] = "fair",
                                         [FORM_FENCED] = "fenced",
                                         [FORM_RW] = "rw" };
    const char *wanted = redis->host->param(url, "form");
    *form = FORM_LOCK;
    if (!wanted)
        return DIBS_OK;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *form = (enum form)i;
        if (strcmp(forms[i], wanted) == 0)
            return DIBS_OK;
    }
    return redis->host->fail(err, DIBS_ECONFIG,
                             "form=%s: there are lock, fair, fenced and rw", wanted);
}

static int
read_options(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    struct redisson *redisson = redisson_of(redis);
    redisson->fair_wait_ms = FAIR_WAIT_MS;
    int rc = choose_form(redis, url, &redisson->form, err);
    if (!rc)
        rc = redis->host->param_ms(&redisson->fair_wait_ms, url, "fair_wait", err);
    if (!rc && redisson->fair_wait_ms <= 0)
        rc = redis->host->fail(err, DIBS_ECONFIG, "fair_wait= must be more than nothing");
    if (redisson->form != FORM_RW)
        redis->session->caps &= ~(uint32_t)DIBS_CAP_SHARED;
    if (redisson->form != FORM_FAIR)
        redis->session->caps &= ~(uint32_t)DIBS_CAP_FAIR;
    return rc;
}

static int
redisson_open(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    redis->layout_state = redis->host->alloc(sizeof(struct redisson));
    if (!redis->layout_state)
        return redis->host->fail(err, DIBS_ENOMEM, "out of memory");
    int rc = read_options(redis, url, err);
    if (!rc && dibs__redisson_scripts_new(redisson_of(redis), redis))
        rc = redis->host->fail(err, DIBS_ENOMEM, "out of memory");
    return rc;
}

static void
redisson_close(struct redis *redis)
{
    if (redis->layout_state)
        dibs__redisson_scripts_free(redisson_of(redis), redis->host);
    redis->host->free(redis->layout_state);
    redis->layout_state = NULL;
}

/* ---- what calls have in common ---- */

/* The keys that only one form has, behind those that all have. */
static unsigned
extra_keys(enum form form, int giving)
{
    static const unsigned counts[][2] = { [FORM_LOCK] = { 0, 1 },
                                          [FORM_FAIR] = { 2, 2 },
                                          [FORM_FENCED] = { 1, 1 },
                                          [FORM_RW] = { 2, 3 } };
    return counts[form][giving];
}

static void
put_extra_keys(struct call *call, struct naming *naming, enum form form, int giving)
{
    if (form == FORM_RW) {
        dibs__redisson_put(call, naming, THE_READ);
        if (giving)
            dibs__redisson_put(call, naming, THE_AFTERGLOW);
        dibs__redisson_put(call, naming, THE_TURN);
        return;
    }
    if (form == FORM_FENCED && !giving)
        dibs__redisson_put(call, naming, THE_TOKEN);
    if (form == FORM_FAIR || giving)
        dibs__redisson_put(call, naming, THE_QUEUE);
    if (form == FORM_FAIR)
        dibs__redisson_put(call, naming, THE_TIMEOUTS);
}

static void
put_key(struct call *call, const struct key *key)
{
    dibs__resp_bytes(&call->command, key->text, key->len);
}

/* ---- attempt ---- */

/* what one attempt needs until its reply has come */
struct taking {
    struct call call;
    struct naming naming;
    struct key clock, gate;
};

static void
put_take_keys(struct redis *redis, struct taking *taking)
{
    struct call *call = &taking->call;
    put_key(call, &taking->naming.lock);
    dibs__redis_clock_key(redis, &taking->naming.lock, &taking->clock);
    put_key(call, &taking->clock);
    put_extra_keys(call, &taking->naming, redisson_of(redis)->form, 0);
    dibs__redis_gate_key(redis, call, &taking->naming.lock, &taking->gate);
}

static void
put_take_args(struct redis *redis, struct taking *taking, const dibs_claim *claim)
{
    resp_command *command = &taking->call.command;
    int waits = !(claim->flags & DIBS_CLAIM_NOQUEUE);
    dibs__resp_bytes(command, taking->naming.me, taking->naming.me_len);
    dibs__resp_number(command, claim->lease_ms);
    dibs__resp_word(command, waits ? "1" : "0");
    dibs__resp_number(command, dibs__redisson_wall_ms());
    dibs__resp_number(command, redisson_of(redis)->fair_wait_ms);
    dibs__redis_gate_args(redis, &taking->call);
}

static void
build_take(struct redis *redis, struct taking *taking, const dibs_claim *claim)
{
    struct redisson *redisson = redisson_of(redis);
    const struct script *script =
        claim->mode == DIBS_SHARED ? &redisson->take_shared : &redisson->take;
    unsigned keys = 2 + extra_keys(redisson->form, 0) + dibs__redis_gate_keys(redis);
    dibs__redis_script_call(&taking->call, script, keys, &taking->naming.lock,
                            claim->name_hash);
    taking->call.flags |= CALL_LASTS;
    put_take_keys(redis, taking);
    put_take_args(redis, taking, claim);
}

/* ms as the server said it: below 0 the holder has no lease, and only a message helps */
static uint32_t
hint_of(int64_t ms)
{
    if (ms < 0)
        return 0;
    return ms < UINT32_MAX ? (uint32_t)ms + 1 : UINT32_MAX;
}

static int
answer_busy(dibs_claim *claim, const redisReply *reply)
{
    claim->hint_ms = hint_of(dibs__resp_integer(dibs__resp_element(reply, 1), 0));
    claim->position = (uint32_t)dibs__resp_integer(dibs__resp_element(reply, 2), 0);
    claim->priv[1] = (uint64_t)claim->position << 32 | claim->hint_ms;
    return DIBS_EBUSY;
}

static int
answer_granted(struct redis *redis, dibs_claim *claim, const redisReply *reply)
{
    int64_t number = dibs__resp_integer(dibs__resp_element(reply, 1), 0);
    int counted = redisson_of(redis)->form == FORM_FENCED;
    claim->token = counted ? (uint64_t)number : token_of_tick(number);
    claim->token_room = counted ? 0 : TICK_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    dibs__redis_waiter_done(redis, claim);
    return DIBS_OK;
}

static int
answer(struct redis *redis, dibs_claim *claim, const redisReply *reply, dibs_error *err)
{
    switch (dibs__resp_integer(dibs__resp_element(reply, 0), -2)) {
    case 1:
        return answer_granted(redis, claim, reply);
    case 0:
        return answer_busy(claim, reply);
    case -1:
        return redis->host->fail(
            err, DIBS_EMISMATCH,
            redisson_of(redis)->form == FORM_RW
                ? "the name is in use as an RLock: open with form=lock, fair or fenced"
                : "the name is in use as an RReadWriteLock: open with form=rw");
    default:
        return redis->host->fail(err, DIBS_ECORRUPT, "the script's answer is no answer");
    }
}

static int
ask(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct taking taking;
    redisReply *reply;
    int rc = dibs__redisson_claim_name(&taking.naming, redis, claim, err);
    if (rc)
        return rc;
    build_take(redis, &taking, claim);
    rc = dibs__redis_run(redis, &taking.call, deadline, &reply, err);
    if (rc == DIBS_EMISMATCH)
        return dibs__redisson_other_dialect(redis, &taking.naming, claim->name_hash,
                                            deadline, err);
    if (rc)
        return rc;
    rc = answer(redis, claim, reply, err);
    freeReplyObject(reply);
    return rc;
}

/* waiter->own[0]: when the server was last asked, we were listening already.
 * waiter->own[1]: nothing has changed since, so the next attempt can be spared. */

/* Core attempts once more after `watch`, in case the lock came free before we listened.
 * If we have listened since before the last attempt, a message would have told us. */
static int
is_spared(struct redis *redis, struct waiter *waiter)
{
    char message[128];
    int fresh = waiter->own[1] && dibs__redis_heard_all(waiter);
    waiter->own[1] = 0;
    return dibs__redis_take_message(redis, waiter, message) == 0 && fresh;
}

static int
redisson_attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline,
                 dibs_error *err)
{
    struct waiter *waiter = waiter_of(claim);
    /* only with DIBS_CAP_OBSERVE, which this layout cannot have */
    if (claim->mode == DIBS_OBSERVE)
        return DIBS_EUNSUPPORTED;
    if (waiter && is_spared(redis, waiter)) {
        claim->hint_ms = (uint32_t)claim->priv[1];
        claim->position = (uint32_t)(claim->priv[1] >> 32);
        return DIBS_EBUSY;
    }
    if (waiter)
        waiter->own[0] = (uint64_t)dibs__redis_heard_all(waiter);
    return ask(redis, claim, deadline, err);
}

/* ---- watch ---- */

static uint64_t
hash_channel(const char *channel, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)channel[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int
redisson_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct naming naming;
    struct waiter *waiter = waiter_of(claim);
    size_t len;
    if (waiter && waiter->own[0] && dibs__redis_heard_all(waiter)) {
        waiter->own[1] = 1;
        return DIBS_OK;
    }
    int rc = dibs__redisson_claim_name(&naming, redis, claim, err);
    if (rc)
        return rc;
    const char *channel = dibs__redisson_channel(&naming, redisson_of(redis)->form, &len);
    waiter = dibs__redis_waiter(redis, claim, hash_channel(channel, len));
    if (!waiter)
        return redis->host->fail(err, DIBS_ENOMEM, "out of memory");
    rc = dibs__redis_listen(redis, waiter, channel, len,
                            redis->is_cluster ? &naming.lock : NULL, deadline, err);
    /* who may not subscribe looks every second: slow is better than never */
    return rc == DIBS_EDENIED ? DIBS_OK : rc;
}

/* Everybody of this process who waits there looks, not only the first: two names can have
 * one channel. */
static void
redisson_heard(struct redis *redis, const char *channel, size_t channel_len,
               const char *message, size_t message_len)
{
    dibs__redis_tell(redis, hash_channel(channel, channel_len), 0, message, message_len);
}

/* ---- renew ---- */

/* n claims at a time: their names must live until the replies have come */
struct renewing {
    struct naming namings[RENEW_BATCH];
    struct call calls[RENEW_BATCH];
    redisReply *replies[RENEW_BATCH];
    int codes[RENEW_BATCH];
};

static void
build_renew(struct redis *redis, struct call *call, struct naming *naming,
            const dibs_claim *claim)
{
    struct redisson *redisson = redisson_of(redis);
    int rw = redisson->form == FORM_RW;
    dibs__redis_script_call(call, &redisson->renew, rw ? 2 : 1, &naming->lock,
                            claim->name_hash);
    call->flags |= CALL_LASTS;
    put_key(call, &naming->lock);
    if (rw)
        dibs__redisson_put(call, naming, THE_READ);
    dibs__resp_bytes(&call->command, naming->me, naming->me_len);
    dibs__resp_number(&call->command, claim->lease_ms);
}

static int
read_renew(int code, const redisReply *reply)
{
    if (code == DIBS_EMISMATCH)
        return DIBS_ELOST; /* the key is something else by now */
    if (code == DIBS_OK)
        return dibs__resp_integer(reply, 0) == 1 ? DIBS_OK : DIBS_ELOST;
    return code == DIBS_EUNKNOWN ? code : DIBS_EUNAVAIL;
}

static void
renew_some(struct redis *redis, struct renewing *renewing, dibs_claim *const *claims,
           int *results, size_t n, dibs_time deadline, dibs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        /* cannot fail: the name was good when it was taken */
        (void)dibs__redisson_claim_name(&renewing->namings[i], redis, claims[i], NULL);
        build_renew(redis, &renewing->calls[i], &renewing->namings[i], claims[i]);
        renewing->calls[i].hash = any_order(i); /* late ones find another owner */
    }
    dibs__redis_run_many(redis, renewing->calls, n, deadline, renewing->replies,
                         renewing->codes, err);
    for (size_t i = 0; i < n; i++) {
        results[i] = read_renew(renewing->codes[i], renewing->replies[i]);
        if (renewing->codes[i] == DIBS_OK)
            freeReplyObject(renewing->replies[i]);
    }
}

static void
redisson_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
               dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct renewing *renewing = redis->host->alloc(sizeof *renewing);
    for (size_t at = 0; at < n; at += RENEW_BATCH) {
        size_t some = n - at < RENEW_BATCH ? n - at : RENEW_BATCH;
        if (renewing)
            renew_some(redis, renewing, claims + at, results + at, some, deadline, err);
        for (size_t i = 0; !renewing && i < some; i++)
            results[at + i] = redis->host->fail(err, DIBS_EUNAVAIL, "out of memory");
    }
    redis->host->free(renewing);
}

/* ---- release and downgrade ---- */

static void
put_give_args(struct redis *redis, struct call *call, struct naming *naming,
              uint32_t linger_ms)
{
    struct redisson *redisson = redisson_of(redis);
    dibs__resp_bytes(&call->command, naming->me, naming->me_len);
    dibs__resp_number(&call->command, linger_ms);
    dibs__resp_bytes(&call->command, naming->afterglow, naming->afterglow_len);
    dibs__redisson_put(call, naming,
                       redisson->form == FORM_RW ? THE_RW_CHANNEL : THE_CHANNEL);
    dibs__resp_number(&call->command, dibs__redisson_wall_ms());
    dibs__resp_number(&call->command, redisson->fair_wait_ms);
    dibs__redisson_put(call, naming, THE_PREFIX);
}

static int
give(struct redis *redis, struct naming *naming, const dibs_claim *claim,
     uint32_t linger_ms, dibs_time deadline, dibs_error *err)
{
    struct redisson *redisson = redisson_of(redis);
    struct call call;
    redisReply *reply;
    dibs__redis_script_call(&call, &redisson->give, 1 + extra_keys(redisson->form, 1),
                            &naming->lock, claim->name_hash);
    put_key(&call, &naming->lock);
    put_extra_keys(&call, naming, redisson->form, 1);
    put_give_args(redis, &call, naming, linger_ms);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc == DIBS_EMISMATCH)
        return DIBS_ENOTHELD; /* the key is something else: nothing of ours */
    if (rc)
        return rc;
    rc = dibs__resp_integer(reply, 0) == 1 ? DIBS_OK : DIBS_ENOTHELD;
    freeReplyObject(reply);
    return rc;
}

static int
redisson_release(struct redis *redis, dibs_claim *claim, uint32_t linger_ms,
                 dibs_time deadline, dibs_error *err)
{
    struct naming naming;
    dibs__redis_waiter_done(redis, claim);
    int rc = dibs__redisson_claim_name(&naming, redis, claim, err);
    return rc ? DIBS_ENOTHELD : give(redis, &naming, claim, linger_ms, deadline, err);
}

static int
redisson_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct naming naming;
    struct call call;
    redisReply *reply;
    int rc = dibs__redisson_claim_name(&naming, redis, claim, err);
    if (rc)
        return rc;
    dibs__redis_script_call(&call, &redisson_of(redis)->downgrade, 2, &naming.lock,
                            claim->name_hash);
    put_key(&call, &naming.lock);
    dibs__redisson_put(&call, &naming, THE_READ);
    dibs__resp_bytes(&call.command, naming.me, naming.me_len);
    dibs__resp_number(&call.command, claim->lease_ms);
    dibs__redisson_put(&call, &naming, THE_RW_CHANNEL);
    rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return rc == DIBS_EMISMATCH ? DIBS_ELOST : rc;
    rc = dibs__resp_integer(reply, 0) == 1 ? DIBS_OK : DIBS_ELOST;
    freeReplyObject(reply);
    if (!rc)
        claim->mode = DIBS_SHARED;
    return rc;
}

const struct layout dibs__redis_redisson_layout = {
    .name = "redisson",
    .open = redisson_open,
    .close = redisson_close,
    .attempt = redisson_attempt,
    .release = redisson_release,
    .heard = redisson_heard,
};

static const char *const params[] = { "form", "fair_wait", REDIS_PARAMS, NULL };

const dibs_engine dibs__redis_redisson = {
    REDIS_ENGINE,
    .layout = "redisson",
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_TOKEN |
            DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK | DIBS_CAP_LINGER |
            DIBS_CAP_WAKE,
    .watch = redisson_watch,
    .renew = redisson_renew,
    .downgrade = redisson_downgrade,
    .list = dibs__redisson_list,
    .inspect = dibs__redisson_inspect,
    .evict = dibs__redisson_evict,
};
