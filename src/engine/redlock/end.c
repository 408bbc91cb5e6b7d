/* SPDX-License-Identifier: MIT */
/*
 * Giving a lock back, and breaking one. It is ended on every server, also where nothing
 * was heard when it was taken: what is sent now is done there after what was sent before.
 */
#include <string.h>

#include "redlock.h"

/* what became of the servers' copies */
struct outcome {
    int ended;    /* it was there and is no more */
    int not_here; /* it was not */
    int sent;     /* may still be done */
    dibs_error said;
};

static void
count(struct outcome *outcome, const struct round *round, int i)
{
    if (round->codes[i] == DIBS_OK) {
        int ended = dibs__resp_integer(reply_of(round, i, 0), 0) == 1;
        /* gone when we asked a second time: it was the first time that ended it */
        if (round->script == SCRIPT_END && round->repeated & UINT32_C(1) << i)
            ended = 1;
        outcome->ended += ended;
        outcome->not_here += !ended;
        return;
    }
    outcome->sent += round->codes[i] == DIBS_EUNKNOWN;
    outcome->said = round->said;
}

/* Runs a round to its end. It does not stop at a majority: where a connection turns out to
 * be cut it must be asked again, or something would stay there. */
static int
run(struct round *round, struct outcome *outcome, dibs_error *err)
{
    int rc = dibs__redlock_begin(round, err);
    memset(outcome, 0, sizeof *outcome);
    if (rc)
        return rc;
    for (int i = 0; i < round->redlock->count; i++) {
        if (round->nodes & ~round->waiting & UINT32_C(1) << i)
            count(outcome, round, i);
    }
    for (int i = dibs__redlock_next(round); i >= 0; i = dibs__redlock_next(round))
        count(outcome, round, i);
    dibs__redlock_end_round(round);
    return DIBS_OK;
}

/* What it means that so many of those asked have ended it. A server that was asked and did
 * not answer will end it when it does; it cannot keep others from a majority. */
static int
judge(const struct redlock *redlock, const dibs_claim *claim, int asked,
      const struct outcome *outcome, dibs_error *err)
{
    int answered = outcome->ended + outcome->not_here;
    int spare = redlock->count - redlock->majority;
    if (outcome->ended >= redlock->majority)
        return DIBS_OK;
    if (answered == asked || outcome->not_here > spare)
        return DIBS_ENOTHELD;
    if (claim->token && answered >= redlock->majority)
        return DIBS_OK;
    return dibs__redlock_few(redlock, outcome->sent ? DIBS_EUNKNOWN : DIBS_EUNAVAIL,
                             answered, &outcome->said, err);
}

int
dibs__redlock_end_claim(struct redlock *redlock, const dibs_claim *claim, uint32_t nodes,
                        uint32_t linger_ms, int ring, dibs_time deadline, dibs_error *err)
{
    char value[VALUE_MAX], channel[CHANNEL_MAX];
    size_t channel_len = dibs__redlock_channel(channel, claim->name, claim->name_len);
    resp_command command;
    struct outcome outcome;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_END,
                           .commands = &command,
                           .count = 1,
                           .nodes = nodes,
                           .must = asked_nodes(claim) };
    dibs__redlock_command(redlock, &command, SCRIPT_END, claim->name, claim->name_len);
    dibs__resp_bytes(&command, value, dibs__redlock_value(redlock, claim, value));
    dibs__resp_number(&command, linger_ms);
    dibs__resp_bytes(&command, channel, channel_len);
    dibs__resp_number(&command, ring);
    round.deadline = dibs__redlock_deadline(redlock, claim->lease_ms, deadline);
    int rc = run(&round, &outcome, err);
    if (rc)
        return rc == DIBS_ENOMEM ? DIBS_EUNAVAIL : rc;
    return judge(redlock, claim, __builtin_popcount(nodes), &outcome, err);
}

int
dibs__redlock_evict(struct redlock *redlock, const char *name, size_t name_len,
                    size_t *broken, dibs_time deadline, dibs_error *err)
{
    char channel[CHANNEL_MAX];
    size_t channel_len = dibs__redlock_channel(channel, name, name_len);
    resp_command command;
    struct outcome outcome;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_EVICT,
                           .commands = &command,
                           .count = 1,
                           .nodes = dibs__redlock_all(redlock),
                           .deadline = deadline };
    dibs__redlock_command(redlock, &command, SCRIPT_EVICT, name, name_len);
    dibs__resp_bytes(&command, channel, channel_len);
    int rc = run(&round, &outcome, err);
    if (rc)
        return rc;
    if (outcome.ended + outcome.not_here < redlock->majority)
        return dibs__redlock_few(redlock, DIBS_EUNAVAIL, outcome.ended + outcome.not_here,
                                 &outcome.said, err);
    *broken = outcome.ended > 0;
    return DIBS_OK;
}
