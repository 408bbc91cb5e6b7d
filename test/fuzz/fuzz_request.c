/* SPDX-License-Identifier: MIT */
/* Commands for Redis (resp/request.c): read as the protocol has them they are the same words,
 * whatever bytes those have. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "resp/resp.h"

static redisReply *
read_back(redisReader *reader)
{
    void *reply = NULL;
    HOLDS(redisReaderGetReply(reader, &reply) == REDIS_OK && reply);
    return reply;
}

static void
check_words(const resp_command *command, const redisReply *reply)
{
    HOLDS(reply->type == REDIS_REPLY_ARRAY);
    HOLDS(reply->elements == (size_t)command->count);
    for (size_t i = 0; i < reply->elements; i++)
        HOLDS(fuzz_same(reply->element[i]->str, reply->element[i]->len, command->words[i],
                        command->lengths[i]));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    resp_command commands[4] = { 0 };
    resp_request request = { 0 };
    int64_t number = 0;
    memcpy(&number, data, size < sizeof number ? size : sizeof number);
    for (int i = 0; i < 4; i++) {
        size_t len, words = 1 + fuzz_byte(&input) % (RESP_WORDS - 1);
        for (size_t word = 1; word < words; word++) {
            const char *bytes = fuzz_part(&input, 1 + word, &len);
            dibs__resp_bytes(&commands[i], bytes, len);
        }
        dibs__resp_number(&commands[i], i ? number / i : number);
        HOLDS(dibs__resp_add(&request, &commands[i]) == 0);
    }
    redisReader *reader = redisReaderCreate();
    HOLDS(redisReaderFeed(reader, request.bytes, request.len) == REDIS_OK);
    for (int i = 0; i < 4; i++) {
        redisReply *reply = read_back(reader);
        check_words(&commands[i], reply);
        HOLDS(dibs__resp_integer(reply->element[reply->elements - 1], 1) ==
              (i ? number / i : number));
        freeReplyObject(reply);
    }
    redisReaderFree(reader);
    dibs__resp_request_free(&request);
    return 0;
}
