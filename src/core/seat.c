/* SPDX-License-Identifier: MIT */
/*
 * Seats: the names in use in this process, in hash tables that are cut into shards so that
 * threads with different names do not meet. What happens in a seat is in arbiter.c.
 */
#include "core/core.h"

#include <stddef.h>
#include <string.h>

#include "core/seat.h"

#define FIRST_BUCKETS 16

int
dibs__arbiter_init(dibs *client, dibs_error *err)
{
    for (size_t i = 0; i < DIBS__SHARDS; i++) {
        dibs__shard *shard = &client->shards[i];
        dibs__mutex_init(&shard->mutex);
        shard->buckets = dibs__alloc(FIRST_BUCKETS * sizeof *shard->buckets);
        shard->mask = FIRST_BUCKETS - 1;
        if (!shard->buckets)
            return dibs__fail_memory(err);
    }
    return DIBS_OK;
}

void
dibs__arbiter_done(dibs *client)
{
    for (size_t i = 0; i < DIBS__SHARDS; i++) {
        dibs__free(client->shards[i].buckets);
        dibs__mutex_done(&client->shards[i].mutex);
    }
}

static dibs__shard *
shard_of_hash(dibs *client, uint64_t hash)
{
    /* the low bits choose the bucket, so these choose the shard */
    return &client->shards[hash >> 32 & (DIBS__SHARDS - 1)];
}

dibs__shard *
dibs__shard_of(dibs *client, const dibs__seat *seat)
{
    return shard_of_hash(client, seat->hash);
}

static void
grow_locked(dibs__shard *shard)
{
    uint32_t mask = shard->mask * 2 + 1;
    dibs__seat **wider = dibs__alloc((mask + (size_t)1) * sizeof *wider);
    if (!wider)
        return; /* longer chains, nothing worse */
    for (uint32_t i = 0; i <= shard->mask; i++) {
        dibs__seat *seat, *next;
        for (seat = shard->buckets[i]; seat; seat = next) {
            next = seat->next;
            seat->next = wider[seat->hash & mask];
            wider[seat->hash & mask] = seat;
        }
    }
    dibs__free(shard->buckets);
    shard->buckets = wider;
    shard->mask = mask;
}

dibs__grant *
dibs__home_of(dibs__seat *seat)
{
    return (dibs__grant *)(void *)((char *)seat - offsetof(dibs__grant, own_seat));
}

/* makes the seat of a name in the grant that is the first to use it */
static dibs__seat *
add_locked(dibs__shard *shard, const char *name, size_t len, uint64_t hash,
           dibs__grant *grant)
{
    dibs__seat *seat = &grant->own_seat;
    char *copy = grant->short_name;
    if (len >= sizeof grant->short_name)
        copy = dibs__alloc(len + 1); /* freed with the grant */
    if (!copy)
        return NULL;
    memcpy(copy, name, len); /* what follows it is zero */
    seat->name = copy;
    seat->name_len = (uint16_t)len;
    seat->hash = hash;
    if (shard->count > shard->mask)
        grow_locked(shard);
    seat->next = shard->buckets[hash & shard->mask];
    shard->buckets[hash & shard->mask] = seat;
    shard->count++;
    return seat;
}

dibs__seat *
dibs__seat_take(dibs *client, dibs__shard **shard, const char *name, size_t len,
                dibs__grant *grant)
{
    uint64_t hash = dibs__hash(name, len);
    *shard = shard_of_hash(client, hash);
    dibs__mutex_lock(&(*shard)->mutex);
    dibs__seat *seat = (*shard)->buckets[hash & (*shard)->mask];
    while (seat && !(seat->hash == hash && seat->name_len == len &&
                     memcmp(seat->name, name, len) == 0))
        seat = seat->next;
    if (seat)
        dibs__grant_ref(dibs__home_of(seat));
    else
        seat = add_locked(*shard, name, len, hash, grant);
    if (!seat) {
        dibs__mutex_unlock(&(*shard)->mutex);
        return NULL;
    }
    seat->users++;
    grant->seat = seat;
    return seat;
}

void
dibs__seat_put_locked(dibs__shard *shard, dibs__seat *seat)
{
    assert(seat->users > 0);
    if (--seat->users)
        return;
    dibs__seat **at = &shard->buckets[seat->hash & shard->mask];
    while (*at != seat)
        at = &(*at)->next;
    *at = seat->next;
    shard->count--;
}

/* ---- handles ---- */

int
dibs__arbiter_forget(dibs *client, const dibs__seat *seat)
{
    dibs__shard *shard = dibs__shard_of(client, seat);
    dibs__mutex_lock(&shard->mutex);
    int closed = client->closed;
    if (!closed)
        shard->handles--;
    dibs__mutex_unlock(&shard->mutex);
    /* whoever comes to zero is the last to have touched any mutex */
    return closed && atomic_fetch_sub(&client->handles_left, 1) == 1;
}

int
dibs__arbiter_close(dibs *client)
{
    uint64_t left = 0;
    for (size_t i = 0; i < DIBS__SHARDS; i++)
        dibs__mutex_lock(&client->shards[i].mutex);
    for (size_t i = 0; i < DIBS__SHARDS; i++)
        left += client->shards[i].handles;
    client->closed = 1;
    /* one more, for ourselves: we still have the mutexes */
    atomic_store(&client->handles_left, left + 1);
    for (size_t i = 0; i < DIBS__SHARDS; i++)
        dibs__mutex_unlock(&client->shards[i].mutex);
    return atomic_fetch_sub(&client->handles_left, 1) == 1;
}

/* how many grants of a shard are in this phase */
static uint64_t
count_phase_locked(const dibs__shard *shard, int phase)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= shard->mask; i++) {
        for (const dibs__seat *seat = shard->buckets[i]; seat; seat = seat->next) {
            for (const dibs__grant *at = seat->grants; at; at = at->next)
                count += atomic_load(&at->phase) == phase;
            for (const dibs__grant *at = seat->asking; at; at = at->next)
                count += atomic_load(&at->phase) == phase;
        }
    }
    return count;
}

int
dibs__arbiter_asking(dibs *client)
{
    uint64_t asking = 0;
    for (size_t i = 0; i < DIBS__SHARDS; i++) {
        dibs__mutex_lock(&client->shards[i].mutex);
        asking += count_phase_locked(&client->shards[i], DIBS__ASKING);
        dibs__mutex_unlock(&client->shards[i].mutex);
    }
    return asking != 0;
}

void
dibs__arbiter_count(dibs_stats *out, dibs *client)
{
    for (size_t i = 0; i < DIBS__SHARDS; i++) {
        dibs__shard *shard = &client->shards[i];
        dibs__mutex_lock(&shard->mutex);
        uint64_t granted = count_phase_locked(shard, DIBS__GRANTED);
        out->acquired += shard->ended + granted + shard->handed_over;
        out->reentered += shard->reentered;
        out->handed_over += shard->handed_over;
        out->released += shard->released;
        out->held_now += granted;
        out->engine_calls += shard->calls;
        dibs__mutex_unlock(&shard->mutex);
    }
}
