/* SPDX-License-Identifier: MIT */
/*
 * Who of this client waits. A claim in line has a waiter, which messages find by its serial:
 * they are sent to the channel of one client. Whoever hears one leaves it with the waiter and
 * rings the caller's bell; the caller looks at it in its next attempt.
 */
#include <string.h>

#include "sql/lease.h"
#include "util/digits.h"

static struct waiter **
bucket_of(struct sql_lease *lease, uint64_t serial)
{
    return &lease->waiters[serial % WAITERS];
}

struct waiter *
dibs__lease_waiter(struct sql *sql, dibs_claim *claim)
{
    struct waiter *waiter = waiter_of(claim);
    if (waiter)
        return waiter;
    waiter = sql->host->alloc(sizeof *waiter);
    if (!waiter)
        return NULL;
    waiter->serial = claim->serial;
    waiter->bell = claim->bell;
    waiter->since = sql->host->now();
    claim->priv[PRIV_WAITER] = (uint64_t)(uintptr_t)waiter;
    pthread_mutex_lock(&sql->lease->mutex);
    struct waiter **bucket = bucket_of(sql->lease, claim->serial);
    waiter->next = *bucket;
    *bucket = waiter;
    pthread_mutex_unlock(&sql->lease->mutex);
    return waiter;
}

void
dibs__lease_waiter_done(struct sql *sql, dibs_claim *claim)
{
    struct waiter *gone = waiter_of(claim);
    if (!gone)
        return;
    claim->priv[PRIV_WAITER] = 0;
    pthread_mutex_lock(&sql->lease->mutex);
    struct waiter **link = bucket_of(sql->lease, gone->serial);
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&sql->lease->mutex);
    sql->host->free(gone);
}

size_t
dibs__lease_take_message(struct sql *sql, struct waiter *waiter,
                         char out[MESSAGE_MAX + 1])
{
    pthread_mutex_lock(&sql->lease->mutex);
    size_t len = waiter->message_len;
    memcpy(out, waiter->message, len);
    out[len] = '\0';
    waiter->message_len = 0;
    pthread_mutex_unlock(&sql->lease->mutex);
    return len;
}

/* ---- being told ---- */

static void
tell(struct sql *sql, uint64_t serial, const char *message, size_t len)
{
    pthread_mutex_lock(&sql->lease->mutex);
    struct waiter *waiter = *bucket_of(sql->lease, serial);
    while (waiter && waiter->serial != serial)
        waiter = waiter->next;
    if (waiter) {
        memcpy(waiter->message, message, len);
        waiter->message_len = len;
        sql->host->ring(waiter->bell);
    }
    pthread_mutex_unlock(&sql->lease->mutex);
}

void
dibs__sql_told(struct sql *sql, const char *payload, size_t len)
{
    char text[MESSAGE_MAX + 1];
    const char *at = text + 1;
    uint64_t serial;
    /* a gist that is too long is left out, not cut */
    const char *gist = len > MESSAGE_MAX ? memchr(payload, '\t', MESSAGE_MAX) : NULL;
    if (gist)
        len = (size_t)(gist - payload);
    if (len == 0 || len > MESSAGE_MAX)
        return;
    memcpy(text, payload, len);
    text[len] = '\0';
    if (get_digits(&at, &serial))
        return;
    /* a hold has ended without us: the keeper finds out which */
    if (text[0] == LINE_SAY_ENDED)
        sql->host->ring(sql->session->keeper_bell);
    tell(sql, serial, text, len);
}

void
dibs__sql_changed(struct sql *sql)
{
    pthread_mutex_lock(&sql->lease->mutex);
    for (size_t i = 0; i < WAITERS; i++) {
        for (struct waiter *waiter = sql->lease->waiters[i]; waiter;
             waiter = waiter->next)
            sql->host->ring(waiter->bell);
    }
    pthread_mutex_unlock(&sql->lease->mutex);
}

/* Holders may have missed that their hold was broken; at first there was nothing to miss. */
void
dibs__sql_unheard(struct sql *sql)
{
    if (atomic_fetch_add(&sql->lease->epoch, 1) > 0)
        sql->host->ring(sql->session->keeper_bell);
    dibs__sql_changed(sql);
}
