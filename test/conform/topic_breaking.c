/* SPDX-License-Identifier: MIT */
/* Breaking a lock: the holder is told, the next one is told, and nothing else is
 * freed. */
#include "conform.h"

#define NAME "breaking"

static int
breaking_refused(void)
{
    if (has(DIBS_CAP_BREAK)) {
        return 0;
    }
    dibs_hold *hold = take_name(stage.client, NAME);
    GIVES(DIBS_EUNSUPPORTED, dibs_break(NULL, stage.client, NAME, NULL, &oops));
    CHECK(dibs_held(hold));
    give(hold);
    return 1;
}

/* the holder learns of it by itself, by its next renewal at the latest */
static void
await_loss(peer *holder)
{
    int64_t until = now_ms() + stage.lease_ms + slowly(200);
    answer state = peer_state(holder, 0);
    while (state.told == 0 || state.lost_fd_ready == 0) {
        CHECK(now_ms() < until);
        sleep_ms(2);
        state = peer_state(holder, 0);
    }
    CHECK_SAME(state.held, 0);
    CHECK_SAME(state.told, 1);
}

CASE(breaking, holder_is_told)
{
    dibs_request request = brief_lease(NAME);
    size_t broken = 0;
    if (breaking_refused()) {
        return;
    }
    peer *holder = peer_new();
    uint64_t token = peer_acquire(holder, 0, &request).token;
    OK(dibs_break(&broken, stage.client, NAME, "a test", &oops));
    CHECK_SAME(broken, 1);
    dibs_hold *hold = take_name(stage.client, NAME);
    CHECK(dibs_token(hold) > token);
    if (has(DIBS_CAP_PREVIOUS)) {
        CHECK_SAME(dibs_previous(hold), DIBS_PREVIOUS_BROKEN);
    }
    await_loss(holder);
    GIVES(DIBS_ELOST, peer_release(holder, 0));
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    give(hold);
    peer_quit(holder);
}

CASE(breaking, unlock_says_lost)
{
    if (breaking_refused()) {
        return;
    }
    dibs_hold *hold = take_name(stage.client, NAME);
    peer *other = peer_new();
    int64_t none = 0;
    OK((int)peer_job(other, "break_it", &none, 1));
    answer got = peer_take(other, NAME);
    CHECK(got.previous == DIBS_PREVIOUS_BROKEN || !has(DIBS_CAP_PREVIOUS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK_SAME(peer_state(other, 0).held, 1);
    CHECK(!is_free(stage.client, NAME));
    peer_quit(other);
}

JOB(break_it)
{
    (void)args;
    return dibs_break(NULL, client, NAME, "a test", &oops);
}

CASE(breaking, nobody_has_it)
{
    size_t broken = 7;
    if (breaking_refused()) {
        return;
    }
    GIVES(DIBS_ENOTHELD, dibs_break(&broken, stage.client, NAME, NULL, &oops));
    give(take_name(stage.client, NAME));
    GIVES(DIBS_ENOTHELD, dibs_break(&broken, stage.client, NAME, NULL, &oops));
    GIVES(DIBS_EINVAL, dibs_break(&broken, stage.client, "", NULL, &oops));
    dibs_hold *hold = take_name(stage.client, NAME);
    CHECK(dibs_previous(hold) == DIBS_PREVIOUS_CLEAN || !has(DIBS_CAP_PREVIOUS));
    give(hold);
}

CASE(breaking, waiter_gets_it)
{
    dibs_request request = brief_lease(NAME);
    if (breaking_refused()) {
        return;
    }
    peer *holder = peer_new(), *next = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    peer_acquire_begin(next, 0, &request);
    await_waiters(NAME, 1);
    int64_t from = now_ns();
    OK(dibs_break(NULL, stage.client, NAME, "a test", &oops));
    answer got = peer_end(next);
    OK(got.code);
    CHECK_WITHIN((got.at_ns - from) / 1000000, 0, slowly(150));
    CHECK(got.previous == DIBS_PREVIOUS_BROKEN || !has(DIBS_CAP_PREVIOUS));
    await_loss(holder);
    CHECK_SAME(peer_state(next, 0).held, 1);
    peer_quit(holder);
    peer_quit(next);
}

CASE(breaking, all_sharers)
{
    dibs_request request = brief_lease(NAME);
    size_t broken = 0;
    request.mode = DIBS_SHARED;
    if (breaking_refused() || !has(DIBS_CAP_SHARED)) {
        return;
    }
    peer *readers[3];
    for (int i = 0; i < 3; i++) {
        readers[i] = peer_new();
        OK(peer_acquire(readers[i], 0, &request).code);
    }
    OK(dibs_break(&broken, stage.client, NAME, NULL, &oops));
    CHECK_SAME(broken, 3);
    dibs_hold *hold = take_name(stage.client, NAME);
    for (int i = 0; i < 3; i++) {
        await_loss(readers[i]);
        peer_quit(readers[i]);
    }
    CHECK(dibs_held(hold));
    give(hold);
}

CASE(breaking, other_names_stay)
{
    if (breaking_refused()) {
        return;
    }
    dibs_hold *hold = take_name(stage.client, NAME);
    dibs_hold *near = take_name(stage.client, NAME " ");
    OK(dibs_break(NULL, stage.client, NAME, NULL, &oops));
    CHECK(dibs_held(near) && !is_free(stage.client, NAME " "));
    give(near);
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    /* that it was broken may be remembered, for the next one to hear; not for longer */
    give(take_name(stage.client, NAME));
}
