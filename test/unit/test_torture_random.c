/* SPDX-License-Identifier: MIT */
/*
 * torture/check*.c on many histories of a correct lock (torture_world.c): no rule may be broken
 * in any of them. Then the same with one thing done wrong: its rule must notice.
 */
#include "torture_world.h"

#include <stdlib.h>

#define CAPS                                                                             \
    (DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |               \
     DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_WAKE)

static struct history *history;
static struct torture_fault fault = { .heal_ms = WORLD_HEAL_MS };

static void
judge(struct verdict *out, uint64_t seed)
{
    struct torture_plan plan = { .url = "redis://nowhere", .slow = 1, .fault = &fault };
    /* where threads are on their own, the rules are stricter */
    uint32_t caps = seed % 2 ? CAPS : CAPS | DIBS_CAP_DIRECT;
    if (!world_has_leases()) {
        plan.url = "local:";
        plan.fault = NULL;
        caps &= ~(uint32_t)DIBS_CAP_LEASE;
    }
    torture_check(&plan, caps, history, out);
}

static void
begin(void)
{
    history = history_new();
    assert_non_null(history);
}

/* ---- the cases ---- */

static const int rules[] = { 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13 };

/* $DIBS_TORTURE_SEEDS: how many in each case */
static uint64_t
seeds_of_case(void)
{
    const char *seeds = getenv("DIBS_TORTURE_SEEDS");
    return seeds ? strtoull(seeds, NULL, 10) : 200;
}

static void
all_clean(uint64_t part)
{
    struct verdict verdict, sum = { 0 };
    uint64_t from = part * seeds_of_case() + 1, until = from + seeds_of_case();
    begin();
    for (uint64_t seed = from; seed < until; seed++) {
        world_play(history, seed, NO_MISTAKE);
        judge(&verdict, seed);
        for (int rule = 0; rule <= RULE_COUNT; rule++) {
            if (verdict.violated[rule])
                fail_msg("seed %llu: K%d: %s", (unsigned long long)seed, rule,
                         verdict.first[rule]);
            sum.looked[rule] += verdict.looked[rule];
        }
    }
    for (size_t i = 0; i < COUNT(rules); i++) {
        print_message("K%d was looked at %llu times\n", rules[i],
                      (unsigned long long)sum.looked[rules[i]]);
        assert_true(sum.looked[rules[i]] > 0);
    }
    history_free(history);
}

CASE(a_correct_lock_breaks_no_rule)
{
    all_clean(0);
}

CASE(nor_does_it_with_other_seeds)
{
    all_clean(1);
}

CASE(nor_with_these)
{
    all_clean(2);
}

CASE(nor_with_those)
{
    all_clean(3);
}

CASE(nor_with_any)
{
    all_clean(4);
}

/* ---- mistakes ---- */

static void
is_noticed(enum mistake mistake, int rule, const char *what)
{
    struct verdict verdict;
    uint64_t seed = 0;
    do {
        world_play(history, ++seed, mistake);
        judge(&verdict, seed);
    } while (!verdict.violated[rule] && seed < 200);
    if (!verdict.violated[rule])
        fail_msg("K%d does not notice that %s", rule, what);
    print_message("%s (seed %llu): K%d: %s\n", what, (unsigned long long)seed, rule,
                  verdict.first[rule]);
}

CASE(each_mistake_is_noticed)
{
    begin();
#define MISTAKE_IS_NOTICED(name, rule, what) is_noticed(name, rule, what);
    WORLD_MISTAKES(MISTAKE_IS_NOTICED)
#undef MISTAKE_IS_NOTICED
    history_free(history);
}
