/* SPDX-License-Identifier: MIT */
/*
 * The gate: a server that forgot its holds grants nothing until they are over. Here by
 * itself; double_grant.c has what it is for, with locks.
 */
#include "drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

static server one;

/* For how many ms the gate is closed; -1 and *code if that failed. */
static int64_t
ask_gate(drive *client, int *code)
{
    const char *const parts[] = { dibs__redis_lua_tick,
                                  dibs__redis_gate_lua(&client->redis), "return gate()",
                                  NULL };
    struct script script;
    struct call call;
    struct key key, scratch;
    redisReply *reply;
    int64_t left = -1;
    drive_key(&key, 1);
    CHECK_SAME(dibs__redis_script_new(&script, "gate", parts, client->redis.host),
               DIBS_OK);
    dibs__redis_script_call(&call, &script, 1 + dibs__redis_gate_keys(&client->redis),
                            &key, 1);
    dibs__resp_bytes(&call.command, key.text, key.len);
    dibs__redis_gate_key(&client->redis, &call, &key, &scratch);
    dibs__resp_word(&call.command, "something else");
    dibs__redis_gate_args(&client->redis, &call);
    *code = dibs__redis_run(&client->redis, &call, dibs__now() + slowly(2000) * DIBS_MS,
                            &reply, &client->err);
    if (!*code) {
        left = dibs__resp_integer(reply, -2);
        freeReplyObject(reply);
    }
    dibs__redis_script_free(&script, client->redis.host);
    return left;
}

/* The same, whatever became of the connection. */
static int64_t
closed_for(drive *client)
{
    int64_t until = now_ms() + slowly(5000);
    for (;;) {
        int code;
        int64_t left = ask_gate(client, &code);
        if (!code)
            return left;
        if ((code != DIBS_EUNAVAIL && code != DIBS_EUNKNOWN) || now_ms() > until)
            FAIL("%s", client->err.text);
        sleep_ms(10);
    }
}

/* Waits until it opens, which may take no less than `least` ms. */
static void
await_open(drive *client, int64_t least)
{
    int64_t began = now_ms(), left;
    while ((left = closed_for(client)) > 0) {
        CHECK(now_ms() - began < slowly(10000));
        sleep_ms(left < 20 ? left : 20);
    }
    CHECK(now_ms() - began >= least - 30);
}

static void
off(void)
{
    drive client;
    server_start(&one, NULL);
    drive_open(&client, "redis://127.0.0.1:%d?layout=plain", one.port);
    CHECK_SAME(closed_for(&client), 0);
    CHECK_SAME(server_number(&one, "DBSIZE"), 0);
    CHECK_SAME(dibs__redis_gate_admits(&client.redis, INT32_MAX, NULL), DIBS_OK);
    drive_close(&client);
    server_stop(&one);
}

/* A new server, then one that lost everything. */
static void
guard(void)
{
    drive client, other;
    server_start(&one, NULL);
    drive_open(&client, "redis://127.0.0.1:%d?layout=plain&guard=500ms", one.port);
    drive_open(&other, "redis://127.0.0.1:%d?layout=plain&guard=500ms", one.port);
    CHECK_SAME(closed_for(&client), 500);
    CHECK_WITHIN(closed_for(&other), 1, 500);
    await_open(&client, 450);
    CHECK_SAME(closed_for(&other), 0);
    server_do(&one, "FLUSHALL");
    CHECK_SAME(closed_for(&other), 500);
    await_open(&client, 450);
    server_kill(&one);
    server_restart(&one);
    await_open(&client, 400);
    drive_close(&other);
    drive_close(&client);
    server_stop(&one);
}

/* A server that kept its data is not closed by the guard, but by the quarantine: it may
 * lack what it was told last. */
static void
restarted(void)
{
    static const server_options durable = { .durable = 1 };
    drive guarded, careful;
    server_start(&one, &durable);
    drive_open(&guarded, "redis://127.0.0.1:%d?layout=plain&guard=300ms", one.port);
    await_open(&guarded, 250);
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(closed_for(&guarded), 0);
    drive_close(&guarded);

    server_do(&one, "DEL", "dibs:born");
    drive_open(&careful,
               "redis://127.0.0.1:%d?layout=plain&guard=300ms&failover=quarantine",
               one.port);
    await_open(&careful, 250);
    CHECK_SAME(closed_for(&careful), 0);
    server_cut(&one);
    CHECK_SAME(closed_for(&careful), 0); /* the same process, another connection */
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(closed_for(&careful), 300);
    await_open(&careful, 250);
    drive_close(&careful);
    server_stop(&one);
}

/* All clients of a server need the same terms. */
static void
mismatch(void)
{
    static const char *const others[] = { "guard=400ms",
                                          "guard=300ms&failover=quarantine",
                                          "guard=300ms&failover=quarantine&lag=1s" };
    drive first, second;
    int code;
    server_start(&one, NULL);
    drive_open(&first, "redis://127.0.0.1:%d?layout=plain&guard=300ms", one.port);
    await_open(&first, 250);
    for (size_t i = 0; i < LENGTH(others); i++) {
        drive_open(&second, "redis://127.0.0.1:%d?layout=plain&%s", one.port, others[i]);
        (void)ask_gate(&second, &code);
        CHECK_SAME(code, DIBS_EMISMATCH);
        CHECK(strstr(second.err.text, "dibs:born at the server says guard=300ms, and "
                                      "this client guard=") == second.err.text);
        drive_close(&second);
    }
    CHECK_SAME(closed_for(&first), 0); /* and nothing came of it */
    drive_close(&first);
    server_stop(&one);
}

static void
too_long(void)
{
    drive client;
    server_start(&one, NULL);
    drive_open(&client, "redis://127.0.0.1:%d?layout=plain&guard=2s", one.port);
    CHECK_SAME(dibs__redis_gate_admits(&client.redis, 2000, &client.err), DIBS_OK);
    CHECK_SAME(dibs__redis_gate_admits(&client.redis, 2001, &client.err), DIBS_EINVAL);
    CHECK(strstr(client.err.text, "2000 ms") != NULL);
    drive_close(&client);
    server_stop(&one);
}

/* A server whose clock went back is closed for no longer than if it had lost all. */
static void
clock_back(void)
{
    drive client;
    server_start(&one, NULL);
    drive_open(&client, "redis://127.0.0.1:%d?layout=plain&guard=300ms", one.port);
    server_do(&one, "SET", "dibs:born",
              "guard=300ms till=9000000000000 run=- born=8999999999700");
    CHECK_SAME(closed_for(&client), 300);
    await_open(&client, 250);
    server_do(&one, "SET", "dibs:born", "what is this?");
    CHECK_SAME(closed_for(&client), 300);
    server_do(&one, "DEL", "dibs:born");
    server_do(&one, "LPUSH", "dibs:born", "x");
    int code;
    (void)ask_gate(&client, &code);
    CHECK_SAME(code, DIBS_EMISMATCH);
    drive_close(&client);
    server_stop(&one);
}

/* ---- what a quarantine needs of its servers ---- */

static void
check_refused(const char *hosts, const char *params, int code, const char *text)
{
    drive client;
    CHECK_SAME(drive_try_open(&client, "redis+sentinel://%s/" SET_MASTER_NAME "?%s",
                              hosts, params),
               code);
    if (!strstr(client.err.text, text))
        FAIL("no '%s' in: %s", text, client.err.text);
}

static void
misconfigured(void)
{
    static server_set set;
    drive client;
    char hosts[256];
    set_start_sentinel(&set, NULL);
    set_hosts(hosts, sizeof hosts, &set);
    server *master = set_master(&set, 0);
    check_refused(hosts, "failover=quarantine", DIBS_ECONFIG, "guard=");
    check_refused(hosts, "failover=never", DIBS_ECONFIG, "quarantine");
    check_refused(hosts, "guard=1s&lag=1s", DIBS_ECONFIG, "lag=");
    check_refused(hosts, "guard=1s&failover=quarantine", DIBS_ECONFIG,
                  "min-replicas-to-write");
    server_do(master, "CONFIG", "SET", "min-replicas-to-write", "1");
    check_refused(hosts, "guard=1s&failover=quarantine&lag=5s", DIBS_ECONFIG,
                  "min-replicas-max-lag");
    drive_open(&client,
               "redis+sentinel://%s/" SET_MASTER_NAME
               "?layout=plain&guard=1s&failover=quarantine",
               hosts);
    CHECK_SAME(closed_for(&client), 13000);
    drive_close(&client);

    /* without CONFIG, INFO must do; without both it is refused */
    server_do(master, "ACL", "SETUSER", "default", "-config|get");
    drive_open(&client,
               "redis+sentinel://%s/" SET_MASTER_NAME
               "?layout=plain&guard=1s&failover=quarantine",
               hosts);
    drive_close(&client);
    server_do(master, "CONFIG", "SET", "min-replicas-to-write", "0");
    check_refused(hosts, "guard=1s&failover=quarantine", DIBS_ECONFIG,
                  "min-replicas-to-write");
    server_do(master, "ACL", "SETUSER", "default", "-info");
    check_refused(hosts, "guard=1s&failover=quarantine", DIBS_EDENIED, "INFO");
    set_stop(&set);
}

/* ---- a cluster ---- */

#define NO_GATE INT64_MIN

/* For how long the gate of the slot of a key is closed, as written down there. */
static int64_t
left_at(const server_set *set, int number)
{
    struct key key, born;
    drive_key(&key, number);
    dibs__redis_slot_key(&born, BORN_KEY, dibs__redis_slot(key.text, key.len));
    born.text[born.len] = '\0';
    for (int i = 0; i < set->count; i++) {
        const server *node = &set->servers[i];
        char *value = server_is_master(node) ? server_ask(node, "GET", born.text) : NULL;
        const char *till = value ? strstr(value, "till=") : NULL;
        int64_t until_ms = till ? strtoll(till + 5, NULL, 10) : 0;
        free(value);
        if (till) {
            char *time = server_ask(node, "TIME");
            int64_t now_s = time ? strtoll(time, NULL, 10) : 0;
            free(time);
            return until_ms - now_s * 1000;
        }
    }
    return NO_GATE;
}

/* Each slot has a gate. The first client closes them all at once, so that none is late;
 * and again for a node that is replaced, when a client notices it. */
static void
cluster(void)
{
    static server_set set;
    static const char more[] = "?layout=plain&guard=2s&failover=quarantine&lag=1s";
    set_options options = { .down_after_ms = 1000 };
    drive client, second;
    char hosts[256];
    struct key key;
    set_start_cluster(&set, &options);
    set_hosts(hosts, sizeof hosts, &set);
    drive_open(&client, "redis+cluster://%s%s", hosts, more);
    int64_t late = now_ms() + slowly(5000);
    for (int number = 0; number < 50;) {
        int64_t left = left_at(&set, number);
        CHECK(left <= 6000 && now_ms() < late);
        number += left != NO_GATE;
        if (left == NO_GATE) /* there was not enough time yet: each goes on */
            dibs__redis_sweep_if_due(&client.redis, dibs__now() + 5000 * DIBS_MS);
    }
    await_open(&client, 3000);
    drive_open(&second, "redis+cluster://%s%s", hosts, more);
    CHECK_SAME(closed_for(&second), 0); /* who comes later closes nothing */
    drive_close(&second);

    drive_key(&key, 1);
    int shard = dibs__redis_slot(key.text, key.len) * 3 / SLOTS;
    for (int i = 0; i < 3; i++) { /* its replica must have the gates */
        int64_t until = now_ms() + slowly(5000);
        while (server_number(&set.servers[i], "DBSIZE") !=
               server_number(&set.servers[i + 3], "DBSIZE")) {
            CHECK(now_ms() < until);
            sleep_ms(10);
        }
    }
    server_kill(&set.servers[shard]);
    (void)drive_count_until(&client, &key, 30000);
    int64_t until = now_ms() + slowly(5000);
    for (int number = 0; number < 50;) {
        drive_key(&key, number);
        int is_new = dibs__redis_slot(key.text, key.len) * 3 / SLOTS == shard;
        int is_closed = left_at(&set, number) > 0;
        CHECK(is_new || !is_closed);
        number += is_closed == is_new;
        dibs__redis_sweep_if_due(&client.redis, dibs__now() + 2000 * DIBS_MS);
        CHECK(now_ms() < until);
    }
    await_open(&client, 3000);
    drive_close(&client);
    set_stop(&set);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "off", off },
        { "guard", guard },
        { "restarted", restarted },
        { "mismatch", mismatch },
        { "too_long", too_long },
        { "clock_back", clock_back },
        { "misconfigured", misconfigured },
        { "cluster", cluster },
    };
    return run_case(argc, argv, cases, LENGTH(cases));
}
