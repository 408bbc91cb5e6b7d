/* SPDX-License-Identifier: MIT */
/*
 * Locks by hand with libcurl: the requests that dibs sends, written down, and the server's
 * own lock service.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum { LEASE_S = 86400, BODY_MAX = 2048 };

/* what dibs writes into its key, with other numbers */
#define VALUE                                                                            \
    "\ndibs1 id=0123456789abcdef0123456789abcdef-1 mode=0 permits=1 limit=0 "            \
    "lease=30000 "                                                                       \
    "pid=12345 since=1700000000000 token=0 host=host app=bench"

typedef struct raw {
    raw_http *http;
    char lease[32], lease_hex[32]; /* decimal, as JSON has it; as keys have it */
    char key[128];                 /* base64: the key of the lock we hold */
    char revision[32];             /* that made it */
} raw;

void *
raw_open(const void *s)
{
    raw *r = calloc(1, sizeof *r);
    char body[64];

    if (r == NULL)
        bench_die("out of memory");
    r->http = raw_http_open(s);
    snprintf(body, sizeof body, "{\"TTL\":%d}", LEASE_S);
    raw_field(r->lease, sizeof r->lease,
              raw_http_ask(r->http, "POST", "/v3/lease/grant", body), "ID");
    snprintf(r->lease_hex, sizeof r->lease_hex, "%" PRIx64,
             (uint64_t)strtoull(r->lease, NULL, 10));
    return r;
}

void
raw_close(void *arg)
{
    raw *r = arg;
    char body[64];

    snprintf(body, sizeof body, "{\"ID\":\"%s\"}", r->lease);
    (void)raw_http_ask(r->http, "POST", "/v3/lease/revoke", body);
    raw_http_close(r->http);
    free(r);
}

/* line_keys writes, in base64, our own key, where the line begins and ends, and the epoch of
 * our lease */
static void
line_keys(raw *r, char begin[128], char end[128], char epoch[128])
{
    char text[96];

    snprintf(text, sizeof text, "/bench/floor/%s", r->lease_hex);
    raw_base64(r->key, sizeof r->key, text);
    raw_base64(begin, 128, "/bench/floor/");
    raw_base64(end, 128, "/bench/floor0");
    snprintf(text, sizeof text, "/bench/%%epoch/%s", r->lease_hex);
    raw_base64(epoch, 128, text);
}

static const char *
ask(raw *r, const char *path, const char *body)
{
    return raw_http_ask(r->http, "POST", path, body);
}

void
raw_lock(void *arg)
{
    raw *r = arg;
    char begin[128], end[128], epoch[128], value[256], body[BODY_MAX];
    const char *answer;

    line_keys(r, begin, end, epoch);
    raw_base64(value, sizeof value, VALUE);
    snprintf(
        body, sizeof body,
        "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"},{\"key\":\"%s\",\"target\":\"VERSION\","
        "\"result\":\"EQUAL\",\"version\":\"0\"}],\"success\":[{\"request_put\":{"
        "\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%s\"}},{\"request_range\":{"
        "\"key\":\"%s\",\"range_end\":\"%s\",\"sort_order\":\"DESCEND\","
        "\"sort_target\":\"CREATE\",\"limit\":\"2\",\"keys_only\":true}}],\"failure\":[{"
        "\"request_range\":{\"key\":\"%s\"}},{\"request_range\":{\"key\":\"%s\"}}]}",
        r->key, epoch, r->key, value, r->lease, begin, end, r->key, epoch);
    answer = ask(r, "/v3/kv/txn", body);
    if (strstr(answer, "\"succeeded\":true") == NULL)
        bench_die("a lock that nobody wants is taken: %s", answer);
    raw_field(r->revision, sizeof r->revision, answer, "revision");
}

void
raw_unlock(void *arg)
{
    raw *r = arg;
    char body[BODY_MAX];

    snprintf(body, sizeof body,
             "{\"compare\":[{\"key\":\"%s\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
             "\"create_revision\":\"%s\"}],\"success\":[{\"request_delete_range\":{"
             "\"key\":\"%s\"}}]}",
             r->key, r->revision, r->key);
    if (strstr(ask(r, "/v3/kv/txn", body), "\"succeeded\":true") == NULL)
        bench_die("the lock was lost");
}

void
raw_service_lock(void *arg)
{
    raw *r = arg;
    char name[64], body[BODY_MAX];

    raw_base64(name, sizeof name, "bench-service");
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"lease\":\"%s\"}", name, r->lease);
    raw_field(r->key, sizeof r->key, ask(r, "/v3/lock/lock", body), "key");
}

void
raw_service_unlock(void *arg)
{
    raw *r = arg;
    char body[BODY_MAX];

    snprintf(body, sizeof body, "{\"key\":\"%s\"}", r->key);
    (void)ask(r, "/v3/lock/unlock", body);
}
