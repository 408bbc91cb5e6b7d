/* SPDX-License-Identifier: MIT */
/* What the tests of src/http share: a host as core would lend it, and short ways to ask. */
#ifndef TEST_HTTP_H
#define TEST_HTTP_H

#include "cases.h"
#include "http/http.h"
#include "servers.h"

/* what core lends an engine, with plain malloc behind it */
extern const dibs_host test_host;

/* in_ms is a deadline. It is not scaled: some are meant to pass. far is one that is not. */
dibs_time in_ms(int64_t ms);
dibs_time far(void);

/* client_of makes a client of "127.0.0.1:P1,..." that speaks plainly. */
http *client_of(const char *hosts);
http *client_at(int port);

/* post asks, with a JSON body in '...' instead of quotes; the answer is freed unless
 * `answer` is not NULL. Returns the code; must_post the status. */
int post(http *client, const char *path, const char *body, unsigned flags,
         dibs_time deadline, http_answer *answer, dibs_error *err);
int must_post(http *client, const char *path, const char *body);

/* put writes an etcd key, in base64, without HTTP_REPEATABLE; version_of says how often that
 * was done. */
#define PUT_KEY "a2V5"
int put(http *client, dibs_time deadline, dibs_error *err);
int version_of(const server *of);

/* quotes turns ' into ", into a buffer that is good until the fourth call after it. */
const char *quotes(const char *text);

/* A flag that a thread waits for, and another sets. await fails the test if it is not at
 * least that in time. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int value;
};
void gate_open(struct gate *gate);
void gate_close(struct gate *gate);
void gate_raise(struct gate *gate);
void gate_await(struct gate *gate, int value);
int gate_value(struct gate *gate);

/* ---- cases ---- */

#define CASE(name)                                                                       \
    {                                                                                    \
#name, test_##name                                                               \
    }

#endif /* TEST_HTTP_H */
