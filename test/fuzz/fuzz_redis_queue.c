/* SPDX-License-Identifier: MIT */
/* The queue layout's answers, messages and reports (engine/redis/queue_take.c,
 * queue_look.c). */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/redis/queue.h"
#include "reply.h"

static void
check_answer(const redisReply *reply)
{
    static struct queue queue;
    struct redis redis = { .host = &dibs__host, .layout_state = &queue };
    dibs_claim claim = { .name = "n", .name_len = 1, .limit = 2, .lease_ms = 1000 };
    dibs_error err = { 0 };
    int rc = dibs__queue_answer(&redis, &claim, reply, 1, &err);
    HOLDS(rc == DIBS_OK || rc == DIBS_EBUSY || rc == DIBS_EMISMATCH ||
          rc == DIBS_ECORRUPT);
    if (rc == DIBS_OK)
        HOLDS(claim.token > 0 && claim.previous <= DIBS_PREVIOUS_UNKNOWN);
    if (rc == DIBS_EBUSY)
        HOLDS(claim.hint_ms > 0);
    HOLDS(fuzz_is_line(err.text));
}

static void
use(const redisReply *reply, void *context)
{
    struct counting_sink sink;
    (void)context;
    check_answer(reply);
    fuzz_sink(&sink);
    HOLDS(dibs__queue_report("n", 1, reply, &sink.sink) == DIBS_OK);
    HOLDS(sink.locks <= 1 && sink.parties <= reply->elements / 4);
}

static void
check_message(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct queue_grant grant;
    if (dibs__queue_read_grant(&grant, text) == 0)
        HOLDS(text[0] == 'g' && grant.previous <= DIBS_PREVIOUS_UNKNOWN);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    check_message(data, size);
    each_reply(&input, use, NULL);
    return 0;
}
