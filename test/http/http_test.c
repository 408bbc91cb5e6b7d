/* SPDX-License-Identifier: MIT */
/* A host, short ways to ask, and the choice of cases. See http_test.h. */
#include "http_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

http *
client_of(const char *hosts)
{
    http *client = NULL;
    dibs_error err = { 0 };
    const http_settings settings = { .host = &test_host, .hosts = hosts, .port = 1 };
    if (dibs__http_new(&client, &settings, &err) != DIBS_OK) {
        FAIL("%s: %s", hosts, err.text);
    }
    return client;
}

http *
client_at(int port)
{
    char hosts[40];
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", port);
    return client_of(hosts);
}

const char *
quotes(const char *text)
{
    static _Thread_local char texts[4][1024];
    static _Thread_local unsigned last;
    char *out = texts[++last % 4];
    (void)snprintf(out, sizeof(texts[0]), "%s", text);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return out;
}

int
post(http *client, const char *path, const char *body, unsigned flags, dibs_time deadline,
     http_answer *answer, dibs_error *err)
{
    const char *text = quotes(body);
    http_request request = { .method = "POST",
                             .path = path,
                             .body = text,
                             .body_len = strlen(text),
                             .flags = flags };
    http_answer own = { 0 };
    int code =
        dibs__http_call(client, &request, answer != NULL ? answer : &own, deadline, err);
    if (answer == NULL) {
        dibs__http_answer_free(&own);
    }
    return code;
}

int
must_post(http *client, const char *path, const char *body)
{
    http_answer answer;
    dibs_error err = { 0 };
    int code = post(client, path, body, 0, far(), &answer, &err);
    if (code != DIBS_OK) {
        FAIL("%s: %d: %s", path, code, err.text);
    }
    int status = answer.status;
    dibs__http_answer_free(&answer);
    return status;
}

int
put(http *client, dibs_time deadline, dibs_error *err)
{
    return post(client, "/v3/kv/put", "{'key':'" PUT_KEY "','value':'eA=='}", 0, deadline,
                NULL, err);
}

int
version_of(const server *of)
{
    char *text = etcd_do(of, "/v3/kv/range", "{\"key\":\"" PUT_KEY "\"}");
    const char *found = strstr(text, "\"version\":\"");
    int version = found != NULL ? (int)strtol(found + 11, NULL, 10) : 0;
    free(text);
    return version;
}

/* ---- gates ---- */

void
gate_open(struct gate *gate)
{
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_cond_init(&gate->changed, NULL);
    gate->value = 0;
}

void
gate_close(struct gate *gate)
{
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->mutex);
}

void
gate_raise(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->value++;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void
gate_await(struct gate *gate, int value)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += slowly(10000) / 1000;
    pthread_mutex_lock(&gate->mutex);
    while (gate->value < value && error == 0) {
        error = pthread_cond_timedwait(&gate->changed, &gate->mutex, &until);
    }
    int got = gate->value;
    pthread_mutex_unlock(&gate->mutex);
    if (got < value) {
        FAIL("%d of %d came in time", got, value);
    }
}

int
gate_value(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    int value = gate->value;
    pthread_mutex_unlock(&gate->mutex);
    return value;
}
