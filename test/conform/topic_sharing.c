/* SPDX-License-Identifier: MIT */
/* Readers and writers: sharers together, writers alone and not starved; downgrade. */
#include "conform.h"

#define NAME "sharing"
#define READERS 8

/* what an engine without readers and writers answers; then there is no more to a case */
static int
sharing_refused(void)
{
    dibs_hold *hold = NULL;
    if (has(DIBS_CAP_SHARED)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED, dibs_rdlock(&hold, stage.client, NAME, &oops));
    CHECK(hold == NULL);
    return 1;
}

static dibs_request
reading(int64_t wait_ms)
{
    dibs_request request = want(NAME);
    request.mode = DIBS_SHARED;
    request.wait_ms = wait_ms;
    return request;
}

static void
read_together(void *arg, int index)
{
    dibs_request request = reading(slowly(5000));
    dibs_hold *hold = take(stage.client, &request);
    (void)index;
    /* nobody gets past this unless all are inside */
    pthread_barrier_wait(arg);
    give(hold);
}

CASE(sharing, readers_together)
{
    pthread_barrier_t all;
    if (sharing_refused()) {
        return;
    }
    pthread_barrier_init(&all, NULL, READERS);
    gang_join(gang_start(READERS, read_together, &all));
    pthread_barrier_destroy(&all);
}

CASE(sharing, modes_exclude)
{
    if (sharing_refused()) {
        return;
    }
    peer *other = peer_new();
    dibs_request read_now = reading(DIBS_WAIT_NONE), write_now = try_for(NAME);
    dibs_hold *hold = take(stage.client, &read_now);
    OK(peer_acquire(other, 0, &read_now).code);
    GIVES(DIBS_EDEADLOCK, peer_acquire(other, 1, &write_now).code);
    OK(peer_release(other, 0));
    GIVES(DIBS_EBUSY, peer_acquire(other, 1, &write_now).code);
    give(hold);
    OK(peer_acquire(other, 1, &write_now).code);
    hold = NULL;
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &read_now));
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &write_now));
    OK(peer_release(other, 1));
    hold = take(stage.client, &read_now);
    give(hold);
    peer_quit(other);
}

/* readers that overlap so that the lock is never free of them, until word 0 is set */
JOB(read_on)
{
    (void)args;
    while (atomic_load(&stage.shared->words[0]) == 0) {
        dibs_request request = reading(slowly(10000));
        dibs_hold *hold = take(client, &request);
        atomic_fetch_add(&stage.shared->words[1], 1);
        sleep_ms(10);
        give(hold);
    }
    return 0;
}

CASE(sharing, writer_is_not_starved)
{
    peer *readers[4];
    if (sharing_refused()) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        readers[i] = peer_new();
        peer_job_begin(readers[i], "read_on", NULL, 0);
        sleep_ms(3);
    }
    await_word(1, 4);
    for (int i = 0; i < 5; i++) {
        int64_t from = now_ms();
        dibs_hold *hold = take_name(stage.client, NAME);
        CHECK_WITHIN(now_ms() - from, 0, slowly(500));
        give(hold);
    }
    atomic_store(&stage.shared->words[0], 1);
    for (int i = 0; i < 4; i++) {
        CHECK_SAME(peer_end(readers[i]).value, 0);
        peer_quit(readers[i]);
    }
}

/* words 2 and 3: how many readers and writers are inside */
static void
visit_as(dibs *client, int writer)
{
    dibs_request request = writer ? want(NAME) : reading(slowly(10000));
    dibs_hold *hold = take(client, &request);
    _Atomic int64_t *mine = &stage.shared->words[writer ? 3 : 2];
    int64_t before = atomic_fetch_add(mine, 1);
    CHECK(!writer || before == 0);
    CHECK_SAME(atomic_load(&stage.shared->words[writer ? 2 : 3]), 0);
    if (writer) {
        guard_visit(&stage.shared->guards[0]);
    }
    atomic_fetch_sub(mine, 1);
    give(hold);
}

static void
mix_in_thread(void *client, int index)
{
    for (int i = 0; i < 40; i++) {
        visit_as(client, (i + index) % 4 == 0);
    }
}

JOB(mix)
{
    gang_join(gang_start((int)args[0], mix_in_thread, client));
    return 0;
}

CASE(sharing, mixed_crowd)
{
    const int64_t threads = 4;
    peer *peers[3];
    if (sharing_refused()) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        peers[i] = peer_new();
        peer_job_begin(peers[i], "mix", &threads, 1);
    }
    gang_join(gang_start(4, mix_in_thread, stage.client));
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    CHECK_SAME(stage.shared->guards[0].count, 16 * 10);
}

CASE(sharing, downgrade)
{
    dibs_request read_now = reading(DIBS_WAIT_NONE), write_now = try_for(NAME);
    dibs_hold *hold = take_name(stage.client, NAME);
    if (sharing_refused()) {
        GIVES(DIBS_EUNSUPPORTED, dibs_downgrade(hold, &oops));
        give(hold);
        return;
    }
    peer *other = peer_new();
    uint64_t token = dibs_token(hold);
    GIVES(DIBS_EBUSY, peer_acquire(other, 0, &read_now).code);
    OK(dibs_downgrade(hold, &oops));
    CHECK(dibs_held(hold) && dibs_token(hold) == token);
    GIVES(DIBS_EBUSY, peer_acquire(other, 0, &write_now).code);
    OK(peer_acquire(other, 0, &read_now).code);
    GIVES(DIBS_EINVAL, dibs_downgrade(hold, &oops));
    OK(peer_release(other, 0));
    give(hold);
    OK(peer_acquire(other, 0, &write_now).code);
    peer_quit(other);
}

CASE(sharing, downgrade_lets_readers_in)
{
    if (sharing_refused()) {
        return;
    }
    peer *readers[3];
    dibs_request request = reading(slowly(10000));
    dibs_hold *hold = take_name(stage.client, NAME);
    for (size_t i = 0; i < 3; i++) {
        readers[i] = peer_new();
        peer_acquire_begin(readers[i], 0, &request);
        await_waiters(NAME, i + 1);
    }
    int64_t from = now_ns();
    OK(dibs_downgrade(hold, &oops));
    for (int i = 0; i < 3; i++) {
        answer got = peer_end(readers[i]);
        OK(got.code);
        CHECK_WITHIN((got.at_ns - from) / 1000000, 0, slowly(200));
    }
    CHECK(dibs_held(hold));
    give(hold);
    for (int i = 0; i < 3; i++) {
        peer_quit(readers[i]);
    }
}

CASE(sharing, downgrade_refused)
{
    dibs_hold *outer = take_name(stage.client, NAME), *inner = NULL;
    if (sharing_refused()) {
        give(outer);
        return;
    }
    OK(dibs_lock(&inner, stage.client, NAME, &oops));
    GIVES(DIBS_EDEADLOCK, dibs_downgrade(outer, &oops));
    give(inner);
    OK(dibs_downgrade(outer, &oops));
    OK(dibs_release(outer, &oops));
    GIVES(DIBS_ENOTHELD, dibs_downgrade(outer, &oops));
    dibs_hold_free(outer);
}
