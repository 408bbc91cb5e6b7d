/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between 16 processes of dibs, each with a session of its own: in the layout
 * curator, which wakes the one that is next, and in the layout node, which wakes everybody;
 * against 16 clients of Curator, each with a session of its own too, in one JVM. Requests
 * and events are counted by the server.
 */
#include <stdio.h>

#include "../crowd.h"
#include "zookeeper.h"

enum contestant { CURATOR, NODE, OURS, JAVA = OURS, CONTESTANTS };

static const char *const ids[CONTESTANTS] = { "curator", "node", PEER_CURATOR };
static const char *const labels[CONTESTANTS] = { "dibs curator", "dibs node (herd)",
                                                 "Curator" };

/* Who takes part: processes of ours, and a program that has a crowd of its own. */
typedef struct arena {
    const server *server;
    crowd *crowd;
    peer java;
    int has_java;
    turns rates, requests, events;
} arena;

static double
ask_java(arena *a, const char *order)
{
    double answer = peer_ask(&a->java, order);

    if (answer < 0)
        bench_die("%s does not answer any more", a->java.label);
    return answer;
}

static void
begin(arena *a, int who)
{
    if (who == JAVA)
        (void)ask_java(a, "begin");
    else
        crowd_begin(a->crowd, who);
}

static double
grants(arena *a, int who)
{
    return who == JAVA ? ask_java(a, "grants") : crowd_grants(a->crowd);
}

static void
end(arena *a, int who)
{
    if (who == JAVA)
        (void)ask_java(a, "end");
    else
        crowd_end(a->crowd);
}

static void
one_round(arena *a, int who)
{
    server_counts before, after;
    double start, seconds, first, count;

    begin(a, who);
    bench_nap_ms(bench_count(100, 20));
    before = server_count(a->server);
    first = grants(a, who);
    start = bench_now_ns();
    bench_nap_ms(bench_count(500, 100));
    count = grants(a, who) - first;
    seconds = (bench_now_ns() - start) / 1e9;
    after = server_count(a->server);
    end(a, who);
    if (count < 1)
        count = 1;
    turns_add(&a->rates, who, count / seconds);
    turns_add(&a->requests, who, (after.requests - before.requests) / count);
    turns_add(&a->events, who, (after.events - before.events) / count);
}

/* a JVM, the server's as well, is slow at first */
static void
warm_up(arena *a, int contestants)
{
    for (int who = 0; who < contestants; who++) {
        begin(a, who);
        bench_nap_ms(bench_count(4000, 50));
        end(a, who);
    }
}

static void
report_one(const arena *a, int who, const char *id, const char *words)
{
    char full[64], label[96];

    snprintf(full, sizeof full, "%s.%s", id, ids[who]);
    snprintf(label, sizeof label, "%s, %s: hand-overs", words, labels[who]);
    turns_figure(&a->rates, who, full, label, "/s", BAR_AT_LEAST, 0);
    snprintf(full, sizeof full, "%s.%s.requests", id, ids[who]);
    snprintf(label, sizeof label, "%s, %s: requests each", words, labels[who]);
    turns_figure(&a->requests, who, full, label, "", BAR_AT_MOST, 0);
    snprintf(full, sizeof full, "%s.%s.events", id, ids[who]);
    snprintf(label, sizeof label, "%s, %s: watch events each", words, labels[who]);
    turns_figure(&a->events, who, full, label, "", BAR_AT_MOST, 0);
}

static void
report_arena(const arena *a, int place)
{
    char id[48], words[32], full[64], label[96];

    snprintf(id, sizeof id, "handover.%s.%s", a->server->name, place_names[place]);
    snprintf(words, sizeof words, "%s, %s", a->server->name, place_names[place]);
    for (int who = 0; who < OURS + a->has_java; who++)
        report_one(a, who, id, words);
    snprintf(full, sizeof full, "%s.herd", id);
    snprintf(label, sizeof label, "%s, dibs curator / dibs node: hand-overs", words);
    turns_ratio(&a->rates, CURATOR, NODE, full, label, BAR_AT_LEAST, 0);
    if (!a->has_java)
        return;
    snprintf(full, sizeof full, "%s.ratio", id);
    snprintf(label, sizeof label, "%s, dibs curator / Curator: hand-overs", words);
    turns_ratio(&a->rates, CURATOR, JAVA, full, label, BAR_AT_LEAST, 1.2);
}

static void
measure_handover(const server *s, int place)
{
    int rounds = bench_count(6, 1);
    arena a = { .server = s,
                .rates.rounds = rounds,
                .requests.rounds = rounds,
                .events.rounds = rounds };
    char urls[OURS][128];
    crowd_lock locks[OURS];

    for (int i = 0; i < OURS; i++) {
        server_url(urls[i], sizeof urls[i], s, ids[i]);
        locks[i] = crowd_dibs(urls[i]);
    }
    a.crowd = crowd_start(locks, OURS, 16, place);
    a.has_java = zookeeper_peers_start(&a.java, 1, PEER_CURATOR, s, place);
    warm_up(&a, OURS + a.has_java);
    for (int round = 0; round < bench.runs * rounds; round++)
        for (int who = 0; who < OURS + a.has_java; who++)
            one_round(&a, who);
    crowd_stop(a.crowd);
    peers_stop(&a.java, a.has_java);
    report_arena(&a, place);
    turns_free(&a.rates);
    turns_free(&a.requests);
    turns_free(&a.events);
}

void
zookeeper_handover(void)
{
    report_section("hand-overs between 16 sessions, one name",
                   "16 processes of dibs against 16 clients of Curator; rounds of 500 ms "
                   "in turn");
    for_each_log(measure_handover);
}
