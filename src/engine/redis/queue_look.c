/* SPDX-License-Identifier: MIT */
/*
 * The queue layout: looking at locks, and breaking them. What is reported comes from a
 * script for each lock, so each is shown as it was at one moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

#define SCAN_COUNT 1000
#define LOOKS 64 /* at a time */
#define NAMES_MAX 10000000

/* ---- one lock ---- */

/* A party as the script wrote it: four elements of the reply. */
struct seen {
    int64_t place, ends_ms;
    const redisReply *info;
};

/* Copies `len` bytes of a text, as far as they are there, and moves on behind them. */
static void
cut(char *out, size_t room, const char **at, size_t *left, size_t len)
{
    if (len > *left)
        len = *left;
    size_t kept = len < room ? len : room - 1;
    memcpy(out, *at, kept);
    out[kept] = '\0';
    *at += len;
    *left -= len;
}

static int
report_party(const struct seen *seen, int64_t now_ms, dibs_sink *sink)
{
    char host[65], app[129], note[DIBS_NOTE_MAX + 1];
    unsigned was, mode, permits, limit, lease, wait;
    long long pid;
    size_t host_len, app_len;
    int text_at = 0;
    if (!seen->info || seen->info->type != REDIS_REPLY_STRING ||
        sscanf(seen->info->str, "%u %u %u %u %u %u %lld %zu %zu%n", &was, &mode, &permits,
               &limit, &lease, &wait, &pid, &host_len, &app_len, &text_at) != 9 ||
        seen->info->len <= (size_t)text_at)
        return DIBS_OK; /* somebody wrote this by hand */
    const char *at = seen->info->str + text_at + 1;
    size_t left = seen->info->len - (size_t)text_at - 1;
    cut(host, sizeof host, &at, &left, host_len);
    cut(app, sizeof app, &at, &left, app_len);
    cut(note, sizeof note, &at, &left, left);
    int waits = seen->place > 0;
    int64_t tick = waits ? seen->place : -seen->place;
    dibs_party party = {
        .mode = (int)mode,
        .permits = permits,
        .token = waits ? 0 : token_of_tick(tick),
        .pid = pid,
        .since_ms = tick / 1000,
        .lease_left_ms = seen->ends_ms > now_ms ? seen->ends_ms - now_ms : 0,
        .host = host,
        .app = app,
        .note = note,
    };
    return sink->party(sink, waits, &party);
}

static struct seen
seen_at(const redisReply *reply, size_t at)
{
    struct seen seen = {
        .place = dibs__resp_integer(dibs__resp_element(reply, at + 1), 0),
        .ends_ms = dibs__resp_integer(dibs__resp_element(reply, at + 2), 0),
        .info = dibs__resp_element(reply, at + 3),
    };
    return seen;
}

/* A read-write lock is shown in the mode of the first who has it, or wants it. */
static int
mode_of(const redisReply *reply, int64_t limit)
{
    const redisReply *info = dibs__resp_element(reply, 5);
    if (limit)
        return DIBS_PERMITS;
    return info && info->len > 2 && info->str[2] == '1' ? DIBS_SHARED : DIBS_EXCLUSIVE;
}

int
dibs__queue_report(const char *name, size_t name_len, const redisReply *reply,
                   dibs_sink *sink)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 6)
        return DIBS_OK;
    int64_t limit = dibs__resp_integer(reply->element[0], 0);
    int64_t now_ms = dibs__resp_integer(reply->element[1], 0);
    int rc = sink->lock(sink, name, name_len, mode_of(reply, limit), (uint32_t)limit);
    for (size_t i = 2; !rc && i + 3 < reply->elements; i += 4) {
        struct seen seen = seen_at(reply, i);
        rc = report_party(&seen, now_ms, sink);
    }
    return rc;
}

static void
look_call(struct redis *redis, struct queue_call *call, const char *name, size_t name_len,
          uint64_t name_hash)
{
    dibs__queue_call(redis, call, &queue_of(redis)->look, name, name_len, name_hash);
    dibs__redis_gate_args(redis, &call->call);
    /* what it may change would change by itself: it can be repeated */
    call->call.flags = CALL_READS;
}

/* to one of those that list, inspect and evict may return */
static int
look_code(int rc)
{
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc == DIBS_EMISMATCH ? DIBS_OK : rc;
}

int
dibs__queue_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                    dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct queue_call call;
    redisReply *reply;
    look_call(redis, &call, name, name_len, name_hash);
    int rc = dibs__redis_run(redis, &call.call, deadline, &reply, err);
    if (rc)
        return look_code(rc);
    rc = dibs__queue_report(name, name_len, reply, sink);
    freeReplyObject(reply);
    return rc;
}

int
dibs__queue_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                  size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct queue_call call;
    int64_t count = 0;
    dibs__queue_call(redis, &call, &queue_of(redis)->evict, name, name_len, name_hash);
    dibs__redis_gate_args(redis, &call.call);
    int rc = dibs__queue_number(redis, &call, deadline, &count, err);
    *broken = (size_t)count;
    return look_code(rc);
}

/* ---- all locks ---- */

/* The names that SCAN finds. It may find one twice, so they are sorted at the end. */
struct names {
    struct redis *redis;
    dibs_time deadline;
    dibs_error *err;
    size_t count, room;
    struct found {
        size_t len;
        char *name;
    } * found;
};

static int
by_name(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    size_t least = left->len < right->len ? left->len : right->len;
    int order = memcmp(left->name, right->name, least);
    return order ? order : (left->len > right->len) - (left->len < right->len);
}

static int
make_room(struct names *names)
{
    const dibs_host *host = names->redis->host;
    if (names->count < names->room)
        return DIBS_OK;
    size_t room = names->room ? 2 * names->room : 256;
    struct found *wider = room < NAMES_MAX ? host->alloc(room * sizeof *wider) : NULL;
    if (!wider)
        return DIBS_ENOMEM;
    if (names->count)
        memcpy(wider, names->found, names->count * sizeof *wider);
    host->free(names->found);
    names->found = wider;
    names->room = room;
    return DIBS_OK;
}

static int
add_name(struct names *names, const redisReply *key)
{
    char name[DIBS_NAME_MAX];
    size_t len;
    if (!key || key->type != REDIS_REPLY_STRING ||
        dibs__redis_key_name(key->str, key->len, QUEUE_PREFIX, "", name, &len) != 0)
        return DIBS_OK;
    int rc = make_room(names);
    char *copy = rc ? NULL : names->redis->host->alloc(len + 1);
    if (!copy)
        return DIBS_ENOMEM;
    memcpy(copy, name, len);
    names->found[names->count++] = (struct found){ len, copy };
    return DIBS_OK;
}

/* One step of SCAN. *cursor is "0" before the first and after the last. */
static int
scan_step(struct names *names, resp_server *server, char cursor[32])
{
    const struct redis *redis = names->redis;
    resp_request request = { 0 };
    resp_command scan = { 0 };
    redisReply *reply = NULL;
    dibs__resp_word(&scan, "SCAN");
    dibs__resp_word(&scan, cursor);
    dibs__resp_word(&scan, "MATCH");
    dibs__resp_word(&scan, QUEUE_PREFIX "{*}");
    dibs__resp_word(&scan, "COUNT");
    dibs__resp_number(&scan, SCAN_COUNT);
    int rc = dibs__resp_add(&request, &scan);
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, names->deadline, &reply, names->err);
    dibs__resp_request_free(&request);
    if (rc)
        return look_code(rc);
    const redisReply *next = dibs__resp_element(reply, 0);
    const redisReply *keys = dibs__resp_element(reply, 1);
    if (!next || !keys || next->type != REDIS_REPLY_STRING)
        rc = redis->host->fail(
            names->err,
            dibs__resp_trouble(reply) == RESP_DENIED ? DIBS_EDENIED : DIBS_EUNAVAIL,
            "SCAN: the server said: %.*s", (int)reply->len, reply->str ? reply->str : "");
    else
        (void)snprintf(cursor, 32, "%s", next->str);
    for (size_t i = 0; !rc && i < keys->elements; i++)
        rc = add_name(names, keys->element[i]);
    freeReplyObject(reply);
    return rc;
}

static int
scan_server(void *context, resp_server *server)
{
    struct names *names = context;
    char cursor[32] = "0";
    int rc;
    do {
        rc = scan_step(names, server, cursor);
        if (!rc && names->redis->host->now() > names->deadline)
            rc = names->redis->host->fail(names->err, DIBS_EUNAVAIL,
                                          "there was no time to see all keys");
    } while (!rc && strcmp(cursor, "0") != 0);
    return rc;
}

static void
drop_doubles(struct names *names)
{
    size_t kept = 0;
    if (names->count)
        qsort(names->found, names->count, sizeof *names->found, by_name);
    for (size_t i = 0; i < names->count; i++) {
        if (kept && by_name(&names->found[kept - 1], &names->found[i]) == 0)
            names->redis->host->free(names->found[i].name);
        else
            names->found[kept++] = names->found[i];
    }
    names->count = kept;
}

/* Looks at some of the locks found, in one go. */
static int
look_at_some(const struct names *names, size_t from, size_t n, dibs_sink *sink)
{
    struct redis *redis = names->redis;
    struct queue_call *made = redis->host->alloc(n * sizeof *made);
    struct call *calls = redis->host->alloc(n * sizeof *calls);
    redisReply *replies[LOOKS] = { 0 };
    int codes[LOOKS], rc = made && calls ? DIBS_OK : DIBS_ENOMEM;
    for (size_t i = 0; !rc && i < n; i++) {
        const struct found *found = &names->found[from + i];
        look_call(redis, &made[i], found->name, found->len, 0);
        calls[i] = made[i].call;
    }
    if (!rc)
        dibs__redis_run_many(redis, calls, n, names->deadline, replies, codes,
                             names->err);
    for (size_t i = 0; made && calls && i < n; i++) {
        const struct found *found = &names->found[from + i];
        if (!rc)
            rc = look_code(codes[i]);
        if (!rc && replies[i])
            rc = dibs__queue_report(found->name, found->len, replies[i], sink);
        freeReplyObject(replies[i]);
    }
    redis->host->free(made);
    redis->host->free(calls);
    return rc;
}

int
dibs__queue_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct names names = { .redis = redis, .deadline = deadline, .err = err };
    int rc = redis->topology->each(redis, deadline, scan_server, &names, err);
    drop_doubles(&names);
    for (size_t i = 0; !rc && i < names.count; i += LOOKS) {
        size_t n = names.count - i < LOOKS ? names.count - i : LOOKS;
        rc = look_at_some(&names, i, n, sink);
    }
    for (size_t i = 0; i < names.count; i++)
        redis->host->free(names.found[i].name);
    redis->host->free(names.found);
    return rc;
}
