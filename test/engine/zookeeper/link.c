/* SPDX-License-Identifier: MIT */
/*
 * The link of the zookeeper engine: requests, threads, time limits, lost connections and
 * sessions, on a server of its own; below the layouts.
 *
 * Parts: answers; threads; time limits; watching; the end of a session; many; quiet; fork.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "link_drive.h"

#define LEASE_MS 1000
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static server one;
static wires wire;
static drive client;

static void
clean_up(void)
{
    server_stop(&one);
    wires_stop(&wire);
}

/* A server, a wire to it, and a client that goes through the wire. */
static void
set_up(void)
{
    zookeeper_start(&one, NULL);
    wires_start(&wire, &one.port, 1);
    drive_open(&client, "zk://127.0.0.1:%d/t?tick=%dms", wire.ports[0], TICK_MS);
}

static void
tear_down(void)
{
    drive_close(&client);
    wires_stop(&wire);
    server_stop(&one);
}

/* ---- answers ---- */

static void
check_multi(struct session *session)
{
    struct op parts[] = { { .kind = OP_CHECK, .path = "/a", .version = -1 },
                          { .kind = OP_CREATE, .path = "/a/b", .mode = ZOO_EPHEMERAL },
                          { .kind = OP_SET, .path = "/a", .version = -1 } };
    struct op multi = { .kind = OP_MULTI, .parts = parts, .part_count = 3 };
    CHECK_SAME(dibs__zk_run(session, &multi, 1, in_ms(slowly(2000)), &client.err), 0);
    CHECK_SAME(multi.rc, ZOK);
    CHECK(strcmp(parts[1].created, "/a/b") == 0);
    CHECK_SAME(parts[2].stat.version, 1);
    dibs__zk_ops_free(&multi, 1);
    CHECK_SAME(dibs__zk_run(session, &multi, 1, in_ms(slowly(2000)), &client.err), 0);
    CHECK_SAME(multi.rc, ZNODEEXISTS);
    CHECK_SAME(parts[1].rc, ZNODEEXISTS);
    dibs__zk_ops_free(&multi, 1);
}

/* all kinds of requests at once, each with its answer */
static void
answers(void)
{
    struct op ops[] = {
        { .kind = OP_CREATE, .path = "/a", .data = "xy", .data_len = 2 },
        { .kind = OP_CREATE, .path = "/a/n-", .mode = ZOO_EPHEMERAL_SEQUENTIAL },
        { .kind = OP_CHILDREN, .path = "/a" },
        { .kind = OP_GET, .path = "/a" },
        { .kind = OP_SYNC, .path = "/a" },
        { .kind = OP_EXISTS, .path = "/none" },
        { .kind = OP_DELETE, .path = "/a/n-0000000000", .version = -1 },
        { .kind = OP_DELETE, .path = "no path", .version = -1 },
    };
    int count = (int)LENGTH(ops);
    set_up();
    struct session *session = drive_session(&client, LEASE_MS);
    CHECK_SAME(dibs__zk_run(session, ops, count, in_ms(slowly(2000)), &client.err), 0);
    CHECK(ops[0].rc == ZOK && ops[1].rc == ZOK && ops[2].rc == ZOK && ops[3].rc == ZOK);
    CHECK(strcmp(ops[1].created, "/a/n-0000000000") == 0);
    CHECK(ops[1].stat.czxid > ops[0].stat.czxid);
    CHECK_SAME(ops[2].children.count, 1);
    CHECK(strcmp(ops[2].children.data[0], "n-0000000000") == 0);
    CHECK(ops[3].got.len == 2 && strcmp(ops[3].got.text, "xy") == 0);
    CHECK_SAME(ops[4].rc, ZOK);
    CHECK_SAME(ops[5].rc, ZNONODE);
    CHECK_SAME(ops[6].rc, ZOK);
    CHECK_SAME(ops[7].rc, ZBADARGUMENTS);
    CHECK_SAME(dibs__zk_refused(&client.zk, &ops[7], &client.err), DIBS_ECORRUPT);
    dibs__zk_ops_free(ops, count);
    check_multi(session);
    tear_down();
}

/* ---- threads ---- */

#define THREADS 8
#define PAIRS 200

static void
make_and_delete(void *arg, int index)
{
    struct session *session = arg;
    char path[32];
    int rc;
    drive own = { .session = client.session };
    (void)snprintf(path, sizeof path, "/t%d", index);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_SAME(drive_make(&own, session, path, ZOO_EPHEMERAL, slowly(5000), &rc), 0);
        CHECK_SAME(rc, ZOK);
        CHECK_SAME(drive_delete(&own, session, path, slowly(5000), &rc), 0);
        CHECK_SAME(rc, ZOK);
    }
}

/* many threads on one session, each gets its own answers */
static void
threads(void)
{
    set_up();
    gang_join(gang_start(THREADS, make_and_delete, drive_session(&client, LEASE_MS)));
    tear_down();
}

/* as above while the connection is cut again and again; none may hang or mix answers up */
static void
make_and_delete_somehow(void *arg, int index)
{
    struct session *session = arg;
    char path[32];
    int rc, code;
    drive own = { .session = client.session };
    (void)snprintf(path, sizeof path, "/t%d", index);
    for (int i = 0; i < PAIRS / 2; i++) {
        code = drive_make(&own, session, path, ZOO_EPHEMERAL, slowly(2000), &rc);
        CHECK(code == DIBS_EUNKNOWN || code == DIBS_EUNAVAIL ||
              (code == DIBS_OK && (rc == ZOK || rc == ZNODEEXISTS)));
        code = drive_delete(&own, session, path, slowly(2000), &rc);
        CHECK(code == DIBS_EUNKNOWN || code == DIBS_EUNAVAIL ||
              (code == DIBS_OK && (rc == ZOK || rc == ZNONODE)));
    }
}

static void
threads_cut(void)
{
    int rc;
    set_up();
    struct session *session = drive_session(&client, 10000);
    gang *all = gang_start(THREADS, make_and_delete_somehow, session);
    for (int i = 0; i < 20; i++) {
        sleep_ms(50);
        wires_cut(&wire, 0);
    }
    gang_join(all);
    CHECK_SAME(drive_is(&client, session, "/", slowly(5000), &rc), DIBS_OK);
    CHECK_SAME(session->flights, 0);
    CHECK(dibs__zk_session_born(&client.zk, dibs__zk_birth(session)) == session);
    tear_down();
}

/* ---- time limits ---- */

/* a server that stands still: callers come back in time, and later all is as before */
static void
stands_still(void)
{
    int rc;
    set_up();
    struct session *session = drive_session(&client, 10000);
    server_pause(&one);
    int64_t before = now_ms();
    CHECK_SAME(drive_make(&client, session, "/x", ZOO_EPHEMERAL, 300, &rc),
               DIBS_EUNKNOWN);
    CHECK_WITHIN(now_ms() - before, 299, 300 + slowly(200));
    CHECK_SAME(rc, ZCONNECTIONLOSS);
    server_resume(&one);
    CHECK_SAME(drive_is(&client, session, "/x", slowly(5000), &rc), DIBS_OK);
    CHECK_SAME(rc, ZOK); /* it was done all the same */
    CHECK_SAME(session->flights, 0);
    tear_down();
}

/* no server: EUNAVAIL when the time is up, and nothing is sent later */
static void
down(void)
{
    int rc;
    set_up();
    struct session *session = drive_session(&client, 10000);
    CHECK_SAME(drive_make(&client, session, "/mine", ZOO_EPHEMERAL, slowly(2000), &rc),
               DIBS_OK);
    server_kill(&one);
    while (drive_is(&client, session, "/", 50, &rc) == DIBS_EUNKNOWN)
        sleep_ms(10);
    int64_t before = now_ms();
    CHECK_SAME(drive_make(&client, session, "/x", ZOO_PERSISTENT, 300, &rc),
               DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - before, 299, 300 + slowly(200));
    server_restart(&one);
    CHECK_SAME(drive_is(&client, session, "/mine", slowly(10000), &rc), DIBS_OK);
    CHECK_SAME(rc, ZOK); /* the session has survived */
    CHECK_SAME(drive_is(&client, session, "/x", slowly(2000), &rc), DIBS_OK);
    CHECK_SAME(rc, ZNONODE);
    tear_down();
}

/* the answer gets lost: EUNKNOWN, and the node is there */
static void
reply_lost(void)
{
    int rc;
    set_up();
    struct session *session = drive_session(&client, 10000);
    wires_mute(&wire, 0);
    CHECK_SAME(drive_make(&client, session, "/x", ZOO_EPHEMERAL, 300, &rc),
               DIBS_EUNKNOWN);
    wires_cut(&wire, 0);
    wires_flow(&wire, 0);
    while (drive_is(&client, session, "/x", slowly(5000), &rc) == DIBS_EUNKNOWN)
        sleep_ms(10);
    CHECK_SAME(rc, ZOK);
    tear_down();
}

/* ---- watching ---- */

static dibs_claim *
new_claims(int count)
{
    dibs_claim *claims = calloc((size_t)count, sizeof *claims);
    CHECK(claims != NULL);
    for (int i = 0; i < count; i++) {
        claims[i].serial = (uint64_t)i + 1;
        claims[i].bell = &claims[i].own_bell;
    }
    return claims;
}

static int
rings(dibs_claim *claim)
{
    return (int)(atomic_load(&claim->own_bell) / 2);
}

static void
await_rings(dibs_claim *claim, int count)
{
    int64_t limit = now_ms() + slowly(3000);
    while (rings(claim) < count) {
        if (now_ms() > limit)
            FAIL("the bell rang %d times, not %d", rings(claim), count);
        sleep_ms(1);
    }
}

static int
watch(struct session *session, dibs_claim *claim, const char *path, enum watch_kind kind)
{
    int gone = -1;
    if (dibs__zk_watch(session, claim, path, kind, &gone, in_ms(slowly(3000)),
                       &client.err) != DIBS_OK)
        FAIL("cannot watch: %s", client.err.text);
    return gone;
}

/* what rings and what does not, for all kinds of watches */
static void
watches(void)
{
    int rc;
    set_up();
    dibs_claim *claims = new_claims(4);
    struct session *session = drive_session(&client, LEASE_MS);
    struct session *other = drive_session(&client, 20 * LEASE_MS);
    CHECK_SAME(watch(session, &claims[0], "/p", WATCH_NODE), 1);
    CHECK_SAME(rings(&claims[0]), 1);
    CHECK_SAME(watch(session, &claims[1], "/p", WATCH_PLACE), 1);
    CHECK_SAME(rings(&claims[1]), 0);
    CHECK(dibs__zk_still_watching(&client.zk, &claims[1]));
    CHECK_SAME(drive_make(&client, other, "/p", 0, slowly(2000), &rc), 0);
    await_rings(&claims[1], 1);
    CHECK(!dibs__zk_still_watching(&client.zk, &claims[1]));

    CHECK_SAME(watch(session, &claims[0], "/p", WATCH_NODE), 0);
    CHECK_SAME(watch(session, &claims[1], "/p", WATCH_NODE), 0);
    CHECK_SAME(watch(session, &claims[2], "/p", WATCH_CHILDREN), 0);
    CHECK_SAME(watch(session, &claims[3], "/p", WATCH_NODE), 0);
    dibs__zk_unwatch(&client.zk, &claims[3]);
    CHECK_SAME(zookeeper_number(&one, "wchs", "Total watches:"), 1);
    CHECK_SAME(drive_make(&client, other, "/p/c", 0, slowly(2000), &rc), 0);
    await_rings(&claims[2], 1);
    CHECK_SAME(rings(&claims[0]), 1);
    CHECK(dibs__zk_still_watching(&client.zk, &claims[0]));
    CHECK_SAME(drive_delete(&client, other, "/p/c", slowly(2000), &rc), 0);
    CHECK_SAME(drive_delete(&client, other, "/p", slowly(2000), &rc), 0);
    await_rings(&claims[0], 2);
    await_rings(&claims[1], 2);
    CHECK_SAME(rings(&claims[3]), 0);
    for (int i = 0; i < 4; i++)
        dibs__zk_unwatch(&client.zk, &claims[i]);
    free(claims);
    tear_down();
}

/* a change while we are cut off is told when we are back */
static void
watch_cut(void)
{
    int rc;
    tree raw;
    set_up();
    dibs_claim *claim = new_claims(1);
    struct session *session = drive_session(&client, 10000);
    CHECK_SAME(drive_make(&client, session, "/p", 0, slowly(2000), &rc), 0);
    CHECK_SAME(watch(session, claim, "/p", WATCH_NODE), 0);
    wires_refuse(&wire, 0);
    CHECK_SAME(tree_open(&raw, one.port, 5000), 0);
    CHECK_SAME(tree_delete(&raw, "/p"), 0);
    tree_close(&raw);
    CHECK_SAME(rings(claim), 0);
    wires_flow(&wire, 0);
    await_rings(claim, 1);
    dibs__zk_unwatch(&client.zk, claim);
    free(claim);
    tear_down();
}

/* ---- the end of a session ---- */

/* an ephemeral node of a short session: on a busy machine the first answer may be late */
static void
make_surely(struct session *session, const char *path)
{
    int rc;
    while (drive_make(&client, session, path, ZOO_EPHEMERAL, slowly(2000), &rc) !=
           DIBS_OK)
        sleep_ms(10);
    CHECK(rc == ZOK || rc == ZNODEEXISTS);
}

#define WATCHERS 1000

static void
await_loss(struct session *session, uint64_t birth)
{
    int64_t limit = now_ms() + slowly(10000);
    while (dibs__zk_session_born(&client.zk, birth) == session) {
        if (now_ms() > limit)
            FAIL("the session does not end");
        sleep_ms(10);
    }
}

/* a session that expires: all who watch in it are rung, the keeper too, and what was in it
 * is lost; the next one is another */
static void
expires(void)
{
    int rc;
    char path[32];
    set_up();
    dibs_claim *claims = new_claims(WATCHERS);
    struct session *session = drive_session(&client, LEASE_MS);
    uint64_t birth = dibs__zk_birth(session);
    uint32_t bell = atomic_load(client.session.keeper_bell);
    make_surely(session, "/p");
    for (int i = 0; i < WATCHERS; i++) {
        (void)snprintf(path, sizeof path, "/place%d", i);
        (void)watch(session, &claims[i], path, WATCH_PLACE);
    }
    wires_hold(&wire, 0);
    int64_t limit = now_ms() + slowly(10000);
    while (tree_count(&one, "/") > 0 && now_ms() < limit)
        sleep_ms(50);
    CHECK_SAME(tree_count(&one, "/"), 0);
    CHECK(dibs__zk_safe_until(session) < dibs__now());
    wires_flow(&wire, 0);
    await_loss(session, birth);
    for (int i = 0; i < WATCHERS; i++) {
        await_rings(&claims[i], 1);
        dibs__zk_unwatch(&client.zk, &claims[i]);
    }
    CHECK(atomic_load(client.session.keeper_bell) != bell);
    CHECK_SAME(drive_is(&client, session, "/p", slowly(2000), &rc), DIBS_ELOST);
    struct session *next = drive_session(&client, LEASE_MS);
    CHECK(next != session && dibs__zk_birth(next) != birth);
    CHECK_SAME(drive_is(&client, next, "/p", slowly(2000), &rc), DIBS_OK);
    CHECK_SAME(rc, ZNONODE);
    free(claims);
    tear_down();
}

/* safe_until never says more than the server keeps: it stops to rise with the answers, and
 * the node is there until then */
static void
safe_until(void)
{
    tree raw;
    set_up();
    struct session *session = drive_session(&client, LEASE_MS);
    make_surely(session, "/p");
    int64_t until = now_ms() + 2000;
    while (now_ms() < until) {
        CHECK(dibs__zk_session_born(&client.zk, dibs__zk_birth(session)) == session);
        sleep_ms(50);
    }
    CHECK(dibs__zk_safe_until(session) > in_ms(300));
    CHECK_SAME(tree_open(&raw, one.port, 5000), 0);
    wires_hold(&wire, 0);
    int there = 1;
    dibs_time safe = dibs__zk_safe_until(session);
    while (there) {
        tree_stat stat;
        dibs_time asked = dibs__now();
        there = tree_stat_of(&raw, "/p", &stat) == 0;
        dibs_time answered = dibs__now();
        CHECK_SAME(dibs__zk_safe_until(session), safe);
        CHECK(there || answered > safe);
        CHECK(asked < safe + slowly(5000) * DIBS_MS);
    }
    tree_close(&raw);
    tear_down();
}

/* ---- many ---- */

#define NODES 10000
#define AT_ONCE 200

/* as many as claims of one session may be: made, checked and watched in portions */
static void
many(void)
{
    static char paths[NODES][24];
    static struct op ops[AT_ONCE];
    struct op multi = { .kind = OP_MULTI, .parts = ops, .part_count = AT_ONCE };
    set_up();
    struct session *session = drive_session(&client, 20000);
    for (int i = 0; i < NODES; i++) {
        struct op *op = &ops[i % AT_ONCE];
        (void)snprintf(paths[i], sizeof paths[i], "/node-%010d", i);
        *op = (struct op){ .kind = OP_CREATE, .path = paths[i], .mode = ZOO_EPHEMERAL };
        if (i % AT_ONCE != AT_ONCE - 1)
            continue;
        CHECK_SAME(dibs__zk_run(session, ops, AT_ONCE, in_ms(slowly(5000)), &client.err),
                   0);
        CHECK_SAME(op->rc, ZOK);
        dibs__zk_ops_free(ops, AT_ONCE);
    }
    for (int i = 0; i < NODES; i++) {
        ops[i % AT_ONCE] =
            (struct op){ .kind = OP_CHECK, .path = paths[i], .version = -1 };
        if (i % AT_ONCE != AT_ONCE - 1)
            continue;
        CHECK_SAME(dibs__zk_run(session, &multi, 1, in_ms(slowly(5000)), &client.err), 0);
        CHECK_SAME(multi.rc, ZOK);
    }
    tear_down();
}

#define LONG_PATHS 12000

/* more watches than fit into the one request that the library sets them again with */
static void
many_watches(void)
{
    char path[200];
    int rc;
    set_up();
    dibs_claim *claims = new_claims(LONG_PATHS);
    struct session *session = drive_session(&client, 10000);
    for (int i = 0; i < LONG_PATHS; i++) {
        (void)snprintf(path, sizeof path,
                       "/a-rather-long-name-of-a-node-that-nobody-has-"
                       "made-and-many-wait-for-it-all-the-same-%010d",
                       i);
        (void)watch(session, &claims[i], path, WATCH_PLACE);
    }
    wires_cut(&wire, 0);
    while (drive_is(&client, session, "/", slowly(10000), &rc) == DIBS_EUNKNOWN)
        sleep_ms(10);
    CHECK_SAME(rc, ZOK);
    for (int i = 0; i < LONG_PATHS; i++) {
        await_rings(&claims[i], 1);
        dibs__zk_unwatch(&client.zk, &claims[i]);
    }
    free(claims);
    tear_down();
}

/* ---- quiet ---- */

/* a client that does nothing wakes up a few times per second at most */
static void
idle(void)
{
    struct rusage before, after;
    int rc;
    set_up();
    dibs_claim *claim = new_claims(1);
    struct session *session = drive_session(&client, 30000);
    CHECK_SAME(drive_make(&client, session, "/p", ZOO_EPHEMERAL, slowly(2000), &rc), 0);
    CHECK_SAME(watch(session, claim, "/p", WATCH_NODE), 0);
    sleep_ms(200);
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    sleep_ms(3000);
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    /* a loop that is busy makes thousands; a sanitizer's own thread wakes now and then */
    CHECK_WITHIN(after.ru_nvcsw - before.ru_nvcsw, 0, 120);
    dibs__zk_unwatch(&client.zk, claim);
    free(claim);
    tear_down();
}

/* ---- fork ---- */

/* a child closes its copy of the client: the session of the parent goes on */
static void
forked(void)
{
    int rc, status;
    set_up();
    struct session *session = drive_session(&client, 10000);
    CHECK_SAME(drive_make(&client, session, "/p", ZOO_EPHEMERAL, slowly(2000), &rc), 0);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            drive_close_forked(&client);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_SAME(status, 0);
        CHECK_SAME(drive_is(&client, session, "/p", slowly(2000), &rc), DIBS_OK);
        CHECK_SAME(rc, ZOK);
    }
    CHECK_SAME(wires_passed(&wire, 0), 2); /* home, and this one */
    tear_down();
}

/* closing ends the sessions, also with requests under way and nobody to answer them */
static void
closed(void)
{
    int rc;
    set_up();
    struct session *session = drive_session(&client, 10000);
    CHECK_SAME(drive_make(&client, session, "/p", ZOO_EPHEMERAL, slowly(2000), &rc), 0);
    drive_close(&client);
    CHECK_SAME(tree_count(&one, "/"), 0);
    drive_open(&client, "zk://127.0.0.1:%d/t?tick=%dms", wire.ports[0], TICK_MS);
    session = drive_session(&client, 10000);
    wires_hold(&wire, 0);
    CHECK_SAME(drive_make(&client, session, "/p", ZOO_EPHEMERAL, 50, &rc), DIBS_EUNKNOWN);
    int64_t before = now_ms();
    tear_down();
    CHECK(now_ms() - before < slowly(10000));
}

static const struct test_case cases[] = { { "answers", answers },
                                          { "threads", threads },
                                          { "threads_cut", threads_cut },
                                          { "stands_still", stands_still },
                                          { "down", down },
                                          { "reply_lost", reply_lost },
                                          { "watches", watches },
                                          { "watch_cut", watch_cut },
                                          { "expires", expires },
                                          { "safe_until", safe_until },
                                          { "many", many },
                                          { "many_watches", many_watches },
                                          { "idle", idle },
                                          { "forked", forked },
                                          { "closed", closed } };

int
main(int argc, char **argv)
{
    need(zookeeper_present(), "ZooKeeper");
    const struct test_case *found = find_case(argc, argv, cases, LENGTH(cases));
    if (found == NULL) {
        return 2;
    }
    on_failure(clean_up);
    limit_time(170);
    found->run();
    return 0;
}
