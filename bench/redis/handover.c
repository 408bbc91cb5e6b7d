/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between 16 processes. dibs hands over to the one that is next; the other
 * contestant tells everybody (herd.c). Commands are counted by the server.
 */
#include <stdio.h>

#include "../crowd.h"
#include "herd.h"

enum contestant { DIBS, HERD, CONTESTANTS };

static const char *const names[CONTESTANTS] = { "dibs", "publish-to-all" };
static const double bars[PLACES] = { 2.5, 6 };

typedef struct tally {
    turns rates, commands;
} tally;

static void
one_round(crowd *c, int who, redisContext *link, tally *t)
{
    double start, grants, commands, seconds;

    crowd_begin(c, who);
    bench_nap_ms(bench_count(50, 5));
    grants = crowd_grants(c);
    commands = server_calls(link, CLIENT_COMMANDS);
    start = bench_now_ns();
    bench_nap_ms(bench_count(250, 20));
    seconds = (bench_now_ns() - start) / 1e9;
    grants = crowd_grants(c) - grants;
    commands = server_calls(link, CLIENT_COMMANDS) - commands;
    crowd_end(c);
    if (grants < 1)
        grants = 1;
    turns_add(&t->rates, who, grants / seconds);
    turns_add(&t->commands, who, commands / grants);
}

static void
report_tally(const char *place, const tally *t)
{
    char id[64], label[96];

    for (int who = 0; who < CONTESTANTS; who++) {
        snprintf(id, sizeof id, "handover.%s.%s", place, names[who]);
        snprintf(label, sizeof label, "%s, %s: hand-overs", place, names[who]);
        turns_figure(&t->rates, who, id, label, "/s", BAR_AT_LEAST, 0);
        snprintf(id, sizeof id, "handover.%s.%s.commands", place, names[who]);
        snprintf(label, sizeof label, "%s, %s: commands per hand-over", place,
                 names[who]);
        turns_figure(&t->commands, who, id, label, "", BAR_AT_MOST,
                     who == DIBS ? 2.5 : 0);
    }
}

static void
one_place(int place)
{
    int rounds = bench_count(6, 1);
    tally t = { .rates.rounds = rounds, .commands.rounds = rounds };
    redisContext *link = server_connect(0);
    char url[128], id[64], label[96];
    crowd_lock locks[CONTESTANTS];
    crowd *c;

    server_url(url, sizeof url, "queue");
    locks[DIBS] = crowd_dibs(url);
    locks[HERD] = herd_in_crowd("bench/handover/all");
    c = crowd_start(locks, CONTESTANTS, 16, place);
    for (int round = 0; round < bench.runs * rounds; round++)
        for (int who = 0; who < CONTESTANTS; who++)
            one_round(c, who, link, &t);
    crowd_stop(c);
    redisFree(link);
    report_tally(place_names[place], &t);
    snprintf(id, sizeof id, "handover.%s.ratio", place_names[place]);
    snprintf(label, sizeof label, "%s, dibs / publish-to-all: hand-overs",
             place_names[place]);
    turns_ratio(&t.rates, DIBS, HERD, id, label, BAR_AT_LEAST, bars[place]);
    turns_free(&t.rates);
    turns_free(&t.commands);
}

void
redis_handover(void)
{
    report_section(
        "hand-overs between 16 processes, one name",
        "dibs (queue) against a lock that tells everybody, as Redisson's does; "
        "rounds of 250 ms in turn");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
