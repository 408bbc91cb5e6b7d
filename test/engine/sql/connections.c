/* SPDX-License-Identifier: MIT */
/* An administrator ends connections, servers end those that are idle, or have no more. See
 * sql.h. */
#include "sql.h"

static dibs *holder, *waiter;

static dibs_op *
begin(dibs_hold **hold, uint32_t lease_ms)
{
    holder = open_at(one.port);
    waiter = open_at(one.port);
    *hold = take(holder, NAME, lease_ms);
    dibs_op *wait = begin_wait(waiter, NAME, lease_ms);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(100));
    return wait;
}

static void
end(dibs_hold *hold, dibs_op *wait)
{
    give(hold);
    give(end_wait(wait, slowly(5000)));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

/* connections are not what holds a lock, nor a place in the line */
static void
test_killed(void)
{
    dibs_hold *hold;
    start_one(NULL);
    dibs_op *wait = begin(&hold, LEASE_MS);
    for (int i = 0; i < 5; i++) {
        sql_cut(&one);
        sleep_ms(LEASE_MS / 3);
    }
    sleep_ms(LEASE_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(count_keys(&one), line_keys(1));
    end(hold, wait);
}

/* who is told of its turn by a connection of its own is told soon by the next one; or it asks
 * by itself, long before anything has expired */
static void
test_listener_killed(void)
{
    dibs_hold *hold;
    start_one(NULL);
    dibs_op *wait = begin(&hold, LONG_MS);
    sql_cut(&one);
    int64_t from = now_ms();
    give(hold);
    hold = end_wait(wait, slowly(1000));
    printf("has it after %lld ms\n", (long long)(now_ms() - from));
    /* and is told as before when it waits again */
    wait = begin_wait(holder, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(100));
    end(hold, wait);
}

/* the same while the hand-over is under way */
static void
test_killed_often(void)
{
    dibs_hold *hold;
    start_one(NULL);
    dibs_op *wait = begin(&hold, LEASE_MS);
    uint64_t token = dibs_token(hold);
    for (int i = 0; i < 10; i++) {
        dibs *mine = i % 2 == 0 ? holder : waiter;
        sleep_ms(20);
        sql_cut(&one);
        give(hold);
        hold = end_wait(wait, slowly(5000));
        CHECK(dibs_token(hold) > token);
        token = dibs_token(hold);
        wait = begin_wait(mine, NAME, LEASE_MS);
    }
    end(hold, wait);
}

/* ---- lost replies ---- */

#define THREADS 6
#define STORM_MS 4000

static int64_t storm_end_ms;
static int inside;
static uint64_t last_token;

static void
visit(void *arg, int index)
{
    dibs **clients = arg;
    while (now_ms() < storm_end_ms) {
        dibs_request request = want(NAME, LONG_MS);
        dibs_hold *hold = NULL;
        request.flags = DIBS_NO_REENTRY;
        OK(dibs_acquire(&hold, clients[index % 3], &request, &oops));
        /* plain on purpose: it comes out right only if the lock excludes */
        CHECK_SAME(inside++, 0);
        CHECK(dibs_token(hold) > last_token);
        last_token = dibs_token(hold);
        inside--;
        int code = dibs_unlock(hold, &oops);
        CHECK(code == DIBS_OK || code == DIBS_EUNKNOWN);
    }
}

/* connections end at any moment: before the question, behind it, behind the answer */
static void
test_storm(void)
{
    dibs *clients[3];
    start_one(NULL);
    for (int i = 0; i < 3; i++) {
        clients[i] = open_at(lines.ports[i % 2]);
    }
    storm_end_ms = now_ms() + STORM_MS;
    gang *visitors = gang_start(THREADS, visit, clients);
    while (now_ms() < storm_end_ms) {
        wires_cut(&lines, WIRES_ALL);
        sleep_ms(1 + now_ns() % 20);
    }
    gang_join(visitors);
    for (int i = 0; i < 3; i++) {
        dibs_close(clients[i]);
    }
    check_nothing_left(&one);
}

/* ---- limits of the server ---- */

/* the server closes what was silent for a second: a long hold, a long wait, and a client that
 * comes back after a pause */
static void
test_idle(void)
{
    dibs_hold *hold;
    start_one(&database.brief);
    dibs_op *wait = begin(&hold, (uint32_t)slowly(30000));
    sleep_ms(3500);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    give(take(holder, "other", LEASE_MS));
    end(hold, wait);
}

/* Clients beyond what the server allows are told so, and get in when there is room. */
static void
test_crowded(void)
{
    enum { CLIENTS = 12 };
    dibs *clients[CLIENTS] = { NULL };
    char url[256];
    int opened = 0, code = DIBS_OK;
    start_one(&database.few);
    print_url(url, sizeof(url), engine.user, "");
    while (opened < CLIENTS && code == DIBS_OK) {
        code = try_open(&clients[opened], url, (uint32_t)slowly(300));
        opened += code == DIBS_OK;
    }
    GIVES(DIBS_EUNAVAIL, code);
    printf("%d clients, then: %s\n", opened, oops.text);
    CHECK(opened > 1);
    CHECK_SAYS("connections");
    give(take(clients[0], NAME, LEASE_MS));
    dibs_close(clients[--opened]);
    EVENTUALLY(slowly(5000), try_open(&clients[opened], url, 1000) == DIBS_OK);
    give(take(clients[opened++], NAME, LEASE_MS));
    while (opened > 0) {
        dibs_close(clients[--opened]);
    }
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "killed", test_killed },
        { "listener_killed", test_listener_killed },
        { "killed_often", test_killed_often },
        { "storm", test_storm },
        { "idle", test_idle },
        { "crowded", test_crowded },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
