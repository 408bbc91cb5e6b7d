/* SPDX-License-Identifier: MIT */
/*
 * The keeper: one thread per client, started by the first hold that needs it. It renews
 * leases in batches and, as the reaper, goes on releasing what could not be released at
 * once. It waits for the engine; so telling of losses, which must never be late, is left to
 * the alarm (alarm.c). When what is due comes from lease.c.
 *
 * Every kept grant is in one heap, by when it is to be renewed. A grant whose renewal is on
 * its way stays there, marked `renewing`; whoever unlocks or loses it meanwhile takes it
 * out, and then the answer is ignored: after a release nothing is renewed.
 */
#include "core/keeper.h"

#include <string.h>

#define BATCH_MAX 256
/* renewals due this much later (as a part of the lease) join a batch */
#define SLACK_DIVISOR 60
#define REAP_PAUSE (50 * DIBS_MS)
#define REAP_LIMIT (500 * DIBS_MS)
#define REAP_LEAST (5 * DIBS_MS)
/* how long the reaper tries where nothing ever runs out by itself */
#define REAP_WITHOUT_LEASE (60000 * DIBS_MS)

/* ---- the heap; the keeper's mutex is held ---- */

static void
place(dibs__keeper *keeper, uint32_t at, dibs__grant *grant)
{
    keeper->heap[at] = grant;
    grant->kept_at = at + 1;
}

static void
sift_up(dibs__keeper *keeper, uint32_t at)
{
    dibs__grant *grant = keeper->heap[at];
    while (at > 0 && grant->lease.renew_at < keeper->heap[(at - 1) / 2]->lease.renew_at) {
        place(keeper, at, keeper->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(keeper, at, grant);
}

static void
sift_down(dibs__keeper *keeper, uint32_t at)
{
    dibs__grant *grant = keeper->heap[at];
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= keeper->count)
            break;
        if (child + 1 < keeper->count &&
            keeper->heap[child + 1]->lease.renew_at < keeper->heap[child]->lease.renew_at)
            child++;
        if (grant->lease.renew_at <= keeper->heap[child]->lease.renew_at)
            break;
        place(keeper, at, keeper->heap[child]);
        at = child;
    }
    place(keeper, at, grant);
}

static void
heap_push(dibs__keeper *keeper, dibs__grant *grant)
{
    assert(keeper->count < keeper->room);
    keeper->heap[keeper->count] = grant;
    sift_up(keeper, keeper->count++);
}

static void
heap_remove(dibs__keeper *keeper, dibs__grant *grant)
{
    uint32_t at = grant->kept_at - 1;
    grant->kept_at = 0;
    dibs__grant *last = keeper->heap[--keeper->count];
    if (last == grant)
        return;
    place(keeper, at, last);
    sift_up(keeper, at);
    sift_down(keeper, last->kept_at - 1);
}

static void
plan(dibs__keeper *keeper, dibs__grant *grant, dibs_time renew_at)
{
    grant->lease.renew_at = renew_at;
    sift_up(keeper, grant->kept_at - 1);
    sift_down(keeper, grant->kept_at - 1);
}

static dibs_time
first_renewal(const dibs__keeper *keeper)
{
    return keeper->count ? keeper->heap[0]->lease.renew_at : DIBS_NEVER;
}

/* ---- ringing ---- */

/* wakes the keeper if it would sleep past `when` */
static void
poke_locked(dibs *client, dibs_time when)
{
    dibs__keeper *keeper = &client->keeper;
    if (when >= keeper->sleeps_until)
        return;
    keeper->sleeps_until = when;
    keeper->own_rings++;
    dibs__bell_ring(client->session.keeper_bell);
}

/* Did anybody but core ring? Then an engine knows of a loss. */
static int
engine_rang_locked(dibs *client)
{
    dibs__keeper *keeper = &client->keeper;
    uint32_t at = dibs_bell_seen(client->session.keeper_bell);
    uint32_t rings = (at - keeper->bell_at) / 2;
    int others = rings != keeper->own_rings;
    keeper->bell_at = at;
    keeper->own_rings = 0;
    if (others)
        keeper->rang_at = dibs__now();
    return others;
}

/* ---- losing ---- */

void
dibs__keeper_lose_locked(dibs *client, dibs__grant *grant)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_time end_at = grant->lease.end_at;
    int held_too_long = end_at != DIBS_NEVER && dibs__now() >= end_at;
    heap_remove(keeper, grant);
    atomic_store(&grant->until, DIBS__LOST);
    dibs__mutex_unlock(&keeper->mutex);
    dibs__arbiter_lost(client, grant);
    /* the engine would let it: free it for others, once its owner has been told */
    if (held_too_long && !atomic_exchange(&grant->releasing, 1))
        dibs__keeper_adopt(client, grant, end_at + grant->lease.grace);
    dibs__grant_unref(grant); /* the heap's */
    dibs__mutex_lock(&keeper->mutex);
}

/* ---- renewing ---- */

struct batch {
    size_t n;
    dibs__grant *grants[BATCH_MAX];
    dibs_claim *claims[BATCH_MAX];
    int results[BATCH_MAX];
};

static void
batch_add_locked(struct batch *batch, dibs__grant *grant)
{
    dibs__grant_ref(grant);
    grant->renewing = 1;
    batch->claims[batch->n] = &grant->claim;
    batch->grants[batch->n++] = grant;
}

/* what the engine said of one grant; returns 1 if it is lost */
static int
apply_result_locked(dibs *client, dibs__grant *grant, int result, dibs_time sent)
{
    dibs_time now = dibs__now();
    dibs_time until = atomic_load(&grant->until);
    if (result == DIBS_ELOST || until == DIBS__LOST || now >= until)
        return 1;
    atomic_fetch_add_explicit(result ? &client->renewals_failed : &client->renewals, 1,
                              memory_order_relaxed);
    if (grant->renews) {
        plan(&client->keeper, grant,
             result ? dibs__lease_retry_at(&grant->lease, now, until)
                    : dibs__lease_renew_at(&grant->lease, sent));
    }
    if (result)
        return 0;
    /* fails if somebody has been told "not held" since: then that stands */
    return !atomic_compare_exchange_strong(&grant->until, &until,
                                           dibs__lease_until(&grant->lease, sent));
}

static void
finish_batch_locked(dibs *client, struct batch *batch, dibs_time sent)
{
    dibs__keeper *keeper = &client->keeper;
    for (size_t i = 0; i < batch->n; i++) {
        dibs__grant *grant = batch->grants[i];
        grant->renewing = 0;
        if (grant->kept_at && apply_result_locked(client, grant, batch->results[i], sent))
            dibs__keeper_lose_locked(client, grant);
        dibs__mutex_unlock(&keeper->mutex);
        dibs__grant_unref(grant); /* the batch's */
        dibs__mutex_lock(&keeper->mutex);
    }
    dibs__bell_ring(&keeper->batch_done);
}

static void
note_lateness(dibs *client, dibs_time lateness)
{
    int64_t ms = lateness / DIBS_MS;
    int64_t most = atomic_load_explicit(&client->lateness_max_ms, memory_order_relaxed);
    while (ms > most &&
           !atomic_compare_exchange_weak(&client->lateness_max_ms, &most, ms))
        continue;
}

static void
run_batch_locked(dibs *client, struct batch *batch, dibs_error *err)
{
    dibs__keeper *keeper = &client->keeper;
    if (batch->n == 0)
        return;
    uint32_t lease_ms = batch->claims[0]->lease_ms;
    for (size_t i = 1; i < batch->n; i++) {
        if (batch->claims[i]->lease_ms < lease_ms)
            lease_ms = batch->claims[i]->lease_ms;
    }
    dibs_time sent = dibs__now();
    dibs__mutex_unlock(&keeper->mutex);
    dibs__engine_renew(client, batch->claims, batch->results, batch->n,
                       sent + dibs__lease_io_limit(lease_ms), err);
    dibs__mutex_lock(&keeper->mutex);
    finish_batch_locked(client, batch, sent);
    batch->n = 0;
}

static void
renew_due_locked(dibs *client, struct batch *batch)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_time now = dibs__now();
    if (first_renewal(keeper) < now)
        note_lateness(client, now - first_renewal(keeper));
    while (keeper->count && batch->n < BATCH_MAX) {
        dibs__grant *grant = keeper->heap[0];
        dibs_time slack = batch->n ? grant->lease.length / SLACK_DIVISOR : 0;
        if (grant->lease.renew_at == DIBS_NEVER || grant->lease.renew_at > now + slack)
            break;
        if (grant->renewing) {
            /* its owner renews it right now */
            plan(keeper, grant, DIBS_NEVER);
            continue;
        }
        batch_add_locked(batch, grant);
        plan(keeper, grant, DIBS_NEVER); /* until the answer is there */
    }
    run_batch_locked(client, batch, NULL);
}

/* The engine rang: ask about all that are kept now. */
static void
check_all_locked(dibs *client, struct batch *batch)
{
    dibs__keeper *keeper = &client->keeper;
    uint8_t round = ++keeper->round;
    do {
        run_batch_locked(client, batch, NULL);
        for (uint32_t i = 0; i < keeper->count && batch->n < BATCH_MAX; i++) {
            dibs__grant *grant = keeper->heap[i];
            if (grant->round == round || grant->renewing)
                continue;
            grant->round = round;
            batch_add_locked(batch, grant);
        }
    } while (batch->n);
}

/* ---- reaping ---- */

static dibs__grant *
take_orphan_locked(dibs__keeper *keeper, dibs_time due)
{
    for (dibs__grant **at = &keeper->orphans; *at; at = &(*at)->next_orphan) {
        if ((*at)->retry_at <= due) {
            dibs__grant *orphan = *at;
            *at = orphan->next_orphan;
            return orphan;
        }
    }
    return NULL;
}

static void
reap_one_locked(dibs *client, dibs__grant *orphan, dibs_time deadline, int last_try)
{
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_unlock(&keeper->mutex);
    dibs__count_call(client);
    int rc = dibs__engine_release(client, &orphan->claim, 0, deadline, NULL);
    dibs__mutex_lock(&keeper->mutex);
    dibs_time now = dibs__now();
    int again = rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL;
    if (again && now < orphan->give_up_at && !last_try) {
        orphan->retry_at = now + REAP_PAUSE;
        orphan->next_orphan = keeper->orphans;
        keeper->orphans = orphan;
        return;
    }
    if (!again)
        atomic_fetch_add_explicit(&client->reaped, 1, memory_order_relaxed);
    dibs__mutex_unlock(&keeper->mutex);
    dibs__grant_unref(orphan);
    dibs__mutex_lock(&keeper->mutex);
}

/* One orphan, so that renewals are served between any two; and the call is back before the
 * next renewal is due, if that leaves it any time. */
static void
reap_due_locked(dibs *client)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_time now = dibs__now();
    dibs_time deadline = now + REAP_LIMIT;
    if (first_renewal(keeper) < deadline)
        deadline = first_renewal(keeper);
    if (deadline < now + REAP_LEAST)
        deadline = now + REAP_LEAST;
    dibs__grant *orphan = take_orphan_locked(keeper, now);
    if (orphan)
        reap_one_locked(client, orphan, deadline, 0);
}

/* ---- the thread ---- */

static dibs_time
next_due_locked(const dibs__keeper *keeper)
{
    dibs_time next = first_renewal(keeper);
    for (const dibs__grant *at = keeper->orphans; at; at = at->next_orphan) {
        if (at->retry_at < next)
            next = at->retry_at;
    }
    return next;
}

static void *
keeper_main(void *arg)
{
    dibs *client = arg;
    dibs__keeper *keeper = &client->keeper;
    struct batch batch;
    batch.n = 0;
    dibs__mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        if (engine_rang_locked(client))
            check_all_locked(client, &batch);
        renew_due_locked(client, &batch);
        reap_due_locked(client);
        dibs_time next = next_due_locked(keeper);
        uint32_t seen = keeper->bell_at;
        if (keeper->stopping || next <= dibs__now())
            continue;
        keeper->sleeps_until = next;
        dibs__mutex_unlock(&keeper->mutex);
        /* whoever rang since bell_at was read ends this sleep at once */
        (void)dibs__bell_wait(client->session.keeper_bell, seen, next);
        dibs__mutex_lock(&keeper->mutex);
        keeper->sleeps_until = 0;
    }
    dibs__mutex_unlock(&keeper->mutex);
    return NULL;
}

static int
start_locked(dibs *client, dibs_error *err)
{
    dibs__keeper *keeper = &client->keeper;
    if (keeper->running)
        return DIBS_OK;
    keeper->bell_at = dibs_bell_seen(client->session.keeper_bell);
    int rc = dibs__thread_start(&keeper->thread, "dibs-keeper", keeper_main, client, 0);
    if (rc)
        return dibs__fail(err, DIBS_ENOMEM, "cannot start the keeper's thread: %s",
                          strerror(rc));
    keeper->running = 1;
    return DIBS_OK;
}

/* ---- keeping ---- */

void
dibs__keeper_init(dibs *client)
{
    dibs__mutex_init(&client->keeper.mutex);
}

static int
make_room_locked(dibs__keeper *keeper, dibs_error *err)
{
    if (keeper->count + keeper->reserved < keeper->room)
        return DIBS_OK;
    uint32_t room = keeper->room ? keeper->room * 2 : 16;
    dibs__grant **heap = dibs__realloc(keeper->heap, room * sizeof *heap);
    if (!heap)
        return dibs__fail_memory(err);
    keeper->heap = heap;
    keeper->room = room;
    return DIBS_OK;
}

int
dibs__keeper_reserve(dibs *client, int needs_alarm, dibs_error *err)
{
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_lock(&keeper->mutex);
    int rc = start_locked(client, err);
    if (!rc && needs_alarm)
        rc = dibs__alarm_start_locked(client, err);
    if (!rc)
        rc = make_room_locked(keeper, err);
    if (!rc)
        keeper->reserved++;
    dibs__mutex_unlock(&keeper->mutex);
    return rc;
}

void
dibs__keeper_unreserve(dibs *client)
{
    dibs__mutex_lock(&client->keeper.mutex);
    client->keeper.reserved--;
    dibs__mutex_unlock(&client->keeper.mutex);
}

void
dibs__keeper_add(dibs *client, dibs__grant *grant)
{
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_lock(&keeper->mutex);
    keeper->reserved--;
    if (!grant->kept_at) {
        dibs__grant_ref(grant);
        atomic_store_explicit(&grant->kept, 1, memory_order_release);
        /* it may have ended since it was asked for, when it was not kept yet: ask again */
        if (grant->lease.length && keeper->rang_at > grant->claim.sent)
            grant->lease.renew_at = keeper->rang_at;
        heap_push(keeper, grant);
        poke_locked(client, grant->lease.renew_at);
        dibs__alarm_poke_locked(client, atomic_load(&grant->until));
    }
    dibs__mutex_unlock(&keeper->mutex);
}

int
dibs__keeper_ensure(dibs *client, dibs__grant *grant, dibs_error *err)
{
    /* a break before now was rung to nobody, so the alarm has to look */
    int rc = dibs__keeper_reserve(client, 1, err);
    if (rc)
        return rc;
    dibs__keeper_add(client, grant);
    if (!dibs__grant_stands(grant)) {
        dibs__mutex_lock(&client->keeper.mutex);
        dibs__alarm_poke_locked(client, 0);
        dibs__mutex_unlock(&client->keeper.mutex);
    }
    return DIBS_OK;
}

void
dibs__keeper_remove(dibs *client, dibs__grant *grant)
{
    dibs__keeper *keeper = &client->keeper;
    /* without leases hardly anything is kept: spare that the mutex */
    if (!atomic_load_explicit(&grant->kept, memory_order_acquire))
        return;
    dibs__mutex_lock(&keeper->mutex);
    int was_kept = grant->kept_at != 0;
    if (was_kept)
        heap_remove(keeper, grant);
    dibs__mutex_unlock(&keeper->mutex);
    if (was_kept)
        dibs__grant_unref(grant);
}

/* brings the end forward, never back */
static void
end_sooner_locked(dibs *client, dibs__grant *grant, dibs_time sooner)
{
    dibs_time until = atomic_load(&grant->until);
    while (until != DIBS__LOST && sooner < until &&
           !atomic_compare_exchange_weak(&grant->until, &until, sooner))
        continue;
    dibs__alarm_poke_locked(client, sooner);
}

void
dibs__keeper_end_at(dibs *client, dibs__grant *grant, dibs_time end_at)
{
    dibs__mutex_lock(&client->keeper.mutex);
    if (end_at < grant->lease.end_at)
        grant->lease.end_at = end_at;
    end_sooner_locked(client, grant, end_at);
    dibs__mutex_unlock(&client->keeper.mutex);
}

/* ---- renewing on the caller's thread ---- */

/* Two renewals of one claim must not cross: the server would believe the one that comes
 * last, and we the longer one. Returns 0 if the grant is not kept any more. */
static int
wait_for_renewal_locked(dibs__keeper *keeper, const dibs__grant *grant)
{
    while (grant->renewing) {
        uint32_t seen = dibs_bell_seen(&keeper->batch_done);
        dibs__mutex_unlock(&keeper->mutex);
        (void)dibs__bell_wait(&keeper->batch_done, seen, DIBS_NEVER);
        dibs__mutex_lock(&keeper->mutex);
    }
    return grant->kept_at != 0;
}

static void
set_lease_locked(dibs *client, dibs__grant *grant, uint32_t lease_ms)
{
    if (!lease_ms || !grant->lease.length)
        return;
    grant->claim.lease_ms = lease_ms;
    dibs__lease_set_length(&grant->lease, lease_ms);
    /* the server may follow a shorter lease even if its reply is lost: so do we, at once */
    end_sooner_locked(client, grant, dibs__lease_until(&grant->lease, dibs__now()));
}

int
dibs__keeper_renew(dibs *client, dibs__grant *grant, uint32_t lease_ms, dibs_error *err)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_claim *claims[1] = { &grant->claim };
    int result = DIBS_ELOST;
    dibs__mutex_lock(&keeper->mutex);
    if (wait_for_renewal_locked(keeper, grant)) {
        struct batch one;
        one.n = 0;
        set_lease_locked(client, grant, lease_ms);
        batch_add_locked(&one, grant);
        run_batch_locked(client, &one, err);
        result = one.results[0];
        if (grant->kept_at)
            poke_locked(client, grant->lease.renew_at);
    }
    dibs__mutex_unlock(&keeper->mutex);
    /* without leases nothing need be kept: only ask */
    if (result == DIBS_ELOST && !dibs__has(client, DIBS_CAP_LEASE) &&
        dibs__grant_stands(grant))
        dibs__engine_renew(client, claims, &result, 1, dibs__now(), err);
    if (result == DIBS_ELOST)
        atomic_store(&grant->until, DIBS__LOST);
    return result == DIBS_OK && !dibs__grant_stands(grant) ? DIBS_ELOST : result;
}

/* ---- adopting, and stopping ---- */

void
dibs__keeper_adopt(dibs *client, dibs__grant *grant, dibs_time when)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_time now = dibs__now();
    dibs__grant_ref(grant);
    dibs__mutex_lock(&keeper->mutex);
    grant->retry_at = when;
    grant->give_up_at =
        now + (dibs__has(client, DIBS_CAP_LEASE) ? grant->claim.lease_ms * DIBS_MS
                                                 : REAP_WITHOUT_LEASE);
    grant->next_orphan = keeper->orphans;
    keeper->orphans = grant;
    (void)start_locked(client, NULL);
    poke_locked(client, when);
    dibs__mutex_unlock(&keeper->mutex);
}

void
dibs__keeper_stop(dibs *client)
{
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_lock(&keeper->mutex);
    keeper->stopping = 1;
    int running = keeper->running;
    keeper->own_rings++;
    dibs__bell_ring(client->session.keeper_bell);
    dibs__mutex_unlock(&keeper->mutex);
    if (running)
        dibs__thread_join(&keeper->thread);
    dibs__alarm_stop(client);
    /* what could not be released yet gets one more try */
    dibs__mutex_lock(&keeper->mutex);
    dibs_time deadline = dibs__now() + REAP_LIMIT;
    dibs__grant *orphan;
    while ((orphan = take_orphan_locked(keeper, DIBS_NEVER)))
        reap_one_locked(client, orphan, deadline, 1);
    while (keeper->count) {
        dibs__grant *grant = keeper->heap[0];
        heap_remove(keeper, grant);
        dibs__mutex_unlock(&keeper->mutex);
        dibs__grant_unref(grant);
        dibs__mutex_lock(&keeper->mutex);
    }
    dibs__mutex_unlock(&keeper->mutex);
}
