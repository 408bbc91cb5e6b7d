/* SPDX-License-Identifier: MIT */
/*
 * Those who wait. Who releases a lock publishes it on every server, on the name's channel;
 * a client listens at one of them, the first in the URL, and goes on to the next when that
 * one is lost. Others than dibs publish nothing, and messages can be missed: so everybody
 * also looks from time to time.
 */
#include <stdio.h>
#include <string.h>

#include "redlock.h"

#define POLL_FIRST_MS 32
#define POLL_MOST_MS 500
#define POLL_FOREIGN_MS 150
#define POLL_DOUBLINGS 4
/* who collided with others comes back after a time of its own */
#define COLLIDED_MS 8

/* "dibs:plain:{NAME}", in which '{', '}' and '%' of the name are escaped */
size_t
dibs__redlock_channel(char out[CHANNEL_MAX], const char *name, size_t len)
{
    size_t at = (size_t)snprintf(out, CHANNEL_MAX, "dibs:plain:{");
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '{' || name[i] == '}' || name[i] == '%')
            at += (size_t)snprintf(out + at, CHANNEL_MAX - at, "%%%02X",
                                   (unsigned)(unsigned char)name[i]);
        else
            out[at++] = name[i];
    }
    out[at++] = '}';
    return at;
}

/* ---- the listener's side ---- */

static int
locate(void *context, resp_address *address, dibs_time deadline, dibs_error *err)
{
    struct redlock *redlock = context;
    int node = (atomic_load(&redlock->listens_at) + 1) % redlock->count;
    (void)deadline, (void)err;
    atomic_store(&redlock->listens_at, node);
    *address = *dibs__resp_server_address(redlock->nodes[node].server);
    return DIBS_OK;
}

/* the mutex is held */
static void
ring(struct redlock *redlock, struct waiter *waiter, int modest)
{
    waiter->rings++;
    waiter->modest = modest;
    redlock->host->ring(waiter->bell);
}

static void
heard(void *context, const char *channel, size_t channel_len, const char *message,
      size_t message_len)
{
    struct redlock *redlock = context;
    /* "1": it is free on the server that says so, which is therefore worth asking first */
    int freed_here = message_len == 1 && *message == '1';
    pthread_mutex_lock(&redlock->mutex);
    for (struct waiter *waiter = redlock->waiters; waiter; waiter = waiter->next) {
        if (waiter->channel_len == channel_len &&
            memcmp(waiter->channel, channel, channel_len) == 0)
            ring(redlock, waiter, freed_here);
    }
    pthread_mutex_unlock(&redlock->mutex);
}

static void
gap(void *context)
{
    struct redlock *redlock = context;
    pthread_mutex_lock(&redlock->mutex);
    for (struct waiter *waiter = redlock->waiters; waiter; waiter = waiter->next)
        ring(redlock, waiter, 0);
    pthread_mutex_unlock(&redlock->mutex);
}

static const resp_listener_events events = { locate, heard, gap };

static resp_listener *
listener_of(struct redlock *redlock)
{
    pthread_mutex_lock(&redlock->mutex);
    if (!redlock->listener)
        redlock->listener = dibs__resp_listener_new(&redlock->access, &events, redlock);
    resp_listener *listener = redlock->listener;
    pthread_mutex_unlock(&redlock->mutex);
    return listener;
}

void
dibs__redlock_listener_check(struct redlock *redlock)
{
    pthread_mutex_lock(&redlock->mutex);
    resp_listener *listener = redlock->listener;
    pthread_mutex_unlock(&redlock->mutex);
    if (listener)
        dibs__resp_listener_check(listener);
}

/* ---- waiters ---- */

static struct waiter *
waiter_new(struct redlock *redlock, dibs_claim *claim)
{
    char channel[CHANNEL_MAX];
    size_t len = dibs__redlock_channel(channel, claim->name, claim->name_len);
    struct waiter *waiter = redlock->host->alloc(sizeof *waiter + len);
    if (!waiter)
        return NULL;
    memcpy(waiter->channel, channel, len);
    waiter->channel_len = len;
    waiter->bell = claim->bell;
    waiter->modest = 1;
    claim->priv[0] = (uint64_t)(uintptr_t)waiter;
    pthread_mutex_lock(&redlock->mutex);
    waiter->next = redlock->waiters;
    redlock->waiters = waiter;
    pthread_mutex_unlock(&redlock->mutex);
    return waiter;
}

/* Without a subscription one waits by looking: that is no reason to fail. */
int
dibs__redlock_watch(struct redlock *redlock, dibs_claim *claim, dibs_time deadline)
{
    struct waiter *waiter = waiter_of(claim);
    if (!waiter)
        waiter = waiter_new(redlock, claim);
    if (!waiter)
        return DIBS_ENOMEM;
    resp_listener *listener = listener_of(redlock);
    if (!listener) /* no descriptors, for example */
        return DIBS_OK;
    /* heard of everything since before the last look: no need for another one */
    waiter->fresh = waiter->listening;
    if (!waiter->listening)
        waiter->listening =
            dibs__resp_subscribe(listener, waiter->channel, waiter->channel_len, 0,
                                 deadline, NULL) == DIBS_OK;
    return DIBS_OK;
}

void
dibs__redlock_waiter_done(struct redlock *redlock, dibs_claim *claim)
{
    struct waiter *gone = waiter_of(claim);
    if (!gone)
        return;
    claim->priv[0] = 0;
    pthread_mutex_lock(&redlock->mutex);
    struct waiter **link = &redlock->waiters;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&redlock->mutex);
    if (gone->listening)
        dibs__resp_unsubscribe(redlock->listener, gone->channel, gone->channel_len, 0);
    redlock->host->free(gone);
}

int
dibs__redlock_look_begin(struct redlock *redlock, struct waiter *waiter,
                         struct look *look)
{
    pthread_mutex_lock(&redlock->mutex);
    int rung = waiter->rings != waiter->looked;
    int needed = rung || !waiter->fresh;
    look->modest = waiter->modest;
    waiter->looked = waiter->rings;
    if (needed)
        waiter->modest = 0;
    pthread_mutex_unlock(&redlock->mutex);
    waiter->fresh = 0;
    if (rung)
        waiter->polls = 0;
    return needed;
}

uint32_t
dibs__redlock_hint(struct redlock *redlock, struct waiter *waiter,
                   const struct look *look, int64_t free_in_ms)
{
    unsigned polls = waiter ? waiter->polls : 0;
    int64_t ms = (int64_t)POLL_FIRST_MS
                 << (polls < POLL_DOUBLINGS ? polls : POLL_DOUBLINGS);
    if (look->collided)
        ms = 1 + (int64_t)(redlock->host->random() %
                           (COLLIDED_MS << (polls < 3 ? polls : 3)));
    else if (free_in_ms < ms)
        ms = free_in_ms + 1;
    int64_t most = look->foreign ? POLL_FOREIGN_MS : POLL_MOST_MS;
    ms = ms < most ? ms : most;
    if (!waiter)
        return (uint32_t)ms;
    waiter->polls++;
    waiter->hint_ms = (uint32_t)ms;
    if (look->collided) {
        pthread_mutex_lock(&redlock->mutex);
        waiter->modest = 1;
        pthread_mutex_unlock(&redlock->mutex);
    }
    return (uint32_t)ms;
}

void
dibs__redlock_waiters_close(struct redlock *redlock, int forked)
{
    dibs__resp_listener_free(redlock->listener, forked);
    redlock->listener = NULL;
}
