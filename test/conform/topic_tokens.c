/* SPDX-License-Identifier: MIT */
/* Tokens: every later hold of a name has a larger one, whatever happened between. All
 * other cases are checked for it too, see tokens.c. */
#include "conform.h"

#define NAME "tokens"

/* takes the name from here, checks its token and gives it back */
static uint64_t
step(uint64_t last)
{
    dibs_hold *hold = take_name(stage.client, NAME);
    uint64_t token = dibs_token(hold);
    CHECK(token > last || !has(DIBS_CAP_TOKEN));
    give(hold);
    return token;
}

CASE(tokens, rise_over_everything)
{
    dibs_request brief = brief_lease(NAME), reading = want(NAME), waiting = want(NAME);
    peer *other = peer_new();
    uint64_t last = step(0);
    last = step(last);
    answer got = peer_take(other, NAME);
    CHECK(got.token > last || !has(DIBS_CAP_TOKEN));
    OK(peer_release(other, 0));
    last = step(got.token);

    /* after a death */
    got = peer_acquire(other, 0, &brief);
    peer_kill(other);
    last = step(got.token > last ? got.token : last);

    /* after one that waited and gave up */
    dibs_hold *hold = take_name(stage.client, NAME);
    other = peer_new();
    waiting.wait_ms = slowly(250);
    GIVES(DIBS_ETIMEDOUT, peer_acquire(other, 0, &waiting).code);
    CHECK(dibs_token(hold) > last || !has(DIBS_CAP_TOKEN));
    last = dibs_token(hold);

    /* after a break */
    if (has(DIBS_CAP_BREAK)) {
        OK(dibs_break(NULL, stage.client, NAME, "a test", &oops));
        got = peer_take(other, NAME);
        CHECK(got.token > last || !has(DIBS_CAP_TOKEN));
        last = got.token;
        GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
        OK(peer_release(other, 0));
    } else {
        give(hold);
    }

    /* after sharers */
    if (has(DIBS_CAP_SHARED)) {
        reading.mode = DIBS_SHARED;
        got = peer_acquire(other, 0, &reading);
        CHECK(got.token > last || !has(DIBS_CAP_TOKEN));
        OK(peer_release(other, 0));
        last = step(got.token);
    }
    peer_quit(other);
    (void)step(last);
}

CASE(tokens, stay_the_same)
{
    dibs_hold *hold = take_name(stage.client, NAME), *inner = NULL;
    uint64_t token = dibs_token(hold);
    OK(dibs_renew(hold, 0, &oops));
    CHECK_SAME(dibs_token(hold), token);
    OK(dibs_lock(&inner, stage.client, NAME, &oops));
    give(inner);
    CHECK_SAME(dibs_token(hold), token);
    OK(dibs_release(hold, &oops));
    CHECK_SAME(dibs_token(hold), token);
    dibs_hold_free(hold);
}

/* the name is in nobody's use in between, and then nobody has the engine open */
CASE(tokens, rise_over_reopening)
{
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        last = step(last);
        dibs_close(stage.client);
        stage.client = open_client();
    }
    for (int i = 0; i < 3; i++) {
        peer *other = peer_new();
        answer got = peer_take(other, NAME);
        CHECK(got.token > last || !has(DIBS_CAP_TOKEN));
        last = got.token;
        peer_quit(other);
    }
}

static void
take_and_give(void *client, int index)
{
    (void)index;
    for (int i = 0; i < 100; i++) {
        give(take_name(client, NAME));
    }
}

JOB(take_and_give)
{
    gang_join(gang_start((int)args[0], take_and_give, client));
    return 0;
}

/* hand-overs inside a process and between processes, as fast as they go */
CASE(tokens, rise_under_contention)
{
    const int64_t threads = 4;
    peer *peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = peer_new();
        peer_job_begin(peers[i], "take_and_give", &threads, 1);
    }
    gang_join(gang_start((int)threads, take_and_give, stage.client));
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    CHECK_SAME(atomic_load(&stage.shared->token_count), 16 * 100);
}
