/* SPDX-License-Identifier: MIT */
/* Hand-overs on a server, counted: see fight.h. */
#include <stdio.h>

#include "fight.h"

enum { FEW = 3, LONGEST_MS = 10000, STEP_MS = 20 };

static void
begin_crowd(void *c, int which)
{
    crowd_begin(c, which);
}

static double
grants_of_crowd(void *c)
{
    return crowd_grants(c);
}

static void
end_crowd(void *c)
{
    crowd_end(c);
}

fighters
fighters_of_crowd(crowd *c, int which, const char *id, const char *label)
{
    return (fighters){ id, label, begin_crowd, grants_of_crowd, end_crowd, c, which };
}

/* count_grants waits for the end of the round, and returns how many there were */
static double
count_grants(const fighters *them, int count_ms)
{
    double first = them->grants(them->arg), start = bench_now_ns(), count;

    bench_nap_ms(count_ms);
    while ((count = them->grants(them->arg) - first) < FEW &&
           bench_now_ns() - start < LONGEST_MS * 1e6)
        bench_nap_ms(STEP_MS);
    return count < 1 ? 1 : count;
}

void
fight_run(fight *f, int who, const fighters *them, const server *s, fight_round round)
{
    server_counts before, after;
    double start, seconds, count;

    them->begin(them->arg, them->which);
    bench_nap_ms(round.warm_ms);
    before = server_count(s);
    start = bench_now_ns();
    count = count_grants(them, round.count_ms);
    seconds = (bench_now_ns() - start) / 1e9;
    after = server_count(s);
    them->end(them->arg);
    turns_add(&f->rates, who, count / seconds);
    turns_add(&f->requests, who, (after.requests - before.requests) / count);
    turns_add(&f->events, who, (after.events - before.events) / count);
}

static void
report_one(const turns *t, int who, const fighters *them, const char *id,
           const char *words, const char *what, const char *what_label)
{
    char full[64], label[96];

    snprintf(full, sizeof full, "%s.%s.%s", id, them->id, what);
    snprintf(label, sizeof label, "%s, %s: %s each", words, them->label, what_label);
    turns_figure(t, who, full, label, "", BAR_AT_MOST, 0);
}

void
fight_report(const fight *f, int who, const fighters *them, const char *id,
             const char *words)
{
    char full[64], label[96];

    snprintf(full, sizeof full, "%s.%s", id, them->id);
    snprintf(label, sizeof label, "%s, %s: hand-overs", words, them->label);
    turns_figure(&f->rates, who, full, label, "/s", BAR_AT_LEAST, 0);
    report_one(&f->requests, who, them, id, words, "requests", "requests");
    /* not every server counts them */
    if (turns_typical(&f->events, who) > 0)
        report_one(&f->events, who, them, id, words, "events", "watch events");
}

void
fight_free(fight *f)
{
    turns_free(&f->rates);
    turns_free(&f->requests);
    turns_free(&f->events);
}
