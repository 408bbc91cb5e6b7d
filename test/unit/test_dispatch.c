/* SPDX-License-Identifier: MIT */
/*
 * core/dispatch.c: every call of an engine can be made to fail before and after it, is
 * traced, and fails in whole sentences. In order: faults and how each verb is reached,
 * replies that are lost, texts, tracing.
 */
#include "unit.h"

#include <stdio.h>

#include "core/core.h"

/* ---- faults ---- */

/* guarded by its mutex: the keeper comes here too */
static struct {
    dibs__mutex mutex;
    const char *verb;
    int after, code;
    int times;  /* how often it strikes yet */
    int struck; /* how often it has */
    int saw_code;
} fault = { .mutex = DIBS__MUTEX_INIT, .verb = "none" };

static int
strike(const dibs__fault_point *point, void *arg)
{
    int verdict = 1;
    CHECK(arg == &fault);
    dibs__mutex_lock(&fault.mutex);
    if (strcmp(point->verb, fault.verb) == 0 && point->after == fault.after &&
        fault.times > 0) {
        fault.times--;
        fault.struck++;
        fault.saw_code = point->code;
        verdict = fault.code;
    }
    dibs__mutex_unlock(&fault.mutex);
    return verdict;
}

static void
plan(const char *verb, int after, int code, int times)
{
    dibs__mutex_lock(&fault.mutex);
    fault.verb = verb;
    fault.after = after;
    fault.code = code;
    fault.times = times;
    fault.struck = 0;
    dibs__mutex_unlock(&fault.mutex);
}

static int
struck(void)
{
    dibs__mutex_lock(&fault.mutex);
    int count = fault.struck;
    dibs__mutex_unlock(&fault.mutex);
    return count;
}

/* ---- one way to reach each verb ---- */

static dibs *client;
static dibs_hold *hold; /* of "held" */
static dibs_error err;

static int
lock(void)
{
    dibs_hold *other;
    int rc = dibs_trylock(&other, client, "n", &err);
    if (!rc)
        (void)dibs_unlock(other, NULL);
    return rc;
}

static int
renew(void)
{
    return dibs_renew(hold, 0, &err);
}

static int
downgrade(void)
{
    return dibs_downgrade(hold, &err);
}

static int
inspect(void)
{
    dibs_report *report;
    int rc = dibs_inspect(&report, client, "n", &err);
    if (!rc)
        dibs_report_free(report);
    return rc;
}

static int
ignore(const dibs_report *report, void *arg)
{
    (void)report, (void)arg;
    return 0;
}

static int
list(void)
{
    return dibs_list(client, NULL, ignore, NULL, &err);
}

static int
evict(void)
{
    return dibs_break(NULL, client, "n", NULL, &err);
}

static int
cell_read(void)
{
    dibs_cell cell;
    return dibs_cell_read(&cell, client, "n", &err);
}

static int
cell_swap(void)
{
    return dibs_cell_swap(NULL, client, "n", 0, "v", 1, &err);
}

static const struct {
    const char *verb;
    int (*call)(void);
    const char *says;
} verbs[] = {
    { "attempt", lock, "cannot lock 'n' at " },
    { "renew", renew, "cannot renew 'held' at " },
    { "downgrade", downgrade, "cannot downgrade 'held' at " },
    { "inspect", inspect, "cannot inspect 'n' at " },
    { "list", list, "cannot list locks at " },
    { "evict", evict, "cannot break 'n' at " },
    { "cell_read", cell_read, "cannot read cell 'n' at " },
    { "cell_swap", cell_swap, "cannot change cell 'n' at " },
};

static void
strike_everywhere(const char *url, int after, int code)
{
    char tail[64];
    (void)snprintf(tail, sizeof tail, ": %s", dibs_strerror(code));
    plan("none", 0, 0, 0);
    dibs__set_fault(strike, &fault);
    client = unit_open(url, NULL);
    assert_int_equal(dibs_lock(&hold, client, "held", NULL), DIBS_OK);
    for (size_t i = 0; i < COUNT(verbs); i++) {
        plan(verbs[i].verb, after, code, 1);
        memset(&err, 0, sizeof err);
        if (verbs[i].call() != code)
            fail_msg("%s: %s", verbs[i].verb, err.text);
        assert_int_equal(struck(), 1);
        assert_says(&err, code, verbs[i].says);
        assert_says(&err, code, tail);
        assert_string_equal(err.engine, dibs_engine_name(client));
    }
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
    unit_is_free(url, "held");
    unit_is_free(url, "n");
}

CASE(faults_before_the_call)
{
    for (const char *const *url = unit_urls(); *url; url++)
        strike_everywhere(*url, 0, DIBS_EDENIED);
}

CASE(faults_after_the_call)
{
    strike_everywhere(unit_mock(), 1, DIBS_EDENIED);
}

CASE(opening)
{
    dibs *none = (dibs *)&err;
    plan("open", 0, DIBS_EUNAVAIL, 2);
    dibs__set_fault(strike, &fault);
    assert_int_equal(dibs_open(&none, unit_mock(), NULL, &err), DIBS_EUNAVAIL);
    assert_says(&err, DIBS_EUNAVAIL, "cannot open at mock://unit: the engine cannot be");
    assert_int_equal(dibs_open(&none, unit_mock(), NULL, NULL), DIBS_EUNAVAIL);
    assert_ptr_equal(none, &err);
    dibs__set_fault(NULL, NULL);
}

/* a grant whose reply was lost is asked for again, not taken twice */
CASE(lost_reply_of_a_grant)
{
    plan("attempt", 1, DIBS_EUNKNOWN, 1);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_mock(), NULL);
    assert_int_equal(dibs_timedlock(&hold, client, "n", 5000, &err), DIBS_OK);
    assert_int_equal(fault.saw_code, DIBS_OK);
    assert_int_equal(dibs_held(hold), 1);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    unit_is_free(unit_mock(), "n");
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

/* ... and if nobody waits for it, it is given back */
CASE(lost_reply_is_withdrawn)
{
    plan("attempt", 1, DIBS_EUNKNOWN, 2);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_mock(), NULL);
    assert_int_equal(dibs_trylock(&hold, client, "n", &err), DIBS_EUNAVAIL);
    unit_is_free(unit_mock(), "n");
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

/* one reply may be lost with a connection that was closed meanwhile: asked again at once */
CASE(lost_reply_is_asked_again)
{
    plan("attempt", 1, DIBS_EUNKNOWN, 1);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_mock(), NULL);
    assert_int_equal(dibs_trylock(&hold, client, "n", &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, &err), DIBS_OK);
    unit_is_free(unit_mock(), "n");
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

/* a release whose reply was lost is repeated by the reaper */
CASE(lost_release_is_repeated)
{
    plan("release", 0, DIBS_EUNKNOWN, 1);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_mock(), NULL);
    assert_int_equal(dibs_lock(&hold, client, "n", NULL), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, &err), DIBS_EUNKNOWN);
    assert_says(&err, DIBS_EUNKNOWN, "cannot release 'n' at ");
    dibs *other = unit_open(unit_mock(), NULL);
    assert_int_equal(dibs_timedlock(&hold, other, "n", 5000, &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(other);
    dibs_stats stats;
    for (int i = 0; i < 1000 && (dibs_stats_read(&stats, client), !stats.reaped); i++)
        sleep_ms(5);
    assert_int_equal(stats.reaped, 1);
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

/* ---- texts ---- */

CASE(what_the_engine_said)
{
    client = unit_open("mock://unit?deny=secret%2fplans", NULL);
    assert_int_equal(dibs_trylock(&hold, client, "secret/plans", &err), DIBS_EDENIED);
    assert_says(&err, DIBS_EDENIED, "cannot lock 'secret/plans' at ");
    assert_string_equal(err.engine, "mock");
    assert_int_equal(dibs_trylock(&hold, client, "secret/plans", NULL), DIBS_EDENIED);
    dibs_close(client);
}

CASE(busy_and_timed_out)
{
    client = unit_open(unit_local(), NULL);
    dibs *other = unit_open(unit_local(), NULL);
    char want[400];
    assert_int_equal(dibs_lock(&hold, client, "a\nb", NULL), DIBS_OK);
    dibs_hold *second = NULL;
    assert_int_equal(dibs_trylock(&second, other, "a\nb", &err), DIBS_EBUSY);
    (void)snprintf(want, sizeof want, "cannot lock 'a\\x0ab' at %s: somebody else has it",
                   unit_local());
    assert_string_equal(err.text, want);
    assert_int_equal(dibs_timedlock(&second, other, "a\nb", 20, &err), DIBS_ETIMEDOUT);
    assert_says(&err, DIBS_ETIMEDOUT, ": timed out after 20ms");
    assert_null(second);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(other);
    dibs_close(client);
}

CASE(long_names_leave_room_for_the_reason)
{
    char name[DIBS_NAME_MAX + 1];
    memset(name, '\t', DIBS_NAME_MAX);
    name[DIBS_NAME_MAX] = '\0';
    plan("attempt", 0, DIBS_EDENIED, 1);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_local(), NULL);
    assert_int_equal(dibs_trylock(&hold, client, name, &err), DIBS_EDENIED);
    assert_says(&err, DIBS_EDENIED, ": permission denied");
    assert_says(&err, DIBS_EDENIED, unit_folder());
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

/* printing it once more would escape half a character */
static void
assert_whole_characters(void)
{
    if (dibs_name_print(NULL, 0, err.text, strlen(err.text)) != strlen(err.text))
        fail_msg("half a character in '%s'", err.text);
}

CASE(long_names_are_cut_between_characters)
{
    char name[402];
    plan("attempt", 0, DIBS_EDENIED, 4);
    dibs__set_fault(strike, &fault);
    client = unit_open(unit_local(), NULL);
    dibs *other = unit_open(unit_local(), NULL);
    for (size_t first = 0; first < 4; first++) {
        memset(name, 'a', sizeof name);
        for (size_t i = first; i + 4 < sizeof name; i += 4)
            memcpy(name + i, "\xf0\x9f\x94\x92", 4);
        name[sizeof name - 1] = '\0';
        assert_int_equal(dibs_trylock(&hold, client, name, &err), DIBS_EDENIED);
        assert_whole_characters();
    }
    assert_int_equal(dibs_trylock(&hold, client, name, &err), DIBS_OK);
    dibs_hold *second;
    assert_int_equal(dibs_trylock(&second, other, name, &err), DIBS_EBUSY);
    assert_whole_characters();
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(other);
    dibs_close(client);
    dibs__set_fault(NULL, NULL);
}

CASE(success_leaves_the_error_alone)
{
    dibs_error before;
    memset(&err, 'x', sizeof err);
    before = err;
    for (const char *const *url = unit_urls(); *url; url++) {
        assert_int_equal(dibs_open(&client, *url, NULL, &err), DIBS_OK);
        assert_int_equal(dibs_lock(&hold, client, "held", &err), DIBS_OK);
        assert_int_equal(lock(), DIBS_OK);
        assert_int_equal(renew(), DIBS_OK);
        assert_int_equal(downgrade(), DIBS_OK);
        assert_int_equal(inspect(), DIBS_OK);
        assert_int_equal(list(), DIBS_OK);
        assert_int_equal(cell_swap(), DIBS_OK);
        assert_int_equal(cell_read(), DIBS_OK);
        assert_int_equal(dibs_fence(client, "r", 7, &err), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, &err), DIBS_OK);
        assert_memory_equal(&err, &before, sizeof err);
        dibs_close(client);
    }
}

/* ---- tracing ---- */

static struct {
    dibs__mutex mutex;
    int count;
    struct {
        char verb[16], name[32], text[160];
        int code;
        int64_t took_us;
    } events[256];
} traced = { .mutex = DIBS__MUTEX_INIT };

static void
record(const dibs_trace_event *event, void *arg)
{
    CHECK(arg == &traced);
    dibs__mutex_lock(&traced.mutex);
    CHECK(traced.count < 256);
    int at = traced.count++;
    (void)snprintf(traced.events[at].verb, 16, "%s", event->verb);
    (void)snprintf(traced.events[at].name, 32, "%s", event->name);
    (void)snprintf(traced.events[at].text, 160, "%s", event->text);
    traced.events[at].code = event->code;
    traced.events[at].took_us = event->took_us;
    dibs__mutex_unlock(&traced.mutex);
}

/* a verb was traced with that name and code */
static void
assert_traced(const char *verb, const char *name, int code)
{
    int found = 0;
    dibs__mutex_lock(&traced.mutex);
    for (int i = 0; i < traced.count; i++) {
        if (strcmp(traced.events[i].verb, verb) == 0 &&
            strcmp(traced.events[i].name, name) == 0 && traced.events[i].code == code) {
            found = 1;
            CHECK_WITHIN(traced.events[i].took_us, 0, 20000000);
            CHECK(code != DIBS_OK || traced.events[i].text[0] == '\0');
        }
    }
    dibs__mutex_unlock(&traced.mutex);
    if (!found)
        fail_msg("%s of '%s' was not traced", verb, name);
}

CASE(every_verb_is_traced)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.trace = record;
    options.trace_arg = &traced;
    for (const char *const *url = unit_urls(); *url; url++) {
        traced.count = 0;
        client = unit_open(*url, &options);
        assert_traced("open", "", DIBS_OK);
        assert_int_equal(dibs_lock(&hold, client, "held", NULL), DIBS_OK);
        assert_traced("attempt", "held", DIBS_OK);
        dibs *other = unit_open(*url, &options);
        dibs_hold *second;
        assert_int_equal(dibs_timedlock(&second, other, "held", 200, NULL),
                         DIBS_ETIMEDOUT);
        assert_traced("attempt", "held", DIBS_EBUSY);
        assert_traced("watch", "held", DIBS_OK);
        dibs_close(other);
        assert_int_equal(renew(), DIBS_OK);
        if (dibs_caps(client) & DIBS_CAP_LEASE)
            assert_traced("renew", "held", DIBS_OK);
        assert_int_equal(downgrade(), DIBS_OK);
        assert_traced("downgrade", "held", DIBS_OK);
        assert_int_equal(inspect(), DIBS_OK);
        assert_traced("inspect", "n", DIBS_OK);
        assert_int_equal(list(), DIBS_OK);
        assert_traced("list", "", DIBS_OK);
        assert_int_equal(evict(), DIBS_ENOTHELD);
        assert_traced("evict", "n", DIBS_OK);
        assert_int_equal(cell_read(), DIBS_ENOTFOUND);
        assert_traced("cell_read", "n", DIBS_ENOTFOUND);
        assert_int_equal(cell_swap(), DIBS_OK);
        assert_traced("cell_swap", "n", DIBS_OK);
        assert_int_equal(cell_swap(), DIBS_ECONFLICT);
        assert_traced("cell_swap", "n", DIBS_ECONFLICT);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        assert_traced("release", "held", DIBS_OK);
        dibs_close(client);
        assert_traced("close", "", DIBS_OK);
    }
}

CASE(trace_is_escaped_and_tells_failures)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.trace = record;
    options.trace_arg = &traced;
    client = unit_open("mock://unit?deny=%1b[2J", &options);
    assert_int_equal(dibs_trylock(&hold, client, "\x1b[2J", NULL), DIBS_EDENIED);
    assert_traced("attempt", "\\x1b[2J", DIBS_EDENIED);
    assert_non_null(strstr(traced.events[1].text, "cannot lock '\\x1b[2J' at"));
    /* the name of the break's own event as well */
    assert_int_equal(dibs_lock(&hold, client, "\x1b", NULL), DIBS_OK);
    assert_int_equal(dibs_break(NULL, client, "\x1b", "stuck", NULL), DIBS_OK);
    assert_traced("evict", "\\x1b", DIBS_OK);
    dibs_hold_free(hold);
    dibs_close(client); /* from here on nobody traces any more */
    for (int i = 0; i < traced.count; i++)
        assert_null(strchr(traced.events[i].name, '\x1b'));
}
