/* SPDX-License-Identifier: MIT */
/*
 * 10,000 holds of one process, kept by renewing them for as long as it lives: how much of
 * a CPU that takes in the process and in the server, and how many requests. Measured over
 * a whole turn of the keeper.
 */
#include <stdio.h>

#include "../keep.h"
#include "../serve.h"
#include "zookeeper.h"

enum { HOLDS = 10000, FIGURES = 3 };

static const struct {
    const char *id, *label, *unit;
} figures[FIGURES] = {
    { "client", "the client", "%" },
    { "server", "the server", "%" },
    { "requests", "requests", "/s" },
};

static void
one_turn(const keep *k, const server *s, series *runs)
{
    double cpu = serve_cpu(s->pid), requests = server_count(s).requests, seconds;

    series_add(&runs[0], keep_turn(k, &seconds));
    series_add(&runs[1], 100 * (serve_cpu(s->pid) - cpu) / seconds);
    series_add(&runs[2], (server_count(s).requests - requests) / seconds);
}

static void
one_log(const server *s)
{
    series runs[FIGURES] = { { NULL, 0, 0 } };
    char url[128], id[64], label[96];
    keep k;

    server_url(url, sizeof url, s, "curator");
    keep_start(&k, url, bench_count(HOLDS, 200));
    for (int run = 0; run < bench.runs; run++)
        one_turn(&k, s, runs);
    for (int i = 0; i < FIGURES; i++) {
        snprintf(id, sizeof id, "holds.%s.%s", s->name, figures[i].id);
        snprintf(label, sizeof label, "%s, %d kept holds: %s", s->name, k.count,
                 figures[i].label);
        report_figure(id, label, figures[i].unit, &runs[i]);
        series_free(&runs[i]);
    }
    keep_stop(&k);
}

void
zookeeper_holds(void)
{
    report_section("what it takes to keep 10,000 holds",
                   "share of a CPU over a turn of the keeper; lease 30 s; X");
    place_client(PLACE_X);
    for (int log = 0; log < LOGS; log++)
        one_log(server_get(log));
}
