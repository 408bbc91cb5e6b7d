/* SPDX-License-Identifier: MIT */
/*
 * An uncontended lock+unlock pair, one thread: dibs in both layouts, Curator and kazoo,
 * against a bare create and delete of one ephemeral node with the faster of the two C
 * clients.
 */
#include <stdio.h>
#include <string.h>

#include "../pairs.h"
#include "zookeeper.h"

enum { CURATOR, NODE, LAYOUTS, PEERS_MAX = 4 };

static const char *const layouts[LAYOUTS] = { "curator", "node" };
static const char *const labels[LAYOUTS] = { "dibs curator", "dibs node" };

static int
find(const pair_contestant *list, int count, const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].id, id) == 0)
            return i;
    return -1;
}

static int
find_floor(const turns *t, const pair_contestant *list, int count)
{
    int st = find(list, count, PEER_ST), mt = find(list, count, PEER_MT);

    if (st < 0)
        bench_die("%s does not run", PEER_ST);
    return mt >= 0 && turns_typical(t, mt) < turns_typical(t, st) ? mt : st;
}

static void
report_pairs(const turns *t, const pair_contestant *list, int count, const server *s,
             int place)
{
    int java = find(list, count, PEER_CURATOR), floor = find_floor(t, list, count);
    log_title title = logs_title("pair", s, place);
    char id[64], label[96];

    pairs_report(t, list, count, floor, title.id, title.words);
    snprintf(id, sizeof id, "%s.floor", title.id);
    snprintf(label, sizeof label, "%s, the faster bare C client", title.words);
    turns_figure(t, floor, id, label, "ns", BAR_AT_MOST, 0);
    if (java < 0)
        return;
    snprintf(id, sizeof id, "%s.speed", title.id);
    snprintf(label, sizeof label, "%s, Curator's time / dibs curator's", title.words);
    turns_ratio(t, java, CURATOR, id, label, BAR_AT_LEAST, 1.25);
}

static void
measure_pairs(const server *s, int place)
{
    const pair_counts counts = { bench_count(3000, 5), bench_count(20, 2),
                                 bench_count(40, 5) };
    pair_contestant list[TURNS_MAX];
    peer peers[PEERS_MAX];
    dibs *clients[LAYOUTS];
    turns t = { 0 };
    char url[128];
    int peer_count, count;

    for (int i = 0; i < LAYOUTS; i++) {
        server_url(url, sizeof url, s, layouts[i]);
        clients[i] = bench_open(url);
        list[i] = (pair_contestant){ layouts[i], labels[i], i == CURATOR ? 1.1 : 0,
                                     pairs_of_dibs, clients[i] };
    }
    peer_count = zookeeper_peers_start(peers, PEERS_MAX, NULL, s, place);
    count = pairs_add_peers(list, LAYOUTS, peers, peer_count);
    pairs_run(&t, list, count, &counts);
    report_pairs(&t, list, count, s, place);
    turns_free(&t);
    peers_stop(peers, peer_count);
    for (int i = 0; i < LAYOUTS; i++)
        dibs_close(clients[i]);
}

void
zookeeper_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 40 pairs a round; ratios to the "
                   "faster create + delete");
    for_each_log(measure_pairs);
}
