/* SPDX-License-Identifier: MIT */
/*
 * Stakes: a connection for every hold and everyone who waits. One slot at a time works on a
 * stake; others of the same claim wait for it. Connections of stakes that have ended serve
 * the next ones.
 */
#include "advisory.h"

#include "util/wait.h"

/* ---- waiting for each other ---- */

static int
wait_locked(struct advisory *advisory, dibs_time deadline)
{
    advisory->waiting++;
    int rc = wait_for(&advisory->freed, &advisory->mutex, deadline - advisory->host->now());
    advisory->waiting--;
    return rc;
}

static void
wake_locked(struct advisory *advisory)
{
    if (advisory->waiting)
        pthread_cond_broadcast(&advisory->freed);
}

static struct stake **
seek_locked(struct advisory *advisory, uint64_t serial)
{
    struct stake **at = &advisory->taken;
    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    return at;
}

struct stake *
dibs__advisory_find(struct advisory *advisory, uint64_t serial, dibs_time deadline,
                    int *rc)
{
    struct stake *stake;
    *rc = 0;
    pthread_mutex_lock(&advisory->mutex);
    while ((stake = *seek_locked(advisory, serial)) != NULL && stake->is_in_use && !*rc)
        *rc = wait_locked(advisory, deadline);
    if (stake && stake->is_in_use)
        stake = NULL;
    if (stake) {
        stake->is_in_use = 1;
        *rc = 0;
    }
    pthread_mutex_unlock(&advisory->mutex);
    return stake;
}

void
dibs__advisory_put(struct advisory *advisory, struct stake *stake)
{
    pthread_mutex_lock(&advisory->mutex);
    stake->is_in_use = 0;
    wake_locked(advisory);
    pthread_mutex_unlock(&advisory->mutex);
}

/* ---- beginning ---- */

/* An idle connection that the server will soon end, or has ended, is not used again. */
static int
is_fresh(const struct advisory *advisory, struct stake *stake)
{
    dibs_time now = advisory->host->now(), age = now - stake->idle_since;
    if (stake->lease_ms && age > stake->lease_ms * DIBS_MS / 2)
        return 0;
    return dibs__pg_is_open(&stake->conn, now, advisory->host);
}

static struct stake *
pop_idle(struct advisory *advisory)
{
    pthread_mutex_lock(&advisory->mutex);
    struct stake *stake = advisory->idle;
    if (stake)
        advisory->idle = stake->next;
    pthread_mutex_unlock(&advisory->mutex);
    return stake;
}

static void
discard(struct advisory *advisory, struct stake *stake)
{
    dibs__pg_disconnect(advisory->pg, &stake->conn, 0);
    advisory->host->free(stake);
    pthread_mutex_lock(&advisory->mutex);
    advisory->count--;
    wake_locked(advisory);
    pthread_mutex_unlock(&advisory->mutex);
}

/* counts one more connection, if there may be one more before the deadline */
static int
reserve(struct advisory *advisory, dibs_time deadline, dibs_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&advisory->mutex);
    while (!rc && advisory->count >= advisory->most && !advisory->idle)
        rc = wait_locked(advisory, deadline);
    if (!rc && advisory->count < advisory->most)
        advisory->count++;
    else if (!rc)
        rc = 1; /* there is an idle one again */
    pthread_mutex_unlock(&advisory->mutex);
    if (rc < 0)
        return advisory->host->fail(err, DIBS_EUNAVAIL,
                                    "all %u connections are in use (connections=)",
                                    advisory->most);
    return rc;
}

static int
connect_new(struct advisory *advisory, struct stake **out, dibs_time deadline,
            dibs_error *err)
{
    struct stake *stake = advisory->host->alloc(sizeof *stake);
    int rc = DIBS_ENOMEM;
    if (stake)
        rc = dibs__pg_connect(advisory->pg, &stake->conn, deadline, err);
    else
        (void)advisory->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (!rc) {
        *out = stake;
        return DIBS_OK;
    }
    advisory->host->free(stake);
    pthread_mutex_lock(&advisory->mutex);
    advisory->count--;
    wake_locked(advisory);
    pthread_mutex_unlock(&advisory->mutex);
    /* not to have connected in time means that nothing was asked */
    if (rc == DIBS_ETIMEDOUT && err)
        err->code = DIBS_EUNAVAIL;
    return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
}

static void
enlist(struct advisory *advisory, struct stake *stake, const dibs_claim *claim)
{
    stake->serial = claim->serial;
    stake->state = STAKE_NEW;
    stake->is_shared = claim->mode == DIBS_SHARED;
    stake->is_in_use = 1;
    pthread_mutex_lock(&advisory->mutex);
    if (!stake->number)
        stake->number = ++advisory->last_number;
    stake->next = advisory->taken;
    advisory->taken = stake;
    pthread_mutex_unlock(&advisory->mutex);
}

static int
get_connection(struct advisory *advisory, struct stake **out, dibs_time deadline,
               dibs_error *err)
{
    int rc = 1;
    while (rc == 1) {
        struct stake *stake;
        while ((stake = pop_idle(advisory)) != NULL) {
            if (is_fresh(advisory, stake)) {
                *out = stake;
                return DIBS_OK;
            }
            discard(advisory, stake);
        }
        rc = reserve(advisory, deadline, err);
    }
    return rc ? rc : connect_new(advisory, out, deadline, err);
}

int
dibs__advisory_take(struct advisory *advisory, const dibs_claim *claim,
                    struct stake **out, dibs_time deadline, dibs_error *err)
{
    struct pg_key key;
    struct stake *stake = NULL;
    if (advisory->map(&key, claim->name, claim->name_len))
        return advisory->host->fail(err, DIBS_EINVAL,
                                    "this name has no number in this map");
    int rc = get_connection(advisory, &stake, deadline, err);
    if (rc)
        return rc;
    int is_new = stake->number == 0;
    stake->key = key;
    enlist(advisory, stake, claim);
    if (is_new && dibs__advisory_watch_add(advisory, stake)) {
        stake->conn.dead = 1;
        dibs__advisory_end(advisory, stake);
        return advisory->host->fail(err, DIBS_ENOMEM, "cannot watch the connection");
    }
    *out = stake;
    return DIBS_OK;
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
dibs__advisory_end(struct advisory *advisory, struct stake *stake)
{
    int is_kept = is_clean(stake);
    stake->idle_since = advisory->host->now();
    pthread_mutex_lock(&advisory->mutex);
    *seek_locked(advisory, stake->serial) = stake->next;
    stake->serial = 0;
    stake->bell = NULL;
    stake->is_in_use = 0;
    if (is_kept) {
        stake->next = advisory->idle;
        advisory->idle = stake;
    }
    wake_locked(advisory);
    pthread_mutex_unlock(&advisory->mutex);
    if (!is_kept)
        discard(advisory, stake);
}

static void
free_all(struct advisory *advisory, struct stake *list, int forked)
{
    for (struct stake *next; list; list = next) {
        next = list->next;
        if (list->is_in_use)
            list->conn.busy = 1;
        dibs__pg_disconnect(advisory->pg, &list->conn, forked);
        advisory->host->free(list);
    }
}

void
dibs__advisory_stakes_free(struct advisory *advisory, int forked)
{
    free_all(advisory, advisory->taken, forked);
    free_all(advisory, advisory->idle, forked);
    advisory->taken = advisory->idle = NULL;
}
