/* SPDX-License-Identifier: MIT */
/*
 * Failing allocations. Each scenario runs with the first allocation failing, then with the
 * second, and so on until it succeeds. Whatever fails must say DIBS_ENOMEM, and after it
 * nothing may be held and nothing be leaked (the address sanitizer looks at that).
 */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/mem.h"

#define SWEEP_MAX 500

static dibs_error err;

typedef int scenario(dibs *client);

/* everything that a scenario locks */
static const char *const names[] = { "a", "b", "c" };

static int
run_once(const char *url, scenario *scene)
{
    dibs *client = NULL;
    int rc = dibs_open(&client, url, NULL, &err);
    if (!rc)
        rc = scene(client);
    dibs_close(client);
    return rc;
}

static void
sweep(const char *url, scenario *scene)
{
    int rc = DIBS_ENOMEM;
    int64_t n = 0;
    for (; n < SWEEP_MAX && rc; n++) {
        memset(&err, 0, sizeof err);
        dibs__alloc_fail_after(n);
        rc = run_once(url, scene);
        dibs__alloc_fail_after(-1);
        if (rc && rc != DIBS_ENOMEM)
            fail_msg("%s, allocation %lld: %s: %s", url, (long long)n, dibs_errname(rc),
                     err.text);
        if (rc)
            assert_says(&err, DIBS_ENOMEM, "");
        for (size_t i = 0; i < COUNT(names); i++)
            unit_is_free(url, names[i]);
    }
    if (rc)
        fail_msg("%s: never succeeds", url);
    assert_true(n > 3); /* there was something to fail */
}

/* keeps mock:'s service from ending with its last client, as a real one would not */
static void
sweep_all(scenario *scene)
{
    dibs *keeps_service = unit_open(unit_mock(), NULL);
    for (const char *const *url = unit_urls(); *url; url++)
        sweep(*url, scene);
    dibs_close(keeps_service);
}

/* gives back a hold; a release needs no memory */
static int
give_back(dibs_hold *hold, int rc)
{
    if (hold)
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    return rc;
}

static int
lock_and_unlock(dibs *client)
{
    dibs_hold *hold = NULL, *again = NULL;
    int rc = dibs_lock(&hold, client, "a", &err);
    if (!rc)
        rc = dibs_lock(&again, client, "a", &err);
    if (rc && hold)
        assert_int_equal(dibs_held(hold), 1);
    rc = give_back(again, rc);
    return give_back(hold, rc);
}

CASE(lock)
{
    sweep_all(lock_and_unlock);
}

static int
lock_with_everything(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_canceller *cancel = NULL;
    dibs_hold *hold = NULL;
    int rc = dibs_canceller_new(&cancel, &err);
    request.name = "a";
    request.owner = "me";
    request.note = "why";
    request.cancel = cancel;
    request.max_hold_ms = 60000;
    if (!rc)
        rc = dibs_acquire(&hold, client, &request, &err);
    if (!rc) {
        int fd = dibs_lost_fd(hold, &err);
        rc = fd < 0 ? fd : DIBS_OK;
    }
    rc = give_back(hold, rc);
    dibs_canceller_free(cancel);
    return rc;
}

CASE(lock_with_note_and_owner)
{
    sweep_all(lock_with_everything);
}

static int
lock_all(dibs *client)
{
    dibs_wanted wanted[COUNT(names)];
    dibs_hold *holds[COUNT(names)];
    memset(wanted, 0, sizeof wanted);
    for (size_t i = 0; i < COUNT(names); i++) {
        wanted[i].client = client;
        wanted[i].request.name = names[i];
        wanted[i].request.note = "all";
    }
    int rc = dibs_acquire_all(holds, wanted, COUNT(names), 5000, &err);
    for (size_t i = 0; i < COUNT(names) && !rc; i++)
        assert_int_equal(dibs_unlock(holds[i], NULL), DIBS_OK);
    return rc;
}

CASE(acquire_all)
{
    sweep_all(lock_all);
}

static int
lock_async(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_op *op = NULL;
    dibs_hold *hold = NULL;
    request.name = "a";
    request.owner = "me";
    request.note = "why";
    int rc = dibs_acquire_async(&op, client, &request, NULL, NULL, &err);
    if (!rc)
        rc = dibs_op_finish(&hold, op, &err);
    return give_back(hold, rc);
}

CASE(async)
{
    sweep_all(lock_async);
}

static int
count_reports(const dibs_report *report, void *arg)
{
    if (report->holder_count)
        ++*(int *)arg;
    return 0;
}

static int
look(dibs *client)
{
    dibs_hold *holds[2] = { NULL, NULL };
    dibs_report *report;
    int seen = 0;
    int rc = dibs_lock(&holds[0], client, "a", &err);
    if (!rc)
        rc = dibs_campaign(&holds[1], client, "b", "leader", 5000, &err);
    if (!rc)
        rc = dibs_inspect(&report, client, "a", &err);
    if (!rc) {
        assert_int_equal(report->holder_count, 1);
        dibs_report_free(report);
        rc = dibs_list(client, NULL, count_reports, &seen, &err);
    }
    if (!rc)
        assert_int_equal(seen, 2);
    rc = give_back(holds[1], rc);
    return give_back(holds[0], rc);
}

CASE(inspect_and_list)
{
    sweep_all(look);
}

static int
see_leader(const dibs_party *leader, void *arg)
{
    *(int *)arg = leader && strcmp(leader->note, "leader") == 0;
    return 1;
}

static int
observe(dibs *client)
{
    dibs_hold *hold = NULL;
    int seen = 0;
    int rc = dibs_campaign(&hold, client, "a", "leader", 5000, &err);
    if (!rc)
        rc = dibs_observe(client, "a", see_leader, &seen, 5000, NULL, &err);
    if (rc == 1) {
        assert_int_equal(seen, 1);
        rc = DIBS_OK;
    }
    return give_back(hold, rc);
}

CASE(observe_once)
{
    sweep_all(observe);
}

static int
swap(dibs *client)
{
    static unsigned count;
    dibs_cell cell;
    char name[32];
    uint64_t version = 0;
    (void)snprintf(name, sizeof name, "cell/%u", count++);
    int rc = dibs_cell_swap(&version, client, name, 0, "v1", 2, &err);
    if (rc)
        return rc;
    rc = dibs_cell_swap(&version, client, name, version, "v2", 2, &err);
    if (rc)
        return rc;
    rc = dibs_cell_read(&cell, client, name, &err);
    assert_true(rc || (cell.len == 2 && memcmp(cell.value, "v2", 2) == 0));
    return rc;
}

CASE(cells)
{
    sweep_all(swap);
}

static int
fence(dibs *client)
{
    static unsigned count;
    char name[32];
    (void)snprintf(name, sizeof name, "fence/%u", count++);
    int rc = dibs_fence(client, name, 5, &err);
    if (!rc)
        rc = dibs_fence(client, name, 6, &err);
    if (!rc)
        assert_int_equal(dibs_fence(client, name, 5, NULL), DIBS_ESTALE);
    return rc;
}

CASE(fences)
{
    sweep_all(fence);
}

static void
count_loss(dibs_hold *hold, void *arg)
{
    CHECK_SAME(dibs_held(hold), 0);
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* being told of a loss must work without memory */
static int
lose(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    _Atomic int told = 0;
    request.name = "a";
    request.on_lost = count_loss;
    request.on_lost_arg = (void *)&told;
    int rc = dibs_acquire(&hold, client, &request, &err);
    if (rc)
        return rc;
    rc = dibs_break(NULL, client, "a", NULL, &err);
    for (int i = 0; !rc && i < 4000 && !atomic_load(&told); i++)
        sleep_ms(1);
    assert_int_equal(atomic_load(&told), rc ? 0 : 1);
    assert_int_equal(dibs_unlock(hold, NULL), rc ? DIBS_OK : DIBS_ELOST);
    return rc;
}

CASE(told_of_a_loss)
{
    sweep_all(lose);
}

/* a wait that finds the lock taken, and the hand-over inside the process */
struct pair {
    dibs *client;
    dibs_hold *first;
    _Atomic int rc;
};

static void
wait_behind(void *arg, int index)
{
    struct pair *pair = arg;
    dibs_hold *hold;
    (void)index;
    int rc = dibs_timedlock(&hold, pair->client, "a", 10000, NULL);
    atomic_store(&pair->rc, rc);
    if (!rc)
        CHECK_SAME(dibs_unlock(hold, NULL), DIBS_OK);
}

static int
lock_behind(dibs *client)
{
    struct pair pair = { .client = client };
    int rc = dibs_lock(&pair.first, client, "a", &err);
    if (rc)
        return rc;
    gang *one = gang_start(1, wait_behind, &pair);
    sleep_ms(2);
    assert_int_equal(dibs_unlock(pair.first, NULL), DIBS_OK);
    gang_join(one);
    rc = atomic_load(&pair.rc);
    return rc ? (err.code = rc) : rc;
}

CASE(waiting)
{
    sweep_all(lock_behind);
}
