/* SPDX-License-Identifier: MIT */
/* Watching etcd, over one stream for all: `test_http_watch CASE`. */
#include "http_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/etcd/wire.h"

static server_set set;
static wires between;

static void
clean_up(void)
{
    wires_stop(&between);
    set_stop(&set);
}

/* ---- what is told ---- */

struct told {
    struct gate made, happened, ended, lost;
    pthread_mutex_t mutex; /* for what was told last */
    http *client;
    etcd_wire *wire;
    int64_t last_id, last_revision, mod_revision;
    int is_put;
    char key[64], reason[160];
};

static void
on_made(void *context, int64_t id, int64_t revision)
{
    struct told *told = context;
    CHECK(id > 0 && revision > 0);
    pthread_mutex_lock(&told->mutex);
    told->last_id = id;
    told->last_revision = revision;
    pthread_mutex_unlock(&told->mutex);
    gate_raise(&told->made);
}

static void
on_happened(void *context, int64_t id, const wire_event *event)
{
    struct told *told = context;
    pthread_mutex_lock(&told->mutex);
    told->last_id = id;
    told->is_put = event->is_put;
    told->mod_revision = event->mod_revision;
    (void)snprintf(told->key, sizeof(told->key), "%.*s", (int)event->key_len, event->key);
    pthread_mutex_unlock(&told->mutex);
    gate_raise(&told->happened);
}

static void
on_ended(void *context, int64_t id, int64_t compact_revision, const char *reason)
{
    struct told *told = context;
    CHECK_SAME(compact_revision, 0);
    pthread_mutex_lock(&told->mutex);
    told->last_id = id;
    (void)snprintf(told->reason, sizeof(told->reason), "%s", reason);
    pthread_mutex_unlock(&told->mutex);
    gate_raise(&told->ended);
}

static void
on_lost(void *context)
{
    struct told *told = context;
    gate_raise(&told->lost);
}

static struct told *
told_new(http *client)
{
    static const wire_events events = {
        .made = on_made, .happened = on_happened, .ended = on_ended, .lost = on_lost
    };
    struct told *new = calloc(1, sizeof(*new));
    CHECK(new != NULL);
    pthread_mutex_init(&new->mutex, NULL);
    gate_open(&new->made);
    gate_open(&new->happened);
    gate_open(&new->ended);
    gate_open(&new->lost);
    new->client = client;
    CHECK_SAME(dibs__etcd_wire_new(&new->wire, &test_host, client, &events, new),
               DIBS_OK);
    return new;
}

static void
told_free(struct told *old)
{
    dibs__etcd_wire_free(old->wire, 0);
    dibs__http_free(old->client, 0);
    pthread_mutex_destroy(&old->mutex);
    gate_close(&old->made);
    gate_close(&old->happened);
    gate_close(&old->ended);
    gate_close(&old->lost);
    free(old);
}

static int64_t
watch(struct told *told, const char *key, const char *end, unsigned filters)
{
    int64_t id = 0;
    wire_range range = { .key = key,
                         .key_len = strlen(key),
                         .end = end,
                         .end_len = end ? strlen(end) : 0,
                         .filters = filters };
    CHECK_SAME(dibs__etcd_wire_add(told->wire, &range, &id), DIBS_OK);
    CHECK(id > 0);
    return id;
}

/* waits until the watch that was asked for last is made */
static void
await_made(struct told *told, int64_t id)
{
    int64_t limit = now_ms() + slowly(10000), last = 0;
    while (last != id && now_ms() < limit) {
        pthread_mutex_lock(&told->mutex);
        last = told->last_id;
        pthread_mutex_unlock(&told->mutex);
        sleep_ms(1);
    }
    CHECK_SAME(last, id);
}

static struct told *
start(void)
{
    need(etcd_present(), "etcd");
    etcd_start(&set.servers[0], NULL);
    set.count = 1;
    wires_start(&between, &set.servers[0].port, 1);
    start_first_thread();
    return told_new(client_at(between.ports[0]));
}

/* ---- cases ---- */

static void
test_events(void)
{
    struct told *told = start();
    const server *to = &set.servers[0];
    int64_t id = watch(told, "a", NULL, 0);
    gate_await(&told->made, 1);
    CHECK_SAME(told->last_id, id);
    etcd_put(to, "b", "1");
    etcd_put(to, "a", "1");
    gate_await(&told->happened, 1);
    CHECK(told->is_put && strcmp(told->key, "a") == 0);
    CHECK_SAME(told->mod_revision, told->last_revision + 2);
    etcd_delete(to, "a");
    gate_await(&told->happened, 2);
    CHECK(!told->is_put && strcmp(told->key, "a") == 0);
    CHECK_SAME(told->last_id, id);
    CHECK_SAME(wires_passed(&between, 0), 1);
    told_free(told);
}

static void
test_filters(void)
{
    struct told *told = start();
    const server *to = &set.servers[0];
    int64_t deletes = watch(told, "a", NULL, WIRE_NO_PUT);
    gate_await(&told->made, 1);
    etcd_put(to, "a", "1");
    etcd_delete(to, "a");
    gate_await(&told->happened, 1);
    CHECK(!told->is_put);
    dibs__etcd_wire_drop(told->wire, deletes);
    watch(told, "b", NULL, WIRE_NO_DELETE);
    gate_await(&told->made, 2);
    etcd_put(to, "b", "1");
    gate_await(&told->happened, 2);
    etcd_delete(to, "b");
    etcd_put(to, "b", "2");
    gate_await(&told->happened, 3);
    CHECK(told->is_put);
    told_free(told);
}

static void
test_ranges(void)
{
    struct told *told = start();
    const server *to = &set.servers[0];
    watch(told, "x/", "x0", 0);
    gate_await(&told->made, 1);
    etcd_put(to, "x", "1");
    etcd_put(to, "x0", "1");
    etcd_put(to, "x/1", "1");
    gate_await(&told->happened, 1);
    CHECK(strcmp(told->key, "x/1") == 0);
    told_free(told);
}

/* a watch that was dropped is not told of, and its id is not used again */
static void
test_drop(void)
{
    struct told *told = start();
    const server *to = &set.servers[0];
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        int64_t id = watch(told, "a", NULL, 0);
        CHECK(id != last);
        last = id;
        if (i % 2 == 0) {
            gate_await(&told->made, i / 2 + 1);
        }
        dibs__etcd_wire_drop(told->wire, id);
        dibs__etcd_wire_drop(told->wire, id);
    }
    int64_t kept = watch(told, "b", NULL, 0);
    etcd_put(to, "a", "1");
    await_made(told, kept);
    etcd_put(to, "b", "1");
    gate_await(&told->happened, 1);
    CHECK(strcmp(told->key, "b") == 0);
    CHECK_SAME(wires_passed(&between, 0), 1);
    told_free(told);
}

/* after a loss all are made again, on a new connection */
static void
test_lost(void)
{
    enum { COUNT = 100, ROUNDS = 3 };
    struct told *told = start();
    const server *to = &set.servers[0];
    for (int i = 0; i < COUNT; i++) {
        char key[20];
        (void)snprintf(key, sizeof(key), "k%d", i);
        watch(told, key, NULL, 0);
    }
    gate_await(&told->made, COUNT);
    for (int i = 1; i <= ROUNDS; i++) {
        wires_cut(&between, 0);
        gate_await(&told->lost, i);
        gate_await(&told->made, COUNT * (i + 1));
        etcd_put(to, "k7", "1");
        gate_await(&told->happened, i);
        CHECK(strcmp(told->key, "k7") == 0);
    }
    dibs__etcd_wire_reopen(told->wire);
    gate_await(&told->lost, ROUNDS + 1);
    gate_await(&told->made, COUNT * (ROUNDS + 2));
    CHECK_SAME(gate_value(&told->made), COUNT * (ROUNDS + 2));
    told_free(told);
}

/* a server that is gone for a while is tried again, but not all the time */
static void
test_restart(void)
{
    struct told *told = start();
    watch(told, "a", NULL, 0);
    gate_await(&told->made, 1);
    server_kill(&set.servers[0]);
    gate_await(&told->lost, 1);
    int passed = wires_passed(&between, 0);
    sleep_ms(500);
    CHECK_WITHIN(gate_value(&told->lost), 1, 20);
    CHECK_WITHIN(wires_passed(&between, 0) - passed, 0, 20);
    server_restart(&set.servers[0]);
    gate_await(&told->made, 2);
    etcd_put(&set.servers[0], "a", "1");
    gate_await(&told->happened, 1);
    told_free(told);
}

/* a member that is cut off from the others hears of nothing: the watch goes elsewhere */
static void
test_cut_off(void)
{
    char hosts[100];
    need(etcd_present(), "etcd");
    etcd_start_cluster(&set, NULL, &between);
    start_first_thread();
    set_hosts(hosts, sizeof(hosts), &set);
    struct told *told = told_new(client_of(hosts));
    watch(told, "a", NULL, 0);
    gate_await(&told->made, 1);
    etcd_cut_off(&set, &between, 0);
    gate_await(&told->lost, 1);
    gate_await(&told->made, 2);
    (void)etcd_leader(&set);
    etcd_put(&set.servers[1], "a", "1");
    gate_await(&told->happened, 1);
    wires_flow(&between, WIRES_ALL);
    told_free(told);
}

/* ---- who may ---- */

static void
sign_in(http *client)
{
    char line[400];
    http_answer answer;
    dibs_error err = { 0 };
    int code = post(client, "/v3/auth/authenticate",
                    "{'name':'" ETCD_USER "','password':'" ETCD_PASSWORD "'}", 0, far(),
                    &answer, &err);
    if (code != DIBS_OK) {
        FAIL("%s", err.text);
    }
    (void)snprintf(line, sizeof(line), "Authorization: %s",
                   json_string_value(json_object_get(answer.json, "token")));
    CHECK_SAME(dibs__http_set_header(client, line), DIBS_OK);
    dibs__http_answer_free(&answer);
}

static void
test_users(void)
{
    need(etcd_present(), "etcd");
    server_options options = { .acl = "app/" };
    etcd_start(&set.servers[0], &options);
    set.count = 1;
    start_first_thread();
    struct told *told = told_new(client_at(set.servers[0].port));
    int64_t id = watch(told, "app/a", NULL, 0);
    gate_await(&told->ended, 1);
    CHECK_SAME(told->last_id, id);
    CHECK(strstr(told->reason, "user name is empty") != NULL);
    sign_in(told->client);
    dibs__etcd_wire_reopen(told->wire);
    gate_await(&told->lost, 1);
    watch(told, "app/a", NULL, 0);
    gate_await(&told->made, 1);
    watch(told, "other", NULL, 0);
    gate_await(&told->ended, 2);
    etcd_put(&set.servers[0], "app/a", "1");
    gate_await(&told->happened, 1);
    told_free(told);
}

struct crowd {
    struct told *told;
};

static void
add_and_drop(void *arg, int index)
{
    struct crowd *crowd = arg;
    char key[20];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof(key), "t%d-%d", index, i);
        int64_t id = watch(crowd->told, key, NULL, 0);
        if (i % 2 == 0) {
            dibs__etcd_wire_drop(crowd->told->wire, id);
        }
    }
}

/* many threads, and the connection is lost now and then */
static void
test_threads(void)
{
    enum { THREADS = 8 };
    struct crowd crowd = { start() };
    gang *all = gang_start(THREADS, add_and_drop, &crowd);
    for (int i = 0; i < 5; i++) {
        sleep_ms(5);
        dibs__etcd_wire_reopen(crowd.told->wire);
    }
    gang_join(all);
    etcd_put(&set.servers[0], "t0-0", "1");
    int64_t id = watch(crowd.told, "t0-0", NULL, 0);
    await_made(crowd.told, id);
    etcd_put(&set.servers[0], "t7-49", "1");
    gate_await(&crowd.told->happened, 1);
    CHECK(strcmp(crowd.told->key, "t7-49") == 0);
    told_free(crowd.told);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(events),  CASE(filters), CASE(ranges), CASE(drop),    CASE(lost),
        CASE(restart), CASE(cut_off), CASE(users),  CASE(threads),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
