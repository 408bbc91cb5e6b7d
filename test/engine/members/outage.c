/* SPDX-License-Identifier: MIT */
/* One server that is killed, stands still or cannot be reached, for shorter and for longer
 * than a lease. See members.h. */
#include "members.h"

static dibs *holder, *waiter;

/* a hold of one client and a wait of another, both written down at the server */
static dibs_hold *
begin(dibs_op **wait, int holder_port, uint32_t lease_ms)
{
    holder = open_at(holder_port);
    waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, lease_ms);
    *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(100));
    return hold;
}

static void
end(void)
{
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

/* holds survive a restart, and so do places in the line */
static void
test_restart(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, one.port, LONG_MS);
    uint64_t token = dibs_token(hold);
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(count_keys(&one), line_keys(1));
    sleep_ms(LONG_MS + 500);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(dibs_token(hold), token);
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK(dibs_token(hold) > token);
    give(hold);
    end();
}

/* the holder knows by itself when its time is up; the server counts anew when it is back,
 * and then the next one has it */
static void
test_down_too_long(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, one.port, LEASE_MS);
    int64_t from = now_ms();
    server_kill(&one);
    CHECK(is_lost(hold, slowly(5000)));
    CHECK_WITHIN(now_ms() - from, LEASE_MS / 4, LEASE_MS + slowly(200));
    CHECK(!dibs_held(hold) && !has_ended(wait, 0));
    server_restart(&one);
    give(hand_over_after(hold, wait, slowly(15000)));
    end();
}

static void
test_stands_still(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, one.port, LEASE_MS);
    server_pause(&one);
    CHECK(is_lost(hold, LEASE_MS + slowly(200)));
    CHECK(!dibs_held(hold) && !has_ended(wait, 0));
    sleep_ms(LEASE_MS);
    server_resume(&one);
    give(hand_over_after(hold, wait, slowly(15000)));
    end();
}

/* connections that end are no lease that ends */
static void
test_cut(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, lines.ports[0], LEASE_MS);
    for (int i = 0; i < 5; i++) {
        sleep_ms(LEASE_MS / 3);
        wires_cut(&lines, 0);
    }
    sleep_ms(LEASE_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(count_keys(&one), line_keys(1));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    end();
}

static void
test_cut_off_briefly(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, lines.ports[0], LEASE_MS);
    for (int i = 0; i < 3; i++) {
        wires_hold(&lines, 0);
        sleep_ms(LEASE_MS / 4);
        wires_flow(&lines, 0);
        sleep_ms(LEASE_MS);
        CHECK(dibs_held(hold) && !has_ended(wait, 0));
    }
    give(hold);
    give(end_wait(wait, slowly(5000)));
    end();
}

/* the server ends what it does not hear of: who had it is told before, and goes on
 * afterwards as if it came anew */
static void
test_cut_off_too_long(void)
{
    dibs_op *wait;
    start_one(NULL);
    dibs_hold *hold = begin(&wait, lines.ports[0], LEASE_MS);
    wires_hold(&lines, 0);
    dibs_hold *next = hand_over_after(hold, wait, slowly(20000));
    wires_flow(&lines, 0);
    give(next);
    give(take(holder, NAME, LEASE_MS));
    EVENTUALLY(slowly(5000), count_keys(&one) == 0);
    end();
}

/* who waits is cut off for so long that it is not in the line any more, and gets the lock
 * all the same */
static void
test_waiter_cut_off(void)
{
    start_one(NULL);
    holder = open_at(one.port), waiter = open_at(lines.ports[0]);
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LEASE_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(200));
    wires_hold(&lines, 0);
    if (engine.is_line()) {
        EVENTUALLY(slowly(15000), count_keys(&one) == line_keys(0));
    } else {
        sleep_ms(2 * LEASE_MS);
    }
    wires_flow(&lines, 0);
    EVENTUALLY(slowly(15000), count_keys(&one) == line_keys(1));
    CHECK(dibs_held(hold) && !has_ended(wait, slowly(100)));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    end();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "restart", test_restart },
        { "down_too_long", test_down_too_long },
        { "stands_still", test_stands_still },
        { "cut", test_cut },
        { "cut_off_briefly", test_cut_off_briefly },
        { "cut_off_too_long", test_cut_off_too_long },
        { "waiter_cut_off", test_waiter_cut_off },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
