/* SPDX-License-Identifier: MIT */
/* The tables of the classic layouts: opening and closing. The slots are src/sql's. */
#include "classic.h"

/* ---- open and close ---- */

static const struct classic_kind kinds[] = {
    { &dibs__classic_unique, dibs__mysql_unique_texts, dibs__mysql_unique_makes },
    { &dibs__classic_status, dibs__mysql_status_texts, dibs__mysql_status_makes },
    { &dibs__classic_shedlock, dibs__mysql_shedlock_texts, dibs__mysql_shedlock_makes },
    { &dibs__classic_spring, dibs__mysql_spring_texts, dibs__mysql_spring_makes },
};

int
dibs__mysql_needs_mariadb(const struct mysql *mysql, dibs_error *err)
{
    if (mysql->is_mariadb)
        return DIBS_OK;
    return mysql->sql.host->fail(
        err, DIBS_EUNSUPPORTED,
        "this layout takes MariaDB 10.5: MySQL has no "
        "sequences; layout=lease and layout=get_lock work there");
}

static int
open_with(void *state, const struct classic *classic, dibs_session *session,
          const dibs_url_parts *url, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    mysql->drive.texts = classic->texts;
    mysql->drive.makes = classic->makes;
    int rc = dibs__mysql_open(mysql, session, url, deadline, err);
    if (rc)
        return rc;
    rc = dibs__mysql_needs_mariadb(mysql, err);
    if (rc)
        dibs__mysql_close(mysql, 0);
    return rc;
}

static const struct classic_engine classics = { .texts = dibs__mysql_texts,
                                                .kinds = kinds,
                                                .open = open_with,
                                                .close = dibs__mysql_close };

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

static const char *const classic_params[] = { MYSQL_PARAMS, CLASSIC_PARAMS, NULL };
static const char *const shedlock_params[] = { MYSQL_PARAMS, SHEDLOCK_PARAMS, NULL };
static const char *const spring_params[] = { MYSQL_PARAMS, SPRING_PARAMS, NULL };

/* what is the same for all of them */
#define MYSQL_CLASSIC                                                                    \
    .abi = DIBS_ENGINE_ABI, .name = "mysql", .schemes = dibs__mysql_schemes,             \
    .caps = CLASSIC_CAPS, .state_size = sizeof(struct mysql), .open = classic_open,      \
    .close = classic_close, CLASSIC_SLOTS

const dibs_engine dibs__mysql_unique = {
    MYSQL_CLASSIC,
    .layout = "unique",
    .params = classic_params,
    .schema = dibs__mysql_unique_makes,
};

const dibs_engine dibs__mysql_status = {
    MYSQL_CLASSIC,
    .layout = "status",
    .params = classic_params,
    .schema = dibs__mysql_status_makes,
};

const dibs_engine dibs__mysql_shedlock = {
    MYSQL_CLASSIC,
    .layout = "shedlock",
    .params = shedlock_params,
    .schema = dibs__mysql_shedlock_makes,
};

const dibs_engine dibs__mysql_spring = {
    MYSQL_CLASSIC,
    .layout = "spring",
    .params = spring_params,
    .schema = dibs__mysql_spring_makes,
};
