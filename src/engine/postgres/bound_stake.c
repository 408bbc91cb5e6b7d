/* SPDX-License-Identifier: MIT */
/*
 * Stakes: a connection for every hold and everyone who waits. One slot at a time works on a
 * stake; others of the same claim wait for it. Connections of stakes that have ended serve
 * the next ones.
 */
#include "bound.h"

#include <string.h>

#include "util/wait.h"

/* ---- waiting for each other ---- */

static int
wait_locked(struct bound *bound, dibs_time deadline)
{
    bound->waiting++;
    int rc = wait_for(&bound->freed, &bound->mutex, deadline - bound->host->now());
    bound->waiting--;
    return rc;
}

static void
wake_locked(struct bound *bound)
{
    if (bound->waiting)
        pthread_cond_broadcast(&bound->freed);
}

static struct stake **
seek_locked(struct bound *bound, uint64_t serial)
{
    struct stake **at = &bound->taken;
    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    return at;
}

struct stake *
dibs__bound_find(struct bound *bound, uint64_t serial, dibs_time deadline, int *rc)
{
    struct stake *stake;
    *rc = 0;
    pthread_mutex_lock(&bound->mutex);
    while ((stake = *seek_locked(bound, serial)) != NULL && stake->is_in_use && !*rc)
        *rc = wait_locked(bound, deadline);
    if (stake && stake->is_in_use)
        stake = NULL;
    if (stake) {
        stake->is_in_use = 1;
        *rc = 0;
    }
    pthread_mutex_unlock(&bound->mutex);
    return stake;
}

void
dibs__bound_put(struct bound *bound, struct stake *stake)
{
    pthread_mutex_lock(&bound->mutex);
    stake->is_in_use = 0;
    wake_locked(bound);
    pthread_mutex_unlock(&bound->mutex);
}

/* ---- beginning ---- */

/* An idle connection that the server will soon end, or has ended, is not used again. */
static int
is_fresh(const struct bound *bound, struct stake *stake)
{
    dibs_time now = bound->host->now(), age = now - stake->idle_since;
    if (stake->lease_ms && age > stake->lease_ms * DIBS_MS / 2)
        return 0;
    return dibs__pg_is_open(&stake->conn, now, bound->host);
}

static struct stake *
pop_idle(struct bound *bound)
{
    pthread_mutex_lock(&bound->mutex);
    struct stake *stake = bound->idle;
    if (stake)
        bound->idle = stake->next;
    pthread_mutex_unlock(&bound->mutex);
    return stake;
}

static void
discard(struct bound *bound, struct stake *stake)
{
    dibs__pg_disconnect(bound->pg, &stake->conn, 0);
    bound->host->free(stake);
    pthread_mutex_lock(&bound->mutex);
    bound->count--;
    wake_locked(bound);
    pthread_mutex_unlock(&bound->mutex);
}

/* counts one more connection, if there may be one more before the deadline */
static int
reserve(struct bound *bound, dibs_time deadline, dibs_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&bound->mutex);
    while (!rc && bound->count >= bound->most && !bound->idle)
        rc = wait_locked(bound, deadline);
    if (!rc && bound->count < bound->most)
        bound->count++;
    else if (!rc)
        rc = 1; /* there is an idle one again */
    pthread_mutex_unlock(&bound->mutex);
    if (rc < 0)
        return bound->host->fail(err, DIBS_EUNAVAIL,
                                 "all %u connections are in use (connections=)",
                                 bound->most);
    return rc;
}

/* what follows on it is sent without another look for ghosts */
static int
connect_stake(struct bound *bound, struct stake *stake, dibs_time deadline,
              dibs_error *err)
{
    int rc = dibs__pg_connect(bound->pg, &stake->conn, deadline, err);
    if (rc)
        return rc;
    rc = dibs__pg_ghosts_end(bound->pg, &stake->conn, deadline, err);
    if (rc)
        dibs__pg_disconnect(bound->pg, &stake->conn, 0);
    return rc;
}

static int
connect_new(struct bound *bound, struct stake **out, dibs_time deadline, dibs_error *err)
{
    struct stake *stake = bound->host->alloc(sizeof *stake);
    int rc = DIBS_ENOMEM;
    if (stake)
        rc = connect_stake(bound, stake, deadline, err);
    else
        (void)bound->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (!rc) {
        *out = stake;
        return DIBS_OK;
    }
    bound->host->free(stake);
    pthread_mutex_lock(&bound->mutex);
    bound->count--;
    wake_locked(bound);
    pthread_mutex_unlock(&bound->mutex);
    /* not to have connected in time means that nothing was asked */
    if (rc == DIBS_ETIMEDOUT && err)
        err->code = DIBS_EUNAVAIL;
    return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
}

static void
enlist(struct bound *bound, struct stake *stake, const dibs_claim *claim)
{
    stake->serial = claim->serial;
    stake->state = STAKE_NEW;
    stake->is_shared = claim->mode == DIBS_SHARED;
    stake->is_in_use = 1;
    pthread_mutex_lock(&bound->mutex);
    if (!stake->number)
        stake->number = ++bound->last_number;
    stake->next = bound->taken;
    bound->taken = stake;
    pthread_mutex_unlock(&bound->mutex);
}

static int
get_connection(struct bound *bound, struct stake **out, dibs_time deadline,
               dibs_error *err)
{
    int rc = 1;
    while (rc == 1) {
        struct stake *stake;
        while ((stake = pop_idle(bound)) != NULL) {
            if (is_fresh(bound, stake)) {
                *out = stake;
                return DIBS_OK;
            }
            discard(bound, stake);
        }
        rc = reserve(bound, deadline, err);
    }
    return rc ? rc : connect_new(bound, out, deadline, err);
}

/* A connection often serves the same name again. */
static int
name_stake(struct bound *bound, struct stake *stake, const dibs_claim *claim,
           dibs_error *err)
{
    size_t len = claim->name_len;
    if (stake->name_len == len && memcmp(stake->name, claim->name, len) == 0)
        return DIBS_OK;
    stake->name_len = 0;
    int rc = bound->form->key(bound, stake, claim->name, len, err);
    if (!rc && len <= sizeof stake->name) {
        memcpy(stake->name, claim->name, len);
        stake->name_len = len;
    }
    return rc;
}

int
dibs__bound_take(struct bound *bound, const dibs_claim *claim, struct stake **out,
                 dibs_time deadline, dibs_error *err)
{
    struct stake *stake = NULL;
    int rc = get_connection(bound, &stake, deadline, err);
    if (rc)
        return rc;
    int is_new = stake->number == 0;
    enlist(bound, stake, claim);
    if (is_new && dibs__bound_watch_add(bound, stake)) {
        stake->conn.dead = 1;
        rc = bound->host->fail(err, DIBS_ENOMEM, "cannot watch the connection");
    }
    if (!rc)
        rc = name_stake(bound, stake, claim, err);
    if (rc)
        dibs__bound_end(bound, stake);
    else
        *out = stake;
    return rc;
}

/* ---- ending ---- */

/* Only a connection on which surely nothing is left serves another. */
static int
is_clean(const struct stake *stake)
{
    return stake->state == STAKE_NEW && !stake->is_asked && !stake->conn.dead &&
           PQstatus(stake->conn.pg) == CONNECTION_OK &&
           PQtransactionStatus(stake->conn.pg) == PQTRANS_IDLE;
}

void
dibs__bound_end(struct bound *bound, struct stake *stake)
{
    int is_kept = is_clean(stake);
    stake->idle_since = bound->host->now();
    pthread_mutex_lock(&bound->mutex);
    *seek_locked(bound, stake->serial) = stake->next;
    stake->serial = 0;
    stake->bell = NULL;
    stake->is_in_use = 0;
    if (is_kept) {
        stake->next = bound->idle;
        bound->idle = stake;
    }
    wake_locked(bound);
    pthread_mutex_unlock(&bound->mutex);
    if (!is_kept)
        discard(bound, stake);
}

static void
free_all(struct bound *bound, struct stake *list, int forked)
{
    for (struct stake *next; list; list = next) {
        next = list->next;
        if (list->is_in_use)
            list->conn.busy = 1;
        dibs__pg_disconnect(bound->pg, &list->conn, forked);
        bound->host->free(list);
    }
}

void
dibs__bound_stakes_free(struct bound *bound, int forked)
{
    free_all(bound, bound->taken, forked);
    free_all(bound, bound->idle, forked);
    bound->taken = bound->idle = NULL;
}
