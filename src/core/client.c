/* SPDX-License-Identifier: MIT */
/* The client: opening, closing, counting. */
#include "core/core.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/registry.h"
#include "core/session.h"

#define DEFAULT_LEASE_MS 30000
#define DEFAULT_OPEN_WAIT_MS 10000
#define DEFAULT_HANDOVER_MAX 256
#define DEFAULT_HANDOVER_MS 10
#define DEFAULT_DRIFT_PPM 1000
/* how often closing looks whether the last waiter has left */
#define LEAVE_PAUSE DIBS_MS

/* ---- opening ---- */

static void
fill_options(dibs_options *to, const dibs_options *from)
{
    memset(to, 0, sizeof *to);
    if (from)
        memcpy(to, from, from->size && from->size < sizeof *to ? from->size : sizeof *to);
#define DEFAULT(field, value)                                                            \
    if (!to->field)                                                                      \
    to->field = (value)
    DEFAULT(lease_ms, DEFAULT_LEASE_MS);
    DEFAULT(open_wait_ms, DEFAULT_OPEN_WAIT_MS);
    DEFAULT(handover_max, DEFAULT_HANDOVER_MAX);
    DEFAULT(handover_ms, DEFAULT_HANDOVER_MS);
    DEFAULT(drift_ppm, DEFAULT_DRIFT_PPM);
    DEFAULT(app, program_invocation_short_name);
#undef DEFAULT
}

static int
find_engine(dibs *client, const char *url, dibs_error *err)
{
    int rc = dibs__url_parse(&client->url, url, err);
    if (!rc)
        rc = dibs__registry_find(&client->engine, client->url.parts.scheme,
                                 dibs__url_param(&client->url.parts, "layout"), err);
    if (!rc)
        rc = dibs__url_check_params(&client->url, client->engine, err);
    if (!rc)
        rc = dibs__url_password_from_file(&client->url, err);
    return rc;
}

static int
open_client(dibs *client, const char *url, const dibs_options *options, dibs_error *err)
{
    fill_options(&client->options, options);
    (void)snprintf(client->app, sizeof client->app, "%s", client->options.app);
    client->options.app = client->app;
    client->fork_mark = dibs__fork_mark();
    dibs__canceller_init(&client->closing);
    dibs__keeper_init(client);
    int rc = dibs__arbiter_init(client, err);
    if (!rc)
        rc = find_engine(client, url, err);
    if (rc)
        return rc;
    dibs__session_init(&client->session, client->engine, client->app);
    client->state =
        dibs__alloc(client->engine->state_size ? client->engine->state_size : 1);
    if (!client->state)
        return dibs__fail_memory(err);
    return dibs__engine_open(client, dibs__now() + client->options.open_wait_ms * DIBS_MS,
                             err);
}

int
dibs_open(dibs **out, const char *url, const dibs_options *options, dibs_error *err)
{
    UNCANCELLED;
    if (!out)
        return dibs__fail(err, DIBS_EINVAL, "out is NULL");
    dibs *client = dibs__alloc(sizeof *client);
    if (!client)
        return dibs__fail_memory(err);
    int rc = open_client(client, dibs__url_or_default(url), options, err);
    if (rc) {
        dibs__free(client->state);
        dibs__client_free(client);
        return rc;
    }
    *out = client;
    return DIBS_OK;
}

/* ---- counting who is here ---- */

void
dibs__client_free(dibs *client)
{
    dibs__arbiter_done(client);
    dibs__free(client->keeper.heap);
    dibs__mutex_done(&client->keeper.mutex);
    dibs__mutex_done(&client->closing.mutex);
    dibs__url_free(&client->url);
    dibs__free(client);
}

void
dibs__client_enter(dibs *client)
{
    atomic_fetch_add(&client->inside, 1);
}

void
dibs__client_leave(dibs *client)
{
    /* the client may be gone after this, so nobody is rung: closing looks every so often */
    atomic_fetch_sub(&client->inside, 1);
}

static void
wait_until_all_left(dibs *client)
{
    /* where asking is cheap, threads count as inside only once they sleep */
    while (atomic_load(&client->inside) || dibs__arbiter_asking(client))
        dibs__sleep_until(dibs__now() + LEAVE_PAUSE);
}

int
dibs__client_check(const dibs *client, dibs_error *err)
{
    if (!client)
        return dibs__fail(err, DIBS_EINVAL, "client is NULL");
    if (dibs__forked(client->fork_mark))
        return dibs__fail(
            err, DIBS_EINVAL,
            "this client was opened before fork(): open a new one in the child");
    return DIBS_OK;
}

const char *
dibs__where(const dibs *client)
{
    return *client->session.endpoint ? client->session.endpoint : client->url.shown;
}

int
dibs__fail_at(const dibs *client, dibs_error *err, int code, const char *phrase,
              const char *name, size_t name_len, const char *format, ...)
{
    char shown[DIBS__NAME_SHOWN];
    va_list args;
    if (!err)
        return code;
    (void)dibs_name_print(shown, sizeof shown, name, name_len);
    (void)dibs__fail(err, code, "cannot %s '%s' at %.120s: ", phrase, shown,
                     dibs__where(client));
    size_t used = strlen(err->text);
    va_start(args, format);
    (void)vsnprintf(err->text + used, sizeof err->text - used, format, args);
    va_end(args);
    (void)snprintf(err->engine, sizeof err->engine, "%s", client->engine->name);
    return code;
}

/* ---- closing ---- */

static void
close_engine(dibs *client, int forked)
{
    dibs__engine_close(client, forked);
    dibs__free(client->state);
    client->state = NULL;
}

void
dibs_close(dibs *client)
{
    UNCANCELLED;
    if (!client)
        return;
    if (dibs__forked(client->fork_mark)) {
        /* a child's copy of a mutex may be locked for ever: there the memory is left alone */
        close_engine(client, 1);
        return;
    }
    dibs_cancel(&client->closing);
    wait_until_all_left(client);
    dibs__grant *grant;
    while ((grant = dibs__arbiter_take_any(client))) {
        (void)dibs__grant_end(client, grant, 0, !dibs__grant_stands(grant), 0, NULL);
        dibs__arbiter_vacate(client, grant);
        dibs__grant_unref(grant);
    }
    dibs__keeper_stop(client);
    wait_until_all_left(client); /* those who were told of a loss at the last moment */
    close_engine(client, 0);
    if (dibs__arbiter_close(client))
        dibs__client_free(client);
}

/* ---- asking a client about itself ---- */

const char *
dibs_url(const dibs *client)
{
    return client ? client->url.shown : "";
}

const char *
dibs_engine_name(const dibs *client)
{
    return client ? client->engine->name : "";
}

const char *
dibs_notice(const dibs *client)
{
    return client ? client->session.notice : "";
}

uint32_t
dibs_caps(const dibs *client)
{
    return client ? client->session.caps : 0;
}

void
dibs_stats_read(dibs_stats *out, const dibs *client)
{
    dibs *c = (dibs *)client; /* reading takes mutexes */
    memset(out, 0, sizeof *out);
    if (!client)
        return;
    dibs__arbiter_count(out, c);
    out->waited = atomic_load(&c->waited);
    out->timed_out = atomic_load(&c->timed_out);
    out->canceled = atomic_load(&c->canceled);
    out->lost = atomic_load(&c->lost);
    out->renewals = atomic_load(&c->renewals);
    out->renewals_failed = atomic_load(&c->renewals_failed);
    out->reaped = atomic_load(&c->reaped);
    out->engine_calls += atomic_load(&c->engine_calls);
    out->renewal_lateness_max_ms = atomic_load(&c->lateness_max_ms);
}
