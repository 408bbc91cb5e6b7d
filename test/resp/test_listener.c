/* SPDX-License-Identifier: MIT */
/*
 * The subscription connection: `test_listener CASE`.
 *
 * What the listener says is written down in order: messages as their numbers, gaps as -1.
 * A number that is missing without a gap behind it would be a lost wake-up.
 *
 * Parts: what the listener calls; borrowing; starting; hearing; many threads; gaps; not let
 * in; borrowers, and what was tested before with them about.
 */
#include "resp_test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_MAX 200000
#define GAP (-1)

static server one;

static struct {
    pthread_mutex_t mutex; /* for all below */
    int count;
    int64_t numbers[LOG_MAX];
    char channel[64], message[64]; /* the last ones */
    size_t message_len;
    int gaps;
    pthread_t by; /* whose thread it was */
} heard = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static resp_address where;
static resp_access access_all;
static resp_listener *listener;
static resp_server *publisher;

static void
clean_up(void)
{
    server_stop(&one);
}

/* ---- what the listener calls ---- */

static int
on_locate(void *context, resp_address *address, dibs_time deadline, dibs_error *err)
{
    (void)context;
    (void)deadline;
    (void)err;
    *address = where;
    return DIBS_OK;
}

static void
write_down(int64_t number)
{
    CHECK(heard.count < LOG_MAX);
    heard.numbers[heard.count++] = number;
}

static void
copy_text(char *out, size_t size, const char *text, size_t len)
{
    CHECK(len < size);
    memcpy(out, text, len);
    out[len] = '\0';
}

static void
on_heard(void *context, const char *channel, size_t channel_len, const char *message,
         size_t message_len)
{
    (void)context;
    pthread_mutex_lock(&heard.mutex);
    copy_text(heard.channel, sizeof(heard.channel), channel, channel_len);
    copy_text(heard.message, sizeof(heard.message), message, message_len);
    heard.message_len = message_len;
    heard.by = pthread_self();
    write_down(strtoll(heard.message, NULL, 10));
    pthread_mutex_unlock(&heard.mutex);
}

static void
on_gap(void *context)
{
    (void)context;
    pthread_mutex_lock(&heard.mutex);
    heard.gaps++;
    write_down(GAP);
    pthread_mutex_unlock(&heard.mutex);
}

static int
count_gaps(void)
{
    pthread_mutex_lock(&heard.mutex);
    int gaps = heard.gaps;
    pthread_mutex_unlock(&heard.mutex);
    return gaps;
}

static int
count_heard(void)
{
    pthread_mutex_lock(&heard.mutex);
    int count = heard.count - heard.gaps;
    pthread_mutex_unlock(&heard.mutex);
    return count;
}

static int64_t
last_heard(void)
{
    pthread_mutex_lock(&heard.mutex);
    int64_t number = heard.count > 0 ? heard.numbers[heard.count - 1] : 0;
    pthread_mutex_unlock(&heard.mutex);
    return number;
}

/* waits until it is true */
#define WAIT_UNTIL(condition)                                                            \
    do {                                                                                 \
        int64_t limit = now_ms() + slowly(5000);                                         \
        while (!(condition)) {                                                           \
            if (now_ms() > limit) {                                                      \
                FAIL("this does not become true: %s", #condition);                       \
            }                                                                            \
            sleep_ms(1);                                                                 \
        }                                                                                \
    } while (0)

/* ---- borrowing ---- */

/* Threads that borrow the connection again and again, as callers that wait would. */
#define BORROWERS 2
static int with_borrowers;
static gang *borrowers;
static _Atomic int stay;

static void
borrow_again_and_again(void *arg, int index)
{
    dibs_bell never_rung = 0;
    (void)arg;
    while (atomic_load(&stay)) {
        dibs__resp_listener_borrow(listener, &never_rung, 0, in_ms(index ? 50 : 3));
        sleep_ms(1);
    }
}

static void
lend(void)
{
    atomic_store(&stay, 1);
    borrowers = gang_start(BORROWERS, borrow_again_and_again, NULL);
}

static void
end_lending(void)
{
    if (borrowers != NULL) {
        atomic_store(&stay, 0);
        gang_join(borrowers);
        borrowers = NULL;
    }
}

/* ---- starting ---- */

static void
open_listener(void)
{
    static const resp_listener_events events = { on_locate, on_heard, on_gap };
    access_all.host = &test_host;
    access_all.client_name = "test";
    access_all.connections = 2;
    listener = dibs__resp_listener_new(&access_all, &events, NULL);
    CHECK(listener != NULL);
}

static void
start(const server_options *options)
{
    server_start(&one, options);
    where = address_of(&one);
    open_listener();
    publisher = dibs__resp_server_new(&access_all, &where);
    CHECK(publisher != NULL);
    if (with_borrowers) {
        lend();
    }
}

/* what a connected listener has open: the connection, an epoll, and two to be woken by */
#define FDS 4

static void
finish(void)
{
    end_lending();
    int threads = count_threads(), fds = count_fds();
    dibs__resp_listener_free(listener, 0);
    CHECK(threads_settle(threads - 1, slowly(2000)) <= threads - 1);
    CHECK_SAME(count_fds(), fds - FDS);
    dibs__resp_server_free(publisher, 0);
}

static void
subscribe(const char *channel)
{
    dibs_error err = { 0 };
    if (dibs__resp_subscribe(listener, channel, strlen(channel), 0, far(), &err) !=
        DIBS_OK) {
        FAIL("cannot subscribe: %s", err.text);
    }
}

static void
unsubscribe(const char *channel)
{
    dibs__resp_unsubscribe(listener, channel, strlen(channel), 0);
}

static int64_t
publish(const char *channel, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    return must_ask(publisher, 1, "PUBLISH", channel, text);
}

/* ---- hearing ---- */

static void
test_hears(void)
{
    int threads = count_threads();
    start(NULL);
    CHECK_SAME(count_threads(), threads); /* no thread before there is something to do */
    CHECK_SAME(dibs__resp_listener_epoch(listener), 0);
    subscribe("a");
    CHECK(dibs__resp_listener_epoch(listener) != 0);
    CHECK_SAME(publish("a", 7), 1);
    WAIT_UNTIL(count_heard() == 1);
    CHECK(strcmp(heard.channel, "a") == 0 && strcmp(heard.message, "7") == 0);
    /* counted */
    subscribe("a");
    unsubscribe("a");
    CHECK_SAME(publish("a", 8), 1);
    WAIT_UNTIL(count_heard() == 2);
    unsubscribe("a");
    WAIT_UNTIL(publish("a", 9) == 0);
    /* and again, also when nothing is subscribed in between */
    for (int i = 0; i < 100; i++) {
        int before = count_heard();
        subscribe("a");
        CHECK_SAME(publish("a", i), 1);
        WAIT_UNTIL(count_heard() == before + 1);
        unsubscribe("a");
    }
    CHECK_SAME(count_gaps(), 0);
    finish();
}

static void
test_bytes(void)
{
    static const char channel[] = "a\0b\r\n";
    resp_request request = { 0 };
    resp_command command = { 0 };
    redisReply *reply;
    start(NULL);
    CHECK_SAME(dibs__resp_subscribe(listener, channel, sizeof(channel), 0, far(), NULL),
               DIBS_OK);
    dibs__resp_word(&command, "PUBLISH");
    dibs__resp_bytes(&command, channel, sizeof(channel));
    dibs__resp_bytes(&command, "1\0\r\n", 4);
    CHECK_SAME(dibs__resp_add(&request, &command), 0);
    CHECK_SAME(dibs__resp_call(publisher, 1, &request, far(), &reply, NULL), DIBS_OK);
    CHECK_SAME(dibs__resp_integer(reply, -1), 1);
    freeReplyObject(reply);
    dibs__resp_request_free(&request);
    WAIT_UNTIL(count_heard() == 1);
    CHECK_SAME(heard.message_len, 4);
    CHECK(memcmp(heard.message, "1\0\r\n", 4) == 0);
    CHECK(memcmp(heard.channel, channel, sizeof(channel)) == 0);
    finish();
}

static void
test_sharded(void)
{
    start(NULL);
    CHECK_SAME(dibs__resp_subscribe(listener, "s", 1, 1, far(), NULL), DIBS_OK);
    /* another kind of channel with the same name */
    subscribe("s");
    CHECK_SAME(must_ask(publisher, 1, "SPUBLISH", "s", "5"), 1);
    WAIT_UNTIL(count_heard() == 1);
    CHECK_SAME(publish("s", 6), 1);
    WAIT_UNTIL(count_heard() == 2);
    dibs__resp_unsubscribe(listener, "s", 1, 1);
    WAIT_UNTIL(must_ask(publisher, 1, "SPUBLISH", "s", "5") == 0);
    CHECK_SAME(publish("s", 6), 1);
    finish();
}

/* ---- many threads ---- */

static _Atomic int64_t confirmed;

/* Each with a channel of its own, and all with a few that they share. What is published
 * after subscribe has returned has somebody who hears it. */
static void
come_and_go(void *arg, int index)
{
    unsigned seed = (unsigned)index;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), rand_r(&seed) % 2 ? "own:%d" : "shared:%d",
                       rand_r(&seed) % 2 ? index : (int)(rand_r(&seed) % 3));
        subscribe(name);
        if (publish(name, 1) != 1) {
            FAIL("nobody hears %s", name);
        }
        atomic_fetch_add(&confirmed, 1);
        unsubscribe(name);
    }
}

static void
test_many(void)
{
    start(NULL);
    gang_join(gang_start(16, come_and_go, NULL));
    WAIT_UNTIL(count_heard() == (int)atomic_load(&confirmed));
    finish();
}

/* Deadlines that pass: what was given up is not taken for what comes next. */
static void
come_and_go_in_a_hurry(void *arg, int index)
{
    unsigned seed = (unsigned)index;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        dibs_time deadline = now_ns() + rand_r(&seed) % 300 * (DIBS_MS / 1000);
        if (dibs__resp_subscribe(listener, "h", 1, 0, deadline, NULL) != DIBS_OK) {
            continue;
        }
        if (publish("h", 1) != 1) {
            FAIL("nobody hears it");
        }
        atomic_fetch_add(&confirmed, 1);
        unsubscribe("h");
    }
}

static void
test_hurry(void)
{
    start(NULL);
    subscribe("other");
    gang_join(gang_start(8, come_and_go_in_a_hurry, NULL));
    WAIT_UNTIL(count_heard() == (int)atomic_load(&confirmed));
    WAIT_UNTIL(publish("h", 1) == 0);
    CHECK_SAME(publish("other", 1), 1);
    finish();
}

static void
subscribe_in_background(void *arg, int index)
{
    (void)index;
    subscribe("h");
    atomic_store((_Atomic int *)arg, 1);
}

static size_t
length_of(const char *const *words)
{
    resp_request request = { 0 };
    add_command_words(&request, words);
    size_t len = request.len;
    dibs__resp_request_free(&request);
    return len;
}

/* A confirmation of what was given up does not confirm what is asked for now. */
static void
test_confirms(void)
{
    static const char *const command[] = { "SUBSCRIBE", "h", NULL };
    _Atomic int is_there = 0;
    start(NULL);
    struct relay *between = relay_start(one.port);
    where.port = (uint16_t)relay_port(between);
    subscribe("other");
    relay_hold(between);
    CHECK_SAME(dibs__resp_subscribe(listener, "h", 1, 0, in_ms(50), NULL), DIBS_EUNAVAIL);
    gang *all = gang_start(1, subscribe_in_background, &is_there);
    sleep_ms(100);
    relay_let_go(between, length_of(command));
    sleep_ms(100);
    CHECK(!atomic_load(&is_there));
    relay_let_go(between, 0);
    gang_join(all);
    CHECK_SAME(publish("h", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    dibs__resp_listener_free(listener, 0);
    dibs__resp_server_free(publisher, 0);
    relay_stop(between);
}

/* ---- gaps ---- */

/* numbers rise by one, or there is a gap in between */
static void
check_log(int64_t last)
{
    int64_t before = 0;
    int is_gap = 0;
    pthread_mutex_lock(&heard.mutex);
    for (int i = 0; i < heard.count; i++) {
        int64_t number = heard.numbers[i];
        if (number == GAP) {
            is_gap = 1;
            continue;
        }
        if (number != before + 1 && !is_gap) {
            FAIL("%lld is followed by %lld, and there is no gap", (long long)before,
                 (long long)number);
        }
        CHECK(number > before);
        before = number;
        is_gap = 0;
    }
    CHECK(before == last || is_gap);
    pthread_mutex_unlock(&heard.mutex);
}

static void
test_cuts(void)
{
    int64_t number = 0;
    start(NULL);
    subscribe("a");
    subscribe("b");
    uint64_t epoch = dibs__resp_listener_epoch(listener);
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 100; j++) {
            (void)publish("a", ++number);
        }
        server_do(&one, "CLIENT", "KILL", "TYPE", "pubsub");
        for (int j = 0; j < 100; j++) {
            (void)publish("a", ++number);
        }
        WAIT_UNTIL(dibs__resp_listener_epoch(listener) > epoch);
        epoch = dibs__resp_listener_epoch(listener);
        /* all is back: from here on nothing is missed */
        CHECK_SAME(publish("a", ++number), 1);
        WAIT_UNTIL(last_heard() == number);
        CHECK_SAME(publish("b", ++number), 1);
        WAIT_UNTIL(last_heard() == number);
    }
    check_log(number);
    CHECK(count_gaps() >= 40); /* one when it ends, one when it is back */
    finish();
}

static void
test_restart(void)
{
    dibs_error err = { 0 };
    start(NULL);
    subscribe("a");
    server_kill(&one);
    WAIT_UNTIL(dibs__resp_listener_epoch(listener) == 0);
    WAIT_UNTIL(count_gaps() == 1);
    int64_t began = now_ms();
    CHECK_SAME(dibs__resp_subscribe(listener, "b", 1, 0, far(), &err), DIBS_EUNAVAIL);
    CHECK(strstr(err.text, "Connection refused") != NULL);
    CHECK(now_ms() - began < slowly(2000));
    sleep_ms(500);
    server_restart(&one);
    WAIT_UNTIL(dibs__resp_listener_epoch(listener) != 0);
    WAIT_UNTIL(count_gaps() >= 2);
    CHECK_SAME(publish("a", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    CHECK_SAME(publish("b", 1), 0);
    finish();
}

/* A server that says nothing any more is found out; sooner if somebody asks. */
static void
check_silence(int is_asked, int64_t low, int64_t high)
{
    start(NULL);
    subscribe("a");
    server_pause(&one);
    int64_t began = now_ms();
    if (is_asked) {
        dibs__resp_listener_check(listener);
    }
    while (dibs__resp_listener_epoch(listener) != 0) {
        CHECK(now_ms() - began < slowly(20000));
        sleep_ms(10);
    }
    CHECK_WITHIN(now_ms() - began, low, slowly(high));
    server_resume(&one);
    WAIT_UNTIL(dibs__resp_listener_epoch(listener) != 0);
    CHECK_SAME(publish("a", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    finish();
}

static void
test_silence(void)
{
    check_silence(0, 6500, 8000);
}

static void
test_check(void)
{
    check_silence(1, 1900, 3000);
}

/* A server that has nothing to say is not taken for dead. */
static void
test_quiet(void)
{
    start(NULL);
    subscribe("a");
    uint64_t epoch = dibs__resp_listener_epoch(listener);
    for (int i = 0; i < 5; i++) {
        dibs__resp_listener_check(listener);
        sleep_ms(200);
    }
    sleep_ms(8000);
    CHECK_SAME(dibs__resp_listener_epoch(listener), epoch);
    CHECK_SAME(count_gaps(), 0);
    finish();
}

/* ---- not let in ---- */

static void
test_denied(void)
{
    static const server_options options = {
        .acl = "user default off\n"
               "user some on >secret ~* resetchannels &allowed:* +@all -ping\n"
    };
    dibs_error err = { 0 };
    access_all.user = "some";
    access_all.password = "secret";
    start(&options);
    CHECK_SAME(dibs__resp_subscribe(listener, "other", 5, 0, far(), &err), DIBS_EDENIED);
    CHECK(strstr(err.text, "NOPERM") != NULL);
    subscribe("allowed:1");
    /* PING is refused: a sign of life, and no answer to anything else */
    uint64_t epoch = dibs__resp_listener_epoch(listener);
    dibs__resp_listener_check(listener);
    sleep_ms(100);
    subscribe("allowed:2");
    CHECK_SAME(publish("allowed:2", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    CHECK_SAME(dibs__resp_listener_epoch(listener), epoch);
    finish();
    access_all.password = "wrong";
    open_listener();
    CHECK_SAME(dibs__resp_subscribe(listener, "allowed:1", 9, 0, far(), &err),
               DIBS_EDENIED);
    CHECK(strstr(err.text, "WRONGPASS") != NULL);
    dibs__resp_listener_free(listener, 0);
}

/* Ending does not wait for a server that does not answer. */
static void
test_end(void)
{
    blackhole hole;
    dibs_error err = { 0 };
    blackhole_open(&hole, 0);
    where = (resp_address){ .host = "127.0.0.1", .port = (uint16_t)hole.port };
    open_listener();
    CHECK_SAME(dibs__resp_subscribe(listener, "a", 1, 0, in_ms(100), &err),
               DIBS_EUNAVAIL);
    int64_t began = now_ms();
    dibs__resp_listener_free(listener, 0);
    CHECK(now_ms() - began < slowly(500));
    blackhole_close(&hole);
}

static void
test_fork(void)
{
    start(NULL);
    subscribe("a");
    int fds = count_fds();
    pid_t pid = fork();
    if (pid == 0) {
        dibs__resp_listener_free(listener, 1);
        _exit(count_fds() == fds - FDS ? 0 : 1);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_SAME(publish("a", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    CHECK_SAME(count_gaps(), 0);
    finish();
}

/* ---- borrowers ---- */

static int
heard_here(void)
{
    pthread_mutex_lock(&heard.mutex);
    int is_here = pthread_equal(heard.by, pthread_self());
    pthread_mutex_unlock(&heard.mutex);
    return is_here;
}

static dibs_bell bell;

/* as core does it: it rings, and then rouses who may not hear the bell */
static void
publish_to_borrower(void *arg, int index)
{
    (void)arg, (void)index;
    sleep_ms(50);
    CHECK_SAME(publish("a", 1), 1);
    WAIT_UNTIL(count_heard() == 1);
    atomic_fetch_add(&bell, 2);
    dibs__resp_listener_rouse(listener);
}

/* Who borrows hears what comes in, and nobody else does; then it is the thread again. */
static void
test_borrow(void)
{
    start(NULL);
    subscribe("a");
    gang *all = gang_start(1, publish_to_borrower, NULL);
    /* while the thread is at what came last, there is nothing to borrow */
    for (int64_t until = now_ms() + slowly(2000); dibs_bell_seen(&bell) == 0;) {
        CHECK(now_ms() < until);
        dibs__resp_listener_borrow(listener, &bell, 0, far());
    }
    CHECK(dibs_bell_seen(&bell) == 2 && heard_here());
    gang_join(all);
    CHECK_SAME(publish("a", 2), 1);
    WAIT_UNTIL(count_heard() == 2);
    CHECK(!heard_here());
    /* neither is a bell that was rung before slept through, nor the deadline */
    dibs__resp_listener_borrow(listener, &bell, 0, far());
    int64_t began = now_ms();
    dibs__resp_listener_borrow(listener, &bell, 2, in_ms(50));
    CHECK_WITHIN(now_ms() - began, 50, slowly(500));
    CHECK_SAME(count_gaps(), 0);
    finish();
}

/* Only one can, and there must be something to borrow: others come back at once. */
static void
test_borrow_in_vain(void)
{
    start(NULL);
    dibs__resp_listener_borrow(listener, &bell, 0, far());
    subscribe("a");
    lend();
    for (int i = 0; i < 100; i++) {
        dibs__resp_listener_borrow(listener, &bell, 0, in_ms(2));
        CHECK_SAME(publish("a", i), 1);
        WAIT_UNTIL(count_heard() == i + 1);
    }
    finish();
}

static void
test_many_borrowed(void)
{
    with_borrowers = 1;
    test_many();
}

static void
test_hurry_borrowed(void)
{
    with_borrowers = 1;
    test_hurry();
}

static void
test_cuts_borrowed(void)
{
    with_borrowers = 1;
    test_cuts();
}

static void
test_restart_borrowed(void)
{
    with_borrowers = 1;
    test_restart();
}

static void
test_silence_borrowed(void)
{
    with_borrowers = 1;
    test_silence();
}

static void
test_check_borrowed(void)
{
    with_borrowers = 1;
    test_check();
}

static void
test_quiet_borrowed(void)
{
    with_borrowers = 1;
    test_quiet();
}

static const struct test_case cases[] = {
    { "hears", test_hears },
    { "bytes", test_bytes },
    { "sharded", test_sharded },
    { "many", test_many },
    { "hurry", test_hurry },
    { "confirms", test_confirms },
    { "cuts", test_cuts },
    { "restart", test_restart },
    { "silence", test_silence },
    { "check", test_check },
    { "quiet", test_quiet },
    { "denied", test_denied },
    { "end", test_end },
    { "fork", test_fork },
    { "borrow", test_borrow },
    { "borrow_in_vain", test_borrow_in_vain },
    { "many_borrowed", test_many_borrowed },
    { "hurry_borrowed", test_hurry_borrowed },
    { "cuts_borrowed", test_cuts_borrowed },
    { "restart_borrowed", test_restart_borrowed },
    { "silence_borrowed", test_silence_borrowed },
    { "check_borrowed", test_check_borrowed },
    { "quiet_borrowed", test_quiet_borrowed },
};

int
main(int argc, char **argv)
{
    need(server_present("redis-server"), "redis-server");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
