/* SPDX-License-Identifier: MIT */
/* The layout `advisory`: its table, open and close, and the slots. See advisory.h. */
#include "advisory.h"

#include <stdio.h>

#include "util/wait.h"

#define CONNECTIONS 64
#define CONNECTIONS_MOST 10000
#define BEATS_MAX 64 /* heartbeats that are under way at once */
#define VERSION_14 140000
#define TOKEN_ROOM 255

/* ---- open and close ---- */

static int
read_url(struct advisory *advisory, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const forms[] = { "session", "xact", NULL };
    static const char *const maps[] = { "dibs", "dotnet", "rails", "rails-migration",
                                        "tooz", "raw",    NULL };
    static pg_keymap *const functions[] = {
        dibs__sql_key_dibs,  dibs__sql_key_dotnet,
        dibs__sql_key_rails, dibs__sql_key_rails_migration,
        dibs__sql_key_tooz,  dibs__sql_key_raw
    };
    const dibs_host *host = advisory->host;
    int form = FORM_SESSION, map = 0;
    advisory->most = CONNECTIONS;
    int rc = host->param_choice(&form, url, "form", forms, err);
    if (!rc)
        rc = host->param_choice(&map, url, "map", maps, err);
    if (!rc)
        rc = host->param_number(&advisory->most, url, "connections", 1, CONNECTIONS_MOST,
                                err);
    advisory->form = (enum form)form;
    advisory->map = functions[map];
    return rc;
}

static void
free_all(struct advisory *advisory, int forked)
{
    const dibs_host *host = advisory->host;
    dibs__advisory_watch_close(advisory, forked);
    dibs__advisory_stakes_free(advisory, forked);
    if (!forked) {
        pthread_cond_destroy(&advisory->freed);
        pthread_mutex_destroy(&advisory->mutex);
    }
    host->free(advisory->text_room);
    host->free(advisory);
}

static struct advisory *
make(struct postgres *pg)
{
    struct advisory *advisory = pg->host->alloc(sizeof *advisory);
    if (!advisory)
        return NULL;
    advisory->pg = pg;
    advisory->host = pg->host;
    advisory->epoll_fd = advisory->stop_fd = -1;
    pthread_mutex_init(&advisory->mutex, NULL);
    cond_init(&advisory->freed);
    if (dibs__advisory_watch_open(advisory) || dibs__advisory_texts_make(advisory)) {
        free_all(advisory, 0);
        return NULL;
    }
    return advisory;
}

/* what the server and the way to it allow */
static int
check(struct advisory *advisory, dibs_error *err)
{
    struct postgres *pg = advisory->pg;
    advisory->has_timeout = pg->server_version >= VERSION_14;
    if (advisory->form == FORM_SESSION && pg->pooler == POOLER_TRANSACTIONS)
        return pg->host->fail(
            err, DIBS_EUNSUPPORTED,
            "a pooler lends sessions for a transaction only, and a lock "
            "of a session would stay with a stranger: form=xact, or "
            "pooler=session if it lends whole sessions");
    pg->session->notice[0] = '\0'; /* who waits is not told by messages */
    if (advisory->form == FORM_SESSION && !advisory->has_timeout)
        (void)snprintf(
            pg->session->notice, sizeof pg->session->notice,
            "PostgreSQL before 14 does not end the session of a holder that is "
            "frozen: its lock stays until it goes on");
    if (advisory->form == FORM_XACT) /* what is exclusive cannot become shared there */
        pg->session->caps &= ~(uint32_t)DIBS_CAP_SHARED;
    return DIBS_OK;
}

static const char *const makes[] = { PG_MAKE_CELLS, PG_MAKE_TOKENS, NULL };

static int
advisory_open(void *state, dibs_session *session, const dibs_url_parts *url,
              dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    pg->drive.makes = makes;
    int rc = dibs__pg_open(pg, session, url, deadline, err);
    if (rc)
        return rc;
    pg->advisory = make(pg);
    rc = pg->advisory ? read_url(pg->advisory, url, err)
                      : pg->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (!rc)
        rc = check(pg->advisory, err);
    if (rc && pg->advisory)
        free_all(pg->advisory, 0);
    if (rc)
        dibs__pg_close(pg, 0);
    return rc;
}

static void
advisory_close(void *state, int forked)
{
    struct postgres *pg = state;
    free_all(pg->advisory, forked);
    dibs__pg_close(pg, forked);
}

/* ---- taking ---- */

static void
set_bell(struct advisory *advisory, struct stake *stake, dibs_bell *bell)
{
    pthread_mutex_lock(&advisory->mutex);
    stake->bell = bell;
    pthread_mutex_unlock(&advisory->mutex);
}

/* from here on the server has us in its queue */
static int
begin_to_wait(struct advisory *advisory, struct stake *stake, dibs_claim *claim,
              dibs_error *err)
{
    int rc = dibs__advisory_wait(advisory, stake, err);
    if (rc)
        return rc;
    stake->state = STAKE_WAITING;
    set_bell(advisory, stake, claim->bell);
    dibs__advisory_watch_await(advisory, stake, 1);
    return DIBS_EBUSY;
}

static int
ask_first(struct advisory *advisory, struct stake *stake, dibs_claim *claim,
          dibs_time deadline, dibs_error *err)
{
    int rc = dibs__advisory_try(advisory, stake, claim->lease_ms, deadline, err);
    if (rc == DIBS_EBUSY && !(claim->flags & DIBS_CLAIM_NOQUEUE))
        return begin_to_wait(advisory, stake, claim, err);
    if (rc == DIBS_EBUSY && advisory->form == FORM_XACT) /* the transaction ends */
        (void)dibs__advisory_give(advisory, stake, deadline, NULL);
    return rc;
}

/* The server gave it to us some time ago: its lease begins anew with this question. */
static int
confirm(struct advisory *advisory, struct stake *stake, const dibs_claim *claim,
        dibs_time deadline, dibs_error *err)
{
    int rc = dibs__advisory_beat(advisory, stake, claim->lease_ms, deadline, err);
    if (!rc)
        rc = dibs__advisory_beaten(advisory, stake, deadline, err);
    if (rc)
        stake->conn.dead = 1;
    return rc ? DIBS_EUNAVAIL : DIBS_OK;
}

static int
ask_again(struct advisory *advisory, struct stake *stake, const dibs_claim *claim,
          dibs_time deadline, dibs_error *err)
{
    int rc = dibs__advisory_won(advisory, stake, deadline, err);
    if (rc == DIBS_EBUSY)
        dibs__advisory_watch_await(advisory, stake, 1);
    if (rc)
        return rc;
    dibs__advisory_watch_await(advisory, stake, 0);
    return confirm(advisory, stake, claim, deadline, err);
}

static void
granted(struct advisory *advisory, struct stake *stake, dibs_claim *claim)
{
    if (stake->bell)
        set_bell(advisory, stake, NULL);
    stake->state = STAKE_HELD;
    claim->token = stake->token;
    claim->token_room = TOKEN_ROOM;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
}

/* Whatever went wrong, the session is over then, and with it what it had or waited for: so
 * nothing is left, and it is as if nothing had been sent. */
static int
code_of(int rc, dibs_error *err)
{
    if (rc != DIBS_EUNKNOWN && rc < SQL_DUPLICATE)
        return rc;
    if (err)
        err->code = DIBS_EUNAVAIL;
    return DIBS_EUNAVAIL;
}

static int
attempt_on(struct advisory *advisory, struct stake *stake, dibs_claim *claim,
           dibs_time deadline, dibs_error *err)
{
    if (stake->state == STAKE_NEW)
        return ask_first(advisory, stake, claim, deadline, err);
    if (stake->state == STAKE_WAITING)
        return ask_again(advisory, stake, claim, deadline, err);
    return confirm(advisory, stake, claim, deadline, err);
}

static int
advisory_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct advisory *advisory = ((struct postgres *)state)->advisory;
    struct stake *stake = NULL;
    int rc = DIBS_OK;
    if (claim->priv[0])
        stake = dibs__advisory_find(advisory, claim->serial, deadline, &rc);
    if (!stake)
        rc = dibs__advisory_take(advisory, claim, &stake, deadline, err);
    if (rc)
        return code_of(rc, err);
    claim->hint_ms = claim->position = 0;
    rc = attempt_on(advisory, stake, claim, deadline, err);
    if (!rc)
        granted(advisory, stake, claim);
    claim->priv[0] = !rc || stake->state == STAKE_WAITING;
    if (!rc || (rc == DIBS_EBUSY && stake->state == STAKE_WAITING)) {
        dibs__advisory_put(advisory, stake);
        return rc;
    }
    dibs__advisory_end(advisory, stake);
    claim->priv[0] = 0;
    return code_of(rc, err);
}

/* ---- keeping ---- */

static void
renew_some(struct advisory *advisory, dibs_claim *const *claims, int *results, size_t n,
           dibs_time deadline, dibs_error *err)
{
    struct stake *stakes[BEATS_MAX];
    for (size_t i = 0; i < n; i++) {
        int rc = 0;
        stakes[i] = dibs__advisory_find(advisory, claims[i]->serial, deadline, &rc);
        results[i] = rc ? DIBS_EUNKNOWN : DIBS_ELOST;
        if (stakes[i])
            results[i] = dibs__advisory_beat(advisory, stakes[i], claims[i]->lease_ms,
                                             deadline, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (stakes[i] && results[i] == DIBS_OK)
            results[i] = dibs__advisory_beaten(advisory, stakes[i], deadline, err);
        if (stakes[i] && results[i] == DIBS_ELOST)
            dibs__advisory_end(advisory, stakes[i]);
        else if (stakes[i])
            dibs__advisory_put(advisory, stakes[i]);
    }
}

static void
advisory_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
               dibs_time deadline, dibs_error *err)
{
    struct advisory *advisory = ((struct postgres *)state)->advisory;
    for (size_t at = 0; at < n; at += BEATS_MAX) {
        size_t some = n - at < BEATS_MAX ? n - at : BEATS_MAX;
        renew_some(advisory, claims + at, results + at, some, deadline, err);
    }
}

static int
advisory_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct advisory *advisory = ((struct postgres *)state)->advisory;
    int rc = 0;
    struct stake *stake = dibs__advisory_find(advisory, claim->serial, deadline, &rc);
    if (!stake)
        return rc ? DIBS_EUNKNOWN : DIBS_ELOST;
    rc = dibs__advisory_share(advisory, stake, deadline, err);
    if (!rc)
        claim->mode = DIBS_SHARED;
    if (!stake->conn.dead) {
        dibs__advisory_put(advisory, stake);
        return rc;
    }
    dibs__advisory_end(advisory, stake);
    return DIBS_ELOST;
}

/* ---- ending ---- */

/* If the session is over, so is the lock. If it could not be asked, it ends now, and the
 * server will notice; but not all that is on the way may get there. */
static int
release_held(struct advisory *advisory, struct stake *stake, dibs_time deadline,
             dibs_error *err)
{
    if (stake->conn.dead)
        return DIBS_ENOTHELD;
    int rc = dibs__advisory_give(advisory, stake, deadline, err);
    if (!rc || rc == DIBS_ENOTHELD)
        return rc;
    int is_over = rc == DIBS_EUNAVAIL && stake->conn.dead;
    stake->conn.dead = 1;
    return is_over ? DIBS_ENOTHELD : DIBS_EUNKNOWN;
}

static int
release_waiting(struct advisory *advisory, struct stake *stake, dibs_time deadline)
{
    set_bell(advisory, stake, NULL);
    dibs__advisory_watch_await(advisory, stake, 0);
    /* a pooler does not tell which session it is; without it, too, the end of the
     * connection ends the waiting, only later */
    if (advisory->pg->pooler == POOLER_TRANSACTIONS ||
        dibs__advisory_cancel(advisory, stake, deadline, NULL))
        stake->conn.dead = 1;
    return DIBS_ENOTHELD;
}

static int
advisory_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
                 dibs_error *err)
{
    struct advisory *advisory = ((struct postgres *)state)->advisory;
    int rc = 0;
    (void)linger_ms; /* DIBS_CAP_LINGER is not promised */
    struct stake *stake = dibs__advisory_find(advisory, claim->serial, deadline, &rc);
    if (!stake)
        return rc ? DIBS_EUNKNOWN : DIBS_ENOTHELD;
    if (stake->state == STAKE_HELD)
        rc = release_held(advisory, stake, deadline, err);
    else
        rc = release_waiting(advisory, stake, deadline);
    dibs__advisory_end(advisory, stake);
    return rc;
}

static int
advisory_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
               size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct advisory *advisory = ((struct postgres *)state)->advisory;
    struct pg_key key;
    (void)name_hash;
    if (advisory->map(&key, name, name_len))
        return advisory->host->fail(err, DIBS_EINVAL,
                                    "this name has no number in this map");
    int rc = dibs__advisory_evict_key(advisory, &key, broken, deadline, err);
    return code_of(rc, err);
}

/* ---- the table ---- */

static const char *const params[] = { PG_PARAMS, "form", "map", NULL };

const dibs_engine dibs__pg_advisory = {
    .abi = DIBS_ENGINE_ABI,
    .name = "postgres",
    .schemes = dibs__pg_schemes,
    .layout = "advisory",
    .layouts = dibs__pg_layouts,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_TOKEN |
            DIBS_CAP_CELL | DIBS_CAP_BREAK | DIBS_CAP_WAKE,
    .state_size = sizeof(struct postgres),
    .open = advisory_open,
    .close = advisory_close,
    .attempt = advisory_attempt,
    .renew = advisory_renew,
    .release = advisory_release,
    .downgrade = advisory_downgrade,
    .evict = advisory_evict,
    .cell_read = dibs__sql_cell_read,
    .cell_swap = dibs__sql_cell_swap,
    .schema = makes,
};
