/* SPDX-License-Identifier: MIT */
/*
 * Sleeping, and being woken by whoever cancels. A sleeper joins the cancellers that concern
 * it for the time of one sleep; firing one rings the bells of all that have joined.
 */
#include "core/core.h"

void
dibs__canceller_init(dibs_canceller *canceller)
{
    dibs__mutex_init(&canceller->mutex);
}

int
dibs_canceller_new(dibs_canceller **out, dibs_error *err)
{
    if (!out)
        return dibs__fail(err, DIBS_EINVAL, "out is NULL");
    dibs_canceller *canceller = dibs__alloc(sizeof *canceller);
    if (!canceller)
        return dibs__fail_memory(err);
    dibs__canceller_init(canceller);
    *out = canceller;
    return DIBS_OK;
}

void
dibs_canceller_free(dibs_canceller *canceller)
{
    if (!canceller)
        return;
    assert(!canceller->first);
    dibs__mutex_done(&canceller->mutex);
    dibs__free(canceller);
}

void
dibs_cancel(dibs_canceller *canceller)
{
    UNCANCELLED;
    if (!canceller)
        return;
    dibs__mutex_lock(&canceller->mutex);
    atomic_store(&canceller->fired, 1);
    for (dibs__cancel_link *link = canceller->first; link; link = link->next) {
        dibs__bell_ring(link->bell);
        if (link->claim)
            dibs__engine_rouse(link->client, link->claim);
    }
    dibs__mutex_unlock(&canceller->mutex);
}

static void
join(dibs_canceller *canceller, dibs__cancel_link *link, const dibs__cancel_link *sleeper)
{
    if (!canceller)
        return;
    *link = *sleeper;
    dibs__mutex_lock(&canceller->mutex);
    link->prev = NULL;
    link->next = canceller->first;
    if (canceller->first)
        canceller->first->prev = link;
    canceller->first = link;
    dibs__mutex_unlock(&canceller->mutex);
}

static void
part(dibs_canceller *canceller, dibs__cancel_link *link)
{
    if (!canceller)
        return;
    dibs__mutex_lock(&canceller->mutex);
    if (link->prev)
        link->prev->next = link->next;
    else
        canceller->first = link->next;
    if (link->next)
        link->next->prev = link->prev;
    dibs__mutex_unlock(&canceller->mutex);
}

int
dibs__cancel_fired(const dibs *client, const dibs_canceller *cancel)
{
    for (; cancel; cancel = cancel->outer) {
        if (atomic_load(&cancel->fired))
            return 1;
    }
    return atomic_load(&client->closing.fired);
}

static int
sleep_as(const dibs__cancel_link *sleeper, dibs_canceller *cancel, uint32_t seen,
         dibs_time deadline)
{
    dibs__cancel_link mine, outer_mine, closing;
    dibs_canceller *outer = cancel ? cancel->outer : NULL;
    dibs *client = sleeper->client;
    int rung = 0;
    join(cancel, &mine, sleeper);
    join(outer, &outer_mine, sleeper);
    join(&client->closing, &closing, sleeper);
    /* whoever fires after this look finds our bell */
    if (!dibs__cancel_fired(client, cancel)) {
        if (sleeper->claim)
            dibs__engine_sleep(client, sleeper->claim, deadline);
        rung = dibs__bell_wait(sleeper->bell, seen, deadline);
    }
    part(&client->closing, &closing);
    part(outer, &outer_mine);
    part(cancel, &mine);
    if (dibs__cancel_fired(client, cancel))
        return DIBS__CANCELED;
    return rung ? DIBS__RUNG : DIBS__TIMED_OUT;
}

int
dibs__wait(dibs *client, dibs_canceller *cancel, dibs_bell *bell, uint32_t seen,
           dibs_time deadline)
{
    const dibs__cancel_link sleeper = { .bell = bell, .client = client };
    return sleep_as(&sleeper, cancel, seen, deadline);
}

int
dibs__wait_claim(dibs *client, dibs_canceller *cancel, dibs_claim *claim,
                 dibs_time deadline)
{
    const dibs__cancel_link sleeper = { .bell = claim->bell,
                                        .client = client,
                                        .claim = client->engine->sleep ? claim : NULL };
    return sleep_as(&sleeper, cancel, claim->seen, deadline);
}
