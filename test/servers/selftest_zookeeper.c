/* SPDX-License-Identifier: MIT */
/* Tests of the ZooKeeper servers, of the small client and of the wires, so that a test that
 * uses them can rely on what it is told: `test_zookeeper CASE`. */
#include "servers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cases.h"

static server one;
static server_set set;
static wires lines;

static void
clean_up(void)
{
    server_stop(&one);
    set_stop(&set);
    wires_stop(&lines);
}

static void
check_children(tree *on, const char *path, const char *want)
{
    int code;
    char *names = tree_children(on, path, &code);
    CHECK_SAME(code, 0);
    CHECK(strcmp(names, want) == 0);
    free(names);
}

static void
check_data(tree *on, const char *path, const char *want)
{
    char *data = tree_read(on, path, NULL);
    CHECK(data != NULL && strcmp(data, want) == 0);
    free(data);
}

static void
check_client(int port)
{
    char made[64] = "";
    tree on;
    tree_stat stat = { 0 };
    CHECK_SAME(tree_open(&on, port, 60000), 0);
    CHECK_SAME(on.timeout_ms, 60000);
    CHECK_SAME(tree_ping(&on), 0);
    CHECK_SAME(tree_make(&on, "/a", "data", TREE_PLAIN, NULL, 0), 0);
    CHECK_SAME(tree_make(&on, "/a", "", TREE_PLAIN, NULL, 0), TREE_EXISTS);
    CHECK_SAME(tree_make(&on, "/none/a", "", TREE_PLAIN, NULL, 0), TREE_NO_NODE);
    CHECK_SAME(tree_make(&on, "/a/n-", "", TREE_EPHEMERAL | TREE_SEQUENCE, made, 64), 0);
    CHECK(strcmp(made, "/a/n-0000000000") == 0);
    CHECK_SAME(tree_stat_of(&on, made, &stat), 0);
    CHECK(stat.owner == on.session && stat.czxid > 0 && stat.version == 0);
    check_children(&on, "/a", "n-0000000000\n");
    check_data(&on, "/a", "data");
    CHECK(tree_read(&on, "/b", NULL) == NULL);
    CHECK_SAME(tree_delete(&on, made), 0);
    CHECK_SAME(tree_delete(&on, made), TREE_NO_NODE);
    CHECK_SAME(tree_delete(&on, "/a"), 0);
    tree_close(&on);
    CHECK_SAME(tree_ping(&on), TREE_GONE);
}

static void
await_count(const server *of, const char *path, int want, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (tree_count(of, path) != want) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
}

/* sessions: an orderly end, one that lives on, kill -9 of the server between */
static void
test_one(void)
{
    tree on;
    zookeeper_start(&one, NULL);
    check_client(one.port);
    CHECK_SAME(tree_open(&on, one.port, 60000), 0);
    CHECK_SAME(tree_make(&on, "/a", "", TREE_PLAIN, NULL, 0), 0);
    CHECK_SAME(tree_make(&on, "/a/e", "", TREE_EPHEMERAL, NULL, 0), 0);
    CHECK_SAME(tree_count(&one, "/a"), 1);
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(tree_ping(&on), TREE_GONE);
    CHECK_SAME(tree_count(&one, "/a"), 1);
    CHECK_SAME(tree_open(&on, one.port, 1000), 0);
    CHECK_SAME(on.timeout_ms, 1000);
    CHECK_SAME(tree_make(&on, "/a/f", "", TREE_EPHEMERAL, NULL, 0), 0);
    CHECK_SAME(tree_count(&one, "/"), 2);
    tree_leave(&on);
    await_count(&one, "/", 1, slowly(2000));
    CHECK(zookeeper_number(&one, "mntr", "zk_ephemerals_count") == 1);
}

static void
test_containers(void)
{
    const char *const more[] = { "-Dznode.container.checkIntervalMs=100", NULL };
    server_options options = { .more = more };
    tree on;
    tree_stat stat;
    zookeeper_start(&one, &options);
    CHECK_SAME(tree_open(&on, one.port, 60000), 0);
    CHECK_SAME(tree_make(&on, "/c", "", TREE_CONTAINER, NULL, 0), 0);
    CHECK_SAME(tree_make(&on, "/c/a", "", TREE_PLAIN, NULL, 0), 0);
    CHECK_SAME(tree_delete(&on, "/c/a"), 0);
    int64_t until = now_ms() + slowly(5000);
    while (tree_stat_of(&on, "/c", &stat) == 0) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    tree_close(&on);
}

/* off from ours by so much, as a node says that is made now */
static void
check_clock(tree *on, int64_t off_ms)
{
    tree_stat stat;
    CHECK_SAME(tree_make(on, "/now", "", TREE_PLAIN, NULL, 0), 0);
    CHECK_SAME(tree_stat_of(on, "/now", &stat), 0);
    CHECK_SAME(tree_delete(on, "/now"), 0);
    CHECK_WITHIN(stat.ctime_ms / 1000 - time(NULL), off_ms / 1000 - slow_factor(),
                 off_ms / 1000 + 1);
}

/* the wall clock is moved, and no session ends earlier or later by that */
static void
test_clock(void)
{
    server_options options = { .clock = 1 };
    tree on, left;
    zookeeper_start(&one, &options);
    CHECK_SAME(tree_open(&on, one.port, 60000), 0);
    CHECK_SAME(tree_make(&on, "/e", "", TREE_EPHEMERAL, NULL, 0), 0);
    check_clock(&on, 0);
    server_set_clock(&one, 3600 * 1000);
    check_clock(&on, 3600 * 1000);
    sleep_ms(5 * ZOOKEEPER_TICK_MS);
    CHECK_SAME(tree_count(&one, "/"), 1);
    CHECK_SAME(tree_open(&left, one.port, 1000), 0);
    CHECK_SAME(tree_make(&left, "/f", "", TREE_EPHEMERAL, NULL, 0), 0);
    server_set_clock(&one, -3600 * 1000);
    check_clock(&on, -3600 * 1000);
    tree_leave(&left);
    await_count(&one, "/", 1, slowly(3000));
    tree_close(&on);
}

static void
test_wires(void)
{
    tree on;
    tree_stat stat;
    wires_start(&lines, (int[]){ port_take(), 0 }, 1);
    /* nobody listens there */
    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), TREE_GONE);
    wires_stop(&lines);
    zookeeper_start(&one, NULL);
    wires_start(&lines, &one.port, 1);
    check_client(lines.ports[0]);
    CHECK_SAME(wires_passed(&lines, 0), 1);
    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), 0);
    wires_cut(&lines, 0);
    CHECK_SAME(tree_ping(&on), TREE_GONE);

    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), 0);
    wires_mute(&lines, WIRES_ALL);
    tree_limit(&on, slowly(200));
    CHECK_SAME(tree_make(&on, "/kept", "", TREE_PLAIN, NULL, 0), TREE_GONE);
    wires_refuse(&lines, 0);
    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), TREE_GONE);
    wires_flow(&lines, 0);
    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), 0);
    CHECK_SAME(tree_stat_of(&on, "/kept", &stat), 0);

    wires_hold(&lines, 0);
    tree_limit(&on, slowly(200));
    CHECK_SAME(tree_make(&on, "/late", "", TREE_PLAIN, NULL, 0), TREE_GONE);
    CHECK_SAME(tree_count(&one, "/"), 0);
    wires_flow(&lines, 0);
    CHECK_SAME(tree_open(&on, lines.ports[0], 60000), 0);
    CHECK_SAME(tree_stat_of(&on, "/late", &stat), 0);
    tree_close(&on);
}

/* the leader is killed, and the others elect; a follower is cut off from its leader, and
 * does not know it at first */
static void
test_ensemble(void)
{
    tree on;
    zookeeper_start_ensemble(&set, NULL, &lines);
    int leader = zookeeper_leader(&set), follower = (leader + 1) % 3;
    check_client(set.servers[follower].port);
    server_kill(&set.servers[leader]);
    CHECK(zookeeper_leader(&set) != leader);
    server_restart(&set.servers[leader]);
    set_await(&set);

    leader = zookeeper_leader(&set), follower = (leader + 1) % 3;
    CHECK_SAME(tree_open(&on, set.servers[follower].port, 60000), 0);
    wires_hold(&lines, 3 * follower + leader);
    CHECK_SAME(tree_ping(&on), 0);
    check_children(&on, "/", "zookeeper\n");
    check_client(set.servers[(leader + 2) % 3].port);
    tree_limit(&on, slowly(200));
    CHECK_SAME(tree_make(&on, "/b", "", TREE_PLAIN, NULL, 0), TREE_GONE);
    wires_flow(&lines, WIRES_ALL);
    set_await(&set);
}

static const struct test_case cases[] = {
    { "one", test_one },     { "containers", test_containers }, { "clock", test_clock },
    { "wires", test_wires }, { "ensemble", test_ensemble },
};

int
main(int argc, char **argv)
{
    need(zookeeper_present(), "zookeeper");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
