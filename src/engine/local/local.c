/* SPDX-License-Identifier: MIT */
/*
 * The `local:` engine: locks between the threads and processes of one machine, in a file
 * that they all have mapped. docs/engines/local.md says what it promises; layout.h is where
 * to start reading.
 */
#include <stdio.h>
#include <unistd.h>

#include "engine/local/local.h"

extern const dibs_engine dibs__engine_local;

/* a thousand processes that open at once wait for each other: as long as opening may take */
static int
join(local_state *s, const dibs_session *session, dibs_time deadline, dibs_error *err)
{
    int rc;
    do
        rc = dibs__local_join(s, session->app, err);
    while (rc == DIBS_EUNAVAIL && session->host->now() < deadline);
    return rc;
}

static int
local_open(void *state, dibs_session *session, const dibs_url_parts *url,
           dibs_time deadline, dibs_error *err)
{
    local_state *s = state;
    const dibs_host *host = session->host;
    char text[4096];
    int folder;
    if (*url->hosts || url->user)
        return host->fail(err, DIBS_ECONFIG, "write local: or local:/dir");
    int rc = dibs__local_folder(&folder, text, sizeof(text), url->path, host, err);
    if (rc != DIBS_OK)
        return rc;
    rc = dibs__local_open(&s->table, folder, text, host, deadline, err);
    close(folder);
    if (rc != DIBS_OK)
        return rc;
    if ((rc = join(s, session, deadline, err)) != DIBS_OK) {
        dibs__local_close(s->table, 0);
        return rc;
    }
    session->keeper_bell = &s->table->records[s->member].member.bell;
    snprintf(session->endpoint, sizeof(session->endpoint), "local:%.121s", text);
    return DIBS_OK;
}

static void
local_close(void *state, int forked)
{
    local_state *s = state;
    if (forked)
        dibs__local_close(s->table, 1);
    else
        dibs__local_leave(s);
}

static const char *const local_schemes[] = { "local", NULL };
static const char *const local_params[] = { NULL };

const dibs_engine dibs__engine_local = {
    .abi = DIBS_ENGINE_ABI,
    .name = "local",
    .schemes = local_schemes,
    .params = local_params,
    .caps = DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS | DIBS_CAP_TOKEN |
            DIBS_CAP_PREVIOUS | DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK |
            DIBS_CAP_LINGER | DIBS_CAP_WAKE | DIBS_CAP_DIRECT | DIBS_CAP_DETAIL |
            DIBS_CAP_OBSERVE,
    .min_lease_ms = 0,
    .state_size = sizeof(local_state),
    .open = local_open,
    .close = local_close,
    .attempt = dibs__local_attempt,
    .watch = dibs__local_watch_claim,
    .renew = dibs__local_renew,
    .release = dibs__local_release,
    .downgrade = dibs__local_downgrade,
    .list = dibs__local_list,
    .inspect = dibs__local_inspect,
    .evict = dibs__local_evict,
    .cell_read = dibs__local_cell_read,
    .cell_swap = dibs__local_cell_swap,
};
