/* SPDX-License-Identifier: MIT */
/* What is asked is done, but the answer gets lost; or it is done late, when whoever asked
 * has given up. See members.h. */
#include "members.h"

/* a client that has asked before: all else that the first use asks for is there */
static dibs *
open_used(int port)
{
    dibs *client = open_at(port);
    /* a name that is known may be taken in other words, and a database has to know them: it is
     * told when they are used for the first or the second time */
    for (int times = 0; times < 3; times++) {
        give(take(client, NAME, LONG_MS));
    }
    EVENTUALLY(slowly(5000), count_keys(&one) == 0);
    return client;
}

/* the key is there, but who asked for it does not learn it before the connection ends */
static dibs_op *
lose_the_answer(dibs *client, int keys)
{
    wires_mute(&lines, 0);
    dibs_op *op = begin_wait(client, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == keys);
    CHECK(!has_ended(op, 20));
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    return op;
}

/* it finds its key again: one key, one hold, nothing is left */
static void
test_take(void)
{
    start_one(NULL);
    dibs *client = open_used(lines.ports[0]);
    dibs_hold *hold = end_wait(lose_the_answer(client, 1), slowly(10000));
    CHECK_SAME(count_keys(&one), 1);
    give(hold);
    CHECK_SAME(count_keys(&one), 0);
    dibs_close(client);
    check_nothing_left(&one);
}

/* the same for one that has to wait, where a place in the line is kept */
static void
test_queue(void)
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *last = open_at(one.port);
    dibs *client = open_used(lines.ports[0]);
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *first = lose_the_answer(client, line_keys(1));
    sleep_ms(slowly(300));
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    dibs_op *second = begin_wait(last, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(2));
    give(hold);
    /* without a line, either may be the first */
    int in_turn = engine.is_line() || has_ended(first, slowly(1000));
    give(end_wait(in_turn ? first : second, slowly(10000)));
    give(end_wait(in_turn ? second : first, slowly(10000)));
    CHECK_SAME(count_keys(&one), 0);
    dibs_close(holder);
    dibs_close(client);
    dibs_close(last);
    check_nothing_left(&one);
}

/* what it could not ask for in time, the library goes on asking for */
static void
unlock_it(void *hold, int index)
{
    (void)index;
    int code = dibs_unlock(hold, &oops);
    CHECK(code == DIBS_OK || code == DIBS_EUNKNOWN);
}

static void
test_give(void)
{
    start_one(NULL);
    dibs *client = open_used(lines.ports[0]), *other = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    wires_mute(&lines, 0);
    gang *giver = gang_start(1, unlock_it, hold);
    /* somebody else's is not taken for the own */
    dibs_hold *next = end_wait(begin_wait(other, NAME, LONG_MS), slowly(10000));
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    gang_join(giver);
    give(take(client, "other", LONG_MS));
    CHECK(dibs_held(next));
    CHECK_SAME(count_keys(&one), 1);
    give(next);
    dibs_close(client);
    dibs_close(other);
    check_nothing_left(&one);
}

/* ---- others wait as well ---- */

#define THREADS 8
#define PATIENT 1
static const char *const apart[THREADS] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static void
take_own(void *client, int index)
{
    for (int times = 0; times < 3; times++) {
        give(take(client, apart[index], LONG_MS));
    }
}

/* as many connections as threads: what each of them asks is on its way for a while */
static void
warm_up(dibs *client)
{
    const wires_fault slow = { .delay_ms = (int)slowly(20) };
    wires_spoil(&lines, 0, WIRES_UP, &slow);
    gang_join(gang_start(THREADS, take_own, client));
    wires_flow(&lines, 0);
}

/* An answer is lost, and then nothing gets through. Whatever has to be done about the one before
 * anything else is asked: who has less time than others does not wait for theirs. */
static void
test_own_time(void)
{
    dibs_op *ops[PATIENT];
    dibs_hold *none = NULL;
    start_one(NULL);
    dibs *client = open_used(lines.ports[0]);
    warm_up(client);
    wires_mute(&lines, 0);
    dibs_op *unheard = begin_wait(client, NAME, LONG_MS / 8);
    EVENTUALLY(slowly(5000), count_keys(&one) == 1);
    wires_hold(&lines, 0);
    sleep_ms(LONG_MS / 8 / 6 + 20); /* it is given up, and asked for anew */
    for (int i = 0; i < PATIENT; i++) {
        ops[i] = begin_wait(client, apart[i], LONG_MS);
    }
    sleep_ms(slowly(20));
    dibs_request request = want(apart[PATIENT], LONG_MS);
    request.wait_ms = slowly(100);
    int64_t from = now_ms();
    CHECK(dibs_acquire(&none, client, &request, &oops) != DIBS_OK);
    CHECK_WITHIN(now_ms() - from, slowly(100) - 1, slowly(350));
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    give(end_wait(unheard, slowly(10000)));
    for (int i = 0; i < PATIENT; i++) {
        give(end_wait(ops[i], slowly(10000)));
    }
    dibs_close(client);
    check_nothing_left(&one);
}

/* ---- late ---- */

#define ROUNDS 6

/* a client with connections on one way only, that knows the others */
static void
use_only(dibs *client, int line)
{
    for (int i = 0; i < lines.count; i++) {
        if (i != line) {
            wires_refuse(&lines, i);
        }
    }
    for (int i = 0; i < 3; i++) {
        give(take(client, NAME, LONG_MS));
    }
    wires_flow(&lines, WIRES_ALL);
    wires_deafen(&lines, line);
}

/* asks, and gives up; what it asked for is still on its way */
static void
ask_in_vain(dibs *client, int64_t wait_ms)
{
    dibs_hold *hold = NULL;
    dibs_op *op = begin_wait(client, NAME, LONG_MS);
    int in_vain = !has_ended(op, wait_ms);
    dibs_op_cancel(op);
    if (dibs_op_finish(&hold, op, &oops) == DIBS_OK) {
        give(hold);
    }
    CHECK(in_vain);
}

/* The request stays on one way to the server while its client gives up, over the other; then
 * it arrives. What it asked for must not come to life again: the client lives on, and so
 * would the key. */
static void
test_late(void)
{
    start_one(NULL);
    dibs *client = open_lines(), *other = open_at(one.port);
    dibs_hold *alive = take(client, "alive", LONG_MS);
    for (int i = 0; i < ROUNDS; i++) {
        use_only(client, i % 2);
        wires_hold(&lines, i % 2);
        ask_in_vain(client, slowly(20));
        EVENTUALLY(slowly(10000), count_keys(&one) == 0);
        wires_flow(&lines, i % 2);
        sleep_ms(slowly(150));
        CHECK_SAME(count_keys(&one), 0);
        CHECK(dibs_held(alive));
        OK(try_take(other, NAME));
    }
    /* and what it asks for after that is done */
    give(take(client, NAME, LONG_MS));
    give(alive);
    dibs_close(client);
    dibs_close(other);
    check_nothing_left(&one);
}

/* as before, but it stays in the socket of a member that stands still */
static void
test_late_in_server(void)
{
    start_three(NULL);
    dibs *client = open_lines();
    dibs_hold *alive = take(client, "alive", LONG_MS);
    for (int i = 0; i < ROUNDS; i++) {
        int victim = (engine.leader(&set) + 1 + i % 2) % 3;
        const server *other = &set.servers[engine.leader(&set)];
        use_only(client, victim);
        server_pause(&set.servers[victim]);
        ask_in_vain(client, slowly(20));
        EVENTUALLY(slowly(10000), count_keys(other) == 0);
        server_resume(&set.servers[victim]);
        set_await(&set);
        sleep_ms(slowly(150));
        CHECK_SAME(count_keys(other), 0);
        CHECK(dibs_held(alive));
    }
    give(take(client, NAME, LONG_MS));
    give(alive);
    dibs_close(client);
    check_nothing_left(&set.servers[0]);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "take", test_take }, { "queue", test_queue },
        { "give", test_give }, { "own_time", test_own_time },
        { "late", test_late }, { "late_in_server", test_late_in_server },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
