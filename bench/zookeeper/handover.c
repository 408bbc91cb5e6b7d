/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between 16 processes of dibs, each with a session of its own: in the layout
 * curator, which wakes the one that is next, and in the layout node, which wakes everybody;
 * against 16 clients of Curator, each with a session of its own too, in one JVM. Requests
 * and events are counted by the server.
 */
#include <stdio.h>

#include "../fight.h"
#include "zookeeper.h"

enum contestant { CURATOR, NODE, OURS, JAVA = OURS, CONTESTANTS };

static const char *const ids[OURS] = { "curator", "node" };
static const char *const labels[OURS] = { "dibs curator", "dibs node (herd)" };

/* ---- a program that has a crowd of its own ---- */

static double
ask_java(void *java, const char *order)
{
    double answer = peer_ask(java, order);

    if (answer < 0)
        bench_die("%s does not answer any more", ((peer *)java)->label);
    return answer;
}

static void
begin_java(void *java, int which)
{
    (void)which;
    (void)ask_java(java, "begin");
}

static double
grants_of_java(void *java)
{
    return ask_java(java, "grants");
}

static void
end_java(void *java)
{
    (void)ask_java(java, "end");
}

/* ---- all of them ---- */

/* a JVM, the server's as well, is slow at first */
static void
warm_up(const fighters *them)
{
    them->begin(them->arg, them->which);
    bench_nap_ms(bench_count(4000, 50));
    them->end(them->arg);
}

static void
report_all_of(const fight *f, const fighters *them, int count, const log_title *title)
{
    char full[64], label[96];

    for (int who = 0; who < count; who++)
        fight_report(f, who, &them[who], title->id, title->words);
    snprintf(full, sizeof full, "%s.herd", title->id);
    snprintf(label, sizeof label, "%s, dibs curator / dibs node: hand-overs",
             title->words);
    turns_ratio(&f->rates, CURATOR, NODE, full, label, BAR_AT_LEAST, 0);
    if (count <= JAVA)
        return;
    snprintf(full, sizeof full, "%s.ratio", title->id);
    snprintf(label, sizeof label, "%s, dibs curator / Curator: hand-overs", title->words);
    turns_ratio(&f->rates, CURATOR, JAVA, full, label, BAR_AT_LEAST, 1.2);
}

static void
fight_in_turn(const server *s, const fighters *them, int count, const log_title *title)
{
    const fight_round round = { bench_count(100, 20), bench_count(500, 100) };
    int rounds = bench_count(6, 1);
    fight f = { { .rounds = rounds }, { .rounds = rounds }, { .rounds = rounds } };

    for (int who = 0; who < count; who++)
        warm_up(&them[who]);
    for (int i = 0; i < bench.runs * rounds; i++)
        for (int who = 0; who < count; who++)
            fight_run(&f, who, &them[who], s, round);
    report_all_of(&f, them, count, title);
    fight_free(&f);
}

static void
measure_handover(const server *s, int place)
{
    log_title title = logs_title("handover", s, place);
    fighters them[CONTESTANTS];
    char urls[OURS][128];
    crowd_lock locks[OURS];
    crowd *c;
    peer java;
    int has_java;

    for (int i = 0; i < OURS; i++) {
        server_url(urls[i], sizeof urls[i], s, ids[i]);
        locks[i] = crowd_dibs(urls[i]);
    }
    c = crowd_start(locks, OURS, 16, place);
    for (int i = 0; i < OURS; i++)
        them[i] = fighters_of_crowd(c, i, ids[i], labels[i]);
    has_java = zookeeper_peers_start(&java, 1, PEER_CURATOR, s, place);
    them[JAVA] = (fighters){ PEER_CURATOR, "Curator", begin_java, grants_of_java,
                             end_java,     &java,     0 };
    fight_in_turn(s, them, OURS + has_java, &title);
    crowd_stop(c);
    peers_stop(&java, has_java);
}

void
zookeeper_handover(void)
{
    report_section("hand-overs between 16 sessions, one name",
                   "16 processes of dibs against 16 clients of Curator; rounds of 500 ms "
                   "in turn");
    for_each_log(measure_handover);
}
