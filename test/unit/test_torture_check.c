/* SPDX-License-Identifier: MIT */
/*
 * torture/check*.c on histories made by hand: the check itself, and K1 to K6. Of each rule what
 * is clean, what breaks it and nothing else, and what looks like it but has an excuse.
 * test_torture_answers.c has the other rules, test_torture_random.c many histories of a
 * correct lock.
 */
#include "torture_hand.h"

/* ---- the check itself ---- */

CASE(an_empty_history_is_clean)
{
    begin();
    judge();
    assert_true(torture_is_clean(&verdict));
    for (int rule = 0; rule <= RULE_COUNT; rule++)
        assert_int_equal(verdict.looked[rule], 0);
}

CASE(a_full_history_proves_nothing)
{
    begin();
    history->dropped = 1;
    judge();
    assert_false(torture_is_clean(&verdict));
    assert_true(verdict.violated[0] > 0);
}

/* linked in front of the checker's: see CMakeLists.txt */
static long allocations_left = -1;
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int
has_memory(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

void *
__wrap_calloc(size_t count, size_t size)
{
    return has_memory() ? __real_calloc(count, size) : NULL;
}

void *
__wrap_realloc(void *old, size_t size)
{
    return has_memory() ? __real_realloc(old, size) : NULL;
}

CASE(no_memory_is_no_verdict)
{
    long failed = 0;
    begin();
    for (int i = 0; i < 500; i++)
        had(0, 10 * i, 10 * i + 1, 10 * i + 5, (uint64_t)i + 1);
    for (long n = 0;; n++) {
        allocations_left = n;
        judge();
        int ran_out = allocations_left < 1;
        allocations_left = -1;
        if (!ran_out)
            break;
        failed += verdict.violated[0] > 0;
        assert_true(torture_is_clean(&verdict) || verdict.violated[0] > 0);
    }
    assert_true(failed > 10);
    assert_true(torture_is_clean(&verdict));
    end();
}

CASE(a_turn_that_never_began_is_none)
{
    begin();
    history_turn(history)->lease_ms = LEASE;
    is_excused(10);
}

CASE(what_happened_is_counted)
{
    begin();
    had(0, 0, 1, 5, 1);
    lost(granted(1, 10, 11, 900, 2), 1000);
    refused(2, 20, 21, DIBS_EBUSY);
    happened(INCIDENT_PAUSE, 1, 100, 1000);
    happened(INCIDENT_KILL, 4, 2000, 2001);
    judge();
    assert_int_equal(verdict.acquired, 2);
    assert_int_equal(verdict.refused, 1);
    assert_int_equal(verdict.lost, 1);
    assert_int_equal(verdict.pauses, 1);
    assert_int_equal(verdict.kills, 1);
}

CASE(each_rule_has_a_text)
{
    for (int rule = 0; rule <= RULE_COUNT; rule++)
        assert_true(strlen(rule_text(rule)) > 10);
    assert_string_equal(rule_text(RULE_COUNT + 1), rule_text(-1));
}

/* ---- K1: belief ---- */

CASE(k1_one_believer)
{
    begin();
    had(0, 0, 1, 50, 1);
    had(1, 2, 51.5, 90, 2);
    is_clean(1);
    /* sharers believe together, and permits within the limit */
    shared(had(0, 0, 1, 50, 1));
    shared(had(1, 2, 3, 60, 1));
    had(2, 10, 61.5, 70, 2);
    is_clean(1);
    permits(had(0, 0, 1, 50, 1), 2, 3);
    permits(had(1, 2, 3, 60, 2), 1, 3);
    permits(had(2, 10, 51.5, 70, 3), 2, 3);
    is_clean(1);
    /* one that re-enters */
    had(0, 0, 1, 50, 1);
    had(0, 10, 10.1, 40, 1);
    had(1, 20, 51.5, 60, 2);
    is_clean(1);
}

CASE(k1_two_believers)
{
    begin();
    shared(had(0, 0, 1, 50, 1));
    had(1, 2, 40, 90, 2);
    breaks(1);
    permits(had(0, 0, 1, 50, 1), 2, 3);
    permits(had(1, 2, 3, 60, 2), 2, 3);
    judge();
    assert_true(verdict.violated[1] > 0);
    end();
    /* threads of one process exclude each other too; no excuse counts */
    shared(had(0, 0, 1, 50, 1))->thread = 1;
    had(0, 2, 40, 90, 2);
    happened(INCIDENT_PAUSE, 0, 0, 100);
    happened(INCIDENT_LATE, 0, 0, 100);
    breaks(1);
}

CASE(k1_of_different_names)
{
    begin();
    had(0, 0, 1, 50, 1);
    had(1, 2, 3, 90, 2)->name = 1;
    is_excused(1);
}

/* ---- K2: resource ---- */

static struct turn *
wrote(struct turn *turn, uint64_t number)
{
    turn->sealed = turn->first_held;
    turn->wrote = number;
    history->registers[0].writes++;
    history->registers[0].sum += turn->token;
    return turn;
}

static struct turn *
fenced(struct turn *turn, double at, int code)
{
    turn->sealed = AT(at);
    turn->fence_code = code;
    return turn;
}

CASE(k2_tokens_do_not_fall)
{
    begin();
    wrote(had(0, 0, 1, 50, 1), 1);
    wrote(had(1, 2, 51.5, 90, 2), 2);
    is_clean(2);
    wrote(had(0, 0, 1, 50, 1), 2);
    wrote(had(1, 2, 51.5, 90, 2), 1);
    breaks(2);
}

CASE(k2_writes_stay)
{
    begin();
    wrote(had(0, 0, 1, 50, 1), 1);
    history->registers[0].writes = 0;
    breaks(2);
    wrote(had(0, 0, 1, 50, 1), 1);
    history->registers[0].sum++;
    breaks(2);
    wrote(had(0, 0, 1, 50, 1), 1);
    wrote(had(1, 2, 51.5, 90, 2), 1);
    breaks(2);
    wrote(had(0, 0, 1, 50, 1), 1);
    history->registers[0].writes++;
    breaks(2);
    /* that write may be of one who was killed before it could say so */
    wrote(had(0, 0, 1, 50, 1), 1);
    granted(1, 2, 51.5, 60, 2);
    history->registers[0].writes++;
    happened(INCIDENT_KILL, 1, 61, 62);
    is_clean(2);
}

CASE(k2_the_fence)
{
    begin();
    fenced(had(0, 0, 1, 50, 1), 10, DIBS_OK);
    fenced(had(1, 2, 51.5, 90, 2), 60, DIBS_OK);
    is_clean(2);
    /* an old one comes late: refused, or it is broken */
    fenced(lost(granted(0, 0, 1, 500, 1), 2000), 1900, DIBS_ESTALE);
    fenced(had(1, 2, 1050, 1500, 2), 1200, DIBS_OK);
    happened(INCIDENT_PAUSE, 0, 501, 1890);
    is_clean(2);
    fenced(lost(granted(0, 0, 1, 500, 1), 2000), 1900, DIBS_OK);
    fenced(had(1, 2, 1050, 1500, 2), 1200, DIBS_OK);
    happened(INCIDENT_PAUSE, 0, 501, 1890);
    breaks(2);
    /* at the same time, anything may be first */
    fenced(lost(granted(0, 0, 1, 500, 1), 2000), 1300, DIBS_OK);
    fenced(had(1, 2, 1050, 1500, 2), 1200, DIBS_OK);
    happened(INCIDENT_PAUSE, 0, 501, 1890);
    is_excused(2);
    /* a refusal needs a reason */
    fenced(had(0, 0, 1, 50, 1), 10, DIBS_OK);
    fenced(had(1, 2, 51.5, 90, 2), 60, DIBS_ESTALE);
    breaks(2);
}

/* ---- K3: tokens ---- */

CASE(k3_tokens_rise)
{
    begin();
    had(0, 0, 1, 50, 1);
    had(1, 2, 51.5, 90, 2);
    is_clean(3);
    shared(had(0, 0, 1, 50, 3));
    shared(had(1, 2, 3, 40, 2));
    had(2, 4, 51.5, 60, 4);
    is_clean(3);
    permits(had(0, 0, 1, 50, 3), 1, 2);
    permits(had(1, 2, 3, 40, 2), 1, 2);
    permits(had(2, 4, 51.5, 60, 4), 2, 2);
    is_clean(3);
    /* re-entered twice, one after the other */
    had(0, 0, 1, 50, 1);
    had(0, 10, 10.1, 20, 1);
    had(0, 30, 30.1, 40, 1);
    is_excused(3);
}

CASE(k3_tokens_fall)
{
    begin();
    had(0, 0, 1, 50, 2);
    had(1, 52, 53, 90, 2);
    breaks(3);
    shared(had(0, 0, 1, 50, 7));
    had(1, 52, 53, 90, 6);
    breaks(3);
    permits(had(0, 0, 1, 50, 3), 1, 2);
    permits(had(2, 52, 53, 60, 2), 2, 2);
    breaks(3);
    /* who was killed has had its token nevertheless */
    granted(0, 0, 1, 50, 9);
    happened(INCIDENT_KILL, 0, 51, 52);
    had(1, 1060, 1061, 1090, 8);
    breaks(3);
}

/* ---- K4: losses are told ---- */

/* client 0 is paused and loses it; client 1 is next */
static struct turn *
loser(double told)
{
    struct turn *turn = granted(0, 0, 1, 600, 1);
    fault.heal_ms = 0;
    happened(INCIDENT_SERVER, 0, 100, 900);
    had(1, 2, 1001, 1100, 2);
    return lost(turn, told);
}

CASE(k4_told_in_time)
{
    begin();
    loser(900);
    is_clean(4);
    loser(900);
    judge();
    assert_int_equal(verdict.slack_min_ns, 101000000);
}

CASE(k4_told_wrong)
{
    begin();
    loser(900)->lost_calls = 2;
    breaks(4);
    struct turn *turn = loser(900);
    turn->lost_at = 0;
    turn->lost_calls = 0;
    turn->releasing = AT(1300);
    turn->released = AT(1301);
    breaks(4);
    turn = had(0, 0, 1, 50, 1);
    turn->lost_calls = 1;
    turn->lost_at = AT(40);
    happened(INCIDENT_SERVER, 0, 10, 20);
    breaks(4);
    /* later than the next grant */
    turn = loser(900);
    turn->lost_at = AT(1003);
    turn->releasing = AT(1020);
    turn->released = AT(1021);
    breaks(4);
    /* never, and nobody came next */
    turn = granted(0, 0, 1, 600, 1);
    turn->not_held = AT(900);
    happened(INCIDENT_SERVER, 0, 100, 850);
    let_go(turn, 1300, DIBS_ELOST);
    breaks(4);
}

CASE(k4_excuses)
{
    begin();
    /* it stood still at that time, or its process was killed */
    struct turn *turn = loser(900);
    turn->not_held = turn->lost_at = AT(1003);
    happened(INCIDENT_PAUSE, 0, 700, 1002);
    let_go(turn, 1020, DIBS_ELOST);
    is_excused(4);
    turn = granted(0, 0, 1, 600, 1);
    turn->not_held = AT(900);
    happened(INCIDENT_SERVER, 0, 100, 850);
    happened(INCIDENT_KILL, 0, 910, 912);
    is_excused(4);
    /* the release came first, and said it */
    turn = granted(0, 0, 1, 600, 1);
    turn->not_held = AT(900);
    happened(INCIDENT_SERVER, 0, 100, 850);
    let_go(turn, 901, DIBS_ELOST);
    is_excused(4);
    /* a slow machine */
    plan.slow = 4;
    turn = loser(900);
    turn->lost_at = AT(1003);
    let_go(turn, 1400, DIBS_ELOST);
    is_clean(4);
    plan.slow = 1;
    /* sharers are no reason to be told; nor are they after what may have been downgraded */
    turn = shared(granted(0, 0, 1, 600, 1));
    turn->not_held = turn->lost_at = AT(900);
    turn->lost_calls = 1;
    happened(INCIDENT_SERVER, 0, 100, 850);
    let_go(turn, 910, DIBS_ELOST);
    shared(had(1, 2, 3, 800, 2));
    is_excused(4);
}

/* ---- K5: lost is lost ---- */

CASE(k5_stays_lost)
{
    begin();
    loser(900);
    is_clean(5);
    loser(900)->held_again = AT(950);
    breaks(5);
}

/* ---- K6: no loss without a reason ---- */

CASE(k6_reasons)
{
    begin();
    had(0, 0, 1, 50, 1);
    is_clean(6);
    happened(INCIDENT_PAUSE, 0, 100, 890);
    lost(granted(0, 0, 1, 99, 1), 900);
    is_clean(6);
    happened(INCIDENT_LATE, 0, 100, 890);
    lost(granted(0, 0, 1, 99, 1), 900);
    is_clean(6);
    fault.heal_ms = 500;
    happened(INCIDENT_SERVER, 0, 100, 500);
    lost(granted(0, 0, 1, 899, 1), 900);
    is_clean(6);
}

CASE(k6_a_slow_store)
{
    begin();
    lost(granted(0, 0, 1, 899, 1), 900);
    had(1, 0, 1, 400, 1)->name = 1;
    history->turns[1].released = AT(800);
    is_clean(6);
}

CASE(k6_no_reason)
{
    begin();
    lost(granted(0, 0, 1, 899, 1), 900);
    breaks(6);
    /* a pause of somebody else, or one that was long ago, or of the life before */
    happened(INCIDENT_PAUSE, 1, 100, 890);
    lost(granted(0, 0, 1, 899, 1), 900);
    breaks(6);
    happened(INCIDENT_PAUSE, 0, 10, 100);
    lost(granted(0, 0, 1, 2999, 1), 3000);
    breaks(6);
    happened(INCIDENT_PAUSE, 0, 100, 890);
    lost(granted(0, 0, 1, 899, 1), 900)->life = 1;
    breaks(6);
    let_go(granted(0, 0, 1, 49, 1), 50, DIBS_ELOST);
    breaks(6);
    /* without leases a pause costs nothing */
    caps &= ~(uint32_t)DIBS_CAP_LEASE;
    happened(INCIDENT_PAUSE, 0, 100, 890);
    lost(granted(0, 0, 1, 99, 1), 900);
    breaks(6);
}
