/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between 16 processes. dibs hands over to the one that is next; another
 * contestant tells everybody (herd.c), and a third one shows what dibs' scripts cost when
 * they are sent by hand (line.c). Commands are counted by the server.
 */
#include <stdio.h>

#include "../crowd.h"
#include "herd.h"
#include "line.h"

enum contestant { DIBS, HERD, FLOOR, CONTESTANTS };

static const struct {
    const char *id, *label;
    double most_commands; /* the bar, 0: none */
} contestants[CONTESTANTS] = { { "dibs", "dibs", 2.5 },
                               { "publish-to-all", "publish-to-all", 0 },
                               { "floor", "queue's scripts by hand", 0 } };
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
        snprintf(id, sizeof id, "handover.%s.%s", place, contestants[who].id);
        snprintf(label, sizeof label, "%s, %s: hand-overs", place,
                 contestants[who].label);
        turns_figure(&t->rates, who, id, label, "/s", BAR_AT_LEAST, 0);
        snprintf(id, sizeof id, "handover.%s.%s.commands", place, contestants[who].id);
        snprintf(label, sizeof label, "%s, %s: commands per hand-over", place,
                 contestants[who].label);
        turns_figure(&t->commands, who, id, label, "", BAR_AT_MOST,
                     contestants[who].most_commands);
    }
}

static void
report_ratio(const char *place, const tally *t, int who, const char *suffix, double bar)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "handover.%s%s", place, suffix);
    snprintf(label, sizeof label, "%s, %s / publish-to-all: hand-overs", place,
             contestants[who].label);
    turns_ratio(&t->rates, who, HERD, id, label, BAR_AT_LEAST, bar);
}

static void
one_place(int place)
{
    int rounds = bench_count(6, 1);
    tally t = { .rates.rounds = rounds, .commands.rounds = rounds };
    redisContext *link = server_connect(0);
    char url[128];
    crowd_lock locks[CONTESTANTS];
    crowd *c;

    server_url(url, sizeof url, "queue");
    locks[DIBS] = crowd_dibs(url);
    locks[HERD] = herd_in_crowd("bench/handover/all");
    locks[FLOOR] = line_in_crowd("dibs:{bench/handover/floor}");
    c = crowd_start(locks, CONTESTANTS, 16, place);
    /* each round begins with another one, so that nobody always comes behind the same */
    for (int round = 0; round < bench.runs * rounds; round++)
        for (int i = 0; i < CONTESTANTS; i++)
            one_round(c, (round + i) % CONTESTANTS, link, &t);
    crowd_stop(c);
    redisFree(link);
    report_tally(place_names[place], &t);
    report_ratio(place_names[place], &t, DIBS, ".ratio", bars[place]);
    report_ratio(place_names[place], &t, FLOOR, ".floor.ratio", 0);
    turns_free(&t.rates);
    turns_free(&t.commands);
}

void
redis_handover(void)
{
    report_section(
        "hand-overs between 16 processes, one name",
        "dibs (queue) against a lock that tells everybody, as Redisson's does, and "
        "against the same scripts by hand; rounds of 250 ms in turn");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
