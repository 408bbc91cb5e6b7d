/* SPDX-License-Identifier: MIT */
/* What an engine cannot do is refused before it is asked, and what is held stays held. */
#include "unit.h"

#include "core/registry.h"

static dibs_error err;
static dibs *client;
static dibs_hold *hold;

#define UNSUPPORTED(part, call)                                                          \
    do {                                                                                 \
        memset(&err, 0, sizeof err);                                                     \
        assert_int_equal((call), DIBS_EUNSUPPORTED);                                     \
        assert_says(&err, DIBS_EUNSUPPORTED, part);                                      \
    } while (0)

static int
look(const dibs_report *report, void *arg)
{
    (void)report, (void)arg;
    return 0;
}

static int
see(const dibs_party *leader, void *arg)
{
    (void)leader, (void)arg;
    return 1;
}

CASE(shared_and_permits)
{
    client = unit_open("mock://unit?caps=-shared,-permits", NULL);
    assert_int_equal(dibs_caps(client) & (DIBS_CAP_SHARED | DIBS_CAP_PERMITS), 0);
    UNSUPPORTED("mock has no shared mode", dibs_rdlock(&hold, client, "x", &err));
    UNSUPPORTED("mock has no semaphores", dibs_permit(&hold, client, "x", 2, &err));
    assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
    UNSUPPORTED("shared mode", dibs_downgrade(hold, &err));
    assert_int_equal(dibs_held(hold), 1);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(cells_and_fence)
{
    dibs_cell cell;
    client = unit_open("mock://unit?caps=-cell", NULL);
    UNSUPPORTED("mock has no cells", dibs_cell_read(&cell, client, "c", &err));
    UNSUPPORTED("mock has no cells", dibs_cell_swap(NULL, client, "c", 0, "v", 1, &err));
    UNSUPPORTED("mock has no cells", dibs_fence(client, "c", 1, &err));
    dibs_close(client);
}

CASE(looking_and_breaking)
{
    dibs_report *report;
    client = unit_open("mock://unit?caps=-inspect,-break", NULL);
    UNSUPPORTED("mock cannot look at locks", dibs_inspect(&report, client, "x", &err));
    UNSUPPORTED("mock cannot list locks", dibs_list(client, NULL, look, NULL, &err));
    UNSUPPORTED("mock cannot break locks", dibs_break(NULL, client, "x", NULL, &err));
    UNSUPPORTED("mock cannot", dibs_observe(client, "x", see, NULL, 5, NULL, &err));
    dibs_close(client);
}

CASE(lingering)
{
    client = unit_open("mock://unit?caps=-linger", NULL);
    assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
    UNSUPPORTED("cannot keep a lock after its release",
                dibs_release_after(hold, 100, &err));
    assert_int_equal(dibs_held(hold), 1);
    assert_int_equal(dibs_release_after(hold, 0, &err), DIBS_OK); /* no delay at all */
    assert_int_equal(dibs_held(hold), 0);
    dibs_hold_free(hold);
    unit_is_free("mock://unit", "x");
    dibs_close(client);
}

CASE(leases)
{
    client = unit_open("mock://unit?caps=-lease", NULL);
    assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
    assert_true(dibs_remaining(hold) == INT64_MAX);
    assert_int_equal(dibs_renew(hold, 1, &err), DIBS_OK);
    assert_true(dibs_remaining(hold) == INT64_MAX);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

/* mock:, but for its scheme and the shortest lease it takes */
static void
add_slow_engine(void)
{
    static const char *const schemes[] = { "slow", NULL };
    const dibs_engine *mock;
    assert_int_equal(dibs__registry_find(&mock, "mock", NULL, &err), DIBS_OK);
    dibs_engine engine = *mock;
    engine.name = "slow";
    engine.schemes = schemes;
    engine.min_lease_ms = 100;
    assert_int_equal(dibs__registry_add(&engine, &err), DIBS_OK);
}

CASE(shortest_lease)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_options options = DIBS_OPTIONS_INIT;
    add_slow_engine();
    client = unit_open("slow://unit", NULL);
    request.name = "x";
    request.lease_ms = 99;
    assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "lease_ms is 99, engine slow needs 100 at least");
    request.lease_ms = 100;
    assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
    options.lease_ms = 50;
    client = unit_open("slow://unit", &options);
    assert_int_equal(dibs_lock(&hold, client, "x", &err), DIBS_EINVAL);
    dibs_close(client);
}

CASE(shortest_lease_when_renewing)
{
    add_slow_engine();
    client = unit_open("slow://unit", NULL);
    assert_int_equal(dibs_lock(&hold, client, "x", &err), DIBS_OK);
    assert_int_equal(dibs_renew(hold, 99, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "lease_ms is 99, engine slow needs 100 at least");
    assert_int_equal(dibs_held(hold), 1);
    assert_true(dibs_remaining(hold) > 20000); /* as it was */
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(downgrade_of_what_cannot_be)
{
    dibs_hold *inner;
    for (const char *const *url = unit_urls(); *url; url++) {
        client = unit_open(*url, NULL);
        assert_int_equal(dibs_rdlock(&hold, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_downgrade(hold, &err), DIBS_EINVAL);
        assert_says(&err, DIBS_EINVAL, "exclusive");
        assert_int_equal(dibs_trylock(&inner, client, "x", &err), DIBS_EDEADLOCK);
        assert_says(&err, DIBS_EDEADLOCK, "cannot lock 'x' at ");
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_lock(&inner, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_downgrade(hold, &err), DIBS_EDEADLOCK);
        assert_int_equal(dibs_downgrade(inner, &err), DIBS_EDEADLOCK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        assert_int_equal(dibs_downgrade(inner, &err), DIBS_OK);
        assert_int_equal(dibs_unlock(inner, NULL), DIBS_OK);
        unit_is_free(*url, "x");
        dibs_close(client);
    }
}
