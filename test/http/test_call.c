/* SPDX-License-Identifier: MIT */
/*
 * Asking servers that work: `test_http_call CASE`. Answers, headers, sizes, kept
 * connections, threads, forks.
 */
#include "http_test.h"

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

static void
start_etcd(void)
{
    need(etcd_present(), "etcd");
    etcd_start(&one, NULL);
}

/* the same, with a wire in front; returns its port */
static int
start_wired(void)
{
    start_etcd();
    wires_start(&between, &one.port, 1);
    return between.ports[0];
}

static http_answer
must_call(http *client, const http_request *request)
{
    http_answer answer = { 0 };
    dibs_error err = { 0 };
    int code = dibs__http_call(client, request, &answer, far(), &err);
    if (code != DIBS_OK) {
        FAIL("%s %s: %d: %s", request->method, request->path, code, err.text);
    }
    CHECK(answer.text != NULL && strlen(answer.text) == answer.len);
    return answer;
}

/* ---- answers ---- */

static int64_t
integer_at(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

static void
test_answers(void)
{
    start_etcd();
    http *client = client_at(one.port);
    http_answer answer =
        must_call(client, &(http_request){ .method = "GET", .path = "/version" });
    CHECK_SAME(answer.status, 200);
    CHECK(json_string_value(json_object_get(answer.json, "etcdserver")) != NULL);
    CHECK_SAME(answer.index, 0);
    CHECK_SAME(answer.may_be_repeated, 0);
    dibs__http_answer_free(&answer);
    answer = must_call(client, &(http_request){ .method = "GET", .path = "/nowhere" });
    CHECK_SAME(answer.status, 404);
    CHECK(answer.json == NULL && answer.len > 0);
    dibs__http_answer_free(&answer);
    CHECK_SAME(must_post(client, "/v3/kv/put", "{'key':'" PUT_KEY "','value':'eA=='}"),
               200);
    CHECK_SAME(version_of(&one), 1);
    CHECK_SAME(must_post(client, "/v3/kv/put", "{'key':"), 400);
    dibs__http_free(client, 0);
}

static http_answer
consul_call(http *client, const char *method, const char *path, const char *body)
{
    return must_call(client, &(http_request){ .method = method,
                                              .path = path,
                                              .body = body,
                                              .body_len = body ? strlen(body) : 0 });
}

/* all methods on one connection, with a body and without, in turn */
static void
test_methods(void)
{
    need(consul_present(), "consul");
    consul_start(&one, NULL);
    http *client = client_at(one.port);
    for (int i = 0; i < 3; i++) {
        http_answer answer = consul_call(client, "PUT", "/v1/kv/a%2Fb?flags=7", "text");
        CHECK_SAME(answer.status, 200);
        CHECK(json_is_true(answer.json));
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "GET", "/v1/kv/a%2Fb", NULL);
        CHECK_SAME(answer.status, 200);
        CHECK_SAME(integer_at(json_array_get(answer.json, 0), "Flags"), 7);
        CHECK_SAME(answer.index,
                   integer_at(json_array_get(answer.json, 0), "ModifyIndex"));
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "GET", "/v1/kv/a/b?raw", NULL);
        CHECK(strcmp(answer.text, "text") == 0 && answer.json == NULL);
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "PUT", "/v1/kv/a/b", NULL);
        CHECK_SAME(answer.status, 200);
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "GET", "/v1/kv/a/b?raw", NULL);
        CHECK(answer.status == 200 && answer.len == 0 && answer.json == NULL);
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "DELETE", "/v1/kv/a/b", NULL);
        CHECK_SAME(answer.status, 200);
        dibs__http_answer_free(&answer);
        answer = consul_call(client, "GET", "/v1/kv/a/b", NULL);
        CHECK_SAME(answer.status, 404);
        dibs__http_answer_free(&answer);
    }
    dibs__http_free(client, 0);
}

/* Consul's flags are numbers that need all 64 bits */
static void
test_large_numbers(void)
{
    need(consul_present(), "consul");
    consul_start(&one, NULL);
    http *client = client_at(one.port);
    http_answer answer =
        consul_call(client, "PUT", "/v1/kv/k?flags=16210313421097356768", "1");
    dibs__http_answer_free(&answer);
    answer = consul_call(client, "GET", "/v1/kv/k", NULL);
    const json_t *entry = json_array_get(answer.json, 0);
    const char *flags = json_string_value(json_object_get(entry, "Flags"));
    CHECK(flags != NULL && strcmp(flags, "16210313421097356768") == 0);
    CHECK_SAME(integer_at(entry, "ModifyIndex"), answer.index);
    dibs__http_answer_free(&answer);
    dibs__http_free(client, 0);
}

/* ---- headers ---- */

static int
status_with(http *client, const char *const *headers)
{
    http_answer answer = must_call(
        client,
        &(http_request){ .method = "GET", .path = "/v1/kv/app/k", .headers = headers });
    int status = answer.status;
    dibs__http_answer_free(&answer);
    return status;
}

static void
test_headers(void)
{
    need(consul_present(), "consul");
    server_options options = { .acl = "key_prefix \"app/\" { policy = \"write\" }" };
    consul_start(&one, &options);
    http *client = client_at(one.port);
    char line[100];
    (void)snprintf(line, sizeof(line), "X-Consul-Token: %s", one.token);
    const char *const with[] = { line, NULL };
    for (int i = 0; i < 2; i++) {
        CHECK_SAME(status_with(client, NULL), 403);
        CHECK_SAME(status_with(client, with), 404);
        CHECK_SAME(status_with(client, NULL), 403);
        CHECK_SAME(dibs__http_set_header(client, line), DIBS_OK);
        CHECK_SAME(status_with(client, NULL), 404);
        CHECK_SAME(dibs__http_set_header(client, "X-Consul-Token: none"), DIBS_OK);
        CHECK_SAME(status_with(client, NULL), 403);
        CHECK_SAME(dibs__http_set_header(client, NULL), DIBS_OK);
    }
    dibs__http_free(client, 0);
}

/* ---- sizes ---- */

static void
test_sizes(void)
{
    start_etcd();
    http *client = client_at(one.port);
    const size_t room = 1 << 20;
    char *body = malloc(room + 100);
    CHECK(body != NULL);
    for (size_t len = 4; len <= room; len *= 8) {
        size_t at = (size_t)sprintf(body, "{\"key\":\"" PUT_KEY "\",\"value\":\"");
        memset(body + at, 'A', len);
        (void)sprintf(body + at + len, "\"}");
        http_request request = {
            .method = "POST", .path = "/v3/kv/put", .body = body, .body_len = at + len + 2
        };
        http_answer answer = must_call(client, &request);
        CHECK_SAME(answer.status, 200);
        dibs__http_answer_free(&answer);
        CHECK_SAME(post(client, "/v3/kv/range", "{'key':'" PUT_KEY "'}", 0, far(),
                        &answer, NULL),
                   DIBS_OK);
        const json_t *kv = json_array_get(json_object_get(answer.json, "kvs"), 0);
        CHECK_SAME(json_string_length(json_object_get(kv, "value")), len);
        dibs__http_answer_free(&answer);
    }
    free(body);
    dibs__http_free(client, 0);
}

/* ---- connections ---- */

static void
test_kept(void)
{
    http *client = client_at(start_wired());
    for (int i = 0; i < 50; i++) {
        CHECK_SAME(must_post(client, "/v3/kv/range", "{'key':'" PUT_KEY "'}"), 200);
    }
    CHECK_SAME(wires_passed(&between, 0), 1);
    dibs__http_free(client, 0);
}

struct load {
    http *client;
    int rounds;
};

static void
ask_for_own(void *arg, int index)
{
    struct load *load = arg;
    char body[200];
    for (int i = 0; i < load->rounds; i++) {
        http_answer answer;
        (void)snprintf(body, sizeof(body),
                       "{'success':[{'request_put':{'key':'%06d00','value':'%04d'}},"
                       "{'request_range':{'key':'%06d00'}}]}",
                       100000 + index, 1000 + i, 100000 + index);
        dibs_error err = { 0 };
        int code = post(load->client, "/v3/kv/txn", body, 0, far(), &answer, &err);
        if (code != DIBS_OK) {
            FAIL("%d: %s", code, err.text);
        }
        (void)snprintf(body, sizeof(body), "\"value\":\"%04d\"", 1000 + i);
        CHECK(strstr(answer.text, body) != NULL);
        dibs__http_answer_free(&answer);
    }
}

/* each gets its own answers, and no more connections are made than there are threads */
static void
test_threads(void)
{
    struct load load = { .client = client_at(start_wired()), .rounds = 40 };
    start_first_thread();
    int fds = count_fds();
    gang_join(gang_start(32, ask_for_own, &load));
    CHECK_WITHIN(wires_passed(&between, 0), 1, 32);
    dibs__http_free(load.client, 0);
    CHECK_SAME(count_fds(), fds);
}

/* more threads than connections are kept */
static void
test_crowd(void)
{
    struct load load = { .client = client_at(start_wired()), .rounds = 4 };
    start_first_thread();
    int fds = count_fds();
    gang_join(gang_start(100, ask_for_own, &load));
    dibs__http_free(load.client, 0);
    CHECK_SAME(count_fds(), fds);
}

/* ---- forks ---- */

/* the child closes all it has, and the parent's connection is as good as before */
static void
test_fork(void)
{
    http *client = client_at(start_wired());
    CHECK_SAME(must_post(client, "/v3/kv/range", "{'key':'YQ=='}"), 200);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dibs__http_free(client, 1);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAME(status, 0);
    CHECK_SAME(must_post(client, "/v3/kv/range", "{'key':'YQ=='}"), 200);
    CHECK_SAME(wires_passed(&between, 0), 1);
    dibs__http_free(client, 0);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(answers), CASE(methods), CASE(large_numbers), CASE(headers), CASE(sizes),
        CASE(kept),    CASE(threads), CASE(crowd),         CASE(fork),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
