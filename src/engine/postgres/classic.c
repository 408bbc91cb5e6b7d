/* SPDX-License-Identifier: MIT */
/* The tables of the classic layouts: opening and closing. The slots are src/sql's. */
#include "classic.h"

#include <string.h>

/* ---- open and close ---- */

/* what a layout is made of */
static const struct kind {
    const struct classic_form *form;
    const char *const *texts, *const *makes;
} kinds[] = {
    { &dibs__classic_unique, dibs__pg_unique_texts, dibs__pg_unique_makes },
    { &dibs__classic_status, dibs__pg_status_texts, dibs__pg_status_makes },
    { &dibs__classic_shedlock, dibs__pg_shedlock_texts, dibs__pg_shedlock_makes },
    { &dibs__classic_spring, dibs__pg_spring_texts, dibs__pg_spring_makes },
};

static const struct kind *
kind_of(const dibs_engine *table)
{
    const struct kind *kind = kinds;
    while (strcmp(kind->form->layout, table->layout) != 0)
        kind++;
    return kind;
}

static int
classic_open(void *state, dibs_session *session, const dibs_url_parts *url,
             dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    struct classic *classic = NULL;
    const struct kind *kind = kind_of(session->engine);
    int rc = dibs__classic_new(&classic, kind->form, dibs__pg_texts, kind->texts,
                               kind->makes, session, url, err);
    if (rc)
        return rc;
    pg->drive.texts = classic->texts;
    pg->drive.makes = classic->makes;
    rc = dibs__pg_open(pg, session, url, deadline, err);
    if (rc) {
        dibs__classic_free(classic);
        return rc;
    }
    session->notice[0] = '\0'; /* a pooler changes nothing here: all who wait look */
    rc = dibs__classic_begin(classic, &pg->sql, deadline, err);
    if (rc) {
        dibs__pg_close(pg, 0);
        dibs__classic_free(classic);
    }
    return rc;
}

static void
classic_close(void *state, int forked)
{
    struct postgres *pg = state;
    struct classic *classic = pg->sql.layout;
    dibs__pg_close(pg, forked);
    dibs__classic_free(classic);
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
