/* SPDX-License-Identifier: MIT */
/* Several locks at once: all or nothing, and never a deadlock, whatever the order. */
#include "conform.h"

#include <stdlib.h>

#define COUNT 4
#define ROUNDS 15

static const char *const names[COUNT] = { "together a", "together b", "together c",
                                          "together d" };

static void
wanting(dibs_wanted *out, dibs *client, const char *name)
{
    memset(out, 0, sizeof(*out));
    out->client = client;
    out->request = want(name);
}

static void
shuffle(dibs_wanted *wanted, unsigned *seed)
{
    for (int i = COUNT - 1; i > 0; i--) {
        int j = rand_r(seed) % (i + 1);
        dibs_wanted swap = wanted[i];
        wanted[i] = wanted[j];
        wanted[j] = swap;
    }
}

/* takes all of them again and again, in another order each time; two clients if given */
static void
take_all(dibs *client, dibs *other_client, unsigned seed)
{
    for (int round = 0; round < ROUNDS; round++) {
        dibs_wanted wanted[COUNT];
        dibs_hold *holds[COUNT] = { NULL };
        for (int i = 0; i < COUNT; i++) {
            wanting(&wanted[i], i % 2 == 0 ? client : other_client, names[i]);
        }
        shuffle(wanted, &seed);
        OK(dibs_acquire_all(holds, wanted, COUNT, slowly(20000), &oops));
        for (int i = 0; i < COUNT; i++) {
            CHECK(strcmp(dibs_hold_name(holds[i], NULL), wanted[i].request.name) == 0);
            note_token(holds[i], DIBS_EXCLUSIVE);
        }
        guard_visit(&stage.shared->guards[0]);
        for (int i = 0; i < COUNT; i++) {
            give(holds[i]);
        }
    }
}

static void
take_all_in_thread(void *other_client, int index)
{
    take_all(stage.client, other_client, (unsigned)index);
}

JOB(take_all)
{
    take_all(client, client, (unsigned)args[0]);
    return 0;
}

CASE(together, no_deadlock)
{
    peer *peers[3];
    for (int64_t i = 0; i < 3; i++) {
        peers[i] = peer_new();
        peer_job_begin(peers[i], "take_all", &i, 1);
    }
    gang_join(gang_start(8, take_all_in_thread, stage.client));
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    CHECK_SAME(stage.shared->guards[0].count, 11 * ROUNDS);
}

CASE(together, two_clients)
{
    dibs *second = open_client();
    gang_join(gang_start(6, take_all_in_thread, second));
    CHECK_SAME(stage.shared->guards[0].count, 6 * ROUNDS);
    dibs_close(second);
}

static void
check_rolled_back(int64_t wait_ms, int code)
{
    peer *other = peer_new();
    dibs *second = open_client();
    dibs_wanted wanted[COUNT];
    dibs_hold *holds[COUNT] = { NULL };
    peer_take(other, names[2]);
    for (int i = 0; i < COUNT; i++) {
        wanting(&wanted[i], i < 2 ? stage.client : second, names[i]);
    }
    int64_t from = now_ms();
    GIVES(code, dibs_acquire_all(holds, wanted, COUNT, wait_ms, &oops));
    int64_t low = wait_ms > 0 ? wait_ms - 1 : 0;
    /* some round trips; the other one has it for much longer */
    CHECK_WITHIN(now_ms() - from, low, low + slowly(1000));
    CHECK(strstr(oops.text, names[2]) != NULL);
    for (int i = 0; i < COUNT; i++) {
        CHECK(holds[i] == NULL);
        /* what could not be given back in time is given back in the background */
        CHECK_SAME(comes_free(stage.client, names[i], i != 2 ? slowly(500) : 0), i != 2);
    }
    await_waiters(names[2], 0);
    peer_quit(other);
    dibs_close(second);
}

CASE(together, rolled_back)
{
    check_rolled_back(DIBS_WAIT_NONE, DIBS_EBUSY);
}

CASE(together, rolled_back_in_time)
{
    check_rolled_back(slowly(300), DIBS_ETIMEDOUT);
}

CASE(together, same_name_twice)
{
    dibs_wanted wanted[2];
    dibs_hold *holds[2] = { NULL };
    wanting(&wanted[0], stage.client, names[0]);
    wanting(&wanted[1], stage.client, names[0]);
    OK(dibs_acquire_all(holds, wanted, 2, slowly(1000), &oops));
    give(holds[0]);
    CHECK(dibs_held(holds[1]) && !is_free(stage.client, names[0]));
    give(holds[1]);
    CHECK(is_free(stage.client, names[0]));
}

CASE(together, too_many)
{
    static dibs_wanted wanted[1025];
    static dibs_hold *holds[1025];
    for (int i = 0; i < 1025; i++) {
        wanting(&wanted[i], stage.client, names[0]);
    }
    GIVES(DIBS_EINVAL, dibs_acquire_all(holds, wanted, 1025, DIBS_WAIT_NONE, &oops));
    CHECK(holds[0] == NULL && is_free(stage.client, names[0]));
    /* one that is no request at all: found out before anything is taken */
    wanting(&wanted[1], stage.client, "");
    GIVES(DIBS_EINVAL, dibs_acquire_all(holds, wanted, 2, DIBS_WAIT_NONE, &oops));
    CHECK(holds[0] == NULL && is_free(stage.client, names[0]));
}
