/* SPDX-License-Identifier: MIT */
/*
 * The uncontended lock+unlock pair: dibs, against the same requests by hand on one kept
 * connection. Beside them the server's own lock service, and npm's etcd3.
 */
#include <stdio.h>

#include "../pairs.h"
#include "etcd.h"

enum { DIBS, FLOOR, SERVICE, OURS };

static const peer_program known[] = {
    { "npm-etcd3",
      "npm etcd3 lock()",
      "etcd3/node_modules/etcd3",
      { "env", "NODE_PATH=%D/etcd3/node_modules", "node", "%S/pairs.js", "%P" } },
};

enum { PEERS = sizeof known / sizeof known[0] };

static void
measure_pairs(const server *s, int place)
{
    const pair_counts counts = { bench_count(500, 5), bench_count(15, 2),
                                 bench_count(40, 5) };
    const peer_place where = { PEERS_SOURCE, s->port, place };
    log_title title = logs_title("pair", s, place);
    pair_contestant list[TURNS_MAX];
    void *connection = raw_open(s);
    pair_hand floor = { raw_lock, raw_unlock, connection };
    pair_hand service = { raw_service_lock, raw_service_unlock, connection };
    turns t = { 0 };
    char url[128];
    dibs *client;
    peer peers[PEERS];
    int peer_count, count;

    server_url(url, sizeof url, s, ETCD_LAYOUT);
    client = bench_open(url);
    list[DIBS] = (pair_contestant){ "dibs", "dibs", 1.1, pairs_of_dibs, client };
    list[FLOOR] = (pair_contestant){ "floor", "by hand", 0, pairs_of_hand, &floor };
    list[SERVICE] = (pair_contestant){ "service", "the server's lock service", 0,
                                       pairs_of_hand, &service };
    peer_count = peers_start(peers, PEERS, known, PEERS, &where);
    count = pairs_add_peers(list, OURS, peers, peer_count);
    pairs_run(&t, list, count, &counts);
    pairs_report(&t, list, count, FLOOR, title.id, title.words);
    turns_free(&t);
    peers_stop(peers, peer_count);
    dibs_close(client);
    raw_close(connection);
}

void
etcd_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 40 pairs a round; ratios to the "
                   "same requests by hand");
    for_each_log(measure_pairs);
}
