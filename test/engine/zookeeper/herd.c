/* SPDX-License-Identifier: MIT */
/*
 * A thousand wait, one gives back: how many are woken up? With `curator` the next one, as
 * each watches the one before it; with `node` all, and all but one in vain. It is counted
 * twice: the bells that the engine rings, and the watches that the server fires.
 */
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "core/name.h"
#include "link_drive.h"

#define NAME "herd"
#define CLIENTS 10
#define WAITERS 1000
#define ROUNDS 50
#define NODE_ROUNDS 3
#define LEASE_MS 30000
#define CALL_MS 10000

static server one;
static drive clients[CLIENTS];
static dibs_claim claims[1 + WAITERS]; /* the first one holds at first */

static void
clean_up(void)
{
    server_stop(&one);
}

static void
begin(const char *layout)
{
    zookeeper_start(&one, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        drive_open(&clients[i], "zk://127.0.0.1:%d/locks?layout=%s&tick=%dms", one.port,
                   layout, ZOOKEEPER_TICK_MS);
    }
}

static void
end(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        drive_close(&clients[i]);
    }
    clean_up();
}

/* ---- the slots ---- */

static drive *
client_of(int index)
{
    return &clients[index % CLIENTS];
}

static void
prepare(int index, int mode)
{
    dibs_claim *claim = &claims[index];
    claim->name = NAME;
    claim->name_len = strlen(NAME);
    claim->name_hash = dibs__hash(NAME, strlen(NAME));
    claim->mode = (uint8_t)mode;
    claim->permits = 1;
    claim->lease_ms = LEASE_MS;
    claim->serial = (uint64_t)index + 1;
    claim->note = "";
    claim->bell = &claim->own_bell;
}

static int
attempt(int index)
{
    drive *client = client_of(index);
    claims[index].sent = dibs__now();
    claims[index].seen = dibs_bell_seen(&claims[index].own_bell);
    return client->engine->attempt(&client->zk, &claims[index], in_ms(slowly(CALL_MS)),
                                   &client->err);
}

static void
watch(int index)
{
    drive *client = client_of(index);
    CHECK_SAME(client->engine->watch(&client->zk, &claims[index], in_ms(slowly(CALL_MS)),
                                     &client->err),
               DIBS_OK);
}

static int
release(int index)
{
    drive *client = client_of(index);
    return client->engine->release(&client->zk, &claims[index], 0, in_ms(slowly(CALL_MS)),
                                   &client->err);
}

/* waits as core does: attempt, watch, and attempt once more before it sleeps */
static void
wait_for_it(int index)
{
    CHECK_SAME(attempt(index), DIBS_EBUSY);
    watch(index);
    CHECK_SAME(attempt(index), DIBS_EBUSY);
}

/* ---- counting ---- */

static int
is_rung(int index)
{
    return dibs_bell_seen(&claims[index].own_bell) != claims[index].seen;
}

static int
count_rung(int from)
{
    int count = 0;
    for (int i = from; i <= WAITERS; i++) {
        count += is_rung(i);
    }
    return count;
}

/* waits until that many are woken up, and whether it stays at that */
static void
await_rung(int from, int want)
{
    int64_t until = now_ms() + slowly(5000);
    while (count_rung(from) < want) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
    sleep_ms(slowly(10));
    CHECK_SAME(count_rung(from), want);
}

static int64_t
fired(void)
{
    int64_t sum = zookeeper_number(&one, "mntr", "zk_sum_node_deleted_watch_count");
    CHECK(sum >= 0);
    return sum;
}

/* ---- the cases ---- */

static void
line_up(const char *layout, int mode)
{
    begin(layout);
    prepare(0, DIBS_EXCLUSIVE);
    CHECK_SAME(attempt(0), DIBS_OK);
    for (int i = 1; i <= WAITERS; i++) {
        prepare(i, mode);
        wait_for_it(i);
    }
}

static void
test_curator(void)
{
    line_up("curator", DIBS_EXCLUSIVE);
    CHECK_SAME(zookeeper_number(&one, "wchs", "Total watches:"), WAITERS);
    int64_t before = fired();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_SAME(release(i), DIBS_OK);
        await_rung(i + 1, 1);
        CHECK(is_rung(i + 1));
        CHECK_SAME(attempt(i + 1), DIBS_OK);
    }
    CHECK_SAME(fired() - before, ROUNDS);
    /* one in the middle gives up: who is behind it has another before it now */
    CHECK_SAME(release(500), DIBS_ENOTHELD);
    await_rung(ROUNDS + 1, 1);
    wait_for_it(501);
    CHECK_SAME(fired() - before, ROUNDS + 1);
    /* the watch of who gave up stays at the server: it will fire for nobody */
    CHECK_SAME(zookeeper_number(&one, "wchs", "Total watches:"), WAITERS - ROUNDS);
    printf("curator: %d releases woke up %d of %d\n", ROUNDS, ROUNDS, WAITERS);
    end();
}

/* readers wait for the writer before them, and are all let in at once */
static void
test_readers(void)
{
    line_up("curator", DIBS_SHARED);
    CHECK_SAME(release(0), DIBS_OK);
    await_rung(1, WAITERS);
    for (int i = 1; i <= WAITERS; i++) {
        CHECK_SAME(attempt(i), DIBS_OK);
    }
    end();
}

static void
test_node(void)
{
    line_up("node", DIBS_EXCLUSIVE);
    int64_t before = fired();
    for (int i = 0; i < NODE_ROUNDS; i++) {
        CHECK_SAME(release(i), DIBS_OK);
        await_rung(i + 1, WAITERS - i);
        CHECK_SAME(attempt(i + 1), DIBS_OK);
        for (int j = i + 2; j <= WAITERS; j++) {
            wait_for_it(j);
        }
    }
    /* one watch for all that wait in one session */
    CHECK_SAME(fired() - before, NODE_ROUNDS * CLIENTS);
    printf("node: %d releases woke up %d each\n", NODE_ROUNDS, WAITERS);
    end();
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = { { "curator", test_curator },
                                              { "readers", test_readers },
                                              { "node", test_node } };
    need(zookeeper_present(), "zookeeper");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
