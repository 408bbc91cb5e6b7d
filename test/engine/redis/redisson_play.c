/* SPDX-License-Identifier: MIT */
/* What the tests of the layout redisson share. See redisson_play.h. */
#include "redisson_play.h"

#include <stdlib.h>
#include <sys/time.h>

#define OWNER_LEN_MIN 38

dibs *
open_form(const char *form)
{
    char url[256], more[64];
    (void)snprintf(more, sizeof(more), "form=%s", form);
    url_of(url, sizeof(url), more);
    return open_url("%s", url);
}

void
expect_answer(const char *want_text, char *answer)
{
    CHECK(answer != NULL);
    if (strcmp(answer, want_text) != 0) {
        FAIL("the server says '%s', not '%s'", answer, want_text);
    }
    free(answer);
}

void
read_owner(char *out, size_t size)
{
    char *fields = server_ask(&one, "HKEYS", NAME);
    CHECK(fields != NULL);
    const char *at = strncmp(fields, "mode\n", 5) == 0 ? fields + 5 : fields;
    size_t len = strcspn(at, "\n");
    if (len > 6 && strncmp(at + len - 6, ":write", 6) == 0) {
        len -= 6;
    }
    CHECK(len >= OWNER_LEN_MIN && len < size);
    memcpy(out, at, len);
    out[len] = '\0';
    free(fields);
    /* as Redisson's: a UUID, and a number */
    CHECK_SAME(strspn(out, "0123456789abcdef-"), 36);
    CHECK(out[8] == '-' && out[13] == '-' && out[18] == '-' && out[23] == '-');
    CHECK(out[36] == ':' && strspn(out + 37, "0123456789") == len - 37);
}

int64_t
key_count(void)
{
    return server_number(&one, "DBSIZE") - server_number(&one, "EXISTS", "dibs:clock");
}

int64_t
ttl_of(const char *key)
{
    return server_number(&one, "PTTL", key);
}

void
they_take(void)
{
    server_do(&one, "HSET", NAME, THEM, "1");
    server_do(&one, "PEXPIRE", NAME, "60000");
}

redisContext *
subscribe(const char *channel)
{
    struct timeval limit = { .tv_sec = 10 };
    redisContext *context = redisConnect("127.0.0.1", one.port);
    CHECK(context != NULL && context->err == 0);
    CHECK(redisSetTimeout(context, limit) == REDIS_OK);
    redisReply *reply = redisCommand(context, "SUBSCRIBE %s", channel);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    return context;
}

void
expect_message(redisContext *context, const char *text)
{
    redisReply *reply = NULL;
    CHECK(redisGetReply(context, (void **)&reply) == REDIS_OK);
    CHECK(reply->elements == 3);
    CHECK(strcmp(reply->element[0]->str, "message") == 0);
    CHECK(strcmp(reply->element[2]->str, text) == 0);
    freeReplyObject(reply);
}

void
lose_replies(dibs *client)
{
    give(take(client, NAME, LEASE_MS));
    server_pause(&one);
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    sleep_ms(LEASE_MS);
    server_resume(&one);
    dibs_hold *hold = end_wait(op, slowly(2000));
    char owner[80];
    read_owner(owner, sizeof(owner));
    expect_answer("1", server_ask(&one, "HGET", NAME, owner));
    if (server_number(&one, "EXISTS", TOKEN) == 1) {
        char *counter = server_ask(&one, "GET", TOKEN);
        CHECK(counter != NULL);
        CHECK_SAME(dibs_token(hold), strtoll(counter, NULL, 10));
        CHECK_SAME(dibs_token(hold), 2);
        free(counter);
    }
    give(hold);
    CHECK_SAME(server_number(&one, "EXISTS", NAME), 0);
}
