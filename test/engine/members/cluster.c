/* SPDX-License-Identifier: MIT */
/* Three servers, of which one is killed, stands still, or is cut off from the others while
 * clients can still reach it. See members.h. */
#include "members.h"

/* a lease that is over before a server that is cut off knows it */
#define BRIEF_MS ((uint32_t)slowly(500))

/* a hold and a wait go through what happens to a server as if nothing was; their clients
 * know all servers, and may be at any of them */
static void
live_through(void (*harm)(server *), void (*heal)(server *), int leader)
{
    start_three(NULL);
    dibs *holder = open_lines(), *waiter = open_lines();
    int victim = (engine.leader(&set) + !leader) % 3;
    const server *other = &set.servers[(victim + 1) % 3];
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    uint64_t token = dibs_token(hold);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(other) == line_keys(1));
    harm(&set.servers[victim]);
    int64_t until = now_ms() + LONG_MS + slowly(1000);
    while (now_ms() < until) {
        CHECK(dibs_held(hold));
        CHECK(!has_ended(wait, 10));
    }
    give(hold);
    hold = end_wait(wait, slowly(10000));
    CHECK(dibs_token(hold) > token);
    heal(&set.servers[victim]);
    set_await(&set);
    give(hold);
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(other);
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
test_other_killed(void)
{
    live_through(server_kill, server_restart, 0);
}

static void
test_other_stands_still(void)
{
    live_through(stop_it, continue_it, 0);
}

/* The holder knows only a server that is cut off from the others. They let its lease end
 * and grant the lock to the next one, while that server still answers the holder. Before
 * that, the holder must have seen that it cannot know any more. */
static void
check_cut_off(int leader)
{
    start_three(NULL);
    int victim = (engine.leader(&set) + !leader) % 3;
    const server *other = &set.servers[(victim + 1) % 3];
    dibs *holder = open_at(set.servers[victim].port), *waiter = open_at(other->port);
    dibs_hold *hold = take(holder, NAME, BRIEF_MS);
    dibs_op *wait = begin_wait(waiter, NAME, BRIEF_MS);
    EVENTUALLY(slowly(5000), count_keys(other) == line_keys(1));
    sleep_ms(2 * BRIEF_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    engine.cut_off(&set, &between, victim);
    give(hand_over_after(hold, wait, slowly(40000)));
    wires_flow(&between, WIRES_ALL);
    set_await(&set);
    give(take(holder, NAME, BRIEF_MS));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(other);
}

static void
test_leader_cut_off(void)
{
    check_cut_off(1);
}

static void
test_other_cut_off(void)
{
    check_cut_off(0);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "leader_killed", test_leader_killed },
        { "leader_stands_still", test_leader_stands_still },
        { "other_killed", test_other_killed },
        { "other_stands_still", test_other_stands_still },
        { "leader_cut_off", test_leader_cut_off },
        { "other_cut_off", test_other_cut_off },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
