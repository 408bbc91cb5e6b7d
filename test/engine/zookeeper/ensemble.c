/* SPDX-License-Identifier: MIT */
/* Three servers, of which one is killed, stands still, or is cut off from the others while
 * clients can still reach it. See faults.h. */
#include "faults.h"

#define NAME "ensemble"

/* how soon the servers miss each other, and a lease that outlasts that and an election */
#define MISSED_MS 1000
#define LONG_MS ((uint32_t)slowly(4000))
/* a lease that is over long before they do, where they are cut off from each other */
#define BRIEF_MS ((uint32_t)slowly(500))
#define CUT_MISSED_MS slowly(2000)

static char config[64];

static void
start(int64_t missed_ms)
{
    (void)snprintf(config, sizeof(config), "syncLimit=%d",
                   (int)missed_ms / ZOOKEEPER_TICK_MS);
    server_options options = { .config = config };
    start_three(&options);
}

/* the server that most clients are not at, and where the holder is */
static int
pick(int leader)
{
    return leader ? zookeeper_leader(&set) : (zookeeper_leader(&set) + 1) % 3;
}

/* Whether a server serves and the lock has no nodes there. One that comes back may just be
 * finding out that it does not lead any more. */
static int
has_no_nodes(const server *at)
{
    tree on;
    int code = TREE_GONE;
    if (tree_open(&on, at->port, 10000) != 0) {
        return 0;
    }
    char *names = tree_children(&on, ROOT "/" NAME, &code);
    int none = code == TREE_NO_NODE || (names != NULL && names[0] == '\0');
    free(names);
    tree_close(&on);
    return none;
}

/* A hold and a wait go through what happens to a server as if nothing was. Their clients
 * know all servers, and may be at any of them. */
static void
live_through(void (*harm)(server *), void (*heal)(server *), int leader)
{
    start(MISSED_MS);
    dibs *holder = open_all(), *waiter = open_all();
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    uint64_t token = dibs_token(hold);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_nodes(&set.servers[zookeeper_leader(&set)]) == 2);
    server *victim = &set.servers[pick(leader)];
    harm(victim);
    int64_t until = now_ms() + LONG_MS + slowly(1000);
    while (now_ms() < until) {
        CHECK(dibs_held(hold) && !has_ended(wait, 10));
    }
    give(hold);
    hold = end_wait(wait, slowly(10000));
    CHECK(dibs_token(hold) > token);
    heal(victim);
    set_await(&set);
    give(hold);
    EVENTUALLY(slowly(5000), has_no_nodes(victim));
    dibs_close(holder);
    dibs_close(waiter);
}

static void
stop_it(server *victim)
{
    server_pause(victim);
}

static void
continue_it(server *victim)
{
    server_resume(victim);
}

static void
test_leader_killed(void)
{
    live_through(server_kill, server_restart, 1);
}

static void
test_leader_stands_still(void)
{
    live_through(stop_it, continue_it, 1);
}

static void
test_follower_killed(void)
{
    live_through(server_kill, server_restart, 0);
}

static void
test_follower_stands_still(void)
{
    live_through(stop_it, continue_it, 0);
}

/* ---- cut off ---- */

/* Holds up all that goes between one server and the others. Those that are cut off miss
 * each other after CUT_MISSED_MS only. */
static void
cut_off(int victim)
{
    for (int i = 0; i < 3; i++) {
        if (i != victim) {
            wires_hold(&between, 3 * victim + i);
            wires_hold(&between, 3 * i + victim);
        }
    }
}

/* Watches a hold until the wait ends, and says whether it was held to the end. A leader that
 * is cut off still votes, and with what it alone has written it wins: the others follow it
 * in vain, again and again. So it stands still as soon as the hold is lost for good. */
static int
is_held_to_the_end(dibs_hold *hold, dibs_op *wait, const server *leader)
{
    int held = 1, is_paused = 0;
    int64_t held_until = now_ms(), limit = now_ms() + slowly(40000);
    while (!has_ended(wait, 1)) {
        CHECK(now_ms() < limit);
        held = dibs_held(hold);
        held_until = held ? now_ms() : held_until;
        if (!held && leader != NULL && !is_paused) {
            server_pause(leader);
            is_paused = 1;
        }
    }
    printf("lost %lld ms before the next grant\n", (long long)(now_ms() - held_until));
    return held;
}

/* The holder is at a server that is cut off from the others, and only there. Its session
 * ends with them, and they grant the lock to the next one, while that server still answers
 * the holder. Before that, the holder must have seen that it cannot know any more. */
static void
check_cut_off(int leader)
{
    start(CUT_MISSED_MS);
    int victim = pick(leader);
    dibs *holder = open_at(set.servers[victim].port);
    dibs *waiter = open_at(set.servers[(victim + 1) % 3].port);
    dibs_hold *hold = take(holder, NAME, BRIEF_MS);
    dibs_op *wait = begin_wait(waiter, NAME, BRIEF_MS);
    EVENTUALLY(slowly(5000), count_nodes(&set.servers[victim]) == 2);
    sleep_ms(2 * BRIEF_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    cut_off(victim);
    CHECK(!is_held_to_the_end(hold, wait, leader ? &set.servers[victim] : NULL));
    CHECK(!dibs_held(hold) && is_lost(hold, 0));
    give(end_wait(wait, 0));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    set_resume(&set);
    wires_flow(&between, WIRES_ALL);
    set_await(&set);
    EVENTUALLY(slowly(5000), has_no_nodes(&set.servers[victim]));
    dibs_close(holder);
    dibs_close(waiter);
}

static void
test_follower_cut_off(void)
{
    check_cut_off(0);
}

static void
test_leader_cut_off(void)
{
    check_cut_off(1);
}

/* Why a ping is no proof, and that the case above can fail: a client that goes by its
 * pings believes in its node when the next one has the lock already. */
static void
test_only_pings(void)
{
    char made[128];
    int nodes = 2, code = 0;
    tree pinger;
    start(CUT_MISSED_MS);
    int victim = pick(0);
    dibs *waiter = open_at(set.servers[(victim + 1) % 3].port);
    give(take(waiter, NAME, BRIEF_MS));
    CHECK_SAME(tree_open(&pinger, set.servers[victim].port, (int)BRIEF_MS), 0);
    CHECK_SAME(tree_make(&pinger, ROOT "/" NAME "/lock-", "",
                         TREE_EPHEMERAL | TREE_SEQUENCE, made, sizeof(made)),
               0);
    dibs_op *wait = begin_wait(waiter, NAME, BRIEF_MS);
    while (nodes > 0 && !has_ended(wait, 0)) {
        CHECK_SAME(tree_ping(&pinger), 0);
        sleep_ms(BRIEF_MS / 10);
        if (count_nodes(&set.servers[victim]) == nodes) {
            cut_off(victim);
            nodes = 0;
        }
    }
    int64_t limit = now_ms() + slowly(20000);
    while (!has_ended(wait, BRIEF_MS / 10)) {
        CHECK(now_ms() < limit);
        code = tree_ping(&pinger);
    }
    tree_stat stat;
    CHECK_SAME(code, 0);
    CHECK_SAME(tree_ping(&pinger), 0);
    CHECK_SAME(tree_stat_of(&pinger, made, &stat), 0);
    give(end_wait(wait, 0));
    tree_leave(&pinger);
    dibs_close(waiter);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "leader_killed", test_leader_killed },
        { "leader_stands_still", test_leader_stands_still },
        { "follower_killed", test_follower_killed },
        { "follower_stands_still", test_follower_stands_still },
        { "follower_cut_off", test_follower_cut_off },
        { "leader_cut_off", test_leader_cut_off },
        { "only_pings", test_only_pings },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
