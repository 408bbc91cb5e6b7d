/* SPDX-License-Identifier: MIT */
/* See drive.h. */
#include "drive.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/name.h"
#include "core/registry.h"
#include "core/session.h"
#include "core/sys.h"

#define CALL_LIMIT_MS 3000

extern const dibs_engine dibs_engine_table;

int
run_case(int argc, char **argv, const struct test_case *cases, size_t count)
{
    need(server_present("redis-server"), "redis-server");
    const struct test_case *found = find_case(argc, argv, cases, count);
    if (!found)
        return 2;
    limit_time(170);
    found->run();
    return 0;
}

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
        rc = client->engine->open(&client->redis, &client->session, &client->url.parts,
                                  dibs__now() + slowly(CALL_LIMIT_MS) * DIBS_MS,
                                  &client->err);
    if (rc) {
        dibs__url_free(&client->url);
        return rc;
    }
    static const char *const count[] = { "return redis.call('INCR', KEYS[1])", NULL };
    CHECK(dibs__redis_script_new(&client->count, "count", count, &dibs__host) == DIBS_OK);
    return DIBS_OK;
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
    dibs__redis_script_free(&client->count, &dibs__host);
    client->engine->close(&client->redis, 0);
    dibs__url_free(&client->url);
}

void
drive_key(struct key *key, int number)
{
    char name[32];
    int len = snprintf(name, sizeof name, "key %d", number);
    dibs__redis_key_set(key, "test:", name, (size_t)len, "");
}

void
count_call(drive *client, struct call *call, const struct key *key)
{
    dibs__redis_script_call(call, &client->count, 1, key,
                            dibs__hash(key->text, key->len));
    dibs__resp_bytes(&call->command, key->text, key->len);
}

int64_t
drive_count(drive *client, const struct key *key, int64_t limit_ms, int *code)
{
    struct call call;
    redisReply *reply;
    count_call(client, &call, key);
    *code = dibs__redis_run(&client->redis, &call, dibs__now() + limit_ms * DIBS_MS,
                            &reply, &client->err);
    if (*code)
        return -1;
    int64_t value = dibs__resp_integer(reply, -1);
    freeReplyObject(reply);
    return value;
}

int64_t
drive_count_until(drive *client, const struct key *key, int64_t limit_ms)
{
    int64_t until = now_ms() + slowly(limit_ms);
    for (;;) {
        int code;
        int64_t value = drive_count(client, key, slowly(500), &code);
        if (code == DIBS_OK)
            return value;
        if (now_ms() > until)
            FAIL("it does not work again: %s", client->err.text);
        CHECK(code == DIBS_EUNAVAIL || code == DIBS_EUNKNOWN);
        sleep_ms(20);
    }
}

void
check_count(const char *file, int line, drive *client, const struct key *key,
            int64_t want)
{
    int code;
    int64_t got = drive_count(client, key, slowly(1000), &code);
    if (code)
        fail_at(file, line, "counting gives %s: %s", dibs_errname(code),
                client->err.text);
    check_same(file, line, "the count", got, want);
}
