/* SPDX-License-Identifier: MIT */
/* The tables of the classic layouts: opening and closing. The slots are src/sql's. */
#include "classic.h"

/* ---- open and close ---- */

static const struct classic_kind kinds[] = {
    { &dibs__classic_unique, dibs__pg_unique_texts, dibs__pg_unique_makes },
    { &dibs__classic_status, dibs__pg_status_texts, dibs__pg_status_makes },
    { &dibs__classic_shedlock, dibs__pg_shedlock_texts, dibs__pg_shedlock_makes },
    { &dibs__classic_spring, dibs__pg_spring_texts, dibs__pg_spring_makes },
};

static int
open_with(void *state, const struct classic *classic, dibs_session *session,
          const dibs_url_parts *url, dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    pg->drive.texts = classic->texts;
    pg->drive.makes = classic->makes;
    return dibs__pg_open(pg, session, url, deadline, err);
}

static void
close_rest(void *state, int forked)
{
    dibs__pg_close(state, forked);
}

static const struct classic_engine classics = {
    .texts = dibs__pg_texts, .kinds = kinds, .open = open_with, .close = close_rest
};

static int
classic_open(void *state, dibs_session *session, const dibs_url_parts *url,
             dibs_time deadline, dibs_error *err)
{
    return dibs__classic_open(state, &classics, session, url, deadline, err);
}

static void
classic_close(void *state, int forked)
{
    dibs__classic_close(state, &classics, forked);
}

/* ---- the tables ---- */

static const char *const classic_params[] = { PG_PARAMS, CLASSIC_PARAMS, NULL };
static const char *const shedlock_params[] = { PG_PARAMS, SHEDLOCK_PARAMS, NULL };
static const char *const spring_params[] = { PG_PARAMS, SPRING_PARAMS, NULL };

/* what is the same for all of them */
#define PG_CLASSIC                                                                       \
    .abi = DIBS_ENGINE_ABI, .name = "postgres", .schemes = dibs__pg_schemes,             \
    .caps = CLASSIC_CAPS, .state_size = sizeof(struct postgres), .open = classic_open,   \
    .close = classic_close, CLASSIC_SLOTS

const dibs_engine dibs__pg_unique = {
    PG_CLASSIC,
    .layout = "unique",
    .params = classic_params,
    .schema = dibs__pg_unique_makes,
};

const dibs_engine dibs__pg_status = {
    PG_CLASSIC,
    .layout = "status",
    .params = classic_params,
    .schema = dibs__pg_status_makes,
};

const dibs_engine dibs__pg_shedlock = {
    PG_CLASSIC,
    .layout = "shedlock",
    .params = shedlock_params,
    .schema = dibs__pg_shedlock_makes,
};

const dibs_engine dibs__pg_spring = {
    PG_CLASSIC,
    .layout = "spring",
    .params = spring_params,
    .schema = dibs__pg_spring_makes,
};
