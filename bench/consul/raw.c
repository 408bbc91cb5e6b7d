/* SPDX-License-Identifier: MIT */
/*
 * Locks by hand with libcurl: the requests that dibs sends, written down, and what Consul's
 * documentation tells people to write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consul.h"

enum { BODY_MAX = 2048, SESSION_MAX = 64 };

/* as `consul lock` marks its keys */
#define FLAGS "3304740253564472344"

/* what dibs writes into its key, with other numbers */
#define VALUE                                                                            \
    "\ndibs1 id=0123456789abcdef0123456789abcdef-1 mode=0 permits=1 limit=0 "            \
    "lease=30000 "                                                                       \
    "pid=12345 since=1700000000000 token=0 host=host app=bench"

#define KEY "bench/floor/.lock"
#define EPOCH "bench/%%epoch/%s"
#define PLAIN "/v1/kv/bench-plain/.lock"

typedef struct raw {
    raw_http *http;
    char session[SESSION_MAX];
    char index[32]; /* ModifyIndex of the lock we hold */
} raw;

void *
raw_open(const void *s)
{
    raw *r = calloc(1, sizeof *r);

    if (r == NULL)
        bench_die("out of memory");
    r->http = raw_http_open(s);
    raw_field(r->session, sizeof r->session,
              raw_http_ask(r->http, "PUT", "/v1/session/create",
                           "{\"TTL\":\"86400s\",\"LockDelay\":\"0s\",\"Behavior\":"
                           "\"delete\"}"),
              "ID");
    return r;
}

void
raw_close(void *arg)
{
    raw *r = arg;
    char path[128];

    snprintf(path, sizeof path, "/v1/session/destroy/%s", r->session);
    (void)raw_http_ask(r->http, "PUT", path, NULL);
    raw_http_close(r->http);
    free(r);
}

void
raw_lock(void *arg)
{
    raw *r = arg;
    char value[256], body[BODY_MAX];

    raw_base64(value, sizeof value, VALUE);
    snprintf(body, sizeof body,
             "[{\"KV\":{\"Verb\":\"check-not-exists\",\"Key\":\"" EPOCH "\"}},"
             "{\"KV\":{\"Verb\":\"check-not-exists\",\"Key\":\"" KEY "\"}},"
             "{\"KV\":{\"Flags\":" FLAGS ",\"Value\":\"%s\",\"Session\":\"%s\","
             "\"Verb\":\"lock\",\"Key\":\"" KEY "\"}}]",
             r->session, value, r->session);
    raw_field(r->index, sizeof r->index, raw_http_ask(r->http, "PUT", "/v1/txn", body),
              "ModifyIndex");
}

void
raw_unlock(void *arg)
{
    raw *r = arg;
    char body[BODY_MAX];

    snprintf(body, sizeof body,
             "[{\"KV\":{\"Index\":%s,\"Verb\":\"check-index\",\"Key\":\"" KEY "\"}},"
             "{\"KV\":{\"Index\":%s,\"Verb\":\"delete-cas\",\"Key\":\"" KEY "\"}}]",
             r->index, r->index);
    (void)raw_http_ask(r->http, "PUT", "/v1/txn", body);
}

/* await returns when somebody changed the key, or a minute has passed */
static void
await_change(raw *r)
{
    char path[128];

    if (strstr(raw_http_ask(r->http, "GET", PLAIN, NULL), "\"Session\"") == NULL)
        return;
    snprintf(path, sizeof path, PLAIN "?wait=60s&index=%lu", raw_http_index(r->http));
    (void)raw_http_ask(r->http, "GET", path, NULL);
}

void
raw_acquire(void *arg)
{
    raw *r = arg;
    char path[256];

    snprintf(path, sizeof path, PLAIN "?flags=" FLAGS "&acquire=%s", r->session);
    while (strncmp(raw_http_ask(r->http, "PUT", path, ""), "true", 4) != 0)
        await_change(r);
}

void
raw_release(void *arg)
{
    raw *r = arg;
    char path[256];

    snprintf(path, sizeof path, PLAIN "?flags=" FLAGS "&release=%s", r->session);
    if (strncmp(raw_http_ask(r->http, "PUT", path, ""), "true", 4) != 0)
        bench_die("the lock was lost");
}
