/* SPDX-License-Identifier: MIT */
/*
 * A pair on five independent servers, all on one CPU: redlock: against SET NX PX and a
 * compare-and-delete sent by hand to all five at once. Also how many commands each of the
 * servers gets for a pair: one each way is the least there can be.
 */
#include <stdio.h>
#include <string.h>

#include "redis.h"

#define NAME "bench/redlock"
enum { SERVERS = 5 };

/* one command to all servers at once, then all replies */
static void
ask_all(raw *links, int count, const char **words, int sha_at)
{
    redisReply *reply;

    for (int i = 0; i < SERVERS; i++) {
        if (sha_at)
            words[sha_at] = links[i].sha;
        redisAppendCommandArgv(links[i].link, count, words, NULL);
    }
    for (int i = 0; i < SERVERS; i++) {
        int done = 0;

        /* what is appended goes out with the first read, so write all before reading one */
        while (!done)
            if (redisBufferWrite(links[i].link, &done) != REDIS_OK)
                bench_die("redis-server: %s", links[i].link->errstr);
    }
    for (int i = 0; i < SERVERS; i++) {
        if (redisGetReply(links[i].link, (void **)&reply) != REDIS_OK)
            bench_die("redis-server: %s", links[i].link->errstr);
        if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL)
            bench_die("redis-server said no");
        freeReplyObject(reply);
    }
}

static double
raw_pairs(raw *links, int count)
{
    const char *set[] = { "SET", NAME "/raw", "0123456789abcdef", "NX", "PX", "30000" };
    const char *end[] = { "EVALSHA", NULL, "1", NAME "/raw", "0123456789abcdef" };
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        ask_all(links, 6, set, 0);
        ask_all(links, 5, end, 1);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

static double
dibs_pairs(dibs *client, int count)
{
    series took = { NULL, 0, 0 };
    double median;
    dibs_error err;
    dibs_hold *hold;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        bench_check(dibs_lock(&hold, client, NAME, &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

/* client commands per pair that one of the servers sees */
static double
commands_per_pair(dibs *client)
{
    redisContext *link = server_connect(0);
    int pairs = bench_count(1000, 20);
    double before = server_calls(link, CLIENT_COMMANDS);

    (void)dibs_pairs(client, pairs);
    before = server_calls(link, CLIENT_COMMANDS) - before;
    redisFree(link);
    return before / pairs;
}

static void
report_place(int place, series *ours, series *theirs, series *ratios)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "redlock.%s.raw", place_names[place]);
    snprintf(label, sizeof label, "%s, by hand, five at once", place_names[place]);
    report_figure(id, label, "ns", theirs);
    snprintf(id, sizeof id, "redlock.%s.dibs", place_names[place]);
    snprintf(label, sizeof label, "%s, dibs redlock:", place_names[place]);
    report_figure(id, label, "ns", ours);
    snprintf(id, sizeof id, "redlock.%s.ratio", place_names[place]);
    snprintf(label, sizeof label, "%s, dibs / by hand", place_names[place]);
    report_figure(id, label, "x", ratios);
    series_free(ours);
    series_free(theirs);
    series_free(ratios);
}

static void
one_place(int place, const char *url, raw *links, series *commands)
{
    series ours = { NULL, 0, 0 }, theirs = { NULL, 0, 0 }, ratios = { NULL, 0, 0 };
    dibs *client;

    place_client(place);
    client = bench_open(url);
    (void)dibs_pairs(client, bench_count(200, 5));
    for (int run = 0; run < bench.runs; run++) {
        series our = { NULL, 0, 0 }, their = { NULL, 0, 0 }, ratio = { NULL, 0, 0 };

        for (int round = 0; round < bench_count(20, 2); round++) {
            series_add(&our, dibs_pairs(client, bench_count(100, 5)));
            series_add(&their, raw_pairs(links, bench_count(100, 5)));
            series_add(&ratio, our.values[round] / their.values[round]);
        }
        series_fold(&ours, &our);
        series_fold(&theirs, &their);
        series_fold(&ratios, &ratio);
        if (place == PLACE_X)
            series_add(commands, commands_per_pair(client));
    }
    report_place(place, &ours, &theirs, &ratios);
    dibs_close(client);
}

void
redis_redlock(void)
{
    series commands = { NULL, 0, 0 };
    raw links[SERVERS];
    char url[256] = "redlock://";

    report_section("uncontended pair on five servers",
                   "all servers on one CPU; median pair; in turn, 100 pairs a round");
    for (int i = 0; i < SERVERS; i++) {
        size_t len = strlen(url);

        raw_open(&links[i], i);
        snprintf(url + len, sizeof url - len, "%s127.0.0.1:%d", i ? "," : "",
                 server_port(i));
    }
    for (int place = 0; place < PLACES; place++)
        one_place(place, url, links, &commands);
    report_bar("redlock.commands", "commands for a pair, at each server", "", &commands,
               BAR_AT_MOST, 2);
    series_free(&commands);
    for (int i = 0; i < SERVERS; i++)
        raw_close(&links[i]);
}
