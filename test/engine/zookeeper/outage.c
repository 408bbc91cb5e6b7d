/* SPDX-License-Identifier: MIT */
/* One server that is killed, stands still or forgets connections, and answers that are
 * lost on their way. See faults.h. */
#include "faults.h"

#define NAME "outage"

/* a lease that outlasts the start of a server */
#define LONG_MS ((uint32_t)slowly(3000))

/* holds survive a restart, in the same session, and so do places in the queue */
static void
test_restart(void)
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    int both = strcmp(layout, "node") != 0;
    EVENTUALLY(slowly(2000), count_nodes(&one) == 1 + both);
    uint64_t token = dibs_token(hold);
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(count_nodes(&one), 1 + both);
    sleep_ms(LONG_MS + 500);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(dibs_token(hold), token);
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK(dibs_token(hold) > token);
    give(hold);
    dibs_close(holder);
    dibs_close(waiter);
}

/* the holder knows by itself when its time is up; the servers count anew when they are
 * back, and then the next one has it */
static void
test_down_too_long(void)
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    sleep_ms(slowly(100));
    int64_t from = now_ms();
    server_kill(&one);
    CHECK(is_lost(hold, slowly(5000)));
    CHECK_WITHIN(now_ms() - from, LEASE_MS / 4, LEASE_MS + slowly(200));
    CHECK(!dibs_held(hold) && !has_ended(wait, 0));
    server_restart(&one);
    dibs_hold *next = end_wait(wait, slowly(15000));
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(next);
    dibs_close(holder);
    dibs_close(waiter);
}

static void
test_stands_still(void)
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    sleep_ms(slowly(100));
    server_pause(&one);
    CHECK(is_lost(hold, LEASE_MS + slowly(200)));
    CHECK(!dibs_held(hold) && !has_ended(wait, 0));
    sleep_ms(LEASE_MS);
    server_resume(&one);
    dibs_hold *next = end_wait(wait, slowly(15000));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(next);
    dibs_close(holder);
    dibs_close(waiter);
}

/* the server ends a session that it does not hear of: who had it is told in time, and goes
 * on with another */
static void
test_expires(void)
{
    start_one(NULL);
    dibs *holder = open_at(lines.ports[0]), *waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    int64_t session = owner_of(&one, NAME);
    dibs_op *wait = begin_wait(waiter, NAME, LEASE_MS);
    sleep_ms(slowly(100));
    wires_hold(&lines, 0);
    while (!has_ended(wait, 0)) {
        /* looked at first, so that what changes in between is no excuse */
        int held = dibs_held(hold);
        CHECK(!held || !has_ended(wait, 0));
        sleep_ms(1);
    }
    CHECK(!dibs_held(hold));
    dibs_hold *next = end_wait(wait, 0);
    wires_flow(&lines, 0);
    CHECK(is_lost(hold, 0));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(next);
    hold = take(holder, NAME, LEASE_MS);
    CHECK(owner_of(&one, NAME) != session);
    give(hold);
    EVENTUALLY(slowly(2000), count_nodes(&one) == 0);
    dibs_close(holder);
    dibs_close(waiter);
}

/* a connection that ends is no session that ends */
static void
test_cut(void)
{
    start_one(NULL);
    dibs *holder = open_at(lines.ports[0]), *waiter = open_at(lines.ports[0]);
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    int64_t session = owner_of(&one, NAME);
    dibs_op *wait = begin_wait(waiter, NAME, LEASE_MS);
    for (int i = 0; i < 5; i++) {
        sleep_ms(LEASE_MS / 3);
        wires_cut(&lines, 0);
    }
    sleep_ms(LEASE_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK(owner_of(&one, NAME) != session);
    give(hold);
    hold = take(holder, NAME, LEASE_MS);
    CHECK(owner_of(&one, NAME) == session);
    give(hold);
    dibs_close(holder);
    dibs_close(waiter);
}

/* ---- lost answers ---- */

/* the node is made, but who asked for it does not learn it before the connection ends */
static dibs_op *
lose_the_answer(dibs *client, int nodes)
{
    wires_mute(&lines, 0);
    dibs_op *op = begin_wait(client, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_nodes(&one) == nodes);
    CHECK(!has_ended(op, 20));
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    return op;
}

/* it finds its node again: one node, one hold, nothing is left */
static void
test_reply_of_take(void)
{
    start_one(NULL);
    dibs *client = open_at(lines.ports[0]);
    /* all else that the first use asks for is there */
    give(take(client, NAME, LONG_MS));
    dibs_hold *hold = end_wait(lose_the_answer(client, 1), slowly(5000));
    CHECK_SAME(count_nodes(&one), 1);
    give(hold);
    CHECK_SAME(count_nodes(&one), 0);
    dibs_close(client);
}

/* the same in a queue, where the place is kept */
static void
test_reply_of_queue(void)
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *client = open_at(lines.ports[0]);
    dibs *last = open_at(one.port);
    give(take(client, NAME, LONG_MS));
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    int is_queue = strcmp(layout, "node") != 0;
    dibs_op *first = lose_the_answer(client, 1 + is_queue);
    sleep_ms(slowly(300));
    CHECK_SAME(count_nodes(&one), 1 + is_queue);
    dibs_op *second = begin_wait(last, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_nodes(&one) == 1 + 2 * is_queue);
    give(hold);
    if (is_queue) {
        give(end_wait(first, slowly(5000)));
        give(end_wait(second, slowly(5000)));
    } else {
        int first_has = has_ended(first, slowly(500));
        give(end_wait(first_has ? first : second, slowly(5000)));
        give(end_wait(first_has ? second : first, slowly(5000)));
    }
    CHECK_SAME(count_nodes(&one), 0);
    dibs_close(holder);
    dibs_close(client);
    dibs_close(last);
}

/* what it could not ask for in time, the library goes on asking for */
static void
unlock_it(void *hold, int index)
{
    (void)index;
    int code = dibs_unlock(hold, &oops);
    CHECK(code == DIBS_OK || code == DIBS_EUNKNOWN);
}

/* `node` reads before it deletes, and asks again, with nothing deleted, if that is lost */
static void
test_reply_of_give(void)
{
    int is_queue = strcmp(layout, "node") != 0;
    start_one(NULL);
    dibs *client = open_at(lines.ports[0]), *other = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    wires_mute(&lines, 0);
    gang *giver = gang_start(1, unlock_it, hold);
    sleep_ms(slowly(100));
    EVENTUALLY(slowly(2000), !is_queue || count_nodes(&one) == 0);
    /* somebody else's node is not taken for the own */
    dibs_op *wait = begin_wait(other, NAME, LONG_MS);
    CHECK_SAME(has_ended(wait, slowly(is_queue ? 5000 : 100)), is_queue);
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    gang_join(giver);
    dibs_hold *next = end_wait(wait, slowly(5000));
    give(take(client, "other", LONG_MS));
    CHECK(dibs_held(next));
    CHECK_SAME(count_nodes(&one), 1);
    give(next);
    dibs_close(client);
    dibs_close(other);
}

/* ---- containers ---- */

static int
is_there(const char *path)
{
    tree on;
    tree_stat stat;
    CHECK_SAME(tree_open(&on, one.port, 10000), 0);
    int code = tree_stat_of(&on, path, &stat);
    tree_close(&on);
    return code == 0;
}

/* the server removes what is empty; tokens rise all the same */
static void
test_reaped(void)
{
    const char *const more[] = { "-Dznode.container.checkIntervalMs=50", NULL };
    server_options options = { .more = more };
    start_one(&options);
    dibs *client = open_at(one.port);
    uint64_t token = 0;
    for (int i = 0; i < 5; i++) {
        dibs_hold *hold = take(client, NAME, LEASE_MS);
        CHECK(is_there(ROOT "/" NAME));
        CHECK(dibs_token(hold) > token);
        token = dibs_token(hold);
        sleep_ms(slowly(60));
        CHECK(dibs_held(hold));
        give(hold);
        EVENTUALLY(slowly(3000), !is_there(ROOT "/" NAME));
    }
    /* now and then it goes just while it is used */
    for (int i = 0; i < 300; i++) {
        give(take(client, NAME, LEASE_MS));
        sleep_ms(i % 7);
    }
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "restart", test_restart },
        { "down_too_long", test_down_too_long },
        { "stands_still", test_stands_still },
        { "expires", test_expires },
        { "cut", test_cut },
        { "reply_of_take", test_reply_of_take },
        { "reply_of_queue", test_reply_of_queue },
        { "reply_of_give", test_reply_of_give },
        { "reaped", test_reaped },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
