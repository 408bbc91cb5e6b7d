/* SPDX-License-Identifier: MIT */
/* The session of a client with its engine. See session.h. */
#include "core/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sys.h"
#include "core/url.h"

const dibs_host dibs__host = {
    .now = dibs__now,
    .ring = dibs__bell_ring,
    .sleep_until = dibs__sleep_until,
    .fail = dibs__fail,
    .alloc = dibs__alloc,
    .free = dibs__free,
    .random = dibs__random,
    .param = dibs__url_param,
    .param_ms = dibs__url_param_ms,
    .param_number = dibs__url_param_number,
    .param_choice = dibs__url_param_choice,
    .param_yes = dibs__url_param_yes,
    .advance_clock = dibs__clock_advance,
};

void
dibs__session_init(dibs_session *session, const dibs_engine *engine, const char *app)
{
    uint64_t id[2] = { dibs__random(), dibs__random() };
    memset(session, 0, sizeof *session);
    memcpy(session->id, id, sizeof session->id);
    for (size_t i = 0; i < sizeof session->id; i++)
        (void)snprintf(session->id_hex + 2 * i, 3, "%02x", session->id[i]);
    session->host = &dibs__host;
    session->engine = engine;
    session->app = app;
    if (gethostname(session->machine, sizeof session->machine - 1) != 0)
        session->machine[0] = '\0';
    session->pid = getpid();
    session->caps = engine->caps;
    session->keeper_bell = &session->own_keeper_bell;
}
