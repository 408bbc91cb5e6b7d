/* SPDX-License-Identifier: MIT */
/* core/seat.c: the table of names in use grows, forgets, and counts handles. */
#include "unit.h"

#include <stdio.h>

#include "core/core.h"

#define MANY 6000

static dibs_hold *holds[MANY];

struct totals {
    uint64_t seats, handles, room;
};

static struct totals
add_up(dibs *client)
{
    struct totals all = { 0 };
    for (int i = 0; i < DIBS__SHARDS; i++) {
        all.seats += client->shards[i].count;
        all.handles += client->shards[i].handles;
        all.room += client->shards[i].mask + 1;
    }
    return all;
}

static void
take_many(dibs *client)
{
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "seat/%d", i);
        assert_int_equal(dibs_trylock(&holds[i], client, name, NULL), DIBS_OK);
    }
}

CASE(grows_and_forgets)
{
    dibs *client = unit_open(unit_local(), NULL);
    uint64_t room = add_up(client).room;
    take_many(client);
    struct totals full = add_up(client);
    assert_int_equal(full.seats, MANY);
    assert_int_equal(full.handles, MANY);
    assert_true(full.room > room && full.room >= MANY / 2);
    for (int i = 0; i < DIBS__SHARDS; i++)
        assert_in_range(client->shards[i].count, MANY / 32, MANY / 8);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        size_t len;
        int wide = snprintf(name, sizeof name, "seat/%d", i);
        assert_string_equal(dibs_hold_name(holds[i], &len), name);
        assert_int_equal(len, wide);
        assert_int_equal(dibs_held(holds[i]), 1);
        assert_int_equal(dibs_unlock(holds[i], NULL), DIBS_OK);
    }
    assert_int_equal(add_up(client).seats, 0);
    assert_int_equal(add_up(client).handles, 0);
    dibs_close(client);
}

/* growing needs memory; without it the chains get longer, and nothing worse */
CASE(works_without_growing)
{
    dibs *client = unit_open(unit_local(), NULL);
    uint64_t room = add_up(client).room;
    int taken = 0;
    for (; taken < 1000; taken++) {
        char name[32];
        int rc = DIBS_ENOMEM;
        (void)snprintf(name, sizeof name, "seat/%d", taken);
        /* just enough for the lock, so not enough for a wider table */
        for (int64_t n = 0; n < 10 && rc == DIBS_ENOMEM; n++) {
            dibs__alloc_fail_after(n);
            rc = dibs_trylock(&holds[taken], client, name, NULL);
            dibs__alloc_fail_after(-1);
        }
        assert_int_equal(rc, DIBS_OK);
    }
    assert_int_equal(add_up(client).room, room);
    assert_int_equal(add_up(client).seats, taken);
    for (int i = 0; i < taken; i++)
        assert_int_equal(dibs_unlock(holds[i], NULL), DIBS_OK);
    assert_int_equal(add_up(client).seats, 0);
    dibs_close(client);
}

CASE(released_handles_are_counted)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_hold *outer, *inner;
        assert_int_equal(dibs_lock(&outer, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_lock(&inner, client, "x", NULL), DIBS_OK);
        assert_int_equal(add_up(client).handles, 2);
        assert_int_equal(dibs_release(outer, NULL), DIBS_OK);
        assert_int_equal(dibs_release(outer, NULL), DIBS_ENOTHELD);
        assert_int_equal(dibs_held(inner), 1);
        assert_int_equal(dibs_release(inner, NULL), DIBS_OK);
        assert_int_equal(add_up(client).handles, 2);
        unit_is_free(*url, "x");
        assert_string_equal(dibs_hold_name(outer, NULL), "x");
        dibs_hold_free(outer);
        assert_string_equal(dibs_hold_name(inner, NULL), "x");
        dibs_hold_free(inner);
        assert_int_equal(add_up(client).handles, 0);
        assert_int_equal(add_up(client).seats, 0);
        dibs_close(client);
    }
}

/* what a handle must still answer once its client is closed */
static void
answers_after_close(dibs_hold *hold, const char *name)
{
    dibs_error err = { 0 };
    size_t len = 0;
    assert_int_equal(dibs_held(hold), 0);
    assert_int_equal(dibs_remaining(hold), 0);
    assert_true(dibs_token(hold) != 0);
    assert_int_equal(dibs_previous(hold), DIBS_PREVIOUS_CLEAN);
    assert_string_equal(dibs_hold_name(hold, &len), name);
    assert_int_equal(len, strlen(name));
    assert_int_equal(dibs_release(hold, &err), DIBS_ENOTHELD);
    assert_says(&err, DIBS_ENOTHELD, "released");
    assert_int_equal(dibs_renew(hold, 0, NULL), DIBS_ENOTHELD);
    assert_int_equal(dibs_downgrade(hold, NULL), DIBS_ENOTHELD);
    assert_int_equal(dibs_lost_fd(hold, NULL), DIBS_ENOTHELD);
}

CASE(handles_outlive_the_client)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        for (int i = 0; i < 100; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "late/%d",
                           i / 2); /* every second re-enters */
            assert_int_equal(dibs_trylock(&holds[i], client, name, NULL), DIBS_OK);
        }
        assert_int_equal(dibs_release(holds[98], NULL), DIBS_OK);
        dibs_close(client);
        for (int i = 0; i < 50; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "late/%d", i);
            unit_is_free(*url, name);
            answers_after_close(holds[2 * i], name);
            answers_after_close(holds[2 * i + 1], name);
        }
        for (int i = 0; i < 100; i += 4) {
            assert_int_equal(dibs_unlock(holds[i], NULL), DIBS_ENOTHELD);
            dibs_hold_free(holds[i + 1]);
            dibs_abandon(holds[i + 2]);
            dibs_hold_free(holds[i + 3]); /* the last of all frees the client */
        }
    }
}

static void
free_mine(void *arg, int index)
{
    (void)arg;
    for (int i = index; i < 400; i += 4)
        dibs_hold_free(holds[i]);
}

CASE(handles_freed_by_many_threads_after_close)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        for (int i = 0; i < 400; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "late/%d", i % 300);
            assert_int_equal(dibs_trylock(&holds[i], client, name, NULL), DIBS_OK);
        }
        dibs_close(client);
        gang_join(gang_start(4, free_mine, NULL));
    }
}

CASE(abandoned)
{
    dibs *client = unit_open("mock://unit", NULL);
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold, *other;
    request.name = "x";
    request.lease_ms = 1000;
    assert_int_equal(dibs_acquire(&hold, client, &request, NULL), DIBS_OK);
    dibs_abandon(hold);
    assert_int_equal(add_up(client).handles, 0);
    dibs *second = unit_open("mock://unit", NULL);
    assert_int_equal(dibs_trylock(&other, second, "x", NULL), DIBS_EBUSY);
    assert_int_equal(dibs_timedlock(&other, second, "x", 10000, NULL), DIBS_OK);
    assert_int_equal(dibs_previous(other), DIBS_PREVIOUS_EXPIRED);
    assert_int_equal(dibs_unlock(other, NULL), DIBS_OK);
    dibs_close(second);
    dibs_close(client);
}
