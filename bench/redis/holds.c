/* SPDX-License-Identifier: MIT */
/*
 * 100,000 holds of one process, kept by renewing them for as long as it lives: how much of
 * a CPU that takes in the process, and in the server. Measured over a whole turn of the
 * keeper.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../keep.h"
#include "redis.h"

enum { HOLDS = 100000 };

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
one_layout(const char *layout, int has_bar)
{
    series ours = { NULL, 0, 0 }, theirs = { NULL, 0, 0 };
    redisContext *link = server_connect(0);
    char url[128], id[64], label[96];
    keep k;

    server_url(url, sizeof url, layout);
    keep_start(&k, url, bench_count(HOLDS, 200));
    for (int run = 0; run < bench.runs; run++) {
        double before = server_cpu(link), seconds;

        series_add(&ours, keep_turn(&k, &seconds));
        series_add(&theirs, 100 * (server_cpu(link) - before) / seconds);
    }
    snprintf(id, sizeof id, "holds.%s.client", layout);
    snprintf(label, sizeof label, "%d kept holds, %s: the client", k.count, layout);
    if (has_bar)
        report_bar(id, label, "%", &ours, BAR_AT_MOST, 10);
    else
        report_figure(id, label, "%", &ours);
    snprintf(id, sizeof id, "holds.%s.server", layout);
    snprintf(label, sizeof label, "%d kept holds, %s: the server", k.count, layout);
    report_figure(id, label, "%", &theirs);
    keep_stop(&k);
    redisFree(link);
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
