/* SPDX-License-Identifier: MIT */
/* kit/lapse.c: holds that nobody renews. The clock is a variable here. */
#include "unit.h"

#include "core/mem.h"
#include "core/session.h"
#include "kit/kit.h"

#define AGAIN (100 * DIBS_MS) /* how soon what was not ended is tried again */

static _Atomic dibs_time the_time;
static dibs_host host;
static kit_lapses *lapses;

/* What `end` saw, and what it does. */
static struct {
    int calls;
    int answer;
    dibs_time takes;
    dibs_claim seen;
    char name[16];
    int (*meanwhile)(dibs_claim *copy);
} ending;

static dibs_time
read_time(void)
{
    return the_time;
}

static int
end_it(void *state, dibs_claim *claim)
{
    CHECK(state == &ending && claim->name_len < sizeof ending.name);
    ending.calls++;
    ending.seen = *claim;
    memcpy(ending.name, claim->name, claim->name_len);
    ending.name[claim->name_len] = '\0';
    the_time += ending.takes;
    return ending.meanwhile ? ending.meanwhile(claim) : ending.answer;
}

static void
start(void)
{
    host = dibs__host;
    host.now = read_time;
    the_time = 1000 * DIBS_MS;
    memset(&ending, 0, sizeof ending);
    ending.answer = 1;
    lapses = dibs__kit_lapses_new(&host, end_it, &ending);
    assert_non_null(lapses);
}

static dibs_claim
some_claim(uint64_t serial)
{
    return (dibs_claim){ .name = "name",
                         .name_len = 4,
                         .mode = DIBS_PERMITS,
                         .flags = DIBS_CLAIM_NOQUEUE,
                         .permits = 3,
                         .limit = 4,
                         .lease_ms = 500,
                         .name_hash = 77,
                         .serial = serial,
                         .note = "a note",
                         .sent = the_time,
                         .priv = { serial, 2, 3 } };
}

static dibs_time
run_at(dibs_time when)
{
    the_time = when;
    return dibs__kit_lapses_run(lapses);
}

CASE(over)
{
    char name[] = "name";
    start();
    assert_true(dibs__kit_lapses_run(lapses) == DIBS_NEVER);
    dibs_claim claim = some_claim(1);
    claim.name = name;
    dibs_time end = claim.sent + 500 * DIBS_MS;
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    name[0] = 'x'; /* the copy has its own */
    claim.priv[1] = 99;
    assert_true(dibs__kit_lapses_run(lapses) == end);
    assert_true(run_at(end - 1) == end);
    assert_int_equal(ending.calls, 0);
    assert_true(run_at(end) == DIBS_NEVER);
    assert_int_equal(ending.calls, 1);
    assert_string_equal(ending.name, "name");
    const dibs_claim *seen = &ending.seen;
    assert_true(seen->mode == DIBS_PERMITS && seen->flags == DIBS_CLAIM_NOQUEUE);
    assert_true(seen->permits == 3 && seen->limit == 4 && seen->lease_ms == 500);
    assert_true(seen->serial == 1 && seen->name_hash == 77 && !*seen->note);
    assert_true(seen->priv[0] == 1 && seen->priv[1] == 2 && seen->priv[2] == 3);
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, end * 2), DIBS_ELOST);
    dibs__kit_lapses_free(lapses, 0);
}

CASE(renewed)
{
    start();
    dibs_claim claim = some_claim(1);
    dibs_time end = claim.sent + 500 * DIBS_MS;
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, end), DIBS_ELOST);
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    claim.priv[2] = 4;
    claim.mode = DIBS_SHARED; /* nobody says that renewing may look at it */
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, end + 9), DIBS_OK);
    assert_true(run_at(end) == end + 9);
    assert_true(run_at(end + 9) == DIBS_NEVER);
    assert_int_equal(ending.calls, 1);
    assert_int_equal(ending.seen.priv[2], 4);
    assert_int_equal(ending.seen.mode, DIBS_PERMITS);
    dibs__kit_lapses_free(lapses, 0);
}

/* A downgrade changes what is written, and not for how long. */
CASE(written_in_another_way)
{
    start();
    dibs_claim claim = some_claim(1);
    dibs_time end = claim.sent + 500 * DIBS_MS;
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    claim.priv[0] = 5;
    claim.mode = DIBS_SHARED;
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, 0), DIBS_OK);
    assert_true(run_at(end - 1) == end);
    assert_true(run_at(end) == DIBS_NEVER);
    assert_int_equal(ending.seen.priv[0], 5);
    assert_int_equal(ending.seen.mode, DIBS_SHARED);
    dibs__kit_lapses_free(lapses, 0);
}

/* What was not ended is over all the same. */
CASE(too_late)
{
    start();
    dibs_claim claim = some_claim(1);
    dibs_time end = claim.sent + 500 * DIBS_MS;
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    ending.answer = 0;
    assert_true(run_at(end) == end + AGAIN);
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, end * 2), DIBS_ELOST);
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    assert_true(run_at(end + 1) == end + AGAIN);
    assert_true(run_at(end + AGAIN) == end + 2 * AGAIN);
    ending.answer = 1;
    assert_true(run_at(end + 2 * AGAIN) == DIBS_NEVER);
    assert_int_equal(ending.calls, 3);
    dibs__kit_lapses_free(lapses, 0);
}

CASE(released)
{
    static const int final[] = { DIBS_OK, DIBS_ENOTHELD, DIBS_EDENIED };
    start();
    for (size_t i = 0; i < COUNT(final); i++) {
        dibs_claim claim = some_claim(i);
        assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
        assert_int_equal(dibs__kit_lapse_released(lapses, &claim, final[i]), final[i]);
    }
    assert_true(run_at(the_time + 1000 * DIBS_MS) == DIBS_NEVER);
    assert_int_equal(ending.calls, 0);
    dibs__kit_lapses_free(lapses, 0);
}

/* A release that was not confirmed is repeated in here, also that of a mere waiter. */
CASE(not_released)
{
    static const int unsure[] = { DIBS_EUNKNOWN, DIBS_EUNAVAIL };
    for (int granted = 0; granted < 2; granted++) {
        for (size_t i = 0; i < COUNT(unsure); i++) {
            start();
            dibs_claim claim = some_claim(1);
            if (granted)
                assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
            assert_int_equal(dibs__kit_lapse_released(lapses, &claim, unsure[i]),
                             unsure[i]);
            assert_true(run_at(the_time + AGAIN - 1) == the_time + 1);
            assert_int_equal(ending.calls, 0);
            assert_true(run_at(the_time + 1) == DIBS_NEVER);
            assert_int_equal(ending.calls, 1);
            dibs__kit_lapses_free(lapses, 0);
        }
    }
}

static int
release_copy(dibs_claim *copy)
{
    int rc = ending.calls < 2 ? DIBS_EUNAVAIL : DIBS_OK;
    return dibs__kit_lapse_released(lapses, copy, rc) == DIBS_OK;
}

/* As engines do it: `end` releases the copy, and that tells. */
CASE(ended_by_release)
{
    start();
    dibs_claim claim = some_claim(1);
    dibs_time end = claim.sent + 500 * DIBS_MS;
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    ending.meanwhile = release_copy;
    assert_true(run_at(end) == end + AGAIN);
    assert_true(run_at(end + AGAIN) == DIBS_NEVER);
    assert_int_equal(ending.calls, 2);
    dibs__kit_lapses_free(lapses, 0);
}

static int
release_meanwhile(dibs_claim *copy)
{
    dibs_claim claim = some_claim(copy->serial);
    CHECK_SAME(dibs__kit_lapse_released(lapses, &claim, DIBS_OK), DIBS_OK);
    return 0;
}

/* The caller releases while it is being ended: then nothing is left to do. */
CASE(released_meanwhile)
{
    start();
    dibs_claim claim = some_claim(1);
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    ending.meanwhile = release_meanwhile;
    assert_true(run_at(the_time + 500 * DIBS_MS) == DIBS_NEVER);
    assert_int_equal(ending.calls, 1);
    dibs__kit_lapses_free(lapses, 0);
}

/* An `end` that takes its time is called once per run: the thread has other duties. */
CASE(one_at_a_time)
{
    start();
    for (uint64_t i = 0; i < 5; i++) {
        dibs_claim claim = some_claim(i);
        assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    }
    ending.takes = 60 * DIBS_MS;
    the_time += 500 * DIBS_MS;
    for (int i = 1; i < 5; i++) {
        assert_true(dibs__kit_lapses_run(lapses) <= the_time);
        assert_int_equal(ending.calls, i);
    }
    assert_true(dibs__kit_lapses_run(lapses) == DIBS_NEVER);
    assert_int_equal(ending.calls, 5);
    dibs__kit_lapses_free(lapses, 0);
}

CASE(many)
{
    start();
    dibs_time begin = the_time;
    for (uint64_t i = 0; i < 3000; i++) {
        the_time = begin + (dibs_time)(i % 100);
        dibs_claim claim = some_claim(i);
        assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    }
    dibs_time end = begin + 500 * DIBS_MS;
    for (int i = 0; i < 100; i++) {
        assert_true(run_at(end + i) == (i < 99 ? end + i + 1 : DIBS_NEVER));
        assert_int_equal(ending.calls, (i + 1) * 30);
    }
    dibs__kit_lapses_free(lapses, 0);
}

CASE(left_behind)
{
    start();
    dibs_claim claim = some_claim(1);
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    dibs__kit_lapses_free(lapses, 1);
    dibs__kit_lapses_free(NULL, 0);
    assert_int_equal(ending.calls, 0);
}

CASE(no_memory)
{
    start();
    dibs__alloc_fail_after(0);
    assert_null(dibs__kit_lapses_new(&host, end_it, &ending));
    dibs_claim claim = some_claim(1);
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_ENOMEM);
    assert_int_equal(dibs__kit_lapse_released(lapses, &claim, DIBS_EUNKNOWN),
                     DIBS_EUNKNOWN);
    dibs__alloc_fail_after(-1);
    assert_int_equal(dibs__kit_lapse_move(lapses, &claim, DIBS_NEVER), DIBS_ELOST);
    assert_true(run_at(DIBS_NEVER - 1) == DIBS_NEVER);
    assert_int_equal(ending.calls, 0);
    dibs__kit_lapses_free(lapses, 0);
}

static void
count_wake(void *arg)
{
    ++*(int *)arg;
}

/* Who runs them is told of what is due earlier than was known. */
CASE(wakes)
{
    int wakes = 0;
    start();
    dibs__kit_lapses_waker(lapses, count_wake, &wakes);
    dibs_claim late = some_claim(1), early = some_claim(2);
    early.lease_ms = 100;
    assert_int_equal(dibs__kit_lapse_add(lapses, &late), DIBS_OK);
    assert_int_equal(wakes, 1);
    assert_int_equal(dibs__kit_lapse_move(lapses, &late, the_time + 900 * DIBS_MS),
                     DIBS_OK);
    assert_int_equal(wakes, 1);
    assert_int_equal(dibs__kit_lapse_add(lapses, &early), DIBS_OK);
    assert_int_equal(wakes, 2);
    dibs__kit_lapses_free(lapses, 0);
}

#define THREADS 4
#define ROUNDS 3000
static dibs_claim shared_claim;

/* One renews a hold, one downgrades it, one takes and gives others, one ends. */
static void
play(void *arg, int index)
{
    (void)arg;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        dibs_claim claim = some_claim(10 * i + (uint64_t)index);
        uint64_t priv[3] = { i, i, i };
        if (index == 0) {
            (void)dibs__kit_lapse_move(lapses, &shared_claim, the_time + DIBS_MS);
        } else if (index == 1) {
            dibs__kit_priv_write(&shared_claim, priv);
            (void)dibs__kit_lapse_move(lapses, &shared_claim, 0);
        } else if (index == 2) {
            CHECK_SAME(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
            (void)dibs__kit_lapse_released(lapses, &claim,
                                           i % 3 ? DIBS_OK : DIBS_EUNKNOWN);
        } else {
            the_time += 10000;
            (void)dibs__kit_lapses_run(lapses);
        }
    }
}

CASE(threads)
{
    start();
    shared_claim = some_claim(1);
    assert_int_equal(dibs__kit_lapse_add(lapses, &shared_claim), DIBS_OK);
    gang_join(gang_start(THREADS, play, NULL));
    the_time += 1000 * DIBS_MS;
    assert_true(dibs__kit_lapses_run(lapses) == DIBS_NEVER);
    assert_int_equal(ending.calls, ROUNDS / 3 + 1);
    dibs__kit_lapses_free(lapses, 0);
}
