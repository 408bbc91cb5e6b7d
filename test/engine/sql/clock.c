/* SPDX-License-Identifier: MIT */
/*
 * Leases end by the clock of the database. Somebody moves it: these are the consequences, as
 * docs/guarantees.md and the pages of the engines name them. See sql.h.
 */
#include "sql.h"

#define HOUR_MS (3600 * 1000)

static dibs *holder, *other;

static void
begin(void)
{
    static const server_options options = { .clock = 1 };
    start_one(&options);
    holder = open_at(one.port);
    other = open_at(one.port);
}

static void
end(void)
{
    dibs_close(holder);
    dibs_close(other);
    check_nothing_left(&one);
}

/* Forward: for the database the lease is over, so the next one gets the lock at once. The
 * holder learns of it when it renews, and not before: for so long there are two. Only tokens
 * tell them apart. */
static void
test_forward(void)
{
    begin();
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    server_set_clock(&one, HOUR_MS);
    dibs_hold *next = take(other, NAME, LONG_MS);
    CHECK(dibs_token(next) > dibs_token(hold));
    printf("the one before %s\n", dibs_held(hold) ? "has it as well" : "knows");
    CHECK(is_lost(hold, LONG_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    give(next);
    end();
}

/* Back: who holds goes on, and tokens rise all the same. */
static void
test_back(void)
{
    begin();
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    dibs_op *wait = begin_wait(other, NAME, LEASE_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    server_set_clock(&one, -HOUR_MS);
    CHECK(!is_lost(hold, 3 * LEASE_MS) && dibs_held(hold));
    CHECK(!has_ended(wait, 0));
    uint64_t token = dibs_token(hold);
    give(hold);
    dibs_hold *next = end_wait(wait, slowly(5000));
    CHECK(dibs_token(next) > token);
    give(next);
    end();
}

/* Back, and then the holder is gone: its lease ends for the others as much later as the clock
 * was moved. To break it helps. */
static void
test_back_and_gone(void)
{
    size_t broken = 0;
    begin();
    dibs *gone = open_at(lines.ports[0]);
    dibs_hold *hold = take(gone, NAME, LEASE_MS);
    wires_refuse(&lines, 0);
    server_set_clock(&one, -HOUR_MS);
    CHECK(is_lost(hold, 2 * LEASE_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    dibs_close(gone);
    sleep_ms(LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(other, NAME));
    OK(dibs_break(&broken, holder, NAME, "its holder is gone", &oops));
    CHECK_SAME(broken, 1);
    OK(try_take(other, NAME));
    end();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "forward", test_forward },
        { "back", test_back },
        { "back_and_gone", test_back_and_gone },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
