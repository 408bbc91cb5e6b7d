/* SPDX-License-Identifier: MIT */
/* A host, short ways to ask, and the choice of cases. See resp_test.h. */
#include "resp_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* no test has more to one server */
#define CONNECTIONS_MAX 4

static dibs_time
host_now(void)
{
    return now_ns();
}

static void
host_sleep_until(dibs_time when)
{
    while (now_ns() < when) {
        sleep_ms(1);
    }
}

static int __attribute__((format(printf, 3, 4)))
host_fail(dibs_error *err, int code, const char *format, ...)
{
    va_list args;
    if (err != NULL) {
        err->code = code;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return code;
}

static void *
host_alloc(size_t size)
{
    return calloc(1, size);
}

const dibs_host test_host = { .now = host_now,
                              .sleep_until = host_sleep_until,
                              .fail = host_fail,
                              .alloc = host_alloc,
                              .free = free };

dibs_time
in_ms(int64_t ms)
{
    return now_ns() + ms * DIBS_MS;
}

dibs_time
far(void)
{
    return in_ms(slowly(10000));
}

resp_access
plain_access(unsigned connections)
{
    return (resp_access){ .host = &test_host,
                          .client_name = "test",
                          .connections = connections };
}

resp_address
address_of(const server *to)
{
    resp_address address = { .port = (uint16_t)to->port };
    (void)snprintf(address.host, sizeof(address.host), "127.0.0.1");
    return address;
}

void
add_command_words(resp_request *request, const char *const *words)
{
    resp_command command = { 0 };
    for (; *words != NULL; words++) {
        dibs__resp_word(&command, *words);
    }
    CHECK_SAME(dibs__resp_add(request, &command), 0);
}

int
ask_words(resp_server *to, uint64_t hash, dibs_time deadline, redisReply **reply,
          dibs_error *err, const char *const *words)
{
    resp_request request = { 0 };
    *reply = NULL;
    add_command_words(&request, words);
    int code = dibs__resp_call(to, hash, &request, deadline, reply, err);
    dibs__resp_request_free(&request);
    CHECK((code == DIBS_OK) == (*reply != NULL));
    return code;
}

int64_t
must_ask_words(resp_server *to, uint64_t hash, const char *const *words)
{
    redisReply *reply;
    dibs_error err = { 0 };
    int code = ask_words(to, hash, far(), &reply, &err, words);
    if (code != DIBS_OK) {
        FAIL("%s is answered with %d: %s", words[0], code, err.text);
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        FAIL("%s is answered with %s", words[0], reply->str);
    }
    int64_t number = dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    return number;
}

/* each connection may have been cut a moment ago, which takes one request to find out */
static int
ping(resp_server *to, uint64_t hash, redisReply **reply, dibs_error *err)
{
    int code = DIBS_EUNKNOWN;
    for (int cut = 0;
         cut <= CONNECTIONS_MAX && (code == DIBS_EUNKNOWN || code == DIBS_EUNAVAIL);
         cut++) {
        code = ask(to, hash, far(), reply, err, "PING");
    }
    return code;
}

void
settle(resp_server *to)
{
    redisReply *reply;
    dibs_error err = { 0 };
    /* more hashes than there are connections */
    for (uint64_t hash = 0; hash < 64; hash++) {
        int code = ping(to, hash, &reply, &err);
        if (code != DIBS_OK) {
            FAIL("%d: %s", code, err.text);
        }
        freeReplyObject(reply);
    }
}
