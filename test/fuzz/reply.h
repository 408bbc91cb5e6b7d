/* SPDX-License-Identifier: MIT */
/* Replies for targets that get them parsed: an input is replies as Redis writes them, which
 * the link's own reader reads. */
#ifndef TEST_FUZZ_REPLY_H
#define TEST_FUZZ_REPLY_H

#include "fuzz.h"
#include "resp/wire.h"

/* each calls `use` with every reply there is. */
static inline void
each_reply(struct input *input, void (*use)(const redisReply *reply, void *context),
           void *context)
{
    redisReader *reader = dibs__wire_reader();
    void *reply = NULL;
    HOLDS(reader != NULL);
    int rc = redisReaderFeed(reader, (const char *)input->at, input->left);
    while (rc == REDIS_OK && redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        use(reply, context);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
}

#endif /* TEST_FUZZ_REPLY_H */
