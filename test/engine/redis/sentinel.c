/* SPDX-License-Identifier: MIT */
/*
 * Real Sentinels: who is the master, what happens when they choose another one or the
 * master dies, and when they themselves are gone.
 */
#include "drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

static server_set set;

static void
start(drive *client, const char *more)
{
    char hosts[256];
    set_options options = { .down_after_ms = 1000 };
    set_start_sentinel(&set, &options);
    set_hosts(hosts, sizeof hosts, &set);
    drive_open(client, "redis+sentinel://%s/" SET_MASTER_NAME "?layout=plain%s", hosts,
               more);
}

static void
stop(drive *client)
{
    drive_close(client);
    set_stop(&set);
}

static server *
sentinel(int index)
{
    return &set.servers[set.count - set.sentinels + index];
}

static int
port_in_use(drive *client)
{
    resp_server *master;
    CHECK_SAME(client->redis.topology->server(&client->redis, 0,
                                              dibs__now() + 2000 * DIBS_MS, &master,
                                              &client->err),
               DIBS_OK);
    return dibs__resp_server_address(master)->port;
}

/* Also if the first Sentinels do not answer, or answer nothing. */
static void
found(void)
{
    drive client, again;
    struct key key;
    char hosts[256];
    start(&client, "");
    drive_key(&key, 1);
    CHECK_SAME(port_in_use(&client), set_master(&set, 0)->port);
    CHECK_COUNT(&client, &key, 1);

    set_hosts(hosts, sizeof hosts, &set);
    server_kill(sentinel(0));
    server_pause(sentinel(1));
    drive_open(&again, "redis+sentinel://%s/" SET_MASTER_NAME "?layout=plain", hosts);
    CHECK_COUNT(&again, &key, 2);
    drive_close(&again);
    server_resume(sentinel(1));
    stop(&client);
}

/* Errors name who was asked and what each said. */
static void
not_found(void)
{
    drive client;
    char hosts[256], address[32];
    start(&client, "");
    drive_close(&client);
    set_hosts(hosts, sizeof hosts, &set);
    CHECK_SAME(drive_try_open(&client, "redis+sentinel://%s/nobody", hosts),
               DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "knows no master 'nobody'") != NULL);
    for (int i = 0; i < set.sentinels; i++) {
        snprintf(address, sizeof address, "127.0.0.1:%d", sentinel(i)->port);
        CHECK(strstr(client.err.text, address) != NULL);
    }
    CHECK_SAME(drive_try_open(&client, "redis+sentinel://%s", hosts), DIBS_ECONFIG);
    CHECK_SAME(drive_try_open(&client,
                              "redis+sentinel://%s/x?sentinel_password_file=/nowhere",
                              hosts),
               DIBS_ECONFIG);

    /* what a Sentinel names but is no master is not used */
    for (int i = 0; i < set.sentinels; i++)
        server_pause(sentinel(i));
    server *master = set_master(&set, 0);
    char port[16];
    snprintf(port, sizeof port, "%d", set.servers[1].port);
    server_do(master, "REPLICAOF", "127.0.0.1", port);
    for (int i = 0; i < set.sentinels; i++)
        server_resume(sentinel(i));
    int code = drive_try_open(&client, "redis+sentinel://%s/" SET_MASTER_NAME, hosts);
    CHECK_SAME(code, DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "is not a master") != NULL);
    set_stop(&set);
}

/* The Sentinels choose another master while we count: we follow. (What the old one took
 * meanwhile may be lost, also if a replica confirmed it: it may not be the one that was
 * chosen.) */
static void
failover(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    for (int round = 0; round < 2; round++) {
        int before = set_master(&set, 0)->port;
        int64_t until = now_ms() + slowly(30000);
        while (
            !server_answers(sentinel(0), "OK", "SENTINEL", "FAILOVER", SET_MASTER_NAME)) {
            CHECK(now_ms() < until);
            sleep_ms(200);
        }
        while (port_in_use(&client) == before) {
            (void)drive_count_until(&client, &key, 20000);
            CHECK(now_ms() < until);
        }
        CHECK(drive_count_until(&client, &key, 3000) > 0);
        set_wait_ready(&set);
    }
    stop(&client);
}

/* waits until all servers have the key */
static void
await_copies(const struct key *key)
{
    char text[KEY_MAX + 1];
    int64_t until = now_ms() + slowly(10000);
    memcpy(text, key->text, key->len);
    text[key->len] = '\0';
    for (int i = 0; i < set.count - set.sentinels;) {
        i += server_number(&set.servers[i], "EXISTS", text) == 1;
        CHECK(now_ms() < until);
        sleep_ms(5);
    }
}

static void
killed(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    CHECK_SAME(drive_count_until(&client, &key, 3000), 1);
    await_copies(&key);
    server *old = set_master(&set, 0);
    server_kill(old);
    CHECK(drive_count_until(&client, &key, 30000) >= 2);
    CHECK(port_in_use(&client) != old->port);
    /* the old one comes back as a replica, and is not asked again */
    server_restart(old);
    CHECK(drive_count_until(&client, &key, 3000) >= 3);
    stop(&client);
}

/* A master that stands still holds nobody up for longer than the Sentinels take, and what
 * it takes it for when it wakes up does not last. */
static void
stands_still(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    CHECK_SAME(drive_count_until(&client, &key, 3000), 1);
    await_copies(&key);
    server *old = set_master(&set, 0);
    server_pause(old);
    CHECK(drive_count_until(&client, &key, 30000) >= 2);
    int port = port_in_use(&client);
    CHECK(port != old->port);
    server_resume(old);
    for (int i = 0; i < 20; i++) {
        CHECK(drive_count_until(&client, &key, 3000) >= 3);
        sleep_ms(50);
    }
    CHECK_SAME(port_in_use(&client), port);
    stop(&client);
}

/* A master that works is used on while nobody can say who it is. */
static void
without_sentinels(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    for (int i = 0; i < set.sentinels; i++)
        server_kill(sentinel(i));
    for (int i = 1; i <= 5; i++) {
        CHECK(drive_count_until(&client, &key, 3000) >= i);
        server_cut(set_master(&set, 0));
        sleep_ms(150); /* so that it would ask again */
    }
    stop(&client);
}

static void
ring(struct redis *redis, const char *channel, size_t channel_len, const char *message,
     size_t message_len)
{
    (void)channel, (void)channel_len;
    dibs__redis_tell(redis, 1, 0, message, message_len);
}

/* The listener moves to the new master as well. */
static void
heard(void)
{
    drive client;
    struct layout layout;
    static dibs_claim claim;
    char message[128];
    start(&client, "");
    layout = *client.redis.layout;
    layout.heard = ring;
    client.redis.layout = &layout;
    claim.bell = &claim.own_bell;
    struct waiter *waiter = dibs__redis_waiter(&client.redis, &claim, 1);
    CHECK_SAME(dibs__redis_listen(&client.redis, waiter, "news", 4, NULL,
                                  dibs__now() + 2000 * DIBS_MS, &client.err),
               DIBS_OK);
    server_kill(set_master(&set, 0));
    int64_t until = now_ms() + slowly(30000);
    for (size_t len = 0; !len;) {
        server *master = set_master(&set, 0);
        if (master)
            free(server_ask(master, "PUBLISH", "news", "hello"));
        sleep_ms(20);
        len = dibs__redis_take_message(&client.redis, waiter, message);
        CHECK(now_ms() < until);
    }
    CHECK(memcmp(message, "hello", 5) == 0);
    dibs__redis_waiter_done(&client.redis, &claim);
    stop(&client);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "found", found },
        { "not_found", not_found },
        { "failover", failover },
        { "killed", killed },
        { "stands_still", stands_still },
        { "without_sentinels", without_sentinels },
        { "heard", heard },
    };
    return run_case(argc, argv, cases, LENGTH(cases));
}
