/* SPDX-License-Identifier: MIT */
/*
 * What may be called in a signal handler: dibs_held, dibs_token and dibs_remaining, on
 * holds that other threads renew, while the interrupted thread itself locks and unlocks.
 */
#include "unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

static dibs_hold *kept;
static uint64_t kept_token;
static _Atomic int storm, wrong;
static _Atomic int stop;

static void
look(int number)
{
    (void)number;
    int64_t left = dibs_remaining(kept);
    if (!dibs_held(kept) || dibs_token(kept) != kept_token || left < 0)
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&storm, 1);
}

static void
start_storm(int64_t every_us)
{
    struct sigaction action = { .sa_handler = look, .sa_flags = SA_RESTART };
    struct itimerval timer = { { 0, every_us }, { 0, every_us } };
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void
end_storm(void)
{
    struct itimerval none = { { 0, 0 }, { 0, 0 } };
    assert_int_equal(setitimer(ITIMER_REAL, &none, NULL), 0);
}

static void
renew_all_the_time(void *arg, int index)
{
    sigset_t all;
    (void)arg, (void)index;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* the storm is for the main thread */
    while (!atomic_load(&stop)) {
        CHECK_SAME(dibs_renew(kept, 0, NULL), DIBS_OK);
        sleep_ms(1);
    }
}

static void
work_in_the_storm(const char *url)
{
    dibs *client = unit_open(url, NULL);
    assert_int_equal(dibs_lock(&kept, client, "kept", NULL), DIBS_OK);
    kept_token = dibs_token(kept);
    gang *renewer = gang_start(1, renew_all_the_time, NULL);
    atomic_store(&storm, 0);
    start_storm(500);
    int64_t end = now_ms() + 3000;
    while (atomic_load(&storm) < 500 && now_ms() < end) {
        dibs_hold *hold;
        assert_int_equal(dibs_lock(&hold, client, "other", NULL), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        assert_int_equal(dibs_lock(&hold, client, "kept", NULL), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    }
    end_storm();
    atomic_store(&stop, 1);
    gang_join(renewer);
    atomic_store(&stop, 0);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(atomic_load(&storm) >= 100);
    assert_int_equal(dibs_unlock(kept, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(held_and_token_in_a_handler)
{
    for (const char *const *url = unit_urls(); *url; url++)
        work_in_the_storm(*url);
}

static _Atomic int64_t last_held, revived;

static void
watch_it_end(int number)
{
    (void)number;
    int held = dibs_held(kept);
    if (held && atomic_load(&last_held) == 0)
        atomic_store(&revived, 1);
    atomic_store(&last_held, held);
    atomic_fetch_add(&storm, 1);
}

/* a lease that runs out under the eyes of a handler: once 0, it stays 0 */
CASE(loss_seen_in_a_handler)
{
    dibs *client = unit_open(unit_mock(), NULL);
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = "kept";
    request.lease_ms = 200;
    request.flags = DIBS_NO_RENEW;
    assert_int_equal(dibs_acquire(&kept, client, &request, NULL), DIBS_OK);
    atomic_store(&last_held, 1);
    start_storm(500);
    struct sigaction action = { .sa_handler = watch_it_end, .sa_flags = SA_RESTART };
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    int64_t end = now_ms() + 300;
    while (now_ms() < end) {
        int rc = dibs_renew(kept, 0, NULL);
        assert_true(rc == DIBS_OK || rc == DIBS_ELOST);
        if (now_ms() > end - 250)
            sleep_ms(5);
    }
    for (int i = 0; i < 4000 && atomic_load(&last_held); i++)
        sleep_ms(1);
    end_storm();
    assert_int_equal(atomic_load(&last_held), 0);
    assert_int_equal(atomic_load(&revived), 0);
    assert_int_equal(dibs_held(kept), 0);
    assert_int_equal(dibs_unlock(kept, NULL), DIBS_ELOST);
    dibs_close(client);
}
