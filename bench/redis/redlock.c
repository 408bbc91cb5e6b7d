/* SPDX-License-Identifier: MIT */
/*
 * A pair on five independent servers, all on one CPU: redlock: against SET NX PX and a
 * compare-and-delete sent by hand to all five at once. Also how many commands each of the
 * servers gets for a pair: one each way is the least there can be.
 */
#include <stdio.h>
#include <string.h>

#include "../pairs.h"
#include "redis.h"

#define NAME "bench/redlock/raw"
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
pairs_by_hand(void *links, int count)
{
    const char *set[] = { "SET", NAME, "0123456789abcdef", "NX", "PX", "30000" };
    const char *end[] = { "EVALSHA", NULL, "1", NAME, "0123456789abcdef" };
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

/* client commands per pair that one of the servers sees */
static double
commands_per_pair(dibs *client)
{
    redisContext *link = server_connect(0);
    int pairs = bench_count(1000, 20);
    double before = server_calls(link, CLIENT_COMMANDS);

    (void)pairs_of_dibs(client, pairs);
    before = server_calls(link, CLIENT_COMMANDS) - before;
    redisFree(link);
    return before / pairs;
}

static void
one_place(int place, const char *url, raw *links, series *commands)
{
    const pair_counts counts = { bench_count(200, 5), bench_count(20, 2),
                                 bench_count(100, 5) };
    pair_contestant list[] = {
        { "raw", "by hand, five at once", 0, pairs_by_hand, links },
        { "dibs", "dibs redlock:", 0, pairs_of_dibs, NULL },
    };
    turns t = { 0 };
    char id[16];

    place_client(place);
    list[1].arg = bench_open(url);
    pairs_run(&t, list, 2, &counts);
    snprintf(id, sizeof id, "redlock.%s", place_names[place]);
    pairs_report(&t, list, 2, 0, id, place_names[place]);
    turns_free(&t);
    for (int run = 0; run < bench.runs && place == PLACE_X; run++)
        series_add(commands, commands_per_pair(list[1].arg));
    dibs_close(list[1].arg);
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
