/* SPDX-License-Identifier: MIT */
/*
 * Connections that threads share: `test_link CASE`.
 *
 * Most cases count. A thread increments a counter of its own, and sorts what it is told:
 * done, surely not sent, or unknown. In the end the server knows how often it was really
 * done. As long as no connection was lost, that is exactly "done" and "unknown" together,
 * for what was sent is executed sooner or later.
 *
 * Parts: replies are one's own; deadlines that pass; connections that are lost; order;
 * several ops of one thread; replies that are too much.
 */
#include "resp_test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 64

static server one;

static void
clean_up(void)
{
    server_stop(&one);
}

/* ---- replies are one's own ---- */

struct load {
    resp_server *server;
    int rounds;
    int64_t last_ms; /* the longest time-out, in ms; 0: none passes */
    size_t padding;  /* bytes that go along */
    _Atomic int running;
    int64_t done[THREADS_MAX], unsent[THREADS_MAX], unknown[THREADS_MAX];
};

/* ECHO, INCR and a nested answer in one request, each with what only this thread knows */
static void
ask_for_own(resp_server *to, int index, int round)
{
    resp_request request = { 0 };
    redisReply *replies[3];
    char word[64], key[32];
    dibs_error err = { 0 };
    (void)snprintf(word, sizeof(word), "thread %d, round %d", index, round);
    (void)snprintf(key, sizeof(key), "own:%d", index);
    add_command(&request, "ECHO", word);
    add_command(&request, "INCR", key);
    add_command(&request, "EVAL", "return {ARGV[1], {1, ARGV[1]}}", "0", word);
    int code = dibs__resp_call(to, (uint64_t)index, &request, far(), replies, &err);
    if (code != DIBS_OK) {
        FAIL("%d: %s", code, err.text);
    }
    CHECK(dibs__resp_is_text(replies[0], word));
    CHECK_SAME(dibs__resp_integer(replies[1], -1), round + 1);
    CHECK(dibs__resp_is_text(dibs__resp_element(replies[2], 0), word));
    redisReply *inner = dibs__resp_element(replies[2], 1);
    CHECK_SAME(dibs__resp_integer(dibs__resp_element(inner, 0), -1), 1);
    CHECK(dibs__resp_is_text(dibs__resp_element(inner, 1), word));
    for (int i = 0; i < 3; i++) {
        freeReplyObject(replies[i]);
    }
    dibs__resp_request_free(&request);
}

static void
work_own(void *arg, int index)
{
    struct load *load = arg;
    for (int i = 0; i < load->rounds; i++) {
        ask_for_own(load->server, index, i);
    }
}

static void
check_own(unsigned connections, int threads, int rounds)
{
    resp_access access = plain_access(connections);
    resp_address address = address_of(&one);
    struct load load = { .rounds = rounds };
    load.server = dibs__resp_server_new(&access, &address);
    CHECK(load.server != NULL);
    server_do(&one, "FLUSHALL");
    gang_join(gang_start(threads, work_own, &load));
    dibs__resp_server_free(load.server, 0);
}

static void
test_own(void)
{
    server_start(&one, NULL);
    int fds = count_fds();
    for (int threads = 1; threads <= THREADS_MAX; threads *= 4) {
        check_own(1, threads, 4000 / threads);
        check_own(4, threads, 4000 / threads);
    }
    CHECK_SAME(count_fds(), fds);
}

/* ---- deadlines that pass ---- */

static void
count_code(struct load *load, int index, int code, const dibs_error *err)
{
    if (code == DIBS_OK) {
        load->done[index]++;
    } else if (code == DIBS_EUNAVAIL) {
        load->unsent[index]++;
    } else if (code == DIBS_EUNKNOWN) {
        load->unknown[index]++;
    } else {
        FAIL("%d: %s", code, err->text);
    }
    if (code != DIBS_OK) {
        CHECK(err->text[0] != '\0' && err->code == code);
    }
}

/* INCR, and something that takes room on the way */
static void
increment(struct load *load, int index, const char *padding, unsigned *seed)
{
    resp_request request = { 0 };
    redisReply *replies[2];
    dibs_error err = { 0 };
    char key[32];
    (void)snprintf(key, sizeof(key), "count:%d", index);
    add_command(&request, "INCR", key);
    add_command(&request, "ECHO", padding);
    dibs_time deadline = far();
    if (load->last_ms > 0) {
        deadline = now_ns() + (rand_r(seed) % (load->last_ms * 1000)) * (DIBS_MS / 1000);
    }
    int code =
        dibs__resp_call(load->server, (uint64_t)index, &request, deadline, replies, &err);
    if (code == DIBS_OK && dibs__resp_trouble(replies[0]) == RESP_NOT_NOW) {
        load->unsent[index]++; /* it is loading */
        freeReplyObject(replies[0]);
        freeReplyObject(replies[1]);
        dibs__resp_request_free(&request);
        return;
    }
    count_code(load, index, code, &err);
    if (code == DIBS_OK) {
        /* what it did not hear of is counted, too */
        CHECK_WITHIN(dibs__resp_integer(replies[0], -1), load->done[index],
                     load->done[index] + load->unknown[index]);
        CHECK_SAME(replies[1]->len, strlen(padding));
        freeReplyObject(replies[0]);
        freeReplyObject(replies[1]);
    }
    dibs__resp_request_free(&request);
}

static void
work_count(void *arg, int index)
{
    struct load *load = arg;
    unsigned seed = (unsigned)(now_ns() + index);
    char *padding = malloc(load->padding + 1);
    CHECK(padding != NULL);
    memset(padding, 'x', load->padding);
    padding[load->padding] = '\0';
    while (atomic_load(&load->running)) {
        increment(load, index, padding, &seed);
    }
    free(padding);
}

static void
start_load(struct load *load, unsigned connections)
{
    static resp_access access;
    resp_address address = address_of(&one);
    access = plain_access(connections);
    load->server = dibs__resp_server_new(&access, &address);
    CHECK(load->server != NULL);
    settle(load->server);
    atomic_store(&load->running, 1);
}

static int64_t
sum(const int64_t *numbers)
{
    int64_t total = 0;
    for (int i = 0; i < THREADS_MAX; i++) {
        total += numbers[i];
    }
    return total;
}

/* what the server has counted, against what the threads were told */
static void
check_counts(struct load *load, int threads, int is_exact)
{
    for (int i = 0; i < threads; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "count:%d", i);
        char *text = server_ask(&one, "GET", key);
        CHECK(text != NULL);
        int64_t counted = strcmp(text, "(nil)") == 0 ? 0 : strtoll(text, NULL, 10);
        free(text);
        CHECK_WITHIN(counted, load->done[i] + (is_exact ? load->unknown[i] : 0),
                     load->done[i] + load->unknown[i]);
    }
}

static void
finish_load(struct load *load, int threads, int is_exact)
{
    settle(load->server);
    for (uint64_t hash = 0; hash < 64; hash++) {
        CHECK(!dibs__resp_is_stalled(load->server, hash));
    }
    dibs__resp_server_free(load->server, 0);
    check_counts(load, threads, is_exact);
}

/* the server stands still now and then, for longer than most deadlines */
static void
check_pauses(unsigned connections, int threads)
{
    struct load load = { .last_ms = 20, .padding = 10 };
    server_do(&one, "FLUSHALL");
    start_load(&load, connections);
    gang *all = gang_start(threads, work_count, &load);
    for (int i = 0; i < 15; i++) {
        sleep_ms(20);
        server_pause(&one);
        sleep_ms(40);
        server_resume(&one);
    }
    sleep_ms(20);
    atomic_store(&load.running, 0);
    gang_join(all);
    finish_load(&load, threads, 1);
    CHECK(sum(load.done) > 0 && sum(load.unknown) > 0);
}

static void
test_deadlines(void)
{
    server_start(&one, NULL);
    check_pauses(1, 1);
    check_pauses(1, 16);
    check_pauses(4, 64);
}

/* The server stands still and the socket fills up: what is not sent is taken back. */
static void
test_full(void)
{
    struct load load = { .last_ms = 50, .padding = 100000 };
    server_start(&one, NULL);
    start_load(&load, 1);
    server_pause(&one);
    gang *all = gang_start(16, work_count, &load);
    sleep_ms(1000);
    server_resume(&one);
    sleep_ms(300);
    atomic_store(&load.running, 0);
    gang_join(all);
    finish_load(&load, 16, 1);
    CHECK(sum(load.unsent) > 0 && sum(load.unknown) > 0);
}

static void
work_once(void *arg, int index)
{
    struct load *load = arg;
    unsigned seed = 0;
    char *padding = malloc(load->padding + 1);
    CHECK(padding != NULL);
    memset(padding, 'x', load->padding);
    padding[load->padding] = '\0';
    increment(load, index, padding, &seed);
    free(padding);
}

/* The same, but then the server dies: what was not sent is known not to be sent. */
static void
test_full_end(void)
{
    struct load load = { .padding = 1800000 };
    server_start(&one, NULL);
    start_load(&load, 1);
    server_pause(&one);
    gang *all = gang_start(8, work_once, &load);
    sleep_ms(slowly(500));
    server_kill(&one);
    gang_join(all);
    CHECK_SAME(sum(load.done), 0);
    CHECK_SAME(sum(load.unsent) + sum(load.unknown), 8);
    CHECK(sum(load.unsent) > 0 && sum(load.unknown) > 0);
    dibs__resp_server_free(load.server, 0);
}

/* ---- connections that are lost ---- */

static void
check_cuts(unsigned connections, int threads, int64_t last_ms)
{
    struct load load = { .last_ms = last_ms, .padding = 10 };
    server_do(&one, "FLUSHALL");
    start_load(&load, connections);
    gang *all = gang_start(threads, work_count, &load);
    for (int i = 0; i < 50; i++) {
        sleep_ms(10);
        server_do(&one, "CLIENT", "KILL", "TYPE", "normal");
    }
    atomic_store(&load.running, 0);
    gang_join(all);
    finish_load(&load, threads, 0);
    CHECK(sum(load.done) > 0 && sum(load.unknown) > 0);
}

static void
test_cuts(void)
{
    server_start(&one, NULL);
    check_cuts(1, 1, 0);
    check_cuts(1, 16, 0);
    check_cuts(1, 16, slowly(3));
    check_cuts(4, 64, 0);
    check_cuts(4, 64, slowly(3));
}

/* The server dies and comes back; its counters with it. */
static void
test_restart(void)
{
    static const server_options durable = { .durable = 1 };
    struct load load = { .padding = 10 };
    server_start(&one, &durable);
    start_load(&load, 4);
    gang *all = gang_start(16, work_count, &load);
    for (int i = 0; i < 3; i++) {
        sleep_ms(100);
        server_kill(&one);
        sleep_ms(50);
        server_restart(&one);
    }
    sleep_ms(100);
    atomic_store(&load.running, 0);
    gang_join(all);
    finish_load(&load, 16, 0);
    CHECK(sum(load.done) > 0 && sum(load.unsent) > 0);
}

/* A connection that was closed while nobody used it is no trouble for who comes next. */
static void
test_idle(void)
{
    struct load load = { 0 };
    server_start(&one, NULL);
    start_load(&load, 1);
    for (int i = 0; i < 3; i++) {
        server_do(&one, "CLIENT", "KILL", "TYPE", "normal");
        sleep_ms(20);
        CHECK_SAME(must_ask(load.server, 1, "INCR", "idle"), i + 1);
    }
    dibs__resp_server_free(load.server, 0);
}

/* ---- order ---- */

/* four at once, of four lanes, so that four connections are in use */
static void
open_all(resp_server *to)
{
    resp_request request = { 0 };
    resp_op *ops[4];
    unsigned lanes[4];
    int count = 0;
    add_command(&request, "PING");
    for (uint64_t hash = 0; count < 4; hash++) {
        unsigned lane = dibs__resp_lane(to, hash);
        int is_new = 1;
        for (int i = 0; i < count; i++) {
            is_new = is_new && lanes[i] != lane;
        }
        if (is_new) {
            CHECK_SAME(dibs__resp_send(to, hash, &request, far(), &ops[count], NULL),
                       DIBS_OK);
            lanes[count++] = lane;
        }
    }
    for (int i = 0; i < 4; i++) {
        redisReply *reply;
        CHECK_SAME(dibs__resp_wait(ops[i], far(), &reply, NULL), DIBS_OK);
        freeReplyObject(reply);
    }
    dibs__resp_request_free(&request);
}

static void
check_value(const char *want)
{
    char *text = server_ask(&one, "GET", "order");
    CHECK(text != NULL);
    if (strcmp(text, want) != 0) {
        FAIL("the value is %s, not %s", text, want);
    }
    free(text);
}

/* an op of another lane, which keeps the first connection busy until it is waited for */
static resp_op *
occupy_first(resp_server *to)
{
    resp_request request = { 0 };
    resp_op *op;
    uint64_t hash = 2;
    while (dibs__resp_lane(to, hash) == dibs__resp_lane(to, 1)) {
        hash++;
    }
    add_command(&request, "PING");
    CHECK_SAME(dibs__resp_send(to, hash, &request, far(), &op, NULL), DIBS_OK);
    dibs__resp_request_free(&request);
    return op;
}

/* Four connections, and what is to be late goes over the second. */
struct path {
    struct relay *between;
    resp_server *to;
    resp_access access;
};

static void
path_open(struct path *path)
{
    resp_address address = address_of(&one);
    path->access = plain_access(4);
    path->between = relay_start(one.port);
    address.port = (uint16_t)relay_port(path->between);
    path->to = dibs__resp_server_new(&path->access, &address);
    CHECK(path->to != NULL);
    open_all(path->to);
    must_ask(path->to, 1, "SET", "order", "first");
}

static void
path_close(struct path *path)
{
    dibs__resp_server_free(path->to, 0);
    relay_stop(path->between);
}

/* What sits in a connection that was given up is never executed after what is sent over
 * the next one. `is_hung_up`: the client sees an end, and the server does not. Else only
 * silence tells: ten seconds of it. */
static void
check_order(int is_hung_up)
{
    struct path path;
    redisReply *reply;
    path_open(&path);
    relay_hold(path.between);
    resp_op *other = occupy_first(path.to);
    CHECK_SAME(ask(path.to, 1, in_ms(50), &reply, NULL, "SET", "order", "late"),
               DIBS_EUNKNOWN);
    CHECK(dibs__resp_is_stalled(path.to, 1));
    if (is_hung_up) {
        relay_hang_up(path.between);
    }
    CHECK_SAME(ask(path.to, 1, in_ms(20000), &reply, NULL, "PING"), DIBS_EUNKNOWN);
    CHECK_SAME(dibs__resp_wait(other, in_ms(is_hung_up ? 20000 : 0), &reply, NULL),
               DIBS_EUNKNOWN);
    must_ask(path.to, 1, "SET", "order", "last");
    CHECK_SAME(relay_count(path.between), 5);
    relay_let_go(path.between, 0);
    sleep_ms(200);
    check_value("last");
    path_close(&path);
}

static void
test_order_hung_up(void)
{
    server_start(&one, NULL);
    check_order(1);
}

static void
test_order_silent(void)
{
    server_start(&one, NULL);
    check_order(0);
}

/* One that swallows everything is given up after a second, if callers run out of time. */
static void
test_swallowed(void)
{
    struct path path;
    redisReply *reply;
    server_start(&one, NULL);
    path_open(&path);
    relay_hold(path.between);
    int64_t began = now_ms();
    for (int tries = 0; relay_count(path.between) == 4; tries++) {
        CHECK(tries < 20);
        (void)ask(path.to, 1, in_ms(slowly(100)), &reply, NULL, "SET", "order", "late");
        if (reply != NULL) {
            freeReplyObject(reply);
        }
    }
    CHECK_WITHIN(now_ms() - began, 1000, 1000 + slowly(1500));
    must_ask(path.to, 1, "SET", "order", "last");
    relay_let_go(path.between, 0);
    sleep_ms(200);
    check_value("last");
    path_close(&path);
}

/* The same with a server that stands still, where all is waiting in its sockets. */
static void
test_order_paused(void)
{
    struct load load = { 0 };
    redisReply *reply;
    dibs_error err = { 0 };
    server_start(&one, NULL);
    start_load(&load, 1);
    server_pause(&one);
    CHECK_SAME(ask(load.server, 1, in_ms(50), &reply, &err, "SET", "order", "late"),
               DIBS_EUNKNOWN);
    int64_t began = now_ms();
    CHECK_SAME(ask(load.server, 1, in_ms(20000), &reply, &err, "PING"), DIBS_EUNKNOWN);
    CHECK_WITHIN(now_ms() - began, 9000, 9000 + slowly(3000));
    /* surely not sent: the new connection is not there yet */
    CHECK_SAME(ask(load.server, 1, in_ms(50), &reply, &err, "SET", "order", "never"),
               DIBS_EUNAVAIL);
    server_resume(&one);
    must_ask(load.server, 1, "SET", "order", "last");
    sleep_ms(200);
    check_value("last");
    dibs__resp_server_free(load.server, 0);
}

/* ---- several ops of one thread ---- */

struct crowd {
    resp_server *server;
    _Atomic int running;
    _Atomic int64_t slowest_ms;
};

static void
work_quickly(void *arg, int index)
{
    struct crowd *crowd = arg;
    char key[32];
    (void)snprintf(key, sizeof(key), "quick:%d", index);
    for (int64_t i = 1; atomic_load(&crowd->running); i++) {
        int64_t began = now_ms();
        CHECK_SAME(must_ask(crowd->server, 1, "INCR", key), i);
        int64_t took = now_ms() - began;
        if (took > atomic_load(&crowd->slowest_ms)) {
            atomic_store(&crowd->slowest_ms, took);
        }
    }
}

/* Who has sent and does something else meanwhile keeps nobody waiting. */
static void
test_absent(void)
{
    struct load load = { 0 };
    server_start(&one, NULL);
    start_load(&load, 1);
    struct crowd crowd = { .server = load.server, .running = 1 };
    gang *all = gang_start(4, work_quickly, &crowd);
    resp_request request = { 0 };
    add_command(&request, "INCR", "absent");
    for (int i = 0; i < 10; i++) {
        resp_op *ops[3];
        redisReply *reply;
        for (int j = 0; j < 3; j++) {
            CHECK_SAME(dibs__resp_send(load.server, 1, &request, far(), &ops[j], NULL),
                       DIBS_OK);
        }
        sleep_ms(slowly(300));
        /* last first: the order of waiting does not matter */
        for (int j = 2; j >= 0; j--) {
            CHECK_SAME(dibs__resp_wait(ops[j], far(), &reply, NULL), DIBS_OK);
            CHECK_SAME(dibs__resp_integer(reply, -1), 3 * i + j + 1);
            freeReplyObject(reply);
        }
    }
    atomic_store(&crowd.running, 0);
    gang_join(all);
    CHECK(atomic_load(&crowd.slowest_ms) < slowly(200));
    dibs__resp_request_free(&request);
    dibs__resp_server_free(load.server, 0);
}

static void
call_once(void *arg, int index)
{
    struct crowd *crowd = arg;
    (void)index;
    while (!atomic_load(&crowd->running)) {
        continue;
    }
    must_ask(crowd->server, 1, "PING");
}

/* What was left to a reader to send is sent, also if nobody waits any more. */
static void
test_left_behind(void)
{
    struct load load = { 0 };
    resp_request request = { 0 };
    server_start(&one, NULL);
    start_load(&load, 1);
    add_command(&request, "INCR", "left");
    for (int i = 0; i < 1000 / slow_factor(); i++) {
        struct crowd crowd = { .server = load.server };
        resp_op *op;
        redisReply *reply;
        gang *all = gang_start(1, call_once, &crowd);
        atomic_store(&crowd.running, 1);
        for (volatile int spin = 0; spin < i % 100 * 200; spin++) {
            continue;
        }
        CHECK_SAME(dibs__resp_send(load.server, 1, &request, far(), &op, NULL), DIBS_OK);
        gang_join(all);
        int64_t limit = now_ms() + slowly(2000);
        while (server_number(&one, "EVAL", "return tonumber(redis.call('GET', 'left'))",
                             "0") != i + 1) {
            CHECK(now_ms() < limit);
        }
        CHECK_SAME(dibs__resp_wait(op, far(), &reply, NULL), DIBS_OK);
        freeReplyObject(reply);
    }
    dibs__resp_request_free(&request);
    dibs__resp_server_free(load.server, 0);
}

static __attribute__((noinline)) void
read_in_vain(resp_server *to)
{
    redisReply *reply;
    (void)ask(to, 1, in_ms(200), &reply, NULL, "INCR", "cancelled");
}

/* has nothing on its stack when it ends, for the address sanitizer would miss that */
static void *
be_cancelled(void *arg)
{
    read_in_vain(arg);
    for (;;) {
        pthread_testcancel();
    }
    return NULL;
}

/* A reader that is cancelled passes its role on first. */
static void
test_cancel(void)
{
    struct load load = { 0 };
    pthread_t thread;
    void *result;
    server_start(&one, NULL);
    start_load(&load, 1);
    server_pause(&one);
    CHECK(pthread_create(&thread, NULL, be_cancelled, load.server) == 0);
    sleep_ms(50);
    pthread_cancel(thread);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    server_resume(&one);
    CHECK_SAME(must_ask(load.server, 1, "INCR", "cancelled"), 2);
    dibs__resp_server_free(load.server, 0);
}

/* Few callers have a connection each, and a lone one uses only one. */
static void
test_spread(void)
{
    struct load load = { 0 };
    server_start(&one, NULL);
    int fds = count_fds();
    start_load(&load, 4);
    CHECK_SAME(count_fds(), fds + 1);
    open_all(load.server);
    CHECK_SAME(count_fds(), fds + 4);
    dibs__resp_server_free(load.server, 0);
}

/* A child closes its descriptors, and the parent's connection does not notice. */
static void
test_fork(void)
{
    struct load load = { 0 };
    server_start(&one, NULL);
    start_load(&load, 4);
    open_all(load.server);
    int64_t id = must_ask(load.server, 1, "CLIENT", "ID");
    int fds = count_fds();
    pid_t pid = fork();
    if (pid == 0) {
        dibs__resp_server_free(load.server, 1);
        _exit(count_fds() == fds - 4 ? 0 : 1);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* it is still the same one */
    CHECK_SAME(must_ask(load.server, 1, "CLIENT", "ID"), id);
    dibs__resp_server_free(load.server, 0);
}

/* ---- replies that are too much ---- */

static void
check_refused(resp_server *to, const char *script)
{
    redisReply *reply;
    dibs_error err = { 0 };
    CHECK_SAME(ask(to, 1, far(), &reply, &err, "EVAL", script, "0"), DIBS_EUNKNOWN);
    CHECK(err.text[0] != '\0');
    CHECK_SAME(must_ask(to, 1, "EVAL", "return 7", "0"), 7);
}

static void
test_limits(void)
{
    struct load load = { 0 };
    redisReply *reply;
    server_start(&one, NULL);
    start_load(&load, 1);
    CHECK_SAME(ask(load.server, 1, far(), &reply, NULL, "EVAL",
                   "return string.rep('x', 15 * 1024 * 1024)", "0"),
               DIBS_OK);
    CHECK_SAME(reply->len, 15 * 1024 * 1024);
    freeReplyObject(reply);
    check_refused(load.server, "return string.rep('x', 17 * 1024 * 1024)");
    check_refused(load.server, "local t = {} for i = 1, 20 do t = {t} end return t");
    check_refused(load.server,
                  "local t = {} for i = 1, 1100000 do t[i] = 1 end return t");
    dibs__resp_server_free(load.server, 0);
}

static const struct test_case cases[] = {
    { "own", test_own },
    { "deadlines", test_deadlines },
    { "full", test_full },
    { "full_end", test_full_end },
    { "cuts", test_cuts },
    { "restart", test_restart },
    { "idle", test_idle },
    { "order_hung_up", test_order_hung_up },
    { "order_silent", test_order_silent },
    { "swallowed", test_swallowed },
    { "order_paused", test_order_paused },
    { "absent", test_absent },
    { "left_behind", test_left_behind },
    { "cancel", test_cancel },
    { "spread", test_spread },
    { "fork", test_fork },
    { "limits", test_limits },
};

int
main(int argc, char **argv)
{
    need(server_present("redis-server"), "redis-server");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
