/* SPDX-License-Identifier: MIT */
/* See link_drive.h. */
#include "link_drive.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"

#define CALL_LIMIT_MS 5000

extern const dibs_engine dibs_engine_table;

static const dibs_host host = {
    .now = dibs__now,
    .ring = dibs__bell_ring,
    .sleep_until = dibs__sleep_until,
    .fail = dibs__fail,
    .alloc = dibs__alloc,
    .free = dibs__free,
    .random = dibs__random,
    .param = dibs__url_param,
    .param_ms = dibs__url_param_ms,
};

static int
open_text(drive *client, const char *text)
{
    memset(client, 0, sizeof *client);
    CHECK(dibs__url_parse(&client->url, text, &client->err) == DIBS_OK);
    CHECK(dibs__url_check_params(&client->url, dibs_engine_table.params, &client->err) ==
          DIBS_OK);
    client->session.host = &host;
    client->session.app = "drive";
    client->session.keeper_bell = &client->session.own_keeper_bell;
    client->session.caps = dibs_engine_table.caps;
    for (size_t i = 0; i < sizeof client->session.id; i++)
        client->session.id[i] = (uint8_t)dibs__random();
    int rc = dibs_engine_table.open(&client->zk, &client->session, &client->url.parts,
                                    in_ms(slowly(CALL_LIMIT_MS)), &client->err);
    if (rc)
        dibs__url_free(&client->url);
    return rc;
}

int
drive_try_open(drive *client, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return open_text(client, text);
}

void
drive_open(drive *client, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (open_text(client, text) != DIBS_OK)
        FAIL("cannot open %s: %s", text, client->err.text);
}

void
drive_close(drive *client)
{
    dibs_engine_table.close(&client->zk, 0);
    dibs__url_free(&client->url);
}

void
drive_close_forked(drive *client)
{
    dibs_engine_table.close(&client->zk, 1);
    dibs__url_free(&client->url);
}

struct session *
drive_session(drive *client, uint32_t lease_ms)
{
    struct session *session;
    if (dibs__zk_session_for(&client->zk, lease_ms, in_ms(slowly(CALL_LIMIT_MS)),
                             &session, &client->err) != DIBS_OK)
        FAIL("no session: %s", client->err.text);
    return session;
}

static int
run_one(drive *client, struct session *session, struct op *op, int64_t limit_ms, int *rc)
{
    int code = dibs__zk_run(session, op, 1, in_ms(limit_ms), &client->err);
    *rc = op->rc;
    dibs__zk_ops_free(op, 1);
    return code;
}

int
drive_make(drive *client, struct session *session, const char *path, int mode,
           int64_t limit_ms, int *rc)
{
    struct op op = { .kind = OP_CREATE, .path = path, .mode = mode };
    return run_one(client, session, &op, limit_ms, rc);
}

int
drive_delete(drive *client, struct session *session, const char *path, int64_t limit_ms,
             int *rc)
{
    struct op op = { .kind = OP_DELETE, .path = path, .version = -1 };
    return run_one(client, session, &op, limit_ms, rc);
}

int
drive_is(drive *client, struct session *session, const char *path, int64_t limit_ms,
         int *rc)
{
    struct op op = { .kind = OP_EXISTS, .path = path };
    return run_one(client, session, &op, limit_ms, rc);
}
