/* SPDX-License-Identifier: MIT */
/* What others left on some of the servers, and what servers have lost: a minority of
 * either is no obstacle, is healed if it is ours, and is never taken from anybody. */
#include "stage.h"

#include <unistd.h>

#define FOREIGN "0123456789abcdef0123456789abcdef"

static void
put_foreign(int from, int to, const char *ttl_ms)
{
    for (int i = from; i < to; i++) {
        server_do(&set.servers[i], "SET", NAME, FOREIGN, "PX", ttl_ms);
    }
}

static void
minority_is_foreign(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    put_foreign(0, 2, "60000");
    for (int i = 0; i < 5; i++) {
        dibs_hold *hold = take(client, 0);
        CHECK(has_value(&set.servers[0], FOREIGN) && has_value(&set.servers[1], FOREIGN));
        OK(dibs_renew(hold, 0, &oops));
        give(hold);
    }
    /* also for one who has to wait first */
    dibs *other = open_with("");
    dibs_hold *hold = take(other, (uint32_t)slowly(300));
    dibs_abandon(hold);
    give(take(client, 0));
    CHECK(has_value(&set.servers[0], FOREIGN) && has_value(&set.servers[1], FOREIGN));
    CHECK_SAME(copies(), 2);
    dibs_close(other);
    dibs_close(client);
}

static void
majority_is_foreign(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    put_foreign(1, 4, "700");
    int64_t from = now_ms();
    GIVES(DIBS_EBUSY, try_for(client));
    CHECK_SAME(copies(), 3); /* what we got of it was given back */
    give(take(client, 0));
    CHECK_WITHIN(now_ms() - from, 600, 700 + slowly(300));
    dibs_close(client);
}

static void
healed(void)
{
    char *value;
    start(NODES, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, 0);
    comes_to(NODES, slowly(1000));
    value = server_ask(&set.servers[4], "GET", NAME);
    server_kill(&set.servers[0]);
    server_restart(&set.servers[0]); /* it remembers nothing */
    server_do(&set.servers[1], "FLUSHALL");
    CHECK_SAME(copies(), 3);
    sleep_ms(600); /* who was not to be reached is left alone for a moment */
    OK(dibs_renew(hold, 0, &oops));
    comes_to(NODES, slowly(2000));
    for (int i = 0; i < NODES; i++) {
        CHECK(has_value(&set.servers[i], value));
        CHECK_WITHIN(server_number(&set.servers[i], "PTTL", NAME), 20000, 30000);
    }
    /* now the others may forget it */
    server_do(&set.servers[3], "FLUSHALL");
    server_do(&set.servers[4], "FLUSHALL");
    OK(dibs_renew(hold, 0, &oops));
    give(hold);
    dibs_close(client);
    CHECK_SAME(copies(), 0);
    free(value);
}

static void
not_healed_by_force(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, 0);
    comes_to(NODES, slowly(1000));
    put_foreign(2, 4, "60000"); /* as if they had forgotten, and somebody came */
    OK(dibs_renew(hold, 0, &oops));
    give(hold);
    comes_to(2, slowly(1000));
    CHECK(has_value(&set.servers[2], FOREIGN) && has_value(&set.servers[3], FOREIGN));
    dibs_close(client);
}

/* a majority has forgotten it: it is lost, whoever could have it again */
static void
not_revived(void)
{
    start(NODES, NULL);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = take(client, 0);
    for (int i = 0; i < 3; i++) {
        server_do(&set.servers[i], "DEL", NAME);
    }
    GIVES(DIBS_ELOST, dibs_renew(hold, 0, &oops));
    CHECK(!dibs_held(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));

    /* and so does breaking, while it is being renewed all the time */
    for (int i = 0; i < 20; i++) {
        size_t broken = 0;
        hold = take(client, (uint32_t)slowly(60));
        sleep_ms(i);
        OK(dibs_break(&broken, other, NAME, "a test", &oops));
        CHECK_SAME(broken, 1);
        OK(try_for(other));
        GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    }
    dibs_close(other);
    dibs_close(client);
    comes_to(0, slowly(500));
}

/* A server that does not answer the first release is told how to do it: when it goes on, it
 * does, though nobody waits for that. */
static void
released_unheard(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, 0);
    comes_to(NODES, slowly(1000));
    server_pause(&set.servers[4]);
    give(hold);
    server_resume(&set.servers[4]);
    comes_to(0, slowly(1000)); /* the lease is much longer */
    dibs_close(client);
}

static void
wrong_type(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    for (int i = 0; i < NODES; i++) {
        if (i == 2) {
            OK(try_for(client)); /* a minority does not matter */
        }
        server_do(&set.servers[i], "HSET", NAME, "field", "1");
    }
    GIVES(DIBS_EMISMATCH, try_for(client));
    size_t broken = 0;
    GIVES(DIBS_ENOTHELD, dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(copies(), NODES);
    dibs_close(client);
}

static void
renew_it(void *hold, int index)
{
    (void)index;
    (void)!dibs_renew(hold, 0, NULL); /* it may be too late */
}

/* Releases and renewals that overlap, while servers forget: what is released does not come
 * back. */
static void
nothing_left(void)
{
    unsigned seed = 1;
    start(NODES, NULL);
    dibs *client = open_with("");
    for (int i = 0; i < 150; i++) {
        dibs_hold *hold = take(client, 0);
        server_do(&set.servers[i % NODES], "DEL", NAME);
        gang *renewer = gang_start(1, renew_it, hold);
        usleep((useconds_t)(rand_r(&seed) % 1500));
        OK(dibs_release(hold, &oops));
        gang_join(renewer);
        dibs_hold_free(hold);
        comes_to(0, slowly(500)); /* the lease is much longer */
    }
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const test_case cases[] = {
        { "minority_is_foreign", minority_is_foreign },
        { "majority_is_foreign", majority_is_foreign },
        { "healed", healed },
        { "not_healed_by_force", not_healed_by_force },
        { "not_revived", not_revived },
        { "released_unheard", released_unheard },
        { "wrong_type", wrong_type },
        { "nothing_left", nothing_left },
        { NULL, NULL },
    };
    return run_case(argc, argv, cases);
}
