/* SPDX-License-Identifier: MIT */
/*
 * test_torture mutant N | clean ENGINE | frozen ENGINE: a short run on an engine that needs no
 * server.
 *
 * A mutant breaks rule N on purpose, and must be found guilty of that. Others may be found
 * broken as well: who does not renew a lease also loses holds without a reason. A clean run
 * must be found innocent, and every rule that applies must have been put to the test. So must
 * one in which processes are frozen, and not just stopped; where nobody can be, it is skipped.
 */
#include <dibs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "torture.h"

#define SECRET "correct-horse-battery"
#define ROUNDS_MAX 9
#define MUTANT_TRIES 5

static char folder[64];

/* Also a machine that is fast may be busy with other tests. */
static int
slack(void)
{
    return slow_factor() > 4 ? slow_factor() : 4;
}

static int64_t
loosely(int64_t ms)
{
    return ms * slack();
}

static void
clean_up(void)
{
    if (folder[0] != '\0')
        remove_tree(folder);
}

/* ---- plans ---- */

/* leases long enough to be kept on a machine that is slow */
static void
plan_for(struct torture_plan *plan, const char *engine, char *url, size_t size)
{
    temp_dir(folder, sizeof folder, "/tmp");
    if (strcmp(engine, "local") == 0)
        (void)snprintf(url, size, "local:%s", folder);
    else
        (void)snprintf(url, size, "%s:%s/locks?waiter=2s&synchronous=off", engine,
                       folder);
    torture_plan_init(plan, url);
    plan->slow = slack();
    plan->secret = SECRET;
}

/* Nothing is done to a mutant but what it does itself, so that nothing excuses it. */
static void
plan_mutant(struct torture_plan *plan, int rule)
{
    plan->mutant = rule;
    plan->kill_every_ms = plan->pause_every_ms = 0;
    plan->modes = 1u << DIBS_EXCLUSIVE;
    plan->names = 1;
    plan->run_ms = 3000 + loosely(750);
    plan->lease_ms = 500;
    if (rule == 5 || rule == 13) { /* these need to be let in, or to be alone */
        plan->clients = 2;
        plan->threads = 1;
    }
}

static const char *
engine_for(int rule)
{
    int needs_leases = rule == 1 || rule == 2 || rule == 4 || rule == 5 || rule == 9;
    return needs_leases ? "sqlite" : "local";
}

/* ---- verdicts ---- */

static void
show(const struct verdict *verdict)
{
    printf("%llu acquired, %llu refused, %llu lost, %llu killed, %llu paused "
           "(%llu frozen)\n",
           (unsigned long long)verdict->acquired, (unsigned long long)verdict->refused,
           (unsigned long long)verdict->lost, (unsigned long long)verdict->kills,
           (unsigned long long)verdict->pauses, (unsigned long long)verdict->freezes);
    for (int rule = 0; rule <= RULE_COUNT; rule++) {
        if (verdict->looked[rule] > 0 || verdict->violated[rule] > 0)
            printf("K%-2d looked %8llu  broken %6llu  %s\n", rule,
                   (unsigned long long)verdict->looked[rule],
                   (unsigned long long)verdict->violated[rule], verdict->first[rule]);
    }
}

static void
run(const struct torture_plan *plan, struct verdict *verdict)
{
    char why[256] = "";
    if (torture_run(plan, verdict, why) != 0)
        FAIL("it could not be run: %s", why);
    show(verdict);
}

static void
mutant(int rule)
{
    static struct verdict verdict;
    struct torture_plan plan;
    char url[160];
    plan_for(&plan, engine_for(rule), url, sizeof url);
    plan_mutant(&plan, rule);
    /* on a machine that is too busy it may not get round to it at once */
    for (int tries = 0; tries < MUTANT_TRIES && verdict.violated[rule] == 0; tries++) {
        plan.seed++;
        run(&plan, &verdict);
    }
    if (verdict.violated[rule] == 0)
        FAIL("a run that breaks K%d was not found to", rule);
    CHECK(!torture_is_clean(&verdict));
}

/* ---- clean runs ---- */

/* What kills and pauses excuse is not looked at, so there are runs without; and some things
 * are only seen if many wait for one name, or few ask for one of many. */
enum kind { HURT, IN_LINE, SPARSE, KINDS };

static void
plan_clean(struct torture_plan *plan, enum kind kind, uint64_t seed)
{
    plan->seed = seed;
    plan->lease_ms = (uint32_t)loosely(200);
    plan->run_ms = loosely(kind == HURT ? 2500 : 1500);
    plan->kill_every_ms = kind == HURT ? loosely(400) : 0;
    plan->pause_every_ms = kind == HURT ? loosely(120) : 0;
    plan->clients = kind == SPARSE ? 2 : 4;
    plan->threads = kind == SPARSE ? 2 : 4;
    plan->names = kind == HURT ? 6 : kind == IN_LINE ? 1 : 12;
}

/* K4, K5 and K6 are about losses, which there are not where nothing runs out */
static int
applies(int rule, int has_leases)
{
    return rule != 14 && (has_leases || rule < 4 || rule > 6);
}

/* a rule that was not put to the test yet, or 0 */
static int
not_looked(const uint64_t *looked, int has_leases)
{
    for (int rule = 1; rule <= RULE_COUNT; rule++) {
        if (applies(rule, has_leases) && looked[rule] == 0)
            return rule;
    }
    return 0;
}

static void
clean_round(struct torture_plan *plan, uint64_t *looked)
{
    static struct verdict verdict;
    run(plan, &verdict);
    if (!torture_is_clean(&verdict))
        FAIL("a rule was broken");
    CHECK(verdict.acquired > 0);
    CHECK(plan->kill_every_ms == 0 || verdict.kills + verdict.pauses > 0);
    for (int rule = 1; rule <= RULE_COUNT; rule++) {
        looked[rule] += verdict.looked[rule];
    }
}

/* each kind once, and then on until all rules had their chance */
static void
clean(const char *engine)
{
    uint64_t looked[RULE_COUNT + 1] = { 0 };
    int has_leases = strcmp(engine, "local") != 0;
    struct torture_plan plan;
    char url[160];
    plan_for(&plan, engine, url, sizeof url);
    for (int round = 0;
         round < KINDS || (round < ROUNDS_MAX && not_looked(looked, has_leases));
         round++) {
        plan_clean(&plan, (enum kind)(round % KINDS), (uint64_t)round + 1);
        clean_round(&plan, looked);
    }
    if (not_looked(looked, has_leases))
        FAIL("K%d was never put to the test", not_looked(looked, has_leases));
}

/* ---- runs with freezes ---- */

static void
check_frozen(const struct verdict *verdict)
{
    if (verdict->no_freezer[0] != '\0') {
        printf("skipped: %s\n", verdict->no_freezer);
        clean_up();
        exit(EXIT_SKIPPED);
    }
    if (!torture_is_clean(verdict))
        FAIL("a rule was broken");
    CHECK(verdict->freezes <= verdict->pauses);
}

/* until some were frozen and others stopped, with a seed that is another each time */
static void
frozen(const char *engine)
{
    static struct verdict verdict;
    uint64_t freezes = 0, stops = 0;
    struct torture_plan plan;
    char url[160];
    plan_for(&plan, engine, url, sizeof url);
    for (uint64_t round = 1; round <= ROUNDS_MAX && (freezes == 0 || stops == 0);
         round++) {
        plan_clean(&plan, HURT, 100 + round);
        run(&plan, &verdict);
        check_frozen(&verdict);
        freezes += verdict.freezes;
        stops += verdict.pauses - verdict.freezes;
    }
    CHECK(freezes > 0 && stops > 0);
}

int
main(int argc, char **argv)
{
    on_failure(clean_up);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a failed check does not flush it */
    limit_time(70 * (unsigned)slack());
    if (argc == 3 && strcmp(argv[1], "mutant") == 0)
        mutant((int)strtol(argv[2], NULL, 10));
    else if (argc == 3 && strcmp(argv[1], "clean") == 0)
        clean(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "frozen") == 0)
        frozen(argv[2]);
    else
        FAIL("usage: test_torture mutant N | clean ENGINE | frozen ENGINE");
    clean_up();
    return 0;
}
