/* SPDX-License-Identifier: MIT */
/* Layouts whose locks are those of a connection: open and close, and the slots. See
 * bound.h. */
#include "bound.h"

#include "util/wait.h"

#define CONNECTIONS 64
#define CONNECTIONS_MOST 10000
#define BEATS_MAX 64 /* heartbeats that are under way at once */
#define VERSION_14 140000
#define TOKEN_ROOM 255

/* ---- open and close ---- */

static void
free_all(struct bound *bound, int forked)
{
    const dibs_host *host = bound->host;
    dibs__bound_watch_close(bound, forked);
    dibs__bound_stakes_free(bound, forked);
    if (!forked) {
        pthread_cond_destroy(&bound->freed);
        pthread_mutex_destroy(&bound->mutex);
    }
    host->free(bound->text_room);
    host->free(bound);
}

static struct bound *
make(struct postgres *pg, size_t size)
{
    struct bound *bound = pg->host->alloc(size);
    if (!bound)
        return NULL;
    bound->pg = pg;
    bound->host = pg->host;
    bound->most = CONNECTIONS;
    bound->has_timeout = pg->server_version >= VERSION_14;
    bound->epoll_fd = bound->stop_fd = -1;
    pthread_mutex_init(&bound->mutex, NULL);
    cond_init(&bound->freed);
    if (dibs__bound_watch_open(bound) == 0)
        return bound;
    free_all(bound, 0);
    return NULL;
}

int
dibs__bound_open(struct postgres *pg, dibs_session *session, const dibs_url_parts *url,
                 size_t size, bound_begin *begin, dibs_time deadline, dibs_error *err)
{
    int rc = dibs__pg_open(pg, session, url, deadline, err);
    if (rc)
        return rc;
    struct bound *bound = pg->bound = make(pg, size);
    rc = bound ? pg->host->param_number(&bound->most, url, "connections", 1,
                                        CONNECTIONS_MOST, err)
               : pg->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (!rc)
        rc = begin(bound, url, deadline, err);
    if (rc && bound)
        free_all(bound, 0);
    if (rc)
        dibs__pg_close(pg, 0);
    return rc;
}

void
dibs__bound_close(void *state, int forked)
{
    struct postgres *pg = state;
    free_all(pg->bound, forked);
    dibs__pg_close(pg, forked);
}

/* ---- taking ---- */

static void
set_bell(struct bound *bound, struct stake *stake, dibs_bell *bell)
{
    pthread_mutex_lock(&bound->mutex);
    stake->bell = bell;
    pthread_mutex_unlock(&bound->mutex);
}

/* from here on the server has us in its queue */
static int
begin_to_wait(struct bound *bound, struct stake *stake, dibs_claim *claim,
              dibs_time deadline, dibs_error *err)
{
    int rc = dibs__bound_wait(bound, stake, deadline, err);
    if (rc)
        return rc;
    stake->state = STAKE_WAITING;
    set_bell(bound, stake, claim->bell);
    dibs__bound_watch_await(bound, stake, 1);
    return DIBS_EBUSY;
}

static int
ask_first(struct bound *bound, struct stake *stake, dibs_claim *claim, dibs_time deadline,
          dibs_error *err)
{
    int rc = bound->form->ask(bound, stake, claim, deadline, err);
    if (rc == DIBS_EBUSY && !(claim->flags & DIBS_CLAIM_NOQUEUE))
        return begin_to_wait(bound, stake, claim, deadline, err);
    if (rc == DIBS_EBUSY && bound->form->is_xact) /* the transaction ends */
        (void)dibs__bound_give(bound, stake, deadline, NULL);
    /* what went wrong may have done so after the lock was taken: the session ends */
    if (rc && rc != DIBS_EBUSY)
        stake->conn.dead = 1;
    return rc;
}

/* The server gave it to us some time ago: its lease begins anew with this question. */
static int
confirm(struct bound *bound, struct stake *stake, const dibs_claim *claim,
        dibs_time deadline, dibs_error *err)
{
    int rc = dibs__bound_beat(bound, stake, claim->lease_ms, deadline, err);
    if (!rc)
        rc = dibs__bound_beaten(bound, stake, deadline, err);
    if (rc)
        stake->conn.dead = 1;
    return rc ? DIBS_EUNAVAIL : DIBS_OK;
}

static int
ask_again(struct bound *bound, struct stake *stake, const dibs_claim *claim,
          dibs_time deadline, dibs_error *err)
{
    int rc = dibs__bound_won(bound, stake, deadline, err);
    if (rc == DIBS_EBUSY)
        dibs__bound_watch_await(bound, stake, 1);
    if (rc)
        return rc;
    dibs__bound_watch_await(bound, stake, 0);
    return confirm(bound, stake, claim, deadline, err);
}

static void
granted(struct bound *bound, struct stake *stake, dibs_claim *claim)
{
    if (stake->bell)
        set_bell(bound, stake, NULL);
    stake->state = STAKE_HELD;
    claim->token = stake->token;
    claim->token_room = TOKEN_ROOM;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
}

int
dibs__bound_code(int rc, dibs_error *err)
{
    if (rc != DIBS_EUNKNOWN && rc < SQL_DUPLICATE)
        return rc;
    if (err)
        err->code = DIBS_EUNAVAIL;
    return DIBS_EUNAVAIL;
}

static int
attempt_on(struct bound *bound, struct stake *stake, dibs_claim *claim,
           dibs_time deadline, dibs_error *err)
{
    if (stake->state == STAKE_NEW)
        return ask_first(bound, stake, claim, deadline, err);
    if (stake->state == STAKE_WAITING)
        return ask_again(bound, stake, claim, deadline, err);
    return confirm(bound, stake, claim, deadline, err);
}

int
dibs__bound_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct bound *bound = ((struct postgres *)state)->bound;
    struct stake *stake = NULL;
    int rc = DIBS_OK;
    if (claim->priv[0])
        stake = dibs__bound_find(bound, claim->serial, deadline, &rc);
    if (!stake)
        rc = dibs__bound_take(bound, claim, &stake, deadline, err);
    if (rc)
        return dibs__bound_code(rc, err);
    claim->hint_ms = claim->position = 0;
    rc = attempt_on(bound, stake, claim, deadline, err);
    if (!rc)
        granted(bound, stake, claim);
    claim->priv[0] = !rc || stake->state == STAKE_WAITING;
    if (!rc || (rc == DIBS_EBUSY && stake->state == STAKE_WAITING)) {
        dibs__bound_put(bound, stake);
        return rc;
    }
    dibs__bound_end(bound, stake);
    claim->priv[0] = 0;
    return dibs__bound_code(rc, err);
}

/* ---- keeping ---- */

static void
renew_some(struct bound *bound, dibs_claim *const *claims, int *results, size_t n,
           dibs_time deadline, dibs_error *err)
{
    struct stake *stakes[BEATS_MAX];
    for (size_t i = 0; i < n; i++) {
        int rc = 0;
        stakes[i] = dibs__bound_find(bound, claims[i]->serial, deadline, &rc);
        results[i] = rc ? DIBS_EUNKNOWN : DIBS_ELOST;
        if (stakes[i])
            results[i] =
                dibs__bound_beat(bound, stakes[i], claims[i]->lease_ms, deadline, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (stakes[i] && results[i] == DIBS_OK)
            results[i] = dibs__bound_beaten(bound, stakes[i], deadline, err);
        if (stakes[i] && results[i] == DIBS_ELOST)
            dibs__bound_end(bound, stakes[i]);
        else if (stakes[i])
            dibs__bound_put(bound, stakes[i]);
    }
}

void
dibs__bound_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                  dibs_time deadline, dibs_error *err)
{
    struct bound *bound = ((struct postgres *)state)->bound;
    for (size_t at = 0; at < n; at += BEATS_MAX) {
        size_t some = n - at < BEATS_MAX ? n - at : BEATS_MAX;
        renew_some(bound, claims + at, results + at, some, deadline, err);
    }
}

int
dibs__bound_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct bound *bound = ((struct postgres *)state)->bound;
    int rc = 0;
    struct stake *stake = dibs__bound_find(bound, claim->serial, deadline, &rc);
    if (!stake)
        return rc ? DIBS_EUNKNOWN : DIBS_ELOST;
    rc = dibs__bound_drain(bound, stake, deadline, err);
    if (!rc)
        rc = bound->form->share(bound, stake, deadline, err);
    if (!rc) {
        stake->is_shared = 1;
        claim->mode = DIBS_SHARED;
    }
    if (!stake->conn.dead) {
        dibs__bound_put(bound, stake);
        return rc;
    }
    dibs__bound_end(bound, stake);
    return DIBS_ELOST;
}

/* ---- ending ---- */

/* If the session is over, so is the lock. If it could not be asked, it ends now, and the
 * server will notice; but not all that is on the way may get there. */
static int
release_held(struct bound *bound, struct stake *stake, dibs_time deadline,
             dibs_error *err)
{
    if (stake->conn.dead)
        return DIBS_ENOTHELD;
    int rc = dibs__bound_give(bound, stake, deadline, err);
    if (!rc || rc == DIBS_ENOTHELD)
        return rc;
    int is_over = rc == DIBS_EUNAVAIL && stake->conn.dead;
    stake->conn.dead = 1;
    return is_over ? DIBS_ENOTHELD : DIBS_EUNKNOWN;
}

static int
release_waiting(struct bound *bound, struct stake *stake, dibs_time deadline)
{
    set_bell(bound, stake, NULL);
    dibs__bound_watch_await(bound, stake, 0);
    /* a pooler does not tell which session it is; without it, too, the end of the
     * connection ends the waiting, only later */
    if (bound->pg->pooler == POOLER_TRANSACTIONS ||
        dibs__bound_cancel(bound, stake, deadline, NULL))
        stake->conn.dead = 1;
    return DIBS_ENOTHELD;
}

int
dibs__bound_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                    dibs_time deadline, dibs_error *err)
{
    struct bound *bound = ((struct postgres *)state)->bound;
    int rc = 0;
    (void)linger_ms; /* DIBS_CAP_LINGER is not promised */
    struct stake *stake = dibs__bound_find(bound, claim->serial, deadline, &rc);
    if (!stake)
        return rc ? DIBS_EUNKNOWN : DIBS_ENOTHELD;
    if (stake->state == STAKE_HELD)
        rc = release_held(bound, stake, deadline, err);
    else
        rc = release_waiting(bound, stake, deadline);
    dibs__bound_end(bound, stake);
    return rc;
}
