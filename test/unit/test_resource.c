/* SPDX-License-Identifier: MIT */
/*
 * No threads and no descriptors to be had: as with memory, what needs one says DIBS_ENOMEM
 * and leaves nothing behind, and what was granted is not lost by it. The linker's --wrap
 * puts our thread_start before core's.
 */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/sys.h"

static _Atomic int threads_left = 1000;

int __real_dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *),
                              void *arg, int detached);
int __wrap_dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *),
                              void *arg, int detached);

int
__wrap_dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *),
                          void *arg, int detached)
{
    if (atomic_fetch_sub(&threads_left, 1) <= 0)
        return EAGAIN;
    return __real_dibs__thread_start(out, name, run, arg, detached);
}

static dibs_error err;

/* ---- threads ---- */

CASE(no_thread_for_the_keeper)
{
    dibs *keeps_service = unit_open(unit_mock(), NULL);
    int rc = DIBS_ENOMEM, n = 0;
    for (; n < 10 && rc; n++) {
        dibs *client = unit_open(unit_mock(), NULL);
        dibs_hold *hold;
        atomic_store(&threads_left, n);
        rc = dibs_lock(&hold, client, "x", &err);
        atomic_store(&threads_left, 1000);
        if (rc)
            assert_says(&err, DIBS_ENOMEM, "thread");
        else
            assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        unit_is_free(unit_mock(), "x");
        dibs_close(client);
    }
    assert_int_equal(rc, DIBS_OK);
    assert_int_equal(n, 3); /* the keeper's and the alarm's */
    dibs_close(keeps_service);
}

CASE(keeper_starts_at_the_second_try)
{
    dibs *client = unit_open(unit_mock(), NULL);
    dibs_hold *hold;
    for (int n = 0; n < 2; n++) {
        atomic_store(&threads_left, n);
        assert_int_equal(dibs_lock(&hold, client, "x", &err), DIBS_ENOMEM);
    }
    atomic_store(&threads_left, 1000);
    assert_int_equal(dibs_lock(&hold, client, "x", &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(no_thread_for_an_op)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_request request = DIBS_REQUEST_INIT;
        dibs_op *op = NULL;
        request.name = "x";
        atomic_store(&threads_left, 0);
        assert_int_equal(dibs_acquire_async(&op, client, &request, NULL, NULL, &err),
                         DIBS_ENOMEM);
        assert_says(&err, DIBS_ENOMEM, "cannot start a thread");
        assert_null(op);
        atomic_store(&threads_left, 1000);
        unit_is_free(*url, "x");
        dibs_close(client); /* does not wait for an op that never was */
    }
}

static void
count_loss(dibs_hold *hold, void *arg)
{
    CHECK_SAME(dibs_held(hold), 0);
    atomic_fetch_add((_Atomic int *)arg, 1);
}

CASE(no_thread_to_tell_a_loss)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_request request = DIBS_REQUEST_INIT;
        dibs_hold *hold;
        _Atomic int told = 0;
        request.name = "x";
        request.on_lost = count_loss;
        request.on_lost_arg = (void *)&told;
        assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
        atomic_store(&threads_left, 0);
        assert_int_equal(dibs_break(NULL, client, "x", NULL, NULL), DIBS_OK);
        for (int i = 0; i < 4000 && !atomic_load(&told); i++)
            sleep_ms(1);
        atomic_store(&threads_left, 1000);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_ELOST);
        assert_int_equal(atomic_load(&told), 1);
        dibs_close(client);
    }
}

/* ---- descriptors ---- */

static rlim_t descriptors_before;

static void
allow_descriptors(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (!descriptors_before)
        descriptors_before = limit.rlim_cur;
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

CASE(no_descriptor)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_request request = DIBS_REQUEST_INIT;
        dibs_hold *hold;
        dibs_op *op = NULL;
        dibs *other = NULL;
        request.name = "y";
        assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
        allow_descriptors(0);
        int lost_fd = dibs_lost_fd(hold, &err);
        int lost_code = err.code;
        int async = dibs_acquire_async(&op, client, &request, NULL, NULL, &err);
        int held = dibs_held(hold);
        int opened = dibs_open(&other, unit_local(), NULL, &err);
        allow_descriptors(descriptors_before);
        assert_int_equal(lost_fd, DIBS_ENOMEM);
        assert_int_equal(lost_code, DIBS_ENOMEM);
        assert_int_equal(async, DIBS_ENOMEM);
        assert_int_equal(held, 1);
        assert_int_not_equal(opened, DIBS_OK);
        assert_null(other);
        /* and once there are some again */
        lost_fd = dibs_lost_fd(hold, &err);
        assert_true(lost_fd >= 0);
        assert_int_equal(dibs_lost_fd(hold, &err), lost_fd); /* one per hold */
        struct pollfd poll_one = { lost_fd, POLLIN, 0 };
        assert_int_equal(poll(&poll_one, 1, 0), 0);
        assert_int_equal(dibs_break(NULL, client, "x", NULL, NULL), DIBS_OK);
        assert_int_equal(poll(&poll_one, 1, 10000), 1);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_ELOST);
        unit_is_free(*url, "y");
        dibs_close(client);
    }
}

/* asked for only after the loss, it is readable at once */
CASE(descriptor_after_the_loss)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_hold *hold;
        assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_break(NULL, client, "x", NULL, NULL), DIBS_OK);
        for (int i = 0; i < 4000 && dibs_held(hold); i++)
            sleep_ms(1);
        assert_int_equal(dibs_held(hold), 0);
        int fd = dibs_lost_fd(hold, &err);
        assert_true(fd >= 0);
        struct pollfd poll_one = { fd, POLLIN, 0 };
        assert_int_equal(poll(&poll_one, 1, 10000), 1);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_ELOST);
        dibs_close(client);
    }
}

static void
use_once(const char *url)
{
    dibs *client = unit_open(url, NULL);
    dibs_hold *hold;
    assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
    assert_true(dibs_lost_fd(hold, NULL) >= 0);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(nothing_is_left_open)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        use_once(*url); /* what is made once: a module, a sanitizer's thread */
        int fds = count_fds(), threads = count_threads();
        for (int i = 0; i < 50; i++)
            use_once(*url);
        assert_int_equal(count_fds(), fds);
        assert_true(threads_settle(threads, slowly(2000)) <= threads);
    }
}
