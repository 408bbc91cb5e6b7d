/* SPDX-License-Identifier: MIT */
/* Servers that are killed, stand still or cannot be reached: a minority of them is not
 * missed, and without a majority nothing is granted. */
#include "stage.h"

#define LATE slowly(300)

static void
lock_some(dibs *client, int times)
{
    for (int i = 0; i < times; i++) {
        give(take(client, 0));
    }
}

static void
minority_killed(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    lock_some(client, 5);
    server_kill(&set.servers[0]);
    lock_some(client, 20);
    server_kill(&set.servers[3]);
    lock_some(client, 20);
    dibs *other = open_with("");
    dibs_hold *hold = take(client, 0);
    GIVES(DIBS_EBUSY, try_for(other));
    give(hold);
    OK(try_for(other));
    server_restart(&set.servers[0]);
    server_restart(&set.servers[3]);
    /* they are taken in again, by themselves */
    sleep_ms(600);
    hold = take(client, 0);
    comes_to(NODES, slowly(2000));
    give(hold);
    dibs_close(other);
    dibs_close(client);
    CHECK_SAME(copies(), 0);
}

static void
minority_paused(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    lock_some(client, 5);
    server_pause(&set.servers[0]);
    server_pause(&set.servers[4]);
    lock_some(client, 1); /* finds out, and waits for it */
    int64_t from = now_ms();
    lock_some(client, 50);
    CHECK_WITHIN(now_ms() - from, 0, slowly(1000));
    server_resume(&set.servers[0]);
    server_resume(&set.servers[4]);
    dibs_hold *hold = take(client, 0);
    comes_to(NODES, slowly(2000));
    give(hold);
    comes_to(0, slowly(1000));
    dibs_close(client);
}

/* two addresses at which connections are neither accepted nor refused */
static void
minority_swallowed(void)
{
    char url[512], hosts[256];
    blackhole holes[2];
    dibs *client = NULL;
    start(3, NULL);
    blackhole_open(&holes[0], 0);
    blackhole_open(&holes[1], 0);
    set_hosts(hosts, sizeof(hosts), &set);
    (void)snprintf(url, sizeof(url), "redlock://127.0.0.1:%d,%s,127.0.0.1:%d",
                   holes[0].port, hosts, holes[1].port);
    int64_t from = now_ms();
    OK(dibs_open(&client, url, NULL, &oops));
    lock_some(client, 30);
    CHECK_WITHIN(now_ms() - from, 0, slowly(4000));
    dibs_close(client);
    blackhole_close(&holes[0]);
    blackhole_close(&holes[1]);
}

/* nothing is granted, and the caller knows in time */
static void
check_unavailable(dibs *client)
{
    dibs_hold *hold = NULL;
    GIVES(DIBS_EUNAVAIL, dibs_trylock(&hold, client, NAME, &oops));
    CHECK(strstr(oops.text, "3 are needed") != NULL);
    for (int64_t wait_ms = 50; wait_ms <= 800; wait_ms *= 4) {
        int64_t from = now_ms();
        GIVES(DIBS_EUNAVAIL, dibs_timedlock(&hold, client, NAME, wait_ms, &oops));
        CHECK_WITHIN(now_ms() - from, 0, wait_ms + LATE);
    }
    CHECK(hold == NULL);
}

static void
majority_killed(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    lock_some(client, 5);
    for (int i = 0; i < 3; i++) {
        server_kill(&set.servers[i]);
    }
    check_unavailable(client);
    /* what the two others gave was taken back */
    CHECK_SAME(copies(), 0);
    server_restart(&set.servers[1]);
    lock_some(client, 5);
    dibs_close(client);
}

static void
majority_paused(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    lock_some(client, 5);
    for (int i = 2; i < NODES; i++) {
        server_pause(&set.servers[i]);
    }
    check_unavailable(client);
    for (int i = 2; i < NODES; i++) {
        server_resume(&set.servers[i]);
    }
    /* what they were asked while they stood still is undone by what was asked next */
    lock_some(client, 5);
    comes_to(0, slowly(2000));
    dibs_close(client);
}

static void
refused_by_few(void)
{
    char url[512];
    dibs *client = NULL;
    start(NODES, NULL);
    for (int i = 0; i < 3; i++) {
        server_kill(&set.servers[i]);
    }
    url_of(url, sizeof(url), "");
    GIVES(DIBS_EUNAVAIL, dibs_open(&client, url, NULL, &oops));
    CHECK(strstr(oops.text, "2 of 5 servers answered, 3 are needed") != NULL);
    server_restart(&set.servers[1]);
    OK(dibs_open(&client, url, NULL, &oops));
    dibs_close(client);
}

static void
lost_without_majority(void)
{
    const uint32_t lease_ms = (uint32_t)slowly(500);
    start(NODES, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, lease_ms);
    for (int i = 0; i < 3; i++) {
        server_pause(&set.servers[i]);
    }
    int64_t from = now_ms();
    while (dibs_held(hold) && now_ms() < from + 2 * lease_ms) {
        sleep_ms(1);
    }
    /* not extended is not released: it stands until its deadline, and no longer */
    CHECK_WITHIN(now_ms() - from, lease_ms / 3, lease_ms);
    for (int i = 0; i < 3; i++) {
        server_resume(&set.servers[i]);
    }
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    lock_some(client, 1);
    dibs_close(client);
}

static void
kept_by_majority(void)
{
    const uint32_t lease_ms = (uint32_t)slowly(500);
    start(NODES, NULL);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = take(client, lease_ms);
    server_pause(&set.servers[1]);
    server_kill(&set.servers[2]);
    for (int i = 0; i < 6; i++) {
        sleep_ms(lease_ms / 2);
        CHECK(dibs_held(hold));
        GIVES(DIBS_EBUSY, try_for(other));
    }
    give(hold);
    OK(try_for(other));
    server_resume(&set.servers[1]);
    dibs_close(other);
    dibs_close(client);
}

/* All servers stand still, the caller gives up, they go on: they then do what they were
 * asked, the taking and the taking back, and nothing stays. */
static void
replies_lost(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    lock_some(client, 5);
    for (int i = 0; i < 5; i++) {
        dibs_hold *hold = NULL;
        set_pause(&set);
        GIVES(DIBS_EUNAVAIL, dibs_timedlock(&hold, client, NAME, 30 * (i + 1), &oops));
        set_resume(&set);
        /* the lease is 30 s: it does not end by itself in that time */
        comes_to(0, slowly(3000));
        OK(try_for(client));
    }
    dibs_close(client);
}

static void
scripts_flushed(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k <= i % NODES; k++) {
            server_do(&set.servers[k], "SCRIPT", "FLUSH");
        }
        dibs_hold *hold = take(client, 0);
        CHECK(copies() >= 3);
        for (int k = 0; k <= i % NODES; k++) {
            server_do(&set.servers[k], "SCRIPT", "FLUSH");
        }
        OK(dibs_renew(hold, 0, &oops));
        for (int k = 0; k < NODES; k++) {
            server_do(&set.servers[k], "SCRIPT", "FLUSH");
        }
        give(hold);
    }
    dibs_close(client);
    CHECK_SAME(copies(), 0);
}

/* connections end between any two operations */
static void
cut(void)
{
    start(NODES, NULL);
    dibs *client = open_with(""), *other = open_with("");
    for (int i = 0; i < 10; i++) {
        set_cut(&set);
        dibs_hold *hold = take(client, 0);
        set_cut(&set);
        GIVES(DIBS_EBUSY, try_for(other));
        OK(dibs_renew(hold, 0, &oops));
        set_cut(&set);
        give(hold);
        OK(try_for(other));
    }
    dibs_close(other);
    dibs_close(client);
    CHECK_SAME(copies(), 0);
}

int
main(int argc, char **argv)
{
    static const test_case cases[] = {
        { "minority_killed", minority_killed },
        { "minority_paused", minority_paused },
        { "minority_swallowed", minority_swallowed },
        { "majority_killed", majority_killed },
        { "majority_paused", majority_paused },
        { "refused_by_few", refused_by_few },
        { "lost_without_majority", lost_without_majority },
        { "kept_by_majority", kept_by_majority },
        { "replies_lost", replies_lost },
        { "scripts_flushed", scripts_flushed },
        { "cut", cut },
        { NULL, NULL },
    };
    return run_case(argc, argv, cases);
}
