/* SPDX-License-Identifier: MIT */
/*
 * 100,000 holds of one process, kept by renewing them for as long as it lives: how much of
 * a CPU that takes in the process, and in the server. Measured over a whole turn of the
 * keeper, which renews each hold every third of its lease (30 s).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

enum { HOLDS = 100000, TURN_MS = 10000 };

static const struct {
    const char *layout;
    int has_bar;
} layouts[] = { { "queue", 1 }, { "plain", 0 } };

/* seconds of CPU that the server has used */
static double
server_cpu(redisContext *link)
{
    const char *words[] = { "INFO", "cpu" };
    redisReply *reply = raw_ask(link, 2, words);
    const char *user = strstr(reply->str, "used_cpu_user:");
    const char *system = strstr(reply->str, "used_cpu_sys:");
    double sum = 0;

    if (user != NULL && system != NULL)
        sum = strtod(user + strlen("used_cpu_user:"), NULL) +
              strtod(system + strlen("used_cpu_sys:"), NULL);
    freeReplyObject(reply);
    return sum;
}

static void
take_all(dibs *client, dibs_hold **holds, int count)
{
    dibs_error err;
    char name[32];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench/hold/%06d", i);
        bench_check(dibs_lock(&holds[i], client, name, &err), &err);
    }
}

/* one_turn adds what client and server used, in % of a CPU */
static void
one_turn(dibs *client, redisContext *link, series *ours, series *theirs)
{
    dibs_stats stats;
    double start = bench_now_ns(), cpu = bench_cpu_ns(), server = server_cpu(link);
    double seconds;

    bench_nap_ms(bench_count(TURN_MS, 100));
    seconds = (bench_now_ns() - start) / 1e9;
    series_add(ours, 100 * (bench_cpu_ns() - cpu) / 1e9 / seconds);
    series_add(theirs, 100 * (server_cpu(link) - server) / seconds);
    dibs_stats_read(&stats, client);
    if (stats.lost > 0)
        bench_die("%llu holds were lost", (unsigned long long)stats.lost);
}

static void
one_layout(const char *layout, int has_bar)
{
    int count = bench_count(HOLDS, 200);
    dibs_hold **holds = calloc((size_t)count, sizeof *holds);
    series ours = { NULL, 0, 0 }, theirs = { NULL, 0, 0 };
    redisContext *link = server_connect(0);
    char url[128], id[64], label[96];
    dibs *client;

    if (holds == NULL)
        bench_die("out of memory");
    server_url(url, sizeof url, layout);
    client = bench_open(url);
    take_all(client, holds, count);
    for (int run = 0; run < bench.runs; run++)
        one_turn(client, link, &ours, &theirs);
    snprintf(id, sizeof id, "holds.%s.client", layout);
    snprintf(label, sizeof label, "%d kept holds, %s: the client", count, layout);
    if (has_bar)
        report_bar(id, label, "%", &ours, BAR_AT_MOST, 10);
    else
        report_figure(id, label, "%", &ours);
    snprintf(id, sizeof id, "holds.%s.server", layout);
    snprintf(label, sizeof label, "%d kept holds, %s: the server", count, layout);
    report_figure(id, label, "%", &theirs);
    for (int i = 0; i < count; i++)
        (void)dibs_unlock(holds[i], NULL);
    dibs_close(client);
    redisFree(link);
    free(holds);
    series_free(&ours);
    series_free(&theirs);
}

void
redis_holds(void)
{
    report_section("what it takes to keep 100,000 holds",
                   "share of a CPU over a turn of the keeper; lease 30 s; X");
    place_client(PLACE_X);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        one_layout(layouts[i].layout, layouts[i].has_bar);
}
