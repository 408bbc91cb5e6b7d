/* SPDX-License-Identifier: MIT */
/*
 * Layouts whose locks are those of a connection: when that ends, the lock is another's at
 * once, so the holder has to notice soon. See sql.h.
 */
#include "sql.h"

/* how long a holder may not know that its connection has ended */
#define NOTICE_MS slowly(2000)

static dibs *holder, *other;
static dibs_hold *hold;

static void
begin(const server_options *options, int holder_port)
{
    start_one(options);
    holder = open_at(holder_port != 0 ? lines.ports[0] : one.port);
    other = open_at(one.port);
    hold = take(holder, NAME, LONG_MS);
    GIVES(DIBS_EBUSY, try_take(other, NAME));
}

static void
end(void)
{
    dibs_close(holder);
    dibs_close(other);
    EVENTUALLY(slowly(5000), sql_count_clients(&one) == 0);
}

/* it is told, the next one has it with a larger token, and the client goes on */
static void
check_noticed(int64_t limit_ms)
{
    int64_t from = now_ms();
    CHECK(is_lost(hold, limit_ms));
    printf("noticed after %lld ms\n", (long long)(now_ms() - from));
    dibs_hold *next = take(other, NAME, LONG_MS);
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    give(next);
    give(take(holder, NAME, LONG_MS));
}

static void
test_killed(void)
{
    begin(NULL, 0);
    sql_cut(&one);
    check_noticed(NOTICE_MS);
    end();
}

/* who waits on a connection comes again on another */
static void
test_killed_waiting(void)
{
    begin(NULL, 0);
    dibs_op *wait = begin_wait(other, NAME, LONG_MS);
    sleep_ms(slowly(200));
    sql_cut(&one);
    dibs_hold *next = end_wait(wait, slowly(5000));
    CHECK(is_lost(hold, NOTICE_MS));
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    /* connections are ended one after the other: it may have had it on one of the last */
    int code = dibs_unlock(next, &oops);
    CHECK(code == DIBS_OK || code == DIBS_ELOST);
    give(take(other, NAME, LONG_MS));
    end();
}

static void
test_restarted(void)
{
    begin(NULL, 0);
    server_kill(&one);
    CHECK(is_lost(hold, NOTICE_MS));
    server_restart(&one);
    check_noticed(0);
    end();
}

/* the connection ends on the way: the server sees that too */
static void
test_cut(void)
{
    begin(NULL, 1);
    wires_cut(&lines, 0);
    check_noticed(NOTICE_MS);
    end();
}

/* Nothing comes through any more, which nobody sees: the holder gives up in time; for the
 * server the connection lives, and so does the lock, until it does not answer. */
static void
test_silent(void)
{
    begin(NULL, 1);
    wires_hold(&lines, 0);
    int64_t from = now_ms();
    CHECK(is_lost(hold, LONG_MS + slowly(200)));
    printf("given up after %lld ms\n", (long long)(now_ms() - from));
    GIVES(DIBS_EBUSY, try_take(other, NAME));
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    check_noticed(0);
    end();
}

/* a connection that has a lock is not idle, however long the lease is */
static void
test_idle(void)
{
    start_one(&database.brief);
    holder = open_at(one.port);
    other = open_at(one.port);
    hold = take(holder, NAME, (uint32_t)slowly(30000));
    sleep_ms(3500);
    CHECK(dibs_held(hold) && !is_lost(hold, 0));
    GIVES(DIBS_EBUSY, try_take(other, NAME));
    give(hold);
    OK(try_take(other, NAME));
    end();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "killed", test_killed },
        { "killed_waiting", test_killed_waiting },
        { "restarted", test_restarted },
        { "cut", test_cut },
        { "silent", test_silent },
        { "idle", test_idle },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
