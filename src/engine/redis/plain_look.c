/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks of the layout plain. A value of ours says who has the lock, one of
 * another program only that somebody has it; who waits is written down nowhere, nor are
 * tokens. list looks at every key of every server and reports those with a value of ours:
 * what other strings mean nobody can know.
 */
#include <stdlib.h>
#include <string.h>

#include "notice.h"
#include "plain.h"
#include "renewal.h"

/* how many keys SCAN is asked to look at in one go */
#define SCAN_COUNT 500

/* ---- values ---- */

/* A value, taken apart. The texts are NUL-terminated copies. */
struct holder {
    char text[VALUE_MAX + 1];
    int is_ours;
    int64_t pid;
    const char *host, *app, *note;
};

static const char *
next_field(char **at)
{
    char *field = *at;
    char *tab = strchr(field, '\t');
    if (!tab)
        return NULL;
    *tab = '\0';
    *at = tab + 1;
    return field;
}

static int
is_id(const char *text)
{
    size_t hex = strspn(text, "0123456789abcdef");
    return hex == 32 && (text[hex] == ':' || text[hex] == ';') && text[hex + 1] &&
           strspn(text + hex + 1, "0123456789") == strlen(text + hex + 1);
}

/* what another program wrote is shown as far as it can be read */
static void
make_readable(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '.';
    }
}

static void
read_value(struct holder *holder, const redisReply *value)
{
    size_t len = value->len < VALUE_MAX ? value->len : VALUE_MAX;
    memcpy(holder->text, value->str, len);
    holder->text[len] = '\0';
    char *at = holder->text;
    const char *id = next_field(&at), *pid = id ? next_field(&at) : NULL;
    holder->host = pid ? next_field(&at) : NULL;
    holder->app = holder->host ? next_field(&at) : NULL;
    holder->is_ours = holder->app && is_id(id);
    if (holder->is_ours) {
        holder->pid = strtoll(pid, NULL, 10);
        holder->note = at;
        return;
    }
    memcpy(holder->text, value->str, len); /* whole again */
    make_readable(holder->text, len);
    holder->pid = 0;
    holder->host = holder->app = "";
    holder->note = holder->text;
}

static int
report(dibs_sink *sink, const char *name, size_t name_len, const struct holder *holder,
       int64_t left_ms)
{
    dibs_party party = {
        .mode = DIBS_EXCLUSIVE,
        .permits = 1,
        .pid = holder->pid,
        .lease_left_ms = left_ms,
        .host = holder->host,
        .app = holder->app,
        .note = holder->note,
    };
    int rc = sink->lock(sink, name, name_len, DIBS_EXCLUSIVE, 0);
    return rc ? rc : sink->party(sink, 0, &party);
}

/* ---- one lock ---- */

/* A value may be anything, of any length: only its beginning is fetched. */
static void
command_value(resp_command *command, const char *key, size_t len)
{
    command->count = command->number_count = 0;
    dibs__resp_word(command, "GETRANGE");
    dibs__resp_bytes(command, key, len);
    dibs__resp_number(command, 0);
    dibs__resp_number(command, VALUE_MAX - 1);
}

static void
command_left(resp_command *command, const char *key, size_t len)
{
    command->count = command->number_count = 0;
    dibs__resp_word(command, "PTTL");
    dibs__resp_bytes(command, key, len);
}

/* PTTL says -2 if there is no such key, and -1 if it stays for ever */
static int
is_there(const redisReply *left)
{
    return dibs__resp_integer(left, -2) != -2;
}

int
dibs__redis_plain_inspect(void *state, const char *name, size_t name_len,
                          uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err)
{
    struct redis *redis = state;
    struct key key;
    struct call calls[2];
    redisReply *replies[2] = { 0 };
    int codes[2] = { 0 };
    dibs__redis_plain_key(&key, name, name_len);
    for (int i = 0; i < 2; i++) {
        calls[i].script = NULL;
        calls[i].key = &key;
        calls[i].hash = name_hash;
        calls[i].flags = CALL_READS;
    }
    command_value(&calls[0].command, name, name_len);
    command_left(&calls[1].command, name, name_len);
    dibs__redis_run_many(redis, calls, 2, deadline, replies, codes, err);
    int rc = codes[0] ? codes[0] : codes[1];
    if (rc == DIBS_EMISMATCH)
        rc = dibs__redis_notice_mismatch(redis, &key, name_hash, deadline, err);
    if (!rc && is_there(replies[1]) && replies[0]->type == REDIS_REPLY_STRING) {
        struct holder holder;
        read_value(&holder, replies[0]);
        rc = report(sink, name, name_len, &holder, dibs__resp_integer(replies[1], -1));
    }
    for (int i = 0; i < 2; i++) {
        if (replies[i])
            freeReplyObject(replies[i]);
    }
    return rc;
}

/* ---- all locks ---- */

struct listing {
    struct redis *redis;
    dibs_sink *sink;
    dibs_time deadline;
    dibs_error *err;
    int rc;
};

/* a cursor, and the names of keys */
static int
is_scan_reply(const redisReply *reply)
{
    const redisReply *cursor = dibs__resp_element(reply, 0);
    const redisReply *keys = dibs__resp_element(reply, 1);
    if (!cursor || cursor->type != REDIS_REPLY_STRING || !keys ||
        keys->type != REDIS_REPLY_ARRAY)
        return 0;
    for (size_t i = 0; i < keys->elements; i++) {
        if (keys->element[i]->type != REDIS_REPLY_STRING)
            return 0;
    }
    return 1;
}

/* the next step of SCAN: its reply, to be freed, or NULL with listing->rc set */
static redisReply *
scan(struct listing *listing, resp_server *server, const char *cursor)
{
    resp_command command = { 0 };
    resp_request request = { 0 };
    redisReply *reply = NULL;
    dibs__resp_word(&command, "SCAN");
    dibs__resp_word(&command, cursor);
    dibs__resp_word(&command, "COUNT");
    dibs__resp_number(&command, SCAN_COUNT);
    listing->rc = dibs__resp_add(&request, &command);
    if (!listing->rc)
        listing->rc =
            dibs__resp_call(server, 0, &request, listing->deadline, &reply, listing->err);
    dibs__resp_request_free(&request);
    if (!listing->rc && !is_scan_reply(reply)) {
        listing->rc = listing->redis->host->fail(
            listing->err, DIBS_EUNAVAIL, "SCAN was answered with: %.200s",
            reply && reply->str ? reply->str : "nothing of use");
        freeReplyObject(reply);
        reply = NULL;
    }
    return listing->rc ? NULL : reply;
}

static int
report_if_ours(struct listing *listing, const redisReply *name, const redisReply *value,
               const redisReply *left)
{
    struct holder holder;
    if (!value || value->type != REDIS_REPLY_STRING || !is_there(left) ||
        name->len > DIBS_NAME_MAX)
        return DIBS_OK;
    read_value(&holder, value);
    if (!holder.is_ours)
        return DIBS_OK;
    return report(listing->sink, name->str, name->len, &holder,
                  dibs__resp_integer(left, -1));
}

/* fetches what is under the keys, all in one go, and reports what is ours */
static int
look_at(struct listing *listing, resp_server *server, const redisReply *keys)
{
    resp_request request = { 0 };
    resp_command command;
    redisReply **replies =
        listing->redis->host->alloc((2 * keys->elements + 1) * sizeof *replies);
    int rc = replies ? DIBS_OK : DIBS_ENOMEM;
    for (size_t i = 0; !rc && i < keys->elements; i++) {
        command_value(&command, keys->element[i]->str, keys->element[i]->len);
        rc = dibs__resp_add(&request, &command);
        command_left(&command, keys->element[i]->str, keys->element[i]->len);
        if (!rc)
            rc = dibs__resp_add(&request, &command);
    }
    if (!rc && request.commands)
        rc = dibs__resp_call(server, 0, &request, listing->deadline, replies,
                             listing->err);
    dibs__resp_request_free(&request);
    for (size_t i = 0; !rc && i < keys->elements; i++)
        rc =
            report_if_ours(listing, keys->element[i], replies[2 * i], replies[2 * i + 1]);
    for (size_t i = 0; replies && i < 2 * keys->elements; i++) {
        if (replies[i])
            freeReplyObject(replies[i]);
    }
    listing->redis->host->free(replies);
    return rc;
}

static int
list_server(void *context, resp_server *server)
{
    struct listing *listing = context;
    char cursor[32] = "0";
    do {
        redisReply *reply = scan(listing, server, cursor);
        if (!reply)
            break;
        const redisReply *next = dibs__resp_element(reply, 0);
        size_t len = next->len < sizeof cursor ? next->len : sizeof cursor - 1;
        memcpy(cursor, next->str, len);
        cursor[len] = '\0';
        listing->rc = look_at(listing, server, dibs__resp_element(reply, 1));
        freeReplyObject(reply);
    } while (!listing->rc && strcmp(cursor, "0") != 0);
    return listing->rc;
}

int
dibs__redis_plain_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct listing listing = { redis, sink, deadline, err, DIBS_OK };
    int rc = redis->topology->each(redis, deadline, list_server, &listing, err);
    if (listing.rc)
        rc = listing.rc;
    /* reading leaves no outcome unknown */
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}
