/* SPDX-License-Identifier: MIT */
/*
 * The layout `advisory`: PostgreSQL's own advisory locks, as other clients take them. A lock
 * is a number, and a session's or a transaction's. advisory_texts.c is what is said. See
 * bound.h, then advisory.h.
 */
#include "advisory.h"

static const struct bound_form *const functions[] = { &dibs__advisory_session,
                                                      &dibs__advisory_xact };

static int
read_url(struct advisory *advisory, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const forms[] = { "session", "xact", NULL };
    static const char *const maps[] = { "dibs", "dotnet", "rails", "rails-migration",
                                        "tooz", "raw",    NULL };
    static pg_keymap *const keymaps[] = {
        dibs__sql_key_dibs,  dibs__sql_key_dotnet,
        dibs__sql_key_rails, dibs__sql_key_rails_migration,
        dibs__sql_key_tooz,  dibs__sql_key_raw
    };
    const dibs_host *host = advisory->bound.host;
    int form = 0, map = 0;
    int rc = host->param_choice(&form, url, "form", forms, err);
    if (!rc)
        rc = host->param_choice(&map, url, "map", maps, err);
    advisory->bound.form = functions[form];
    advisory->map = keymaps[map];
    return rc;
}

/* what the server and the way to it allow */
static int
check(struct bound *bound, dibs_error *err)
{
    struct postgres *pg = bound->pg;
    int is_session = !bound->form->is_xact;
    if (is_session && pg->pooler == POOLER_TRANSACTIONS)
        return pg->host->fail(
            err, DIBS_EUNSUPPORTED,
            "a pooler lends sessions for a transaction only, and a lock "
            "of a session would stay with a stranger: form=xact, or "
            "pooler=session if it lends whole sessions");
    if (is_session && !bound->has_timeout)
        dibs__sql_note(pg->session,
                       "PostgreSQL before 14 keeps the lock of a holder that is frozen "
                       "until it goes on");
    if (!is_session) /* what is exclusive cannot become shared there */
        pg->session->caps &= ~(uint32_t)DIBS_CAP_SHARED;
    return DIBS_OK;
}

static int
begin(struct bound *bound, const dibs_url_parts *url, dibs_time deadline, dibs_error *err)
{
    struct advisory *advisory = (struct advisory *)bound;
    (void)deadline;
    int rc = read_url(advisory, url, err);
    if (!rc && dibs__advisory_texts_make(advisory))
        rc = bound->host->fail(err, DIBS_ENOMEM, "out of memory");
    return rc ? rc : check(bound, err);
}

static const char *const makes[] = { PG_MAKE_CELLS, PG_MAKE_TOKENS, NULL };

static int
advisory_open(void *state, dibs_session *session, const dibs_url_parts *url,
              dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    pg->drive.makes = makes;
    return dibs__bound_open(pg, session, url, sizeof(struct advisory), begin, deadline,
                            err);
}

/* ends all sessions that hold that number, and counts them */
static int
advisory_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
               size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct bound *bound = ((struct postgres *)state)->bound;
    struct pg_key key;
    char text[TEXT_MAX + KEY_TEXT_MAX];
    int64_t count = 0;
    (void)name_hash;
    int rc = dibs__advisory_key((struct advisory *)bound, &key, name, name_len, err);
    if (rc)
        return rc;
    dibs__advisory_print_end(bound, text, sizeof text, &key);
    rc = dibs__bound_ask_elsewhere(bound, text, &count, deadline, err);
    if (!rc)
        *broken = (size_t)count;
    return dibs__bound_code(rc, err);
}

static const char *const params[] = { PG_PARAMS, "form", "map", NULL };

const dibs_engine dibs__pg_advisory = {
    BOUND_SLOTS,
    .abi = DIBS_ENGINE_ABI,
    .name = "postgres",
    .schemes = dibs__pg_schemes,
    .layout = "advisory",
    .layouts = dibs__pg_layouts,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_TOKEN |
            DIBS_CAP_CELL | DIBS_CAP_BREAK | DIBS_CAP_WAKE,
    .open = advisory_open,
    .downgrade = dibs__bound_downgrade,
    .evict = advisory_evict,
    .schema = makes,
};
