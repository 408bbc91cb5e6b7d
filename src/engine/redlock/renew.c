/* SPDX-License-Identifier: MIT */
/*
 * Keeping locks: many in one round. A server that has lost its copy (it was restarted, or
 * never heard of the lock) gets it again, but only while a majority says that the lock is
 * ours, and only if nobody else's key is there. Else a lost lock would come back to life.
 */
#include <string.h>

#include "redlock.h"

#define BATCH_MAX 64

/* claims that are renewed together */
struct batch {
    struct redlock *redlock;
    dibs_claim *const *claims;
    int *results;
    unsigned n;
    dibs_time deadline;
    char values[BATCH_MAX][VALUE_MAX];
    int ours[BATCH_MAX], gone[BATCH_MAX];
    uint32_t absent[BATCH_MAX]; /* servers that could have it again */
    int answered, sent;
    resp_command commands[BATCH_MAX];
};

static void
count(struct batch *batch, const struct round *round, int i)
{
    if (round->codes[i] != DIBS_OK) {
        batch->sent += round->codes[i] == DIBS_EUNKNOWN;
        return;
    }
    batch->answered++;
    for (unsigned k = 0; k < batch->n; k++) {
        switch (dibs__resp_integer(reply_of(round, i, k), -1)) {
        case RENEW_OURS:
            batch->ours[k]++;
            break;
        case RENEW_ABSENT:
            batch->absent[k] |= UINT32_C(1) << i;
            batch->gone[k]++;
            break;
        case RENEW_THEIRS:
            batch->gone[k]++;
            break;
        default:
            break; /* an error: it says nothing */
        }
    }
}

static int
ask(struct batch *batch, dibs_error *said, dibs_error *err)
{
    struct redlock *redlock = batch->redlock;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_RENEW,
                           .commands = batch->commands,
                           .count = batch->n,
                           .nodes = dibs__redlock_all(redlock),
                           .deadline = batch->deadline };
    uint32_t shortest = UINT32_MAX;
    for (unsigned k = 0; k < batch->n; k++) {
        const dibs_claim *claim = batch->claims[k];
        resp_command *command = &batch->commands[k];
        size_t len = dibs__redlock_value(redlock, claim, batch->values[k]);
        dibs__redlock_command(redlock, command, SCRIPT_RENEW, claim->name,
                              claim->name_len);
        dibs__resp_bytes(command, batch->values[k], len);
        dibs__resp_number(command, claim->lease_ms);
        shortest = claim->lease_ms < shortest ? claim->lease_ms : shortest;
    }
    round.deadline = dibs__redlock_deadline(redlock, shortest, batch->deadline);
    int rc = dibs__redlock_begin(&round, err);
    if (rc)
        return rc;
    for (int i = dibs__redlock_next(&round); i >= 0; i = dibs__redlock_next(&round))
        count(batch, &round, i);
    *said = round.said;
    dibs__redlock_end_round(&round);
    return DIBS_OK;
}

/* ---- healing ---- */

/* A release that began meanwhile was sent before what heals: then that goes again. */
static void
undo_if_ended(const struct batch *batch, const unsigned *healed, unsigned n, int node)
{
    for (unsigned k = 0; k < n; k++) {
        const dibs_claim *claim = batch->claims[healed[k]];
        if (is_ending(claim))
            (void)dibs__redlock_end_claim(batch->redlock, claim, UINT32_C(1) << node, 0,
                                          0, batch->deadline, NULL);
    }
}

static void
heal_node(struct batch *batch, int node)
{
    struct redlock *redlock = batch->redlock;
    unsigned healed[BATCH_MAX], n = 0;
    for (unsigned k = 0; k < batch->n; k++) {
        const dibs_claim *claim = batch->claims[k];
        if (batch->results[k] != DIBS_OK || is_ending(claim) ||
            !(batch->absent[k] & UINT32_C(1) << node))
            continue;
        /* no guard: we know who has this lock */
        dibs__redlock_take_command(redlock, &batch->commands[n], claim, batch->values[k],
                                   (int64_t)(claim->token / TICK_ROOM), 0);
        add_asked_nodes(batch->claims[k], UINT32_C(1) << node);
        healed[n++] = k;
    }
    if (!n)
        return;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_TAKE,
                           .commands = batch->commands,
                           .count = n,
                           .nodes = UINT32_C(1) << node };
    round.deadline = dibs__redlock_deadline(redlock, batch->claims[healed[0]]->lease_ms,
                                            batch->deadline);
    if (dibs__redlock_begin(&round, NULL))
        return;
    (void)dibs__redlock_next(&round);
    dibs__redlock_end_round(&round);
    undo_if_ended(batch, healed, n, node);
}

/* ---- results ---- */

static void
judge(struct batch *batch, const dibs_error *said, dibs_error *err)
{
    const struct redlock *redlock = batch->redlock;
    uint32_t absent = 0;
    for (unsigned k = 0; k < batch->n; k++) {
        if (batch->ours[k] >= redlock->majority) {
            batch->results[k] = DIBS_OK;
            absent |= batch->absent[k];
        } else if (batch->gone[k] >= redlock->majority) {
            batch->results[k] = redlock->host->fail(
                err, DIBS_ELOST, "%d of %d servers do not have it any more",
                batch->gone[k], redlock->count);
        } else {
            batch->results[k] =
                dibs__redlock_few(redlock, batch->sent ? DIBS_EUNKNOWN : DIBS_EUNAVAIL,
                                  batch->answered, said, err);
        }
    }
    for (int i = 0; i < redlock->count; i++) {
        if (absent & UINT32_C(1) << i)
            heal_node(batch, i);
    }
}

void
dibs__redlock_renew(struct redlock *redlock, dibs_claim *const *claims, int *results,
                    size_t n, dibs_time deadline, dibs_error *err)
{
    struct batch *batch = redlock->host->alloc(sizeof *batch);
    dibs_error said = { 0 };
    for (size_t from = 0; from < n; from += BATCH_MAX) {
        unsigned some = (unsigned)(n - from < BATCH_MAX ? n - from : BATCH_MAX);
        int rc = DIBS_EUNAVAIL;
        if (batch) {
            memset(batch, 0, sizeof *batch);
            batch->redlock = redlock;
            batch->claims = claims + from;
            batch->results = results + from;
            batch->n = some;
            batch->deadline = deadline;
            rc = ask(batch, &said, err);
        }
        if (!rc)
            judge(batch, &said, err);
        for (unsigned k = 0; k < some && rc; k++)
            results[from + k] = DIBS_EUNAVAIL;
    }
    redlock->host->free(batch);
}
