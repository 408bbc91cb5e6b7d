/* SPDX-License-Identifier: MIT */
/* One run: a stage, a fault, a seed; and what it says. See lab.h. */
#include "lab.h"

#include <stdio.h>
#include <string.h>

/* what a run is worth nothing without */
#define LEAST_ACQUIRED 10
#define STRIKES_LEAST 2
#define START_LIMIT_S 90
#define LONGER 3
/* so often a control is tried, and so far apart are the seeds */
#define CONTROL_TRIES 5
#define CONTROL_STEP 1000

struct outcome {
    const struct stage *stage;
    const struct fault *fault;
    const struct control *control; /* NULL: clean is expected */
    const struct cell_options *options;
    uint64_t seed; /* of the run that the verdict is of; its counts are of all */
    struct verdict verdict;
    int64_t run_ms;
    int left;
    const char *word; /* what the line ends with */
    int is_bad;
};

/* ---- the run ---- */

static int
strike(void *arg, uint64_t random, int64_t for_ms, char what[40])
{
    const struct fault *fault = arg;
    int64_t width = (fault->to - fault->from) * lab.lease_ms / 100;
    int64_t ms = fault->from * lab.lease_ms / 100;
    (void)for_ms; /* each fault has times of its own */
    ms += width > 0 ? (int64_t)((random >> 24) % (uint64_t)width) : 0;
    (void)snprintf(what, 40, "%s", fault->name);
    return fault->strike(random, ms);
}

/* clients die and stand still all the time, and more often if that is all */
static void
make_plan(struct torture_plan *plan, const struct stage *stage,
          const struct torture_fault *hurt, const struct cell_options *options)
{
    int64_t pace = hurt->every_ms == 0 ? 1 : 3;
    torture_plan_init(plan, lab.url);
    plan->seed = options->seed;
    plan->run_ms = options->run_ms;
    /* where there is time to heal between strikes, there are strikes all the same */
    if (plan->run_ms < STRIKES_LEAST * hurt->every_ms) {
        plan->run_ms = STRIKES_LEAST * hurt->every_ms;
    }
    plan->lease_ms = (uint32_t)lab.lease_ms;
    plan->modes = stage->modes;
    plan->kill_every_ms = pace * lab.lease_ms;
    plan->pause_every_ms = pace * lab.lease_ms;
    if ((stage->is & IS_CROWDED) != 0) {
        plan->threads = 9;
        plan->names = 9;
    }
    plan->fault = hurt;
    plan->slow = slow_factor();
}

/* A quarantine closes whatever is started or takes over for so long that a strike would meet
 * nobody, if the next one did not wait for about that. */
static int64_t
closed_ms(const struct stage *stage, const struct fault *fault)
{
    int closes = (fault->needs & (CAN_KILL | CAN_MEMBER | CAN_LEADER)) != 0 &&
                 (stage->is & IS_QUARANTINED) != 0;
    return closes ? lab.lease_ms + QUARANTINE_MS : 0;
}

/* With odd seeds one strike follows the other, so that each meets what the one before left;
 * with even ones there is time to heal, and whether it does can be seen. */
static int64_t
every_ms(const struct stage *stage, const struct fault *fault, uint64_t seed,
         int64_t heal_ms)
{
    return fault->strike == strike_nothing ? 0
           : seed % 2 == 1                 ? lab.lease_ms / 2 + closed_ms(stage, fault)
                                           : 2 * lab.lease_ms + heal_ms;
}

static struct torture_fault
make_fault(const struct stage *stage, const struct fault *fault, uint64_t seed)
{
    int64_t heal_ms = stage_heal_ms(stage, lab.lease_ms);
    return (struct torture_fault){ .strike = strike,
                                   .arg = (void *)(uintptr_t)fault,
                                   .heal_ms = heal_ms,
                                   .every_ms = every_ms(stage, fault, seed, heal_ms) };
}

/* what those had who were killed goes with their leases */
static int
count_left(int64_t heal_ms)
{
    int (*count)(void) = lab.stage->family->count_left;
    int64_t until = now_ms() + 2 * lab.lease_ms + heal_ms + slowly(1000);
    int left = count != NULL ? count() : 0;
    while (left > 0 && now_ms() < until) {
        sleep_ms(50);
        left = count();
    }
    if (left > 0 && lab.stage->family->show_left != NULL) {
        lab.stage->family->show_left();
    }
    return left;
}

/* ---- what it says ---- */

static uint32_t
broken_rules(const struct outcome *of)
{
    uint32_t rules = of->left > 0 ? 1u << 9 : 0;
    for (int k = 0; k <= RULE_COUNT; k++) {
        rules |= of->verdict.violated[k] > 0 ? 1u << k : 0;
    }
    return rules;
}

static int
proves_nothing(const struct outcome *of)
{
    int strikes = of->fault->strike != strike_nothing;
    return of->verdict.acquired < LEAST_ACQUIRED || of->verdict.looked[1] == 0 ||
           (strikes && of->verdict.strikes == 0);
}

static int
is_not_shown(const struct outcome *of)
{
    return of->control != NULL && of->control->shows != 0 && broken_rules(of) == 0;
}

/* of a run that broke nothing but what it may */
static const char *
expected_word(const struct control *control, uint32_t rules)
{
    uint32_t shows = control != NULL ? control->shows : 0;
    if (shows == 0) {
        return rules == 0 ? "clean" : "broken, as it may be";
    }
    return (rules & shows) != 0 ? "broken, as it must be" : "not shown";
}

static void
judge(struct outcome *of)
{
    uint32_t rules = broken_rules(of);
    uint32_t may = of->control != NULL ? of->control->may : 0;
    of->is_bad = (rules & ~may) != 0 || proves_nothing(of);
    of->word = (rules & ~may) != 0  ? "BROKEN"
               : proves_nothing(of) ? "NOTHING WAS TRIED"
                                    : expected_word(of->control, rules);
}

static void
print_rules(const struct outcome *of, const char *format, const char *separator)
{
    int is_first = 1;
    for (int k = 0; k <= RULE_COUNT; k++) {
        unsigned long long count =
            of->verdict.violated[k] + (k == 9 && of->left > 0 ? (unsigned)of->left : 0);
        if (count > 0) {
            printf("%s", is_first ? "" : separator);
            printf(format, k, count);
            is_first = 0;
        }
    }
}

static const char *
expected_of(const struct control *control)
{
    return control == NULL ? "clean" : control->shows == 0 ? "may" : "broken";
}

static void
print_json(const struct outcome *of)
{
    const struct verdict *v = &of->verdict;
    printf("{\"engine\":\"%s\",\"stage\":\"%s\",\"fault\":\"%s\",\"seed\":%llu,"
           "\"last_seed\":%llu,"
           "\"seconds\":%lld,\"acquired\":%llu,\"lost\":%llu,\"strikes\":%llu,"
           "\"kills\":%llu,\"pauses\":%llu,\"freezes\":%llu,\"busy\":%d,\"left\":%d,"
           "\"violated\":{",
           of->stage->family->engine, of->stage->name, of->fault->name,
           (unsigned long long)of->options->seed, (unsigned long long)of->seed,
           (long long)(of->run_ms / 1000), (unsigned long long)v->acquired,
           (unsigned long long)v->lost, (unsigned long long)v->strikes,
           (unsigned long long)v->kills, (unsigned long long)v->pauses,
           (unsigned long long)v->freezes, v->busy, of->left);
    print_rules(of, "\"K%d\":%llu", ",");
    printf("},\"expected\":\"%s\",\"verdict\":\"%s\"}\n", expected_of(of->control),
           of->word);
}

static void
print_line(const struct outcome *of)
{
    const struct verdict *v = &of->verdict;
    printf("%s %s %s seed %llu: %lld s, %llu acquired, %llu lost, %llu strikes, "
           "%llu kills, %llu pauses (%llu frozen); violations: ",
           of->stage->family->engine, of->stage->name, of->fault->name,
           (unsigned long long)of->seed, (long long)(of->run_ms / 1000),
           (unsigned long long)v->acquired, (unsigned long long)v->lost,
           (unsigned long long)v->strikes, (unsigned long long)v->kills,
           (unsigned long long)v->pauses, (unsigned long long)v->freezes);
    print_rules(of, "K%d %llu", ", ");
    printf("%s; %s\n", broken_rules(of) == 0 ? "none" : "", of->word);
}

static void
report(const struct outcome *of)
{
    if (of->options->json) {
        print_json(of);
    } else {
        print_line(of);
    }
    (void)fflush(stdout);
    for (int k = 0; k <= RULE_COUNT; k++) {
        if (of->verdict.violated[k] > 0) {
            fprintf(stderr, "  K%d, %s: %s\n", k, rule_text(k), of->verdict.first[k]);
        }
    }
    if (of->left > 0) {
        fprintf(stderr, "  K9: %d things are left at the servers\n", of->left);
    }
}

static void
run_once(struct outcome *of, const struct torture_plan *plan)
{
    char why[256] = "";
    struct verdict before = of->verdict, *now = &of->verdict;
    if (torture_run(plan, now, why) != 0) {
        FAIL("%s: %s", lab.url, why);
    }
    now->acquired += before.acquired;
    now->lost += before.lost;
    now->strikes += before.strikes;
    now->kills += before.kills;
    now->pauses += before.pauses;
    now->freezes += before.freezes;
    of->seed = plan->seed;
}

/* Once more, for longer, on a machine that is so busy that nothing happened; and a control until
 * it is shown, with other seeds. */
static void
run_plan(struct outcome *of, struct torture_plan *plan)
{
    run_once(of, plan);
    if (proves_nothing(of) && broken_rules(of) == 0) {
        plan->run_ms *= LONGER;
        run_once(of, plan);
    }
    for (int i = 1; i < CONTROL_TRIES && is_not_shown(of); i++) {
        plan->seed = of->options->seed + (uint64_t)i * CONTROL_STEP;
        run_once(of, plan);
    }
}

int
cell_run(const struct stage *stage, const struct fault *fault,
         const struct cell_options *options)
{
    struct outcome of = { .stage = stage, .fault = fault, .options = options };
    struct torture_plan plan;
    if (stage->family->is_present != NULL && !stage->family->is_present()) {
        printf("skipped: there is no %s\n", stage->family->title);
        return EXIT_SKIPPED;
    }
    on_failure(lab_stop);
    limit_time((unsigned)slowly(START_LIMIT_S));
    lab_start(stage, fault->needs, NULL);
    lab_warm_up();
    struct torture_fault hurt = make_fault(stage, fault, options->seed);
    make_plan(&plan, stage, &hurt, options);
    of.run_ms = plan.run_ms;
    of.control = control_of(stage, fault);
    limit_time((unsigned)(2 * (LONGER + CONTROL_TRIES) * of.run_ms / 1000 +
                          slowly(START_LIMIT_S)));
    run_plan(&of, &plan);
    of.left = count_left(hurt.heal_ms);
    judge(&of);
    report(&of);
    lab_stop();
    return of.is_bad;
}
