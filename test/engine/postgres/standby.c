/* SPDX-License-Identifier: MIT */
/* A PostgreSQL that is lost, and its standby takes over; and what is not to be relied on
 * before the standby knows of it. See sql.h. */
#include "sql.h"

static dibs *holder, *waiter;

static void
start(const server_options *options)
{
    postgres_start_pair(&set, options, &between);
    sql_do(&set.servers[0], NULL, "CREATE DATABASE " DATABASE);
    wires_start(&lines, (int[]){ set.servers[0].port, set.servers[1].port }, 2);
    holder = open_lines();
    waiter = open_lines();
}

static void
end(const server *at)
{
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(at);
}

/* one has it and the other waits, and both have asked before */
static dibs_op *
begin(dibs_hold **hold, uint32_t lease_ms)
{
    give(take(waiter, NAME, lease_ms));
    *hold = take(holder, NAME, lease_ms);
    dibs_op *wait = begin_wait(waiter, NAME, lease_ms);
    EVENTUALLY(slowly(5000), count_keys(&set.servers[0]) == line_keys(1));
    sleep_ms(slowly(100));
    return wait;
}

static void
fail_over(void)
{
    server_kill(&set.servers[0]);
    postgres_promote(&set.servers[1]);
    wires_cut(&between, WIRES_ALL);
    wires_flow(&between, WIRES_ALL);
}

/* both go on at the other one; who waits is told there of its turn */
static void
test_promoted(void)
{
    dibs_hold *hold;
    start(NULL);
    dibs_op *wait = begin(&hold, LONG_MS);
    uint64_t token = dibs_token(hold);
    fail_over();
    sleep_ms(LONG_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(count_keys(&set.servers[1]), line_keys(1));
    give(hold);
    hold = end_wait(wait, slowly(1000));
    CHECK(dibs_token(hold) > token);
    give(hold);
    end(&set.servers[1]);
}

/* What was remembered of a line at the primary that was lost says nothing of the line at this
 * one, though both were changed as often: who lets go of what it lost leaves it alone. */
static void
test_forked(void)
{
    dibs_hold *hold, *mine;
    start(NULL);
    give(take(holder, NAME, LONG_MS));
    dibs *last = open_at(set.servers[0].port), *other = open_lines();
    give(take(other, "other", LONG_MS));
    sleep_ms(slowly(200));
    wires_hold(&between, 0);
    hold = take(holder, NAME, LONG_MS);
    dibs_op *first = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&set.servers[0]) == line_keys(1));
    dibs_op *second = begin_wait(last, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&set.servers[0]) == line_keys(2));
    give(hold); /* the second change, and the first one in line is told of it */
    hold = end_wait(first, slowly(5000));

    fail_over();
    mine = take(other, NAME, LONG_MS);
    OK(dibs_renew(mine, LONG_MS, &oops)); /* the second change here */
    (void)dibs_unlock(hold, &oops);
    OK(dibs_renew(mine, LONG_MS, &oops));
    give(mine);
    dibs_op_cancel(second);
    GIVES(DIBS_ECANCELED, dibs_op_finish(&hold, second, &oops));
    dibs_close(last);
    dibs_close(other);
    end(&set.servers[1]);
}

/* ---- commits that wait for the standby ---- */

static const server_options synced = { .config = POSTGRES_SYNCED };

static void
unlock_it(void *hold, int index)
{
    (void)index;
    int code = dibs_unlock(hold, &oops);
    CHECK(code == DIBS_OK || code == DIBS_EUNKNOWN);
}

/* A release that the standby has not heard of has let nobody in. The client that gave up on it
 * goes on asking for it: that must not make it visible. */
static gang *
give_unheard(dibs_hold *hold, dibs_op *wait)
{
    wires_hold(&between, 0);
    gang *giver = gang_start(1, unlock_it, hold);
    CHECK(!has_ended(wait, slowly(3000)));
    return giver;
}

static void
test_unheard(void)
{
    dibs_hold *hold;
    start(&synced);
    dibs_op *wait = begin(&hold, (uint32_t)slowly(10000));
    gang *giver = give_unheard(hold, wait);
    wires_flow(&between, 0);
    give(end_wait(wait, slowly(5000)));
    gang_join(giver);
    end(&set.servers[0]);
}

/* and is asked for again at the one that takes over */
static void
test_unheard_and_lost(void)
{
    dibs_hold *hold;
    start(&synced);
    dibs_op *wait = begin(&hold, (uint32_t)slowly(10000));
    gang *giver = give_unheard(hold, wait);
    fail_over();
    postgres_follow(&set, 0, &between);
    give(end_wait(wait, slowly(5000)));
    gang_join(giver);
    end(&set.servers[1]);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "promoted", test_promoted },
        { "forked", test_forked },
        { "unheard", test_unheard },
        { "unheard_and_lost", test_unheard_and_lost },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
