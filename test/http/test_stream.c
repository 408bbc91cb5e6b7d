/* SPDX-License-Identifier: MIT */
/*
 * Streams: `test_http_stream CASE`. etcd's watches over JSON for answers that never end,
 * Consul's blocking queries for such that come late, etcd's own protocol for both ways at
 * the same time.
 *
 * Parts: a listener; answers that go on; answers that come late; both ways; the end.
 */
#include "http_test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static server one;
static wires between;

static void
clean_up(void)
{
    wires_stop(&between);
    server_stop(&one);
}

/* ---- a listener ---- */

#define TEXT_MAX 65536

struct listener {
    struct gate pieces, ends;
    http_stream *stream;
    int status;
    uint64_t index;
    size_t len;
    char text[TEXT_MAX]; /* guarded by the gates: written before they are raised */
    char trailers[1024];
    int closes_itself;
    _Atomic int is_closed; /* nothing may come any more */
};

static void
hear(void *context, const char *bytes, size_t len)
{
    struct listener *to = context;
    CHECK(!atomic_load(&to->is_closed));
    pthread_mutex_lock(&to->pieces.mutex);
    if (to->len + len < TEXT_MAX) {
        memcpy(to->text + to->len, bytes, len);
        to->len += len;
    }
    pthread_mutex_unlock(&to->pieces.mutex);
    gate_raise(&to->pieces);
}

static void
hear_trailer(void *context, const char *line, size_t len)
{
    struct listener *to = context;
    size_t at = strlen(to->trailers);
    (void)snprintf(to->trailers + at, sizeof(to->trailers) - at, "%.*s\n", (int)len,
                   line);
}

static void
hear_end(void *context, int status, uint64_t index)
{
    struct listener *to = context;
    CHECK(!atomic_load(&to->is_closed));
    to->status = status;
    to->index = index;
    if (to->closes_itself) {
        dibs__http_stream_close(to->stream);
    }
    gate_raise(&to->ends);
}

static const http_events events = { .heard = hear,
                                    .trailer = hear_trailer,
                                    .ended = hear_end };

static struct listener *
listener_new(void)
{
    struct listener *new = calloc(1, sizeof(*new));
    CHECK(new != NULL);
    gate_open(&new->pieces);
    gate_open(&new->ends);
    return new;
}

static void
listener_free(struct listener *old)
{
    gate_close(&old->pieces);
    gate_close(&old->ends);
    free(old);
}

static void
await_text(struct listener *to, const char *text)
{
    for (int seen = 0;; seen++) {
        pthread_mutex_lock(&to->pieces.mutex);
        int found = memmem(to->text, to->len, text, strlen(text)) != NULL;
        seen = to->pieces.value;
        pthread_mutex_unlock(&to->pieces.mutex);
        if (found) {
            return;
        }
        gate_await(&to->pieces, seen + 1);
    }
}

static struct listener *
open_stream(http *client, const http_request *request, int64_t limit_ms)
{
    struct listener *new = listener_new();
    CHECK_SAME(
        dibs__http_stream_open(client, request, limit_ms, &events, new, &new->stream),
        DIBS_OK);
    return new;
}

static void
close_stream(struct listener *old)
{
    dibs__http_stream_close(old->stream);
    atomic_store(&old->is_closed, 1);
}

/* a watch on a key of etcd's, over JSON; in base64 */
static struct listener *
open_watch(http *client, const char *key, int64_t limit_ms)
{
    char body[100];
    (void)snprintf(body, sizeof(body), "{\"create_request\":{\"key\":\"%s\"}}", key);
    http_request request = {
        .method = "POST", .path = "/v3/watch", .body = body, .body_len = strlen(body)
    };
    return open_stream(client, &request, limit_ms);
}

static http *
start_etcd(void)
{
    need(etcd_present(), "etcd");
    etcd_start(&one, NULL);
    wires_start(&between, &one.port, 1);
    start_first_thread();
    return client_at(between.ports[0]);
}

/* ---- answers that go on ---- */

static void
test_watch(void)
{
    http *client = start_etcd();
    int threads = count_threads();
    struct listener *to = open_watch(client, PUT_KEY, 0);
    await_text(to, "\"created\":true");
    CHECK_SAME(count_threads(), threads + 1);
    for (int i = 0; i < 5; i++) {
        char text[40];
        (void)snprintf(text, sizeof(text), "\"version\":\"%d\"", i + 1);
        CHECK_SAME(put(client, far(), NULL), DIBS_OK);
        await_text(to, text);
    }
    CHECK(strstr(to->trailers, "HTTP/1.1 200") != NULL);
    CHECK_SAME(gate_value(&to->ends), 0);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
    CHECK_SAME(threads_settle(threads, slowly(5000)), threads);
}

/* all on one thread, each with its own */
static void
test_many(void)
{
    enum { COUNT = 100 };
    http *client = start_etcd();
    struct listener *all[COUNT];
    int threads = count_threads(), fds = count_fds();
    for (int i = 0; i < COUNT; i++) {
        char key[20];
        (void)snprintf(key, sizeof(key), "%d0000", 1000 + i);
        all[i] = open_watch(client, key, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        await_text(all[i], "\"created\":true");
    }
    CHECK_SAME(count_threads(), threads + 1);
    for (int i = 0; i < COUNT; i++) {
        char body[100];
        (void)snprintf(body, sizeof(body), "{'key':'%d0000','value':'%d0000'}", 1000 + i,
                       1000 + i);
        CHECK_SAME(must_post(client, "/v3/kv/put", body), 200);
    }
    for (int i = 0; i < COUNT; i++) {
        char text[40];
        (void)snprintf(text, sizeof(text), "\"value\":\"%d0000\"", 1000 + i);
        await_text(all[i], text);
        CHECK_SAME(gate_value(&all[i]->ends), 0);
    }
    for (int i = 0; i < COUNT; i++) {
        close_stream(all[i]);
        listener_free(all[i]);
    }
    dibs__http_free(client, 0);
    CHECK_SAME(count_fds(), fds);
}

struct closing {
    http *client;
    _Atomic int stop;
};

static void
keep_putting(void *arg, int index)
{
    struct closing *with = arg;
    (void)index;
    while (!atomic_load(&with->stop)) {
        CHECK_SAME(put(with->client, far(), NULL), DIBS_OK);
    }
}

/* after close has returned nothing comes, however much does before */
static void
test_close_under_way(void)
{
    struct closing with = { .client = start_etcd() };
    gang *writer = gang_start(1, keep_putting, &with);
    for (int i = 0; i < 60; i++) {
        struct listener *to = open_watch(with.client, PUT_KEY, 0);
        if (i % 3 != 0) {
            gate_await(&to->pieces, i % 3 + 1);
        }
        close_stream(to);
        sleep_ms(2);
        listener_free(to);
    }
    atomic_store(&with.stop, 1);
    gang_join(writer);
    dibs__http_free(with.client, 0);
}

static void
open_and_close(void *arg, int index)
{
    for (int i = 0; i < 10; i++) {
        struct listener *to = open_watch(arg, PUT_KEY, 0);
        if ((i + index) % 2 == 0) {
            await_text(to, "\"created\":true");
        }
        close_stream(to);
        listener_free(to);
    }
}

static void
test_threads(void)
{
    http *client = start_etcd();
    gang_join(gang_start(16, open_and_close, client));
    dibs__http_free(client, 0);
}

/* the client ends what nobody closed */
static void
test_left_open(void)
{
    http *client = start_etcd();
    struct listener *to = open_watch(client, PUT_KEY, 0);
    await_text(to, "\"created\":true");
    struct listener *late = open_watch(client, PUT_KEY, 0);
    dibs__http_free(client, 0);
    listener_free(to);
    listener_free(late);
}

static void
test_limit(void)
{
    http *client = start_etcd();
    struct listener *to = open_watch(client, PUT_KEY, 300);
    int64_t before = now_ms();
    gate_await(&to->ends, 1);
    CHECK_WITHIN(now_ms() - before, 290, slowly(2000));
    CHECK_SAME(to->status, 0);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

static void
test_delay(void)
{
    http *client = start_etcd();
    http_request request = { .method = "GET", .path = "/version", .delay_ms = 200 };
    int64_t before = now_ms();
    struct listener *to = open_stream(client, &request, 0);
    gate_await(&to->ends, 1);
    CHECK_WITHIN(now_ms() - before, 199, slowly(1500));
    CHECK_SAME(to->status, 200);
    close_stream(to);
    listener_free(to);
    /* one that is closed before it was sent never is */
    request.delay_ms = 60000;
    to = open_stream(client, &request, 0);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

static void
test_lost(void)
{
    http *client = start_etcd();
    struct listener *to = open_watch(client, PUT_KEY, 0);
    await_text(to, "\"created\":true");
    wires_cut(&between, 0);
    gate_await(&to->ends, 1);
    CHECK_SAME(to->status, 0);
    close_stream(to);
    listener_free(to);
    server_kill(&one);
    to = open_watch(client, PUT_KEY, 0);
    gate_await(&to->ends, 1);
    CHECK_SAME(to->status, 0);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

static void
test_drop(void)
{
    http *client = start_etcd();
    struct listener *to = open_watch(client, PUT_KEY, 0);
    await_text(to, "\"created\":true");
    dibs__http_stream_drop(to->stream);
    gate_await(&to->ends, 1);
    CHECK_SAME(to->status, 0);
    dibs__http_stream_drop(to->stream);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

/* ---- answers that come late ---- */

static http_request
query(uint64_t index, char path[100])
{
    (void)snprintf(path, 100, "/v1/kv/k?index=%llu&wait=30s", (unsigned long long)index);
    return (http_request){ .method = "GET", .path = path };
}

static http *
start_consul(void)
{
    need(consul_present(), "consul");
    consul_start(&one, NULL);
    start_first_thread();
    return client_at(one.port);
}

/* Consul does not count a change to what is there already */
static void
put_other(int value)
{
    char text[20];
    (void)snprintf(text, sizeof(text), "%d", value);
    free(consul_do(&one, "PUT", "kv/k", text));
}

static void
test_blocking(void)
{
    http *client = start_consul();
    char path[100];
    free(consul_do(&one, "PUT", "kv/k", "0"));
    uint64_t index = 0;
    for (int i = 0; i < 3; i++) {
        http_request request = query(index, path);
        struct listener *to = open_stream(client, &request, 0);
        if (i > 0) {
            sleep_ms(50);
            CHECK_SAME(gate_value(&to->ends), 0);
            put_other(i);
        }
        gate_await(&to->ends, 1);
        CHECK_SAME(to->status, 200);
        CHECK(to->index > index);
        CHECK(strstr(to->text, "\"Key\":\"k\"") != NULL);
        index = to->index;
        close_stream(to);
        listener_free(to);
    }
    dibs__http_free(client, 0);
}

/* a row of queries, each opened by the end of the one before, which closes itself */
struct row {
    struct gate ends;
    http *client;
    http_stream *stream;
    uint64_t index;
    int left;
};

static void next_query(struct row *row);

static void
ignore(void *context, const char *bytes, size_t len)
{
    (void)context;
    (void)bytes;
    (void)len;
}

static void
row_ended(void *context, int status, uint64_t index)
{
    struct row *row = context;
    CHECK_SAME(status, 200);
    CHECK(index > row->index);
    row->index = index;
    dibs__http_stream_close(row->stream);
    if (--row->left > 0) {
        next_query(row);
    }
    gate_raise(&row->ends);
}

static void
next_query(struct row *row)
{
    static const http_events own = { .heard = ignore, .ended = row_ended };
    char path[100];
    http_request request = query(row->index, path);
    CHECK_SAME(dibs__http_stream_open(row->client, &request, 0, &own, row, &row->stream),
               DIBS_OK);
}

static void
test_row(void)
{
    struct row row = { .client = start_consul(), .left = 20 };
    gate_open(&row.ends);
    free(consul_do(&one, "PUT", "kv/k", "0"));
    next_query(&row);
    for (int i = 1; i <= 20; i++) {
        gate_await(&row.ends, i);
        put_other(i);
    }
    dibs__http_free(row.client, 0);
    gate_close(&row.ends);
}

/* ---- both ways ---- */

/* a frame that asks to watch a key; the key is short */
static size_t
watch_frame(char out[64], const char *key)
{
    size_t len = strlen(key);
    memset(out, 0, 4);
    out[4] = (char)(len + 4);
    out[5] = 0x0a;
    out[6] = (char)(len + 2);
    out[7] = 0x0a;
    out[8] = (char)len;
    memcpy(out + 9, key, len);
    return 9 + len;
}

static struct listener *
open_grpc(http *client, const char *path, const char *body, size_t len)
{
    static const char *const headers[] = { "content-type: application/grpc",
                                           "te: trailers", NULL };
    http_request request = { .method = "POST",
                             .path = path,
                             .body = body,
                             .body_len = len,
                             .headers = headers,
                             .flags = HTTP_2 };
    return open_stream(client, &request, 0);
}

/* how many bytes came, once that is at least so many */
static void
await_bytes(struct listener *to, size_t len)
{
    for (int seen = 0;;) {
        pthread_mutex_lock(&to->pieces.mutex);
        int enough = to->len >= len;
        seen = to->pieces.value;
        pthread_mutex_unlock(&to->pieces.mutex);
        if (enough) {
            return;
        }
        gate_await(&to->pieces, seen + 1);
    }
}

static size_t
bytes_of(struct listener *to)
{
    pthread_mutex_lock(&to->pieces.mutex);
    size_t len = to->len;
    pthread_mutex_unlock(&to->pieces.mutex);
    return len;
}

#define WATCH_PATH "/etcdserverpb.Watch/Watch"

static void
test_duplex(void)
{
    http *client = start_etcd();
    char frame[64];
    struct listener *to = open_grpc(client, WATCH_PATH, frame, watch_frame(frame, "key"));
    await_bytes(to, 30);
    for (int i = 0; i < 50; i++) {
        size_t before = bytes_of(to);
        CHECK_SAME(dibs__http_stream_say(to->stream, frame, watch_frame(frame, "other")),
                   DIBS_OK);
        await_bytes(to, before + 30);
    }
    size_t before = bytes_of(to);
    CHECK_SAME(put(client, far(), NULL), DIBS_OK);
    await_bytes(to, before + 40);
    CHECK_SAME(gate_value(&to->ends), 0);
    close_stream(to);
    CHECK(memmem(to->text + before, to->len - before, "key", 3) != NULL);
    listener_free(to);
    dibs__http_free(client, 0);
}

/* a lot at once, in pieces that are no frames */
static void
test_duplex_much(void)
{
    enum { COUNT = 2000 };
    http *client = start_etcd();
    char frame[64];
    size_t len = watch_frame(frame, "key");
    struct listener *to = open_grpc(client, WATCH_PATH, NULL, 0);
    for (int i = 0; i < COUNT; i++) {
        size_t half = (size_t)i % len;
        CHECK_SAME(dibs__http_stream_say(to->stream, frame, half), DIBS_OK);
        CHECK_SAME(dibs__http_stream_say(to->stream, frame + half, len - half), DIBS_OK);
    }
    await_bytes(to, TEXT_MAX / 2);
    CHECK_SAME(gate_value(&to->ends), 0);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

/* the server ends it while we have nothing to say */
static void
test_duplex_end(void)
{
    http *client = start_etcd();
    char frame[64];
    struct listener *to = open_grpc(client, WATCH_PATH, frame, watch_frame(frame, "key"));
    await_bytes(to, 30);
    sleep_ms(100);
    CHECK_SAME(dibs__http_stream_say(to->stream, "\0\0\0\0\3\xff\xff\xff", 8), DIBS_OK);
    gate_await(&to->ends, 1);
    CHECK_SAME(to->status, 200);
    CHECK(strstr(to->trailers, "grpc-status: 13") != NULL);
    close_stream(to);
    listener_free(to);
    /* at once, without a body */
    to = open_grpc(client, "/etcdserverpb.Watch/None", frame, watch_frame(frame, "key"));
    gate_await(&to->ends, 1);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

static void
test_duplex_lost(void)
{
    http *client = start_etcd();
    char frame[64];
    size_t len = watch_frame(frame, "key");
    struct listener *to = open_grpc(client, WATCH_PATH, frame, len);
    await_bytes(to, 30);
    wires_cut(&between, 0);
    gate_await(&to->ends, 1);
    CHECK_SAME(to->status, 0);
    close_stream(to);
    listener_free(to);
    /* a server that is told to end */
    to = open_grpc(client, WATCH_PATH, frame, len);
    await_bytes(to, 30);
    CHECK_SAME(kill(one.pid, SIGTERM), 0);
    gate_await(&to->ends, 1);
    close_stream(to);
    listener_free(to);
    dibs__http_free(client, 0);
}

/* ---- the end ---- */

/* a child closes all, and the parent's streams go on */
static void
test_fork(void)
{
    http *client = start_etcd();
    char frame[64];
    struct listener *json = open_watch(client, PUT_KEY, 0);
    struct listener *grpc =
        open_grpc(client, WATCH_PATH, frame, watch_frame(frame, "key"));
    await_text(json, "\"created\":true");
    await_bytes(grpc, 30);
    size_t before = bytes_of(grpc);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            dibs__http_free(client, 1);
            _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_SAME(status, 0);
    }
    CHECK_SAME(put(client, far(), NULL), DIBS_OK);
    await_text(json, "\"version\":\"1\"");
    await_bytes(grpc, before + 40);
    CHECK_SAME(gate_value(&json->ends) + gate_value(&grpc->ends), 0);
    close_stream(json);
    close_stream(grpc);
    listener_free(json);
    listener_free(grpc);
    dibs__http_free(client, 0);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(watch),       CASE(many),       CASE(close_under_way),
        CASE(threads),     CASE(left_open),  CASE(limit),
        CASE(delay),       CASE(lost),       CASE(drop),
        CASE(blocking),    CASE(row),        CASE(duplex),
        CASE(duplex_much), CASE(duplex_end), CASE(duplex_lost),
        CASE(fork),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
