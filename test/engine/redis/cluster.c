/* SPDX-License-Identifier: MIT */
/*
 * A real Cluster: keys of every slot, slots that move (empty, and with keys in them), a
 * master that dies, scripts that are forgotten, messages.
 */
#include "drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

#define KEYS 120

static server_set set;

static void
start(drive *client, int down_after_ms)
{
    char hosts[256];
    set_options options = { .down_after_ms = down_after_ms };
    set_start_cluster(&set, &options);
    set_hosts(hosts, sizeof hosts, &set);
    drive_open(client, "redis+cluster://%s?layout=plain", hosts);
}

static void
stop(drive *client)
{
    drive_close(client);
    set_stop(&set);
}

/* ---- slots ---- */

/* A key of a number, with an end for servers.h. */
static uint16_t
slot_key(struct key *key, int number)
{
    drive_key(key, number);
    key->text[key->len] = '\0';
    return dibs__redis_slot(key->text, key->len);
}

/* the first master that has the slot, or with `other` the first that has not */
static server *
owner_of(uint16_t slot, int other)
{
    struct key key;
    for (int number = 0;; number++) {
        if (slot_key(&key, number) == slot)
            break;
    }
    for (int i = 0; i < 3; i++) {
        server *master = set_master(&set, i);
        int has = master && !server_answers(master, "MOVED", "GET", key.text);
        if (master && has == !other)
            return master;
    }
    FAIL("slot %d has no master", (int)slot);
}

static char *
node_id(const server *of)
{
    char *id = server_ask(of, "CLUSTER", "MYID");
    CHECK(id && strlen(id) >= 40);
    id[40] = '\0';
    return id;
}

static void
set_slot(const server *at, const char *slot, const char *state, const server *node)
{
    char *id = node_id(node);
    server_do(at, "CLUSTER", "SETSLOT", slot, state, id);
    free(id);
}

/* begin_move and end_move give a slot to another master, as redis-cli does. The new owner
 * is told first: with that it makes a new epoch, which the others believe. */
static void
begin_move(const char *slot, const server *from, const server *to)
{
    set_slot(to, slot, "IMPORTING", from);
    set_slot(from, slot, "MIGRATING", to);
}

static void
end_move(const char *slot, const server *to)
{
    set_slot(to, slot, "NODE", to);
    for (int i = 0; i < 3; i++)
        set_slot(set_master(&set, i), slot, "NODE", to);
}

static int64_t
moved_count(void)
{
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        char *answer = server_ask(set_master(&set, i), "INFO", "errorstats");
        const char *at = answer ? strstr(answer, "errorstat_MOVED:count=") : NULL;
        sum += at ? strtoll(at + 22, NULL, 10) : 0;
        free(answer);
    }
    return sum;
}

/* ---- cases ---- */

/* Every master gets its share, and nobody has to be told where a key is. */
static void
every_slot(void)
{
    static struct call calls[KEYS];
    static struct key keys[KEYS];
    redisReply *replies[KEYS];
    int codes[KEYS], per_master[3] = { 0 };
    drive client;
    start(&client, 0);
    int64_t before = moved_count();
    for (int i = 0; i < KEYS; i++) {
        per_master[slot_key(&keys[i], i) * 3 / 16384]++;
        CHECK_COUNT(&client, &keys[i], 1);
        count_call(&client, &calls[i], &keys[i]);
    }
    for (int i = 0; i < 3; i++)
        CHECK(per_master[i] > 0);
    dibs__redis_run_many(&client.redis, calls, KEYS, dibs__now() + 3000 * DIBS_MS,
                         replies, codes, &client.err);
    for (int i = 0; i < KEYS; i++) {
        CHECK_SAME(codes[i], DIBS_OK);
        CHECK_SAME(dibs__resp_integer(replies[i], -1), 2);
        freeReplyObject(replies[i]);
    }
    CHECK_SAME(moved_count(), before);
    stop(&client);
}

/* An empty slot changes its owner: one MOVED, and then the map is right. */
static void
moved(void)
{
    drive client;
    struct key key;
    char slot[8];
    start(&client, 0);
    snprintf(slot, sizeof slot, "%d", (int)slot_key(&key, 1));
    server *from = owner_of((uint16_t)atoi(slot), 0);
    server *to = owner_of((uint16_t)atoi(slot), 1);
    begin_move(slot, from, to);
    end_move(slot, to);
    CHECK(server_answers(from, "MOVED", "GET", key.text));
    int64_t before = moved_count();
    CHECK_COUNT(&client, &key, 1);
    CHECK_SAME(moved_count(), before + 1);
    CHECK_COUNT(&client, &key, 2);
    CHECK_SAME(moved_count(), before + 1);
    CHECK(server_answers(to, "2", "GET", key.text));
    stop(&client);
}

static void
move_key(const server *from, const server *to, const char *key)
{
    char port[16];
    snprintf(port, sizeof port, "%d", to->port);
    server_do(from, "MIGRATE", "127.0.0.1", port, key, "0", "3000");
}

/* A script with two keys, of which one has moved and one has not, cannot run. */
static int
run_with_two(drive *client, const struct key *one, const struct key *two)
{
    struct call call;
    redisReply *reply;
    dibs__redis_script_call(&call, &client->count, 2, one, 5);
    dibs__resp_bytes(&call.command, one->text, one->len);
    dibs__resp_bytes(&call.command, two->text, two->len);
    int code = dibs__redis_run(&client->redis, &call, dibs__now() + 2000 * DIBS_MS,
                               &reply, &client->err);
    if (!code)
        freeReplyObject(reply);
    return code;
}

/* A slot with keys on its way: what is still there is served there, what is not yet or no
 * more there by the next owner (ASK), and only the end changes the map. */
static void
asked(void)
{
    drive client;
    struct key stays, goes;
    char slot[8];
    start(&client, 0);
    snprintf(slot, sizeof slot, "%d", (int)slot_key(&stays, 1));
    goes = stays;
    memcpy(goes.text + goes.len, "x", 2); /* behind the tag: the same slot */
    goes.len++;
    server *from = owner_of((uint16_t)atoi(slot), 0);
    server *to = owner_of((uint16_t)atoi(slot), 1);
    CHECK_COUNT(&client, &stays, 1);
    CHECK_COUNT(&client, &goes, 1);

    begin_move(slot, from, to);
    move_key(from, to, goes.text);
    server_do(to, "SCRIPT", "FLUSH"); /* ASKING must stand before EVAL, too */
    CHECK_COUNT(&client, &stays, 2);
    CHECK_COUNT(&client, &goes, 2);
    CHECK_COUNT(&client, &goes, 3);
    CHECK_SAME(run_with_two(&client, &stays, &goes), DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "TRYAGAIN") != NULL);
    resp_server *owner;
    CHECK_SAME(client.redis.topology->server(&client.redis, (uint16_t)atoi(slot),
                                             DIBS_NEVER, &owner, NULL),
               DIBS_OK);
    CHECK_SAME(dibs__resp_server_address(owner)->port, from->port);

    move_key(from, to, stays.text);
    end_move(slot, to);
    CHECK_COUNT(&client, &stays, 3);
    CHECK_SAME(run_with_two(&client, &stays, &goes), DIBS_OK);
    stop(&client);
}

#define COUNTERS 6

/* What a thread did: what was answered, and what may have been done all the same. */
struct counter {
    drive *client;
    struct key key;
    int64_t done, unknown;
    _Atomic int *is_over;
};

static void
count_on(void *arg, int index)
{
    struct counter *self = &((struct counter *)arg)[index];
    while (!atomic_load(self->is_over)) {
        struct call call;
        redisReply *reply;
        count_call(self->client, &call, &self->key);
        int code = dibs__redis_run(&self->client->redis, &call,
                                   dibs__now() + slowly(1000) * DIBS_MS, &reply, NULL);
        CHECK(code == DIBS_OK || code == DIBS_EUNAVAIL || code == DIBS_EUNKNOWN);
        self->done += code == DIBS_OK;
        self->unknown += code == DIBS_EUNKNOWN;
        if (code == DIBS_OK)
            freeReplyObject(reply);
    }
}

/* Threads count while their slot moves to and fro, with its keys and without our scripts:
 * what was answered is done, once, and what was refused is not. */
static void
moved_to_and_fro(void)
{
    static struct counter counters[COUNTERS];
    _Atomic int is_over = 0;
    drive client;
    char slot[8];
    start(&client, 0);
    for (int i = 0; i < COUNTERS; i++) {
        counters[i] = (struct counter){ .client = &client, .is_over = &is_over };
        snprintf(slot, sizeof slot, "%d", (int)slot_key(&counters[i].key, 1));
        counters[i].key.text[counters[i].key.len++] = (char)('a' + i);
        counters[i].key.text[counters[i].key.len] = '\0';
    }
    gang *all = gang_start(COUNTERS, count_on, counters);
    for (int round = 0; round < 10; round++) {
        server *from = owner_of((uint16_t)atoi(slot), 0);
        server *to = owner_of((uint16_t)atoi(slot), 1);
        server_do(to, "SCRIPT", "FLUSH");
        begin_move(slot, from, to);
        for (int i = 0; i < COUNTERS; i++) {
            move_key(from, to, counters[i].key.text);
            sleep_ms(5);
        }
        end_move(slot, to);
        sleep_ms(20);
    }
    atomic_store(&is_over, 1);
    gang_join(all);
    for (int i = 0; i < COUNTERS; i++) {
        CHECK(counters[i].done > 100);
        int64_t value = drive_count_until(&client, &counters[i].key, 3000) - 1;
        CHECK_WITHIN(value, counters[i].done, counters[i].done + counters[i].unknown);
    }
    stop(&client);
}

static void
set_on_all(const char *name, const char *value)
{
    for (int i = 0; i < set.count; i++)
        server_do(&set.servers[i], "CONFIG", "SET", name, value);
}

/* Nodes may tell their names, their addresses, or only their ports. */
static void
announced(void)
{
    static const char *const types[] = { "ip", "hostname", "unknown-endpoint" };
    drive client;
    char hosts[256], slot[8];
    struct key key;
    int64_t last = 0;
    start(&client, 0);
    set_hosts(hosts, sizeof hosts, &set);
    snprintf(slot, sizeof slot, "%d", (int)slot_key(&key, 1));
    /* one node has a name, the others have none to tell */
    server_do(&set.servers[0], "CONFIG", "SET", "cluster-announce-hostname", "localhost");
    for (size_t i = 0; i < LENGTH(types); i++) {
        drive other;
        set_on_all("cluster-preferred-endpoint-type", types[i]);
        drive_open(&other, "redis+cluster://%s?layout=plain", hosts);
        for (int number = 0; number < 12; number++) {
            struct key each;
            (void)slot_key(&each, 100 + number);
            CHECK_COUNT(&other, &each, (int64_t)i + 1);
        }
        CHECK_COUNT(&other, &key, last + 1);
        server *from = owner_of((uint16_t)atoi(slot), 0);
        server *to = owner_of((uint16_t)atoi(slot), 1);
        begin_move(slot, from, to);
        move_key(from, to, key.text);
        end_move(slot, to);
        CHECK_SAME(drive_count_until(&other, &key, 3000), last + 2);
        last += 2;
        drive_close(&other);
    }
    stop(&client);
}

static void
scripts_flushed(void)
{
    drive client;
    start(&client, 0);
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < 12; i++) {
            struct key key;
            (void)slot_key(&key, i);
            CHECK_COUNT(&client, &key, round);
        }
        for (int i = 0; i < 3; i++)
            server_do(set_master(&set, i), "SCRIPT", "FLUSH");
    }
    stop(&client);
}

/* A master dies: the keys of others go on at once, its own when a replica has taken over,
 * which has never seen our scripts. */
static void
promoted(void)
{
    drive client;
    struct key key, other;
    int code, number = 2;
    start(&client, 1000);
    uint16_t slot = slot_key(&key, 1);
    while (slot_key(&other, number) * 3 / 16384 == slot * 3 / 16384)
        number++;
    CHECK_COUNT(&client, &key, 1);
    CHECK_COUNT(&client, &other, 1);
    sleep_ms(200); /* for the replica to have it */
    server_kill(owner_of(slot, 0));
    CHECK_SAME(drive_count_until(&client, &other, 3000), 2);
    CHECK(drive_count_until(&client, &key, 30000) >= 2);
    for (int i = 0; i < 20; i++)
        CHECK(drive_count(&client, &key, slowly(1000), &code) > 2);
    stop(&client);
}

static void
no_owner(void)
{
    drive client;
    struct key key;
    char slot[8], text[64];
    int code;
    start(&client, 0);
    snprintf(slot, sizeof slot, "%d", (int)slot_key(&key, 1));
    for (int i = 0; i < set.count; i++) {
        server_do(&set.servers[i], "CONFIG", "SET", "cluster-require-full-coverage",
                  "no");
        server_do(&set.servers[i], "CLUSTER", "DELSLOTS", slot);
    }
    (void)drive_count(&client, &key, slowly(1000), &code);
    CHECK_SAME(code, DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "CLUSTERDOWN") != NULL);
    drive_close(&client);
    char hosts[256];
    set_hosts(hosts, sizeof hosts, &set);
    drive_open(&client, "redis+cluster://%s?layout=plain", hosts);
    (void)drive_count(&client, &key, slowly(1000), &code);
    CHECK_SAME(code, DIBS_EUNAVAIL);
    snprintf(text, sizeof text, "slot %s has no server", slot);
    CHECK(strstr(client.err.text, text) != NULL);
    stop(&client);
}

static void
not_a_cluster(void)
{
    drive client;
    server one;
    struct key key;
    int code;
    server_start(&one, NULL);
    CHECK_SAME(drive_try_open(&client, "redis+cluster://127.0.0.1:%d", one.port),
               DIBS_ECONFIG);
    CHECK(strstr(client.err.text, "not a cluster") != NULL);
    CHECK_SAME(drive_try_open(&client, "redis+cluster://127.0.0.1:%d?db=1", one.port),
               DIBS_ECONFIG);
    server_stop(&one);
    CHECK_SAME(drive_try_open(&client, "redis+cluster://127.0.0.1:%d", one.port),
               DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "refused") != NULL);

    start(&client, 0);
    drive_close(&client);
    uint16_t slot = slot_key(&key, 1);
    drive_open(&client, "redis://127.0.0.1:%d?layout=plain", owner_of(slot, 1)->port);
    (void)drive_count(&client, &key, slowly(1000), &code);
    CHECK_SAME(code, DIBS_EUNSUPPORTED);
    CHECK(strstr(client.err.text, "redis+cluster:") != NULL);
    stop(&client);
}

/* ---- messages ---- */

static dibs_claim claim;

static struct waiter *
wait_for(drive *client, const char *channel, const struct key *key)
{
    claim.bell = &claim.own_bell;
    struct waiter *waiter = dibs__redis_waiter(&client->redis, &claim, 1);
    CHECK(waiter != NULL);
    int64_t until = now_ms() + slowly(10000);
    while (dibs__redis_listen(&client->redis, waiter, channel, strlen(channel), key,
                              dibs__now() + 1000 * DIBS_MS, &client->err) != DIBS_OK) {
        if (now_ms() > until)
            FAIL("cannot listen: %s", client->err.text);
        sleep_ms(20);
    }
    return waiter;
}

/* The layout is told of a message by the listener's thread. */
static _Atomic int heard_count;

static void
count_heard(struct redis *redis, const char *channel, size_t channel_len,
            const char *message, size_t message_len)
{
    (void)redis, (void)channel, (void)channel_len, (void)message, (void)message_len;
    atomic_fetch_add(&heard_count, 1);
}

static void
await_heard(int count)
{
    int64_t until = now_ms() + slowly(3000);
    while (atomic_load(&heard_count) < count) {
        if (now_ms() > until)
            FAIL("%d messages of %d", atomic_load(&heard_count), count);
        sleep_ms(1);
    }
}

static void
listen_with(drive *client, struct layout *layout)
{
    *layout = *client->redis.layout;
    layout->heard = count_heard;
    client->redis.layout = layout;
}

/* PUBLISH reaches us from every master, wherever we listen. */
static void
published(void)
{
    drive client;
    struct layout layout;
    start(&client, 0);
    listen_with(&client, &layout);
    (void)wait_for(&client, "news", NULL);
    for (int i = 0; i < 3; i++)
        server_do(set_master(&set, i), "PUBLISH", "news", "x");
    await_heard(3);
    dibs__redis_waiter_done(&client.redis, &claim);
    stop(&client);
}

/* SPUBLISH reaches who listens at the slot's owner, and again after the slot has moved. */
static void
shards(void)
{
    drive client;
    struct layout layout;
    struct key key;
    char slot[8];
    start(&client, 0);
    snprintf(slot, sizeof slot, "%d", (int)slot_key(&key, 1));
    server *from = owner_of((uint16_t)atoi(slot), 0);
    server *to = owner_of((uint16_t)atoi(slot), 1);
    listen_with(&client, &layout);
    struct waiter *waiter = wait_for(&client, key.text, &key);
    CHECK(dibs__redis_heard_all(waiter));
    server_do(from, "SPUBLISH", key.text, "x");
    await_heard(1);
    begin_move(slot, from, to);
    end_move(slot, to);
    int64_t until = now_ms() + slowly(5000);
    while (dibs__redis_heard_all(waiter)) {
        CHECK(now_ms() < until);
        sleep_ms(5);
    }
    CHECK(wait_for(&client, key.text, &key) == waiter);
    server_do(to, "SPUBLISH", key.text, "x");
    await_heard(2);
    dibs__redis_waiter_done(&client.redis, &claim);
    stop(&client);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "every_slot", every_slot },
        { "moved", moved },
        { "asked", asked },
        { "moved_to_and_fro", moved_to_and_fro },
        { "announced", announced },
        { "scripts_flushed", scripts_flushed },
        { "promoted", promoted },
        { "no_owner", no_owner },
        { "not_a_cluster", not_a_cluster },
        { "published", published },
        { "shards", shards },
    };
    return run_case(argc, argv, cases, LENGTH(cases));
}
