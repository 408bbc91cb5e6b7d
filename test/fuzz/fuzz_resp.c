/* SPDX-License-Identifier: MIT */
/* Replies of Redis (resp/wire.c, resp/reply.c): the same replies, in whatever pieces they
 * come; and what reply.c makes of any of them. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "fuzz.h"
#include "resp/wire.h"

#define REPLIES_MAX 64

struct heard {
    redisReply *replies[REPLIES_MAX];
    size_t count;
    int is_broken;
};

static void
parse_all(struct wire *wire, struct heard *out)
{
    redisReply *reply;
    int more = 0;
    while (!out->is_broken && out->count < REPLIES_MAX &&
           (more = dibs__wire_parse(wire, &reply, NULL)) > 0)
        out->replies[out->count++] = reply;
    out->is_broken |= more < 0;
}

/* pieces of `step` bytes */
static void
hear(struct heard *out, const uint8_t *data, size_t size, size_t step)
{
    static const resp_access access = { .host = &dibs__host, .connections = 1 };
    struct wire wire;
    dibs__wire_init(&wire, &access, -1);
    wire.reader = dibs__wire_reader();
    HOLDS(wire.reader != NULL);
    for (size_t at = 0; at < size && !out->is_broken; at += step) {
        size_t len = size - at < step ? size - at : step;
        if (dibs__wire_feed(&wire, (const char *)data + at, len, NULL) != 0)
            out->is_broken = 1;
        parse_all(&wire, out);
    }
    dibs__wire_close(&wire, 0);
}

static int
is_same(const redisReply *a, const redisReply *b)
{
    if (!a || !b || a->type != b->type || a->integer != b->integer || a->len != b->len ||
        a->elements != b->elements)
        return !a && !b;
    for (size_t i = 0; i < a->elements; i++) {
        if (!is_same(a->element[i], b->element[i]))
            return 0;
    }
    return !a->str || memcmp(a->str, b->str, a->len) == 0;
}

static void
check_meaning(const redisReply *reply)
{
    enum resp_trouble trouble = dibs__resp_trouble(reply);
    HOLDS((trouble == RESP_FINE) == (reply->type != REDIS_REPLY_ERROR));
    int64_t a = dibs__resp_integer(reply, 1), b = dibs__resp_integer(reply, 2);
    HOLDS(a == b || (a == 1 && b == 2));
    HOLDS(!dibs__resp_element(reply, reply->elements));
    (void)dibs__resp_is_text(reply, "master");
    for (size_t i = 0; i < reply->elements && i < 100; i++) {
        HOLDS(dibs__resp_element(reply, i) == reply->element[i] ||
              reply->type != REDIS_REPLY_ARRAY);
        check_meaning(reply->element[i]);
    }
}

static void
forget(struct heard *heard)
{
    for (size_t i = 0; i < heard->count; i++)
        freeReplyObject(heard->replies[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole = { 0 }, pieces = { 0 };
    if (size == 0)
        return 0;
    hear(&whole, data + 1, size - 1, size);
    hear(&pieces, data + 1, size - 1, data[0] % 16 + 1u);
    HOLDS(whole.count == pieces.count);
    for (size_t i = 0; i < whole.count; i++) {
        HOLDS(is_same(whole.replies[i], pieces.replies[i]));
        check_meaning(whole.replies[i]);
    }
    forget(&whole);
    forget(&pieces);
    return 0;
}
