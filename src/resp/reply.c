/* SPDX-License-Identifier: MIT */
/* Reading what came back: kinds of errors, numbers, elements. */
#include "resp/resp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* an error begins with its kind, then a space or the end */
static const struct {
    const char *kind;
    enum resp_trouble trouble;
} troubles[] = {
    { "NOSCRIPT", RESP_NOSCRIPT },
    { "MOVED", RESP_MOVED },
    { "ASK", RESP_ASK },
    { "LOADING", RESP_NOT_NOW },
    { "TRYAGAIN", RESP_NOT_NOW },
    { "CLUSTERDOWN", RESP_NOT_NOW },
    { "BUSY", RESP_NOT_NOW },
    { "MISCONF", RESP_NOT_NOW },
    { "NOREPLICAS", RESP_NOT_HERE },
    { "OOM", RESP_NOT_NOW },
    { "READONLY", RESP_NOT_HERE },
    { "MASTERDOWN", RESP_NOT_HERE },
    { "NOAUTH", RESP_DENIED },
    { "WRONGPASS", RESP_DENIED },
    { "NOPERM", RESP_DENIED },
    { "DENIED", RESP_DENIED },
    { "WRONGTYPE", RESP_WRONGTYPE },
};

enum resp_trouble
dibs__resp_trouble(const redisReply *reply)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR)
        return RESP_FINE;
    size_t len = strcspn(reply->str, " ");
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        if (strlen(troubles[i].kind) == len &&
            memcmp(troubles[i].kind, reply->str, len) == 0)
            return troubles[i].trouble;
    }
    return RESP_OTHER;
}

static int
is_string(const redisReply *reply)
{
    return reply != NULL &&
           (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

int64_t
dibs__resp_integer(const redisReply *reply, int64_t otherwise)
{
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (!is_string(reply) || reply->len == 0 ||
        strchr("-0123456789", reply->str[0]) == NULL)
        return otherwise;
    char *end;
    errno = 0;
    long long number = strtoll(reply->str, &end, 10);
    return errno == 0 && end == reply->str + reply->len ? number : otherwise;
}

redisReply *
dibs__resp_element(const redisReply *reply, size_t i)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || i >= reply->elements)
        return NULL;
    return reply->element[i];
}

int
dibs__resp_is_text(const redisReply *reply, const char *text)
{
    size_t len = strlen(text);
    return is_string(reply) && (size_t)reply->len == len &&
           memcmp(reply->str, text, len) == 0;
}
