/* SPDX-License-Identifier: MIT */
/* The server is killed and comes back with or without its data; it stands still; it
 * forgets its scripts; it still loads. On every layout. */
#include "faults.h"

#include <stdlib.h>

#define NAME "restart"

/* everything is gone: the holder is told, once, and whoever comes next has a larger
 * token, though the server remembers none */
static void
forgets(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    uint64_t token = dibs_token(hold);
    server_kill(&one);
    server_restart(&one);
    CHECK(is_lost(hold, 2 * LEASE_MS));
    CHECK_SAME(dibs_held(hold), 0);
    dibs_hold *next = take(other, NAME, LEASE_MS);
    CHECK(dibs_token(next) > token);
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    give(next);
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
    dibs_close(other);
}

/* nothing is gone: holder and waiter go on as if nothing had happened */
static void
remembers(void)
{
    server_options options = { .durable = 1 };
    server_start(&one, &options);
    dibs *client = open_one(), *other = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    dibs_op *waiting = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(waiting, 100));
    server_kill(&one);
    server_restart(&one);
    CHECK(!is_lost(hold, 2 * LEASE_MS));
    CHECK(dibs_held(hold) && !has_ended(waiting, 0));
    uint64_t token = dibs_token(hold);
    give(hold);
    dibs_hold *next = end_wait(waiting, slowly(2000));
    CHECK(dibs_token(next) > token);
    give(next);
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
    dibs_close(other);
}

/* a waiter whose place in the queue is gone gets its turn all the same */
static void
forgets_waiters(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    dibs_op *waiting = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(waiting, 100));
    server_kill(&one);
    server_restart(&one);
    dibs_hold *next = end_wait(waiting, 2 * LEASE_MS + slowly(2000));
    CHECK(dibs_token(next) > dibs_token(hold));
    dibs_hold_free(hold);
    give(next);
    dibs_close(client);
    dibs_close(other);
}

/* longer than the lease: the holder is told while the server still stands, and waiting
 * has its limit */
static void
stands_still(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS), *none = NULL;
    server_pause(&one);
    int64_t from = now_ms();
    int code = dibs_timedlock(&none, other, NAME, 200, &oops);
    CHECK(code == DIBS_ETIMEDOUT || code == DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - from, 150, 200 + slowly(200));
    CHECK(is_lost(hold, LEASE_MS));
    CHECK_SAME(dibs_held(hold), 0);
    sleep_ms(LEASE_MS);
    server_resume(&one);
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(take(other, NAME, LEASE_MS));
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
    dibs_close(other);
    CHECK_SAME(server_count_keys(&one), 0);
}

static void
forget_scripts(void)
{
    server_do(&one, "SCRIPT", "FLUSH");
}

static void
use_cells(dibs *client)
{
    dibs_cell cell;
    uint64_t version = 0;
    forget_scripts();
    OK(dibs_cell_swap(&version, client, NAME, 0, "a", 1, &oops));
    forget_scripts();
    OK(dibs_cell_read(&cell, client, NAME, &oops));
    CHECK(cell.len == 1 && cell.version == version);
    forget_scripts();
    OK(dibs_fence(client, NAME, 1, &oops));
}

static int
count_one(const dibs_report *report, void *arg)
{
    (void)report;
    ++*(int *)arg;
    return 0;
}

static void
look(dibs *client)
{
    dibs_report *report = NULL;
    int count = 0;
    forget_scripts();
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->holder_count, 1);
    dibs_report_free(report);
    forget_scripts();
    OK(dibs_list(client, NULL, count_one, &count, &oops));
    CHECK_SAME(count, 1);
}

/* between all operations */
static void
forgets_scripts(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    for (int i = 0; i < 5; i++) {
        forget_scripts();
        dibs_hold *hold = take(client, NAME, LEASE_MS);
        forget_scripts();
        OK(dibs_renew(hold, 0, &oops));
        forget_scripts();
        dibs_op *waiting = begin_wait(other, NAME, LEASE_MS);
        CHECK(!has_ended(waiting, 50));
        if (dibs_caps(client) & DIBS_CAP_INSPECT) {
            look(client);
        }
        forget_scripts();
        give(hold);
        give(end_wait(waiting, slowly(2000)));
        forget_scripts();
        hold = take(client, NAME, LEASE_MS);
        if (dibs_caps(client) & DIBS_CAP_SHARED) {
            forget_scripts();
            OK(dibs_downgrade(hold, &oops));
        }
        if (dibs_caps(client) & DIBS_CAP_BREAK) {
            forget_scripts();
            OK(dibs_break(NULL, client, NAME, NULL, &oops));
            GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
        } else {
            give(hold);
        }
    }
    if (dibs_caps(client) & DIBS_CAP_CELL) {
        use_cells(client);
    }
    /* that the last one was broken is remembered until here */
    give(take(client, NAME, LEASE_MS));
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
    dibs_close(other);
}

/* to renew by hand does not wait for a server, but works as soon as there is one */
static void
renew_when_it_can(dibs_hold *hold)
{
    int64_t until = now_ms() + slowly(5000);
    int code = dibs_renew(hold, 0, &oops);
    while (code == DIBS_EUNAVAIL || code == DIBS_EUNKNOWN) {
        CHECK(now_ms() < until);
        sleep_ms(20);
        code = dibs_renew(hold, 0, &oops);
    }
    OK(code);
}

/* its data takes a second to load, and it says so meanwhile */
static void
loads(void)
{
    /* one key in four takes a moment; and it looks up after each thousand */
    static const char *const slowly_loaded[] = { "--key-load-delay", "-4", NULL };
    static const char fill[] =
        "for i = 1, 100000 do redis.call('SET', 'fill' .. i, i) end";
    server_options options = { .durable = 1, .more = slowly_loaded };
    server_start(&one, &options);
    dibs *client = open_one(), *other = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    server_do(&one, "EVAL", fill, "0");
    request.lease_ms = (uint32_t)slowly(20000);
    OK(dibs_acquire(&hold, client, &request, &oops));
    server_kill(&one);
    server_respawn(&one);
    while (!server_answers(&one, "-LOADING", "GET", "fill1")) {
        CHECK(!server_answers(&one, "1", "GET", "fill1"));
    }
    GIVES(DIBS_EUNAVAIL, try_take(other, NAME));
    CHECK_SAYS("LOADING");
    dibs_op *waiting = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(waiting, 100));
    CHECK(server_answers(&one, "-LOADING", "GET", "fill1"));
    renew_when_it_can(hold);
    give(hold);
    give(end_wait(waiting, slowly(5000)));
    dibs_close(client);
    dibs_close(other);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "forgets", forgets },
        { "remembers", remembers },
        { "forgets_waiters", forgets_waiters },
        { "stands_still", stands_still },
        { "forgets_scripts", forgets_scripts },
        { "loads", loads },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
