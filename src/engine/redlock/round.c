/* SPDX-License-Identifier: MIT */
/*
 * Asking all servers at once. The request goes out to all of them before the first answer
 * is waited for, so a round takes as long as the slowest server whose answer is needed.
 *
 * What keeps a bad server from slowing the good ones down: it is waited for no longer than
 * the time-out of a round; once it owes answers that somebody gave up on (it is stalled),
 * it is asked as before, for what is sent is done in that order when it comes back, but
 * waited for only if there is no majority without it; and while it cannot be connected to
 * it is left out for a while.
 */
#include <stdio.h>

#include "redlock.h"

/* all of a client's requests to a server go over one connection: so they are done in order */
#define LANE 0
#define DOWN_FOR (500 * DIBS_MS)
#define TIMEOUT_LEAST (50 * DIBS_MS)
#define TIMEOUT_MOST (250 * DIBS_MS)
/* a decision does not wait for the rest; they get this long, or as long again as it took */
#define STRAGGLER_LEAST (1 * DIBS_MS)

dibs_time
dibs__redlock_deadline(const struct redlock *redlock, uint32_t lease_ms,
                       dibs_time deadline)
{
    dibs_time limit = redlock->node_timeout_ms * DIBS_MS;
    if (!limit) {
        limit = lease_ms * DIBS_MS / 20;
        limit = limit < TIMEOUT_LEAST ? TIMEOUT_LEAST : limit;
        limit = limit > TIMEOUT_MOST ? TIMEOUT_MOST : limit;
    }
    dibs_time most = redlock->host->now() + limit;
    return most < deadline ? most : deadline;
}

uint32_t
dibs__redlock_all(const struct redlock *redlock)
{
    return (UINT32_C(1) << redlock->count) - 1;
}

static int
bits(uint32_t set)
{
    return __builtin_popcount(set);
}

/* ---- sending ---- */

static void
name_script(const struct round *round, int with_text)
{
    dibs__resp_script_name(&round->commands[0], &round->redlock->scripts[round->script],
                           with_text);
}

/* with_text: for a server that does not know the script, which is in the first command */
static int
build(const struct round *round, resp_request *request, int with_text)
{
    int rc = DIBS_OK;
    if (with_text)
        name_script(round, 1);
    for (unsigned i = 0; i < round->count && !rc; i++)
        rc = dibs__resp_add(request, &round->commands[i]);
    if (with_text)
        name_script(round, 0);
    return rc;
}

/* Who may not know the script. That does not matter where the answer is waited for, but
 * what ends a claim must be done also where nobody hears that it was not. */
static uint32_t
need_text(const struct round *round)
{
    const struct redlock *redlock = round->redlock;
    uint32_t set = 0;
    for (int i = 0; i < redlock->count && round->script == SCRIPT_END; i++) {
        if (!atomic_load(&redlock->nodes[i].knows_end))
            set |= UINT32_C(1) << i;
    }
    return set;
}

/* who could not be reached a moment ago, as long as there are enough others */
static uint32_t
down_nodes(const struct round *round)
{
    const struct redlock *redlock = round->redlock;
    uint32_t down = 0;
    for (int i = 0; i < redlock->count; i++) {
        if (atomic_load(&redlock->nodes[i].down_until) > round->began)
            down |= UINT32_C(1) << i;
    }
    return bits(dibs__redlock_all(redlock) & ~down) >= redlock->majority ? down : 0;
}

static void
send_to(struct round *round, int i, const resp_request *request)
{
    struct node *node = &round->redlock->nodes[i];
    uint32_t bit = UINT32_C(1) << i;
    /* connecting is done one by one: those that cannot be reached leave time for the rest */
    int spare = round->redlock->count - round->redlock->majority;
    const dibs_host *host = round->redlock->host;
    dibs_time limit = host->now() + (round->deadline - round->began) / (spare + 2);
    limit = limit < round->deadline ? limit : round->deadline;
    if (dibs__resp_is_stalled(node->server, LANE))
        round->stalled |= bit;
    /* a second time if it was found just now that the connection had been cut */
    for (int tries = 0; tries < 2; tries++) {
        round->codes[i] = dibs__resp_send(node->server, LANE, request, limit,
                                          &round->ops[i], &round->said);
        if (round->codes[i] != DIBS_EUNAVAIL || host->now() >= limit)
            break;
    }
    if (round->codes[i] == DIBS_OK) {
        round->waiting |= bit;
        round->codes[i] = DIBS_EUNKNOWN;
        atomic_store(&node->down_until, 0);
    } else if (round->codes[i] == DIBS_EUNAVAIL) {
        atomic_store(&node->down_until, host->now() + DOWN_FOR);
        atomic_store(&node->knows_end, 0); /* it may come back without its scripts */
    }
}

int
dibs__redlock_begin(struct round *round, dibs_error *err)
{
    struct redlock *redlock = round->redlock;
    resp_request request = { 0 }, whole = { 0 };
    uint32_t texts = need_text(round);
    round->began = redlock->host->now();
    round->replies = round->few;
    if (round->count > 1)
        round->replies =
            redlock->host->alloc((size_t)redlock->count * round->count * sizeof(void *));
    if (!round->replies || build(round, &request, 0) ||
        (texts && build(round, &whole, 1))) {
        if (round->replies != round->few)
            redlock->host->free(round->replies);
        dibs__resp_request_free(&request);
        dibs__resp_request_free(&whole);
        return redlock->host->fail(err, DIBS_ENOMEM, "out of memory");
    }
    uint32_t skip = down_nodes(round) & ~round->must;
    /* the first one last: who listens there and comes at once finds the others done */
    for (int i = redlock->count - 1; i >= 0; i--) {
        round->codes[i] = DIBS_EUNAVAIL;
        if (round->nodes & ~skip & UINT32_C(1) << i)
            send_to(round, i, texts & UINT32_C(1) << i ? &whole : &request);
    }
    dibs__resp_request_free(&request);
    dibs__resp_request_free(&whole);
    return DIBS_OK;
}

/* ---- answers ---- */

static void
drop_replies(struct round *round, int i)
{
    for (unsigned k = 0; k < round->count; k++) {
        freeReplyObject(reply_of(round, i, k));
        round->replies[(unsigned)i * round->count + k] = NULL;
    }
}

/* Sends it to one server again. */
static int
ask_again(struct round *round, int i, int with_text)
{
    resp_request request = { 0 };
    int rc = build(round, &request, with_text);
    if (!rc)
        rc = dibs__resp_call(round->redlock->nodes[i].server, LANE, &request,
                             round->deadline, &round->replies[(unsigned)i * round->count],
                             &round->said);
    dibs__resp_request_free(&request);
    return rc;
}

/* an error for an answer: nothing was done */
static int
refusal(struct round *round, int i)
{
    const redisReply *reply = reply_of(round, i, 0);
    const resp_address *address =
        dibs__resp_server_address(round->redlock->nodes[i].server);
    enum resp_trouble trouble = dibs__resp_trouble(reply);
    int code = trouble == RESP_DENIED                               ? DIBS_EDENIED
               : trouble == RESP_WRONGTYPE || trouble == RESP_OTHER ? DIBS_ECORRUPT
                                                                    : DIBS_EUNAVAIL;
    if (trouble == RESP_FINE)
        return DIBS_OK;
    return round->redlock->host->fail(&round->said, code, "%s:%u said: %.*s",
                                      address->host, (unsigned)address->port,
                                      (int)reply->len, reply->str);
}

static void
collect(struct round *round, int i, dibs_time deadline)
{
    uint32_t bit = UINT32_C(1) << i;
    redisReply **replies = &round->replies[(unsigned)i * round->count];
    int rc = dibs__resp_wait(round->ops[i], deadline, replies, &round->said);
    round->waiting &= ~bit;
    if (rc && deadline > round->began && round->redlock->host->now() < deadline) {
        /* not late but cut off: an idle connection may have been closed long ago */
        int unknown = rc == DIBS_EUNKNOWN;
        round->repeated |= unknown ? bit : 0;
        rc = ask_again(round, i, round->script == SCRIPT_END);
        rc = rc && unknown ? DIBS_EUNKNOWN : rc;
    }
    if (!rc && round->script != SCRIPT_NONE &&
        dibs__resp_trouble(replies[0]) == RESP_NOSCRIPT) {
        drop_replies(round, i);
        rc = ask_again(round, i, 1);
    }
    if (!rc) {
        rc = refusal(round, i);
        if (rc)
            drop_replies(round, i);
        else
            round->heard |= bit;
    }
    if (!rc && round->script == SCRIPT_END)
        atomic_store(&round->redlock->nodes[i].knows_end, 1);
    round->codes[i] = rc;
}

int
dibs__redlock_next(struct round *round)
{
    uint32_t prompt = round->waiting & ~round->stalled;
    if (!round->waiting)
        return -1;
    int i = __builtin_ctz(prompt ? prompt : round->waiting);
    /* the stalled ones come last: are they needed? */
    int enough = bits(round->heard) >= round->redlock->majority;
    collect(round, i, prompt || !enough ? round->deadline : round->began);
    return i;
}

void
dibs__redlock_end_round(struct round *round)
{
    const dibs_host *host = round->redlock->host;
    dibs_time now = round->waiting ? host->now() : 0, took = now - round->began;
    dibs_time rest = now + (took > STRAGGLER_LEAST ? took : STRAGGLER_LEAST);
    for (int i = 0; i < round->redlock->count; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (round->waiting & bit)
            collect(round, i, round->stalled & bit ? round->began : rest);
        if (round->heard & bit)
            drop_replies(round, i);
    }
    if (round->replies != round->few)
        host->free(round->replies);
}

int
dibs__redlock_few(const struct redlock *redlock, int code, int answered,
                  const dibs_error *said, dibs_error *err)
{
    char why[160];
    (void)snprintf(why, sizeof why, "%.158s", said->text);
    return redlock->host->fail(err, code, "%d of %d servers answered, %d are needed%s%s",
                               answered, redlock->count, redlock->majority,
                               *why ? "; " : "", why);
}
