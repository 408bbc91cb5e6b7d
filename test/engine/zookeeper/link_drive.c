/* SPDX-License-Identifier: MIT */
/* See link_drive.h. */
#include "link_drive.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/registry.h"
#include "core/session.h"

#define CALL_LIMIT_MS 5000

extern const dibs_engine dibs_engine_table;

/* the table of the layout that the URL asks for, as core finds it */
static int
choose_engine(drive *client)
{
    static int is_known;
    if (!is_known)
        CHECK(dibs__registry_add(&dibs_engine_table, &client->err) == DIBS_OK);
    is_known = 1;
    int rc =
        dibs__registry_find(&client->engine, client->url.parts.scheme,
                            dibs__url_param(&client->url.parts, "layout"), &client->err);
    return rc ? rc : dibs__url_check_params(&client->url, client->engine, &client->err);
}

static int
open_text(drive *client, const char *text)
{
    memset(client, 0, sizeof *client);
    CHECK(dibs__url_parse(&client->url, text, &client->err) == DIBS_OK);
    int rc = choose_engine(client);
    if (!rc)
        dibs__session_init(&client->session, client->engine, "drive");
    if (!rc)
        rc = client->engine->open(&client->zk, &client->session, &client->url.parts,
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
    client->engine->close(&client->zk, 0);
    dibs__url_free(&client->url);
}

void
drive_close_forked(drive *client)
{
    client->engine->close(&client->zk, 1);
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
