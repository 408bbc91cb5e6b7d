/* SPDX-License-Identifier: MIT */
/* Giving back: once, twice, too late, from elsewhere, later, never. */
#include "conform.h"

#define NAME "giving"

CASE(giving, twice)
{
    peer *other = peer_new();
    dibs_hold *hold = take_name(stage.client, NAME);
    OK(dibs_release(hold, &oops));
    CHECK_SAME(dibs_held(hold), 0);
    CHECK_SAME(dibs_remaining(hold), 0);
    GIVES(DIBS_ENOTHELD, dibs_release(hold, &oops));
    peer_take(other, NAME);
    /* it is somebody else's now, and stays theirs */
    GIVES(DIBS_ENOTHELD, dibs_release(hold, &oops));
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    GIVES(DIBS_ENOTHELD, dibs_unlock(hold, &oops));
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    peer_quit(other);
}

CASE(giving, free_releases)
{
    dibs_hold_free(take_name(stage.client, NAME));
    CHECK(is_free(stage.client, NAME));
    dibs_hold_free(NULL);
    dibs_abandon(NULL);
}

static void
give_in_thread(void *hold, int index)
{
    (void)index;
    give(hold);
}

CASE(giving, from_other_thread)
{
    dibs_hold *hold = take_name(stage.client, NAME);
    gang_join(gang_start(1, give_in_thread, hold));
    CHECK(is_free(stage.client, NAME));
    /* the thread that took it owns nothing any more: this is no re-entry */
    hold = take_name(stage.client, NAME);
    give(hold);
}

static void
release_in_thread(void *arg, int index)
{
    dibs_hold *hold = arg;
    int code = dibs_release(hold, &oops);
    (void)index;
    if (code == DIBS_OK) {
        atomic_fetch_add(&stage.shared->words[0], 1);
    } else {
        GIVES(DIBS_ENOTHELD, code);
    }
}

CASE(giving, by_many_threads)
{
    for (int i = 0; i < 10; i++) {
        dibs_hold *hold = take_name(stage.client, NAME);
        gang_join(gang_start(4, release_in_thread, hold));
        /* one of them gave it back, and one only */
        CHECK_SAME(atomic_load(&stage.shared->words[0]), i + 1);
        dibs_hold_free(hold);
    }
}

static void
count_call(dibs_hold *hold, void *arg)
{
    (void)hold;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

CASE(giving, after_loss)
{
    _Atomic int told = 0;
    dibs_request request = want(NAME);
    request.max_hold_ms = 50;
    request.on_lost = count_call;
    request.on_lost_arg = &told;
    dibs_hold *hold = take(stage.client, &request);
    CHECK(readable(dibs_lost_fd(hold, &oops), 50 + slowly(500)));
    peer *other = peer_new();
    peer_take(other, NAME);
    GIVES(DIBS_ELOST, dibs_release(hold, &oops));
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    dibs_hold_free(hold);
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    CHECK_SAME(atomic_load(&told), 1);
    peer_quit(other);
}

CASE(giving, nothing_is_told_after)
{
    _Atomic int told = 0;
    dibs_request request = brief_lease(NAME);
    request.max_hold_ms = stage.lease_ms / 2;
    request.on_lost = count_call;
    request.on_lost_arg = &told;
    dibs_hold *hold = take(stage.client, &request);
    int lost = dibs_lost_fd(hold, &oops);
    OK(dibs_release(hold, &oops));
    sleep_ms(stage.lease_ms + 100);
    CHECK_SAME(atomic_load(&told), 0);
    CHECK(lost < 0 || !readable(lost, 0));
    GIVES(DIBS_ENOTHELD, dibs_lost_fd(hold, &oops));
    dibs_hold_free(hold);
}

CASE(giving, after_close)
{
    dibs *client = open_client();
    dibs_hold *hold = take_name(client, NAME);
    dibs_close(client);
    CHECK_SAME(dibs_held(hold), 0);
    CHECK_SAME(dibs_remaining(hold), 0);
    CHECK(dibs_token(hold) != 0);
    CHECK(strcmp(dibs_hold_name(hold, NULL), NAME) == 0);
    CHECK(is_free(stage.client, NAME));
    GIVES(DIBS_ENOTHELD, dibs_release(hold, &oops));
    GIVES(DIBS_ENOTHELD, dibs_renew(hold, 0, &oops));
    GIVES(DIBS_ENOTHELD, dibs_unlock(hold, &oops));
}

CASE(giving, close_gives_all)
{
    dibs *client = open_client();
    dibs_hold *holds[4];
    const char *const names[4] = { "giving 1", "giving 2", "giving 3", "giving 4" };
    for (int i = 0; i < 4; i++) {
        holds[i] = take_name(client, names[i]);
    }
    int64_t from = now_ms();
    dibs_close(client);
    CHECK_WITHIN(now_ms() - from, 0, slowly(500));
    for (int i = 0; i < 4; i++) {
        CHECK(is_free(stage.client, names[i]));
        dibs_hold_free(holds[i]);
    }
}

CASE(giving, abandon)
{
    dibs_request request = brief_lease(NAME);
    peer *other = peer_new();
    OK(peer_acquire(other, 0, &request).code);
    peer_abandon(other, 0);
    CHECK(!is_free(stage.client, NAME));
    if (has(DIBS_CAP_LEASE)) {
        /* nothing renews it: it runs out while its process lives on */
        CHECK(comes_free(stage.client, NAME, stage.lease_ms + slowly(250)));
        peer_quit(other);
    } else {
        sleep_ms(2 * stage.lease_ms);
        CHECK(!is_free(stage.client, NAME));
        peer_kill(other);
        CHECK(comes_free(stage.client, NAME, death_limit_ms() + slowly(250)));
    }
}

CASE(giving, later)
{
    const uint32_t delay_ms = 150;
    dibs_hold *hold = take_name(stage.client, NAME);
    int64_t from = now_ms();
    if (!has(DIBS_CAP_LINGER)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_release_after(hold, delay_ms, &oops));
        CHECK(dibs_held(hold));
        give(hold);
        return;
    }
    OK(dibs_release_after(hold, delay_ms, &oops));
    CHECK_SAME(dibs_held(hold), 0);
    GIVES(DIBS_ENOTHELD, dibs_release(hold, &oops));
    dibs_hold_free(hold);
    /* also for the thread that had it */
    CHECK(!is_free(stage.client, NAME));
    hold = take_name(stage.client, NAME);
    CHECK_WITHIN(now_ms() - from, delay_ms - 1, delay_ms + slowly(150));
    if (has(DIBS_CAP_PREVIOUS)) {
        CHECK_SAME(dibs_previous(hold), DIBS_PREVIOUS_CLEAN);
    }
    give(hold);
}

CASE(giving, later_than_the_process)
{
    const uint32_t delay_ms = 300;
    peer *other = peer_new();
    peer_take(other, NAME);
    int64_t from = now_ms();
    if (!has(DIBS_CAP_LINGER)) {
        GIVES(DIBS_EUNSUPPORTED, peer_release_after(other, 0, delay_ms));
        peer_quit(other);
        return;
    }
    OK(peer_release_after(other, 0, delay_ms));
    peer_quit(other);
    dibs_hold *hold = take_name(stage.client, NAME);
    CHECK_WITHIN(now_ms() - from, delay_ms - 1, delay_ms + slowly(200));
    give(hold);
}
