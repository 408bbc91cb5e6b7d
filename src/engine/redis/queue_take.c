/* SPDX-License-Identifier: MIT */
/*
 * The queue layout: asking, waiting in line, and being told.
 *
 * A hand-over costs the one who waits one command, its first attempt: the grant comes as
 * a message with all there is to know. For that, a client that has waited once stays
 * subscribed to its channel, and a claim is registered before it asks; so whatever the
 * server decides later is heard. The second attempt, which core makes before it sleeps,
 * can then be answered from memory.
 *
 * A hold counts from before the request that the server last answered by "queued": the
 * grant came later. If that was long ago, or anything may have been missed, the claim
 * asks again, which also gives it its full lease from now.
 */
#include <inttypes.h>
#include <string.h>

#include "queue.h"
#include "util/digits.h"

/* the layout's words of a waiter: its ticket (0: not in line), and how long its last
 * answer is good for, in ms, above its position */
#define TICKET 0
#define ANSWER 1

size_t
dibs__queue_info(const struct redis *redis, const dibs_claim *claim, char info[INFO_MAX])
{
    const struct queue *queue = queue_of(redis);
    size_t note_len = strlen(claim->note);
    const uint32_t numbers[] = { claim->mode, claim->permits, claim->limit,
                                 claim->lease_ms, dibs__queue_wait_ms(redis, claim) };
    size_t at = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        at += put_digits(info + at, numbers[i]);
        info[at++] = ' ';
    }
    memcpy(info + at, queue->self, queue->self_len);
    at += queue->self_len;
    memcpy(info + at, claim->note, note_len);
    return at + note_len;
}

/* ---- from memory ---- */

static int
granted(dibs_claim *claim, int64_t tick, int64_t previous)
{
    claim->token = token_of_tick(tick);
    claim->token_room = TICK_ROOM - 1;
    claim->previous = previous >= 0 && previous <= DIBS_PREVIOUS_UNKNOWN
                          ? (uint8_t)previous
                          : DIBS_PREVIOUS_UNKNOWN;
    return DIBS_OK;
}

int
dibs__queue_read_grant(struct queue_grant *out, const char *message)
{
    const char *at = message + 1;
    uint64_t serial;
    if (message[0] != 'g' || get_digits(&at, &serial) || get_digits(&at, &out->ticket) ||
        get_digits(&at, &out->tick) || get_digits(&at, &out->previous))
        return -1;
    return out->tick <= TICK_MOST && out->previous <= DIBS_PREVIOUS_UNKNOWN ? 0 : -1;
}

/* A grant that came as a message is good if it answers our last request, and that is not
 * long ago: then the lease counts from before that request. */
static int
take_grant(struct redis *redis, dibs_claim *claim, const char *message)
{
    const struct waiter *waiter = waiter_of(claim);
    struct queue_grant grant;
    if (dibs__queue_read_grant(&grant, message) != 0)
        return 0;
    dibs_time age = redis->host->now() - waiter->asked;
    if (grant.ticket != waiter->own[TICKET] || !waiter->asked || redis->replicas ||
        age > claim->lease_ms * DIBS_MS / 4)
        return 0;
    claim->sent = waiter->asked;
    dibs__redis_waiter_done(redis, claim);
    granted(claim, (int64_t)grant.tick, (int64_t)grant.previous);
    return 1;
}

/* Is what the server said last still true, and for how long? */
static int
still_waits(const struct redis *redis, dibs_claim *claim)
{
    const struct waiter *waiter = waiter_of(claim);
    uint32_t good_ms = (uint32_t)waiter->own[ANSWER];
    if (!waiter->asked || !dibs__redis_heard_all(waiter))
        return 0;
    dibs_time left = waiter->asked + good_ms * DIBS_MS - redis->host->now();
    if (left <= 0)
        return 0;
    claim->position = (uint32_t)(waiter->own[ANSWER] >> 32);
    claim->hint_ms = (uint32_t)(left / DIBS_MS) + 1;
    return 1;
}

/* DIBS_OK, DIBS_EBUSY, or DIBS_EUNKNOWN: the server must be asked */
static int
attempt_from_memory(struct redis *redis, dibs_claim *claim)
{
    char message[128 + 1];
    struct waiter *waiter = waiter_of(claim);
    if (!waiter)
        return DIBS_EUNKNOWN;
    size_t len = dibs__redis_take_message(redis, waiter, message);
    message[len] = '\0';
    if (len)
        return take_grant(redis, claim, message) ? DIBS_OK : DIBS_EUNKNOWN;
    return still_waits(redis, claim) ? DIBS_EBUSY : DIBS_EUNKNOWN;
}

/* ---- asking ---- */

/* A client that listens already hears what becomes of this claim from the start. */
static void
listen_before_asking(struct redis *redis, dibs_claim *claim, dibs_time deadline)
{
    struct queue *queue = queue_of(redis);
    if (!atomic_load_explicit(&queue->listens, memory_order_acquire) ||
        claim->flags & DIBS_CLAIM_NOQUEUE || waiter_of(claim) ||
        dibs__resp_listener_epoch(redis->listener) == 0)
        return;
    struct waiter *waiter = dibs__redis_waiter(redis, claim, claim->serial);
    if (waiter)
        (void)dibs__redis_listen(redis, waiter, queue->channel, queue->channel_len, NULL,
                                 deadline, NULL);
}

static int
in_line(struct redis *redis, dibs_claim *claim, uint64_t ticket, uint32_t position,
        int64_t hint_ms, dibs_time asked)
{
    struct waiter *waiter = waiter_of(claim);
    claim->hint_ms = hint_ms > 0 && hint_ms <= UINT32_MAX ? (uint32_t)hint_ms : 1;
    claim->position = position;
    if (!ticket)
        dibs__redis_waiter_done(redis, claim);
    else if (waiter) {
        waiter->own[TICKET] = ticket;
        waiter->own[ANSWER] = (uint64_t)position << 32 | claim->hint_ms;
        waiter->asked = asked;
    }
    return DIBS_EBUSY;
}

static int
fail_mismatch(const struct redis *redis, const dibs_claim *claim, int64_t limit,
              dibs_error *err)
{
    const dibs_host *host = redis->host;
    if (limit == 0)
        return host->fail(err, DIBS_EMISMATCH, "it is in use as a lock, not a semaphore");
    if (claim->limit == 0)
        return host->fail(err, DIBS_EMISMATCH,
                          "it is in use as a semaphore of %" PRId64 " permits", limit);
    return host->fail(err, DIBS_EMISMATCH,
                      "it is in use with %" PRId64 " permits, and this asks for one of "
                      "%" PRIu32,
                      limit, claim->limit);
}

static int
fail_foreign(const struct redis *redis, const redisReply *type, dibs_error *err)
{
    const char *whose = "something else";
    if (dibs__resp_is_text(type, "hash"))
        whose = "a hash, as layout=redisson and Redisson write locks";
    else if (dibs__resp_is_text(type, "string"))
        whose = "a string of another kind, as layout=plain writes locks";
    return redis->host->fail(err, DIBS_EMISMATCH, "under its key is %s", whose);
}

/* no token can be made of it; the scripts refuse such ticks, too */
static int
fail_tick(const struct redis *redis, dibs_error *err)
{
    return redis->host->fail(err, DIBS_ECORRUPT, "the server's clock is at its end");
}

int
dibs__queue_answer(struct redis *redis, dibs_claim *claim, const redisReply *reply,
                   dibs_time asked, dibs_error *err)
{
    int64_t words[4];
    for (size_t i = 0; i < 4; i++)
        words[i] = dibs__resp_integer(dibs__resp_element(reply, i), 0);
    set_crowded(queue_of(redis), claim->name_hash, !(words[0] > 0 && words[2]));
    if (words[0] > TICK_MOST)
        return fail_tick(redis, err);
    if (words[0] > 0)
        return granted(claim, words[0], words[1]);
    if (words[0] == 0)
        return in_line(redis, claim, (uint64_t)words[1], (uint32_t)words[2], words[3],
                       asked);
    if (words[0] == -1)
        return fail_mismatch(redis, claim, words[1], err);
    return fail_foreign(redis, dibs__resp_element(reply, 1), err);
}

static int
ask(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct queue_call call;
    char id[ID_MAX], info[INFO_MAX];
    redisReply *reply;
    resp_command *command = &call.call.command;
    dibs__queue_claim_call(redis, &call, &queue_of(redis)->take, claim, id);
    call.call.flags |= CALL_LASTS;
    dibs__resp_bytes(command, info, dibs__queue_info(redis, claim, info));
    dibs__resp_number(command, claim->lease_ms);
    dibs__resp_word(command, claim->flags & DIBS_CLAIM_NOQUEUE ? "1" : "0");
    dibs__resp_number(command, dibs__queue_wait_ms(redis, claim));
    dibs__redis_gate_args(redis, &call.call);
    dibs_time asked = redis->host->now();
    int rc = dibs__redis_run(redis, &call.call, deadline, &reply, err);
    if (rc)
        return rc;
    rc = dibs__queue_answer(redis, claim, reply, asked, err);
    freeReplyObject(reply);
    return rc;
}

/* Takes what is free; DIBS_EBUSY if it is not. */
static int
ask_if_free(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct call call;
    struct key lock, clock;
    char mark[MARK_MAX], rest[INFO_MAX + 32];
    redisReply *reply;
    dibs__redis_key_set(&lock, QUEUE_PREFIX, claim->name, claim->name_len, "");
    dibs__redis_clock_key(redis, &lock, &clock);
    dibs__redis_script_call(&call, &queue_of(redis)->take_free, 2, &lock,
                            claim->name_hash);
    dibs__resp_bytes(&call.command, lock.text, lock.len);
    dibs__resp_bytes(&call.command, clock.text, clock.len);
    dibs__resp_bytes(&call.command, mark, dibs__queue_mark(redis, claim, mark));
    memcpy(rest, " +", 2);
    size_t len = 2 + put_digits(rest + 2, claim->lease_ms);
    memcpy(rest + len, " 0 ", 3);
    len += 3;
    dibs__resp_bytes(&call.command, rest,
                     len + dibs__queue_info(redis, claim, rest + len));
    dibs__resp_number(&call.command, 2 * (int64_t)claim->lease_ms);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return rc;
    int64_t tick = dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    if (tick > TICK_MOST)
        return fail_tick(redis, err);
    return tick > 0 ? granted(claim, tick, DIBS_PREVIOUS_CLEAN) : DIBS_EBUSY;
}

static int
attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    const struct queue *queue = queue_of(redis);
    int rc = attempt_from_memory(redis, claim);
    if (rc != DIBS_EUNKNOWN)
        return rc;
    if (!queue->has_gate && !waiter_of(claim) && !is_crowded(queue, claim->name_hash)) {
        rc = ask_if_free(redis, claim, deadline, err);
        if (rc != DIBS_EBUSY)
            return rc;
    }
    listen_before_asking(redis, claim, deadline);
    rc = ask(redis, claim, deadline, err);
    const struct waiter *waiter = waiter_of(claim);
    /* only who is in line, or may be, is called again or released */
    if (waiter && rc != DIBS_EBUSY && rc != DIBS_EUNKNOWN &&
        !(rc == DIBS_EUNAVAIL && waiter->own[TICKET]))
        dibs__redis_waiter_done(redis, claim);
    return rc;
}

/* An observer is never in line. It stays registered from one change to the next. */
static int
observe(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct queue_call call;
    char id[ID_MAX], message[128];
    int64_t newest, wait_ms = queue_of(redis)->waiter_ms;
    struct waiter *waiter = waiter_of(claim);
    int told = waiter && dibs__redis_take_message(redis, waiter, message) > 0;
    if (waiter && !told && still_waits(redis, claim))
        return DIBS_EBUSY;
    dibs__queue_claim_call(redis, &call, &queue_of(redis)->observe, claim, id);
    dibs__resp_number(&call.call.command, (int64_t)(claim->token / TICK_ROOM));
    dibs__resp_number(&call.call.command, wait_ms);
    dibs__redis_gate_args(redis, &call.call);
    dibs_time asked = redis->host->now();
    int rc = dibs__queue_number(redis, &call, deadline, &newest, err);
    if (rc)
        return rc;
    if (token_of_tick(newest) == claim->token)
        return in_line(redis, claim, 1, 0, wait_ms / 3, asked);
    claim->token = token_of_tick(newest);
    if (waiter)
        waiter->asked = 0;
    return DIBS_OK;
}

int
dibs__queue_attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline,
                    dibs_error *err)
{
    return claim->mode == DIBS_OBSERVE ? observe(redis, claim, deadline, err)
                                       : attempt(redis, claim, deadline, err);
}

/* ---- being told ---- */

/* The client's channel gets one subscription more, which is never taken back. */
static void
stay_subscribed(struct redis *redis, struct queue *queue, dibs_time deadline)
{
    if (atomic_load(&queue->listens))
        return;
    if (dibs__resp_subscribe(redis->listener, queue->channel, queue->channel_len, 0,
                             deadline, NULL) == DIBS_OK)
        atomic_store_explicit(&queue->listens, 1, memory_order_release);
}

int
dibs__queue_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct queue *queue = queue_of(redis);
    struct waiter *waiter = dibs__redis_waiter(redis, claim, claim->serial);
    if (!waiter)
        return DIBS_ENOMEM;
    if (dibs__redis_heard_all(waiter))
        return DIBS_OK;
    /* what was said before we listened proves nothing: the next attempt asks */
    waiter->asked = 0;
    int rc = dibs__redis_listen(redis, waiter, queue->channel, queue->channel_len, NULL,
                                deadline, err);
    if (!rc)
        stay_subscribed(redis, queue, deadline);
    return rc;
}

void
dibs__queue_heard(struct redis *redis, const char *channel, size_t channel_len,
                  const char *message, size_t message_len)
{
    char text[128];
    uint64_t serial;
    const char *at = text + 1;
    (void)channel, (void)channel_len;
    if (message_len == 0 || message_len >= sizeof text)
        return;
    memcpy(text, message, message_len);
    text[message_len] = '\0';
    if (get_digits(&at, &serial))
        return;
    dibs__redis_tell(redis, serial, 0, message, message_len);
    /* a hold has ended without us: the keeper finds out which */
    if (text[0] == 'b')
        redis->host->ring(redis->session->keeper_bell);
}
