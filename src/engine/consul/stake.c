/* SPDX-License-Identifier: MIT */
/* Stakes: what is known of the claims of this client. See claim.h. */
#include "claim.h"

#define BUCKETS 256

struct stakes {
    pthread_mutex_t mutex;
    struct stake *buckets[BUCKETS];
};

int
dibs__consul_stakes_open(struct consul *consul)
{
    struct stakes *stakes = consul->host->alloc(sizeof *stakes);
    if (!stakes)
        return DIBS_ENOMEM;
    pthread_mutex_init(&stakes->mutex, NULL);
    consul->stakes = stakes;
    return DIBS_OK;
}

static void
free_memory(const struct consul *consul, struct stake *stake)
{
    for (struct past *at = stake->past, *next; at; at = next) {
        next = at->next;
        consul->host->free(at);
    }
    consul->host->free(stake);
}

/* All else that its claims had goes with the client, so this is memory only. */
void
dibs__consul_stakes_close(struct consul *consul, int forked)
{
    struct stakes *stakes = consul->stakes;
    for (int i = 0; stakes && i < BUCKETS; i++) {
        for (struct stake *at = stakes->buckets[i], *next; at; at = next) {
            next = at->next;
            free_memory(consul, at);
        }
    }
    /* in a child somebody of the parent may have it for ever */
    if (stakes && !forked)
        pthread_mutex_destroy(&stakes->mutex);
    consul->host->free(stakes);
    consul->stakes = NULL;
}

/* ---- finding and making ---- */

static struct stake **
find_locked(struct stakes *stakes, uint64_t serial)
{
    struct stake **at = &stakes->buckets[serial % BUCKETS];
    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    return at;
}

struct stake *
dibs__consul_stake_find(struct consul *consul, const dibs_claim *claim)
{
    struct stakes *stakes = consul->stakes;
    pthread_mutex_lock(&stakes->mutex);
    struct stake *stake = *find_locked(stakes, claim->serial);
    if (stake)
        stake->users++;
    pthread_mutex_unlock(&stakes->mutex);
    return stake;
}

static struct stake *
make(const struct consul *consul, const dibs_claim *claim)
{
    uint32_t count = claim->mode == DIBS_OBSERVE ? 0 : claim->permits;
    struct stake *stake =
        consul->host->alloc(sizeof *stake + count * sizeof *stake->seats);
    if (!stake)
        return NULL;
    stake->serial = claim->serial;
    stake->name_hash = claim->name_hash;
    stake->users = 2; /* the table, and who has called for it */
    stake->count = count;
    for (uint32_t i = 0; i < count; i++)
        stake->seats[i].place = -1;
    if (claim->mode == DIBS_SHARED)
        atomic_store(&stake->flags, STAKE_SHARED);
    return stake;
}

struct stake *
dibs__consul_stake_take(struct consul *consul, const dibs_claim *claim)
{
    struct stakes *stakes = consul->stakes;
    struct stake *stake = dibs__consul_stake_find(consul, claim);
    if (stake)
        return stake;
    stake = make(consul, claim);
    if (!stake)
        return NULL;
    pthread_mutex_lock(&stakes->mutex);
    struct stake **at = find_locked(stakes, claim->serial);
    *at = stake;
    pthread_mutex_unlock(&stakes->mutex);
    return stake;
}

/* ---- giving up ---- */

static void
give_up(struct consul *consul, struct stake *stake)
{
    dibs_claim who = { .serial = stake->serial, .name_hash = stake->name_hash };
    for (uint32_t i = 0; i < stake->count; i++) {
        dibs__kit_tenure_leave(consul->tenures, stake->seats[i].birth);
        if (stake->seats[i].place >= 0)
            (void)dibs__kit_place_give(consul->places, &who, stake->seats[i].place);
    }
    for (struct past *at = stake->past; at; at = at->next)
        dibs__kit_tenure_leave(consul->tenures, at->birth);
    free_memory(consul, stake);
}

void
dibs__consul_stake_put(struct consul *consul, struct stake *stake)
{
    pthread_mutex_lock(&consul->stakes->mutex);
    int is_last = --stake->users == 0;
    pthread_mutex_unlock(&consul->stakes->mutex);
    if (is_last)
        give_up(consul, stake);
}

/* A release and a lapse may both have come to the end of it. */
void
dibs__consul_stake_forget(struct consul *consul, struct stake *stake)
{
    pthread_mutex_lock(&consul->stakes->mutex);
    int was_there = !stake->is_forgotten;
    if (was_there)
        *find_locked(consul->stakes, stake->serial) = stake->next;
    stake->is_forgotten = 1;
    pthread_mutex_unlock(&consul->stakes->mutex);
    if (was_there)
        dibs__consul_stake_put(consul, stake);
}

/* ---- other tenures ---- */

static struct past *
find_past_locked(const struct stake *stake, uint64_t birth)
{
    struct past *at = stake->past;
    while (at && at->birth != birth)
        at = at->next;
    return at;
}

void
dibs__consul_stake_swap(struct consul *consul, struct stake *stake, uint64_t birth,
                        uint64_t old)
{
    pthread_mutex_lock(&consul->stakes->mutex);
    struct past *past = find_past_locked(stake, birth);
    if (past)
        past->birth = old;
    pthread_mutex_unlock(&consul->stakes->mutex);
}

int
dibs__consul_stake_keep(struct consul *consul, struct stake *stake, uint64_t birth)
{
    struct past *past = consul->host->alloc(sizeof *past);
    int is_kept = 0;
    if (past) {
        pthread_mutex_lock(&consul->stakes->mutex);
        is_kept = find_past_locked(stake, birth) != NULL;
        *past = (struct past){ .next = stake->past, .birth = birth };
        if (!is_kept)
            stake->past = past;
        pthread_mutex_unlock(&consul->stakes->mutex);
    }
    if (past && !is_kept)
        return DIBS_OK;
    dibs__kit_tenure_leave(consul->tenures, birth);
    consul->host->free(past);
    return is_kept ? DIBS_OK : DIBS_ENOMEM;
}
