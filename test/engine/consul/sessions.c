/* SPDX-License-Identifier: MIT */
/* Sessions: when they end, what that delays, and what must not end them. See faults.h. */
#include "faults.h"

static dibs *holder, *waiter;
static dibs_hold *hold;
static dibs_op *wait;

/* how long the server refuses a lock after the end of a session that had it */
#define DELAY_MS 2000

static dibs *
open_with_delay(const char *delay)
{
    return open_url("consul://127.0.0.1:%d/locks?lock_delay=%s", one.port, delay);
}

/* the end of a session delays the next grant by what its client asked for; who waits goes
 * on right after, and not later */
static void
test_delayed(void)
{
    start_one(NULL);
    holder = open_with_delay("2s"), waiter = open_with_delay("2s");
    hold = take(holder, NAME, LEASE_MS);
    wait = begin_wait(waiter, NAME, LEASE_MS);
    sleep_ms(slowly(200));
    int64_t from = now_ms();
    end_session(&one);
    CHECK(is_lost(hold, LEASE_MS));
    dibs_hold *next = end_wait(wait, slowly(10000));
    CHECK_WITHIN(now_ms() - from, DELAY_MS - 100, DELAY_MS + slowly(1000));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(next);
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

/* to give it back delays nobody, and neither does closing the client */
static void
test_not_delayed(void)
{
    start_one(NULL);
    holder = open_with_delay("30s"), waiter = open_with_delay("30s");
    hold = take(holder, NAME, LEASE_MS);
    wait = begin_wait(waiter, NAME, LEASE_MS);
    sleep_ms(slowly(200));
    int64_t from = now_ms();
    give(hold);
    hold = end_wait(wait, slowly(10000));
    CHECK_WITHIN(now_ms() - from, 0, slowly(1000));
    from = now_ms();
    dibs_hold_free(hold);
    dibs_close(waiter);
    give(take(holder, NAME, LEASE_MS));
    CHECK_WITHIN(now_ms() - from, 0, slowly(2000));
    dibs_close(holder);
    check_nothing_left(&one);
}

/* Many lose each race for the lock; none of them takes that for a delay. Once each for two
 * clients, turn by turn, is quick. */
static void
test_races(void)
{
    start_one(NULL);
    dibs *clients[4];
    dibs_op *waits[4];
    for (int i = 0; i < 4; i++) {
        clients[i] = open_at(one.port);
    }
    hold = take(clients[0], NAME, LONG_MS);
    for (int i = 1; i < 4; i++) {
        waits[i] = begin_wait(clients[i], NAME, LONG_MS);
    }
    sleep_ms(slowly(200));
    int64_t from = now_ms();
    give(hold);
    for (int left = 3; left > 0; left--) {
        int winner = 0;
        for (int i = 1; winner == 0; i = i % 3 + 1) {
            CHECK(now_ms() - from < slowly(5000));
            winner = waits[i] != NULL && has_ended(waits[i], 1) ? i : 0;
        }
        give(end_wait(waits[winner], 0));
        waits[winner] = NULL;
    }
    for (int i = 0; i < 4; i++) {
        dibs_close(clients[i]);
    }
    check_nothing_left(&one);
}

/* ---- agents ---- */

/* whether a server knows of another that it is gone */
static int
misses_somebody(const server *of)
{
    char *answer = consul_do(of, "GET", "health/state/critical", NULL);
    int found = strstr(answer, "\"Status\":\"critical\"") != NULL;
    free(answer);
    return found;
}

/* a hold at a server that is then killed, and a wait elsewhere; returns when that is known
 * there */
static const server *
kill_agent(const server_options *options)
{
    start_three(options);
    int victim = (engine.leader(&set) + 1) % 3;
    const server *other = &set.servers[(victim + 1) % 3];
    holder = open_url("consul://127.0.0.1:%d,127.0.0.1:%d/locks",
                      set.servers[victim].port, other->port);
    waiter = open_at(other->port);
    hold = take(holder, NAME, LONG_MS);
    wait = begin_wait(waiter, NAME, LONG_MS);
    sleep_ms(slowly(200));
    server_kill(&set.servers[victim]);
    EVENTUALLY(slowly(30000), misses_somebody(other));
    return other;
}

/* a session has no checks: when the agent that it was made at is gone, and all know it, the
 * hold goes on, with another */
static void
test_agent_killed(void)
{
    const server *other = kill_agent(NULL);
    sleep_ms(LONG_MS + slowly(1000));
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(other);
}

/* But Consul may strike a dead server off its list, and with it the sessions that were made
 * there, whatever their time. The holder is told before the next one has it, and goes on
 * anew. */
static void
test_agent_struck_off(void)
{
    static const server_options usual;
    const server *other = kill_agent(&usual);
    give(hand_over_after(hold, wait, slowly(40000)));
    give(take(holder, NAME, LONG_MS));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(other);
}

/* ---- permits ---- */

static dibs_hold *
take_permit(dibs *client, uint32_t lease_ms)
{
    dibs_request request = want(NAME, lease_ms);
    dibs_hold *permit = NULL;
    request.mode = DIBS_PERMITS;
    request.limit = 2;
    OK(dibs_acquire(&permit, client, &request, &oops));
    return permit;
}

/* one of two permits is of a client that is cut off for too long: somebody else has it */
static void
test_permit_expires(void)
{
    start_one(NULL);
    dibs *first = open_at(one.port), *second = open_at(lines.ports[0]);
    dibs *third = open_at(one.port);
    dibs_hold *stays = take_permit(first, LEASE_MS);
    dibs_hold *goes = take_permit(second, LEASE_MS);
    wires_hold(&lines, 0);
    dibs_hold *next = take_permit(third, LEASE_MS);
    CHECK(!dibs_held(goes) && dibs_held(stays));
    wires_flow(&lines, 0);
    GIVES(DIBS_ELOST, dibs_unlock(goes, &oops));
    give(next);
    give(stays);
    EVENTUALLY(slowly(5000), count_keys(&one) == 0);
    dibs_close(first);
    dibs_close(second);
    dibs_close(third);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "delayed", test_delayed },
        { "not_delayed", test_not_delayed },
        { "races", test_races },
        { "agent_killed", test_agent_killed },
        { "agent_struck_off", test_agent_struck_off },
        { "permit_expires", test_permit_expires },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
