/* SPDX-License-Identifier: MIT */
/*
 * The arbiter: what threads of one process settle among themselves.
 *
 * Re-entry. An owner that has a grant gets another hold of it, by counting.
 *
 * One asks for all. Where asking the engine costs a round trip, threads that want exclusive
 * use of one name queue here, and only the first of them asks: a thousand threads cost the
 * server one waiter. The seat is then `occupied`.
 *
 * Hand-over. A release passes the grant on to the next thread in line, with the next token
 * of the block that came with it, until a budget of count and time is used up: then the
 * engine is asked again, so that other processes have their turn. Never is a grant passed
 * on whose lease is nearly over.
 *
 * Sharers and permits are not queued here: each has its own claim, because the engine can
 * serve several of them at once. On engines as cheap as memory (DIBS_CAP_DIRECT) nobody is.
 */
#include "core/core.h"

#include <string.h>

#include "core/seat.h"

/* a grant with less left than this is not passed on: the engine is asked for a fresh one */
#define HAND_OVER_LEAST (20 * DIBS_MS)

/* ---- small steps; the shard's mutex is held ---- */

static int
same_owner(const dibs__owner *a, const dibs__owner *b)
{
    if (a->text || b->text)
        return a->text && b->text && strcmp(a->text, b->text) == 0;
    return a->thread == b->thread;
}

static dibs__grant **
list_of(dibs__seat *seat, const dibs__grant *grant)
{
    return grant->queued ? &seat->asking : &seat->grants;
}

static void
list_locked(dibs__seat *seat, dibs__grant *grant)
{
    dibs__grant **list = list_of(seat, grant);
    grant->prev = NULL;
    grant->next = *list;
    if (*list)
        (*list)->prev = grant;
    *list = grant;
}

static void
unlist_locked(dibs__seat *seat, dibs__grant *grant)
{
    if (grant->prev)
        grant->prev->next = grant->next;
    else
        *list_of(seat, grant) = grant->next;
    if (grant->next)
        grant->next->prev = grant->prev;
}

static void
queue_locked(dibs__seat *seat, dibs__waiter *waiter)
{
    waiter->next = NULL;
    waiter->prev = seat->last;
    if (seat->last)
        seat->last->next = waiter;
    else
        seat->first = waiter;
    seat->last = waiter;
}

static void
unqueue_locked(dibs__seat *seat, dibs__waiter *waiter)
{
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        seat->first = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    else
        seat->last = waiter->prev;
}

static void
attach_locked(dibs_hold *hold, dibs__grant *grant)
{
    if (hold != &grant->hold)
        dibs__grant_ref(grant);
    hold->grant = grant;
    hold->next = grant->holds;
    grant->holds = hold;
}

/* The waiter lives on another thread's stack and may be gone as soon as the mutex is free:
 * it is rung under the mutex. */
static void
settle_locked(dibs__seat *seat, dibs__waiter *waiter, int verdict)
{
    unqueue_locked(seat, waiter);
    waiter->verdict = verdict;
    dibs__bell_ring(&waiter->bell);
}

/* our exclusive use of the name is over: the next thread in line asks the engine */
static void
next_asks_locked(dibs__seat *seat)
{
    if (seat->first)
        settle_locked(seat, seat->first, DIBS__LEAD);
    else
        seat->occupied = 0;
}

static void
stop_occupying_locked(dibs__grant *grant)
{
    if (!grant->occupies)
        return;
    grant->occupies = 0;
    next_asks_locked(grant->seat);
}

/* out of the seat, and with it goes the list's use of the grant */
static void
leave_seat_locked(dibs__shard *shard, dibs__grant *grant)
{
    unlist_locked(grant->seat, grant);
    stop_occupying_locked(grant);
    dibs__seat_put_locked(shard, grant->seat);
    grant->left = 1;
}

/* ---- re-entry ---- */

static dibs__grant *
find_own_locked(const dibs__seat *seat, const dibs__owner *owner)
{
    for (dibs__grant *grant = seat->grants; grant; grant = grant->next) {
        if (atomic_load_explicit(&grant->phase, memory_order_acquire) == DIBS__GRANTED &&
            grant->claim.mode != DIBS_PERMITS && same_owner(&grant->owner, owner) &&
            dibs__grant_stands(grant))
            return grant;
    }
    return NULL;
}

/* DIBS_OK: the hold is attached. DIBS_EBUSY: nothing to re-enter. DIBS_EDEADLOCK. */
static int
reenter_locked(dibs__shard *shard, dibs__seat *seat, const dibs_request *request,
               dibs_hold *hold, const dibs__owner *owner)
{
    if (request->mode == DIBS_PERMITS || (request->flags & DIBS_NO_REENTRY))
        return DIBS_EBUSY;
    dibs__grant *own = find_own_locked(seat, owner);
    if (!own)
        return DIBS_EBUSY;
    int shared = own->claim.mode == DIBS_SHARED || own->sharing;
    if (shared && request->mode == DIBS_EXCLUSIVE)
        return DIBS_EDEADLOCK;
    hold->token = own->holds->token;
    hold->previous = own->holds->previous;
    attach_locked(hold, own);
    shard->reentered++;
    return DIBS_OK;
}

int
dibs__arbiter_reenter(dibs *client, const dibs_request *request, dibs__grant *asking)
{
    dibs__shard *shard = dibs__shard_of(client, asking->seat);
    dibs__mutex_lock(&shard->mutex);
    /* off the grant that was being asked for, onto the one that is there */
    asking->holds = NULL;
    int rc = reenter_locked(shard, asking->seat, request, &asking->hold, &asking->owner);
    if (rc)
        asking->holds = &asking->hold;
    dibs__mutex_unlock(&shard->mutex);
    return rc;
}

/* ---- entering ---- */

/* serials of different shards never meet: the shard's number is in their low bits */
static uint64_t
new_serial_locked(const dibs *client, dibs__shard *shard)
{
    return ++shard->serials * DIBS__SHARDS + (uint64_t)(shard - client->shards);
}

static void
seat_grant_locked(dibs *client, dibs__shard *shard, dibs__seat *seat, dibs__grant *grant)
{
    grant->claim.name = seat->name;
    grant->claim.name_len = seat->name_len;
    grant->claim.name_hash = seat->hash;
    grant->claim.serial = new_serial_locked(client, shard);
    dibs__grant_count(grant, 2); /* the handle's and the list's; it is still ours alone */
    grant->queued = seat->grants != NULL;
    list_locked(seat, grant);
    /* attached before the engine is asked, so that a grant has nothing left to do */
    attach_locked(&grant->hold, grant);
}

/* Queues behind our own threads. Called and returns with the mutex held. */
static int
wait_here_locked(dibs *client, dibs__shard *shard, dibs__seat *seat,
                 const dibs_request *request, dibs__waiter *waiter, dibs_time deadline)
{
    queue_locked(seat, waiter);
    atomic_fetch_add_explicit(&client->waited, 1, memory_order_relaxed);
    for (;;) {
        uint32_t seen = dibs_bell_seen(&waiter->bell);
        dibs__mutex_unlock(&shard->mutex);
        int wake = dibs__wait(client, request->cancel, &waiter->bell, seen, deadline);
        dibs__mutex_lock(&shard->mutex);
        if (waiter->verdict != DIBS__QUEUED)
            return DIBS_OK;
        int rc = DIBS_EBUSY;
        if (waiter->wanted->owner.text)
            rc = reenter_locked(shard, seat, request, &waiter->wanted->hold,
                                &waiter->wanted->owner);
        if (rc == DIBS_EBUSY && wake == DIBS__RUNG)
            continue;
        unqueue_locked(seat, waiter);
        if (rc != DIBS_EBUSY)
            return rc;
        return wake == DIBS__CANCELED ? DIBS_ECANCELED : DIBS_ETIMEDOUT;
    }
}

/* for engines that are asked by one thread at a time: DIBS_OK with *entry set */
static int
enter_in_turn_locked(int *entry, dibs *client, dibs__shard *shard, dibs__seat *seat,
                     const dibs_request *request, dibs__grant *grant, dibs_time deadline)
{
    if (seat->occupied && request->wait_ms == DIBS_WAIT_NONE)
        return DIBS_EBUSY;
    if (seat->occupied) {
        dibs__waiter waiter = { .wanted = grant };
        int rc = wait_here_locked(client, shard, seat, request, &waiter, deadline);
        if (rc)
            return rc;
        if (waiter.verdict != DIBS__LEAD) {
            *entry = waiter.verdict == DIBS__HANDED ? DIBS__ENTRY_HANDED
                                                    : DIBS__ENTRY_REENTERED;
            return DIBS_OK;
        }
    }
    seat->occupied = 1;
    grant->occupies = 1;
    *entry = DIBS__ENTRY_ASK;
    return DIBS_OK;
}

int
dibs__arbiter_enter(int *entry, dibs *client, const dibs_request *request,
                    size_t name_len, dibs__grant *grant, dibs_time deadline)
{
    dibs__shard *shard;
    dibs__seat *seat = dibs__seat_take(client, &shard, request->name, name_len, grant);
    if (!seat)
        return DIBS_ENOMEM;
    int rc = seat->grants
                 ? reenter_locked(shard, seat, request, &grant->hold, &grant->owner)
                 : DIBS_EBUSY;
    *entry = rc ? DIBS__ENTRY_ASK : DIBS__ENTRY_REENTERED;
    if (rc == DIBS_EBUSY) {
        rc = DIBS_OK;
        if (request->mode == DIBS_EXCLUSIVE && !dibs__has(client, DIBS_CAP_DIRECT))
            rc = enter_in_turn_locked(entry, client, shard, seat, request, grant,
                                      deadline);
    }
    if (rc == DIBS_OK) {
        grant->hold.counted = 1;
        shard->handles++;
    }
    if (rc == DIBS_OK && *entry == DIBS__ENTRY_ASK)
        seat_grant_locked(client, shard, seat, grant);
    else
        dibs__seat_put_locked(shard, seat);
    dibs__mutex_unlock(&shard->mutex);
    return rc;
}

/* threads of the same textual owner may now re-enter: they look when rung */
static void
ring_same_owner_locked(dibs__seat *seat, const dibs__grant *grant)
{
    for (dibs__waiter *waiter = seat->first; waiter; waiter = waiter->next) {
        if (same_owner(&waiter->wanted->owner, &grant->owner))
            dibs__bell_ring(&waiter->bell);
    }
    for (dibs__grant *other = seat->asking; other; other = other->next) {
        if (same_owner(&other->owner, &grant->owner))
            dibs__bell_ring(other->claim.bell);
    }
}

void
dibs__arbiter_granted(dibs *client, dibs__grant *grant)
{
    atomic_store_explicit(&grant->phase, DIBS__GRANTED, memory_order_release);
    /* alone in its seat it is in the right list already, and nobody waits for it */
    if (!grant->queued && !grant->owner.text)
        return;
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs__mutex_lock(&shard->mutex);
    if (grant->queued) {
        unlist_locked(grant->seat, grant);
        grant->queued = 0;
        list_locked(grant->seat, grant);
    }
    if (grant->owner.text)
        ring_same_owner_locked(grant->seat, grant);
    dibs__mutex_unlock(&shard->mutex);
}

void
dibs__arbiter_gave_up(dibs *client, dibs__grant *grant)
{
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs__mutex_lock(&shard->mutex);
    grant->holds = NULL;
    shard->calls += grant->calls;
    leave_seat_locked(shard, grant);
    dibs__mutex_unlock(&shard->mutex);
    dibs__grant_unref(grant); /* the list's */
}

/* ---- leaving ---- */

static int
same_terms(dibs *client, const dibs__grant *have, const dibs__grant *wanted)
{
    /* leases change under the keeper's mutex */
    dibs__mutex_lock(&client->keeper.mutex);
    int same = have->claim.lease_ms == wanted->claim.lease_ms &&
               have->lease.grace_ms == wanted->lease.grace_ms &&
               have->lease.end_at == DIBS_NEVER && have->renews == wanted->renews;
    dibs__mutex_unlock(&client->keeper.mutex);
    return same && have->claim.flags == wanted->claim.flags;
}

/* Is the next thread in line served as well by this grant as by one of its own, and is
 * there enough left of it? */
static int
may_hand_over_locked(dibs *client, dibs__grant *grant)
{
    const dibs__waiter *next = grant->seat->first;
    if (!grant->occupies || !next || grant->sharing)
        return 0;
    if (!same_terms(client, grant, next->wanted))
        return 0;
    if (grant->handed >= grant->claim.token_room ||
        grant->handed + 1 >= client->options.handover_max)
        return 0;
    dibs_time now = dibs__now();
    dibs_time until = atomic_load(&grant->until);
    return now - grant->granted_at < client->options.handover_ms * DIBS_MS &&
           until != DIBS__LOST && until - now > HAND_OVER_LEAST;
}

/* The next thread has it; returns the bell that it sleeps on, or NULL if it does not. */
static dibs_bell *
hand_over_locked(dibs__shard *shard, dibs__grant *grant)
{
    dibs__waiter *next = grant->seat->first;
    dibs__owner before = grant->owner;
    grant->owner = next->wanted->owner;
    next->wanted->owner = before;
    grant->handed++;
    dibs_hold *hold = &next->wanted->hold;
    hold->token = grant->claim.token + grant->handed;
    hold->previous = DIBS_PREVIOUS_CLEAN;
    attach_locked(hold, grant);
    shard->handed_over++;
    unqueue_locked(grant->seat, next);
    next->verdict = DIBS__HANDED;
    return dibs__bell_strike(&next->bell) ? &next->bell : NULL;
}

static void
detach_locked(dibs_hold *hold)
{
    dibs_hold **at = &hold->grant->holds;
    while (*at && *at != hold)
        at = &(*at)->next;
    if (*at)
        *at = hold->next;
}

int
dibs__arbiter_leave(dibs *client, dibs_hold *hold, int how)
{
    dibs__grant *grant = hold->grant;
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs_bell *sleeper = NULL;
    int last = 0;
    dibs__mutex_lock(&shard->mutex);
    shard->released++;
    if (how & DIBS__LEAVE_FREE) {
        shard->handles--;
        hold->counted = 0;
    }
    detach_locked(hold);
    if (grant->holds)
        goto out;
    if ((how & DIBS__LEAVE_HAND_OVER) && may_hand_over_locked(client, grant)) {
        sleeper = hand_over_locked(shard, grant);
        goto out;
    }
    last = 1;
    shard->ended++;
    shard->calls += grant->calls + (how & DIBS__LEAVE_TELL ? 1 : 0);
    atomic_store_explicit(&grant->phase, DIBS__ENDING, memory_order_release);
    /* where nobody queues here, nobody need wait until the engine has been told */
    if (dibs__has(client, DIBS_CAP_DIRECT))
        leave_seat_locked(shard, grant);
out:
    dibs__mutex_unlock(&shard->mutex);
    if (sleeper)
        dibs__bell_wake(sleeper);
    return last;
}

void
dibs__arbiter_vacate(dibs *client, dibs__grant *grant)
{
    if (!grant->left) {
        dibs__shard *shard = dibs__shard_of(client, grant->seat);
        dibs__mutex_lock(&shard->mutex);
        leave_seat_locked(shard, grant);
        dibs__mutex_unlock(&shard->mutex);
    }
    /* the list's use; if only the handle's is left, nobody else can get at it */
    if (atomic_load_explicit(&grant->refs, memory_order_acquire) == 2)
        dibs__grant_count(grant, 1);
    else
        dibs__grant_unref(grant);
}

void
dibs__arbiter_share(dibs *client, dibs__grant *grant)
{
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs__mutex_lock(&shard->mutex);
    stop_occupying_locked(grant);
    dibs__mutex_unlock(&shard->mutex);
}

void
dibs__arbiter_unshare(dibs *client, dibs__grant *grant, int before)
{
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs__mutex_lock(&shard->mutex);
    grant->sharing = (uint8_t)before;
    dibs__mutex_unlock(&shard->mutex);
}

/* ---- losing and closing ---- */

void
dibs__arbiter_lost(dibs *client, dibs__grant *grant)
{
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs_hold *to_notify = NULL;
    dibs__mutex_lock(&shard->mutex);
    for (dibs_hold *hold = grant->holds; hold; hold = hold->next) {
        if (dibs__hold_lose(hold)) {
            hold->next_told = to_notify;
            to_notify = hold;
        }
    }
    stop_occupying_locked(grant);
    dibs__mutex_unlock(&shard->mutex);
    if (to_notify)
        dibs__hold_notify(client, to_notify);
}

static dibs__grant *
take_any_locked(dibs__shard *shard)
{
    for (uint32_t i = 0; i <= shard->mask; i++) {
        for (dibs__seat *seat = shard->buckets[i]; seat; seat = seat->next) {
            for (dibs__grant *grant = seat->grants; grant; grant = grant->next) {
                if (atomic_load(&grant->phase) == DIBS__GRANTED)
                    return grant;
            }
        }
    }
    return NULL;
}

dibs__grant *
dibs__arbiter_take_any(dibs *client)
{
    for (size_t i = 0; i < DIBS__SHARDS; i++) {
        dibs__shard *shard = &client->shards[i];
        dibs__mutex_lock(&shard->mutex);
        dibs__grant *grant = take_any_locked(shard);
        if (grant) {
            dibs__grant_ref(grant);
            atomic_store(&grant->phase, DIBS__ENDING);
            for (dibs_hold *hold = grant->holds; hold; hold = hold->next)
                atomic_store(&hold->state, DIBS__RELEASED);
            grant->holds = NULL;
            shard->ended++;
        }
        dibs__mutex_unlock(&shard->mutex);
        if (grant)
            return grant;
    }
    return NULL;
}
