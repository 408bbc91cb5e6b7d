/* SPDX-License-Identifier: MIT */
/*
 * An uncontended lock+unlock pair, one thread: dibs in each layout, and the lock libraries
 * of other languages, against SET NX PX and a compare-and-delete by hand. Beside them what
 * plain and queue send is sent by hand, too: no client can be faster than that.
 */
#include <stdio.h>
#include <string.h>

#include "../pairs.h"
#include "engine/redis/queue_lua.h"
#include "redis.h"

#define FLOOR_KEY "dibs:{bench/floor}"
#define FLOOR_CLOCK "bench/clock" /* the clients' own one must not be moved */

enum { LAYOUTS = 4, PEERS_MAX = 8 };
static const struct {
    const char *layout, *label;
    double bar; /* 0: none */
} layouts[LAYOUTS] = { { "plain", "dibs plain", 1.05 },
                       { "queue", "dibs queue", 1.15 },
                       { "redisson", "dibs redisson", 0 },
                       { "getset", "dibs getset", 0 } };

/* By hand there are three: as people write it, and what plain and queue send, which is the
 * least that they can cost. */
typedef struct by_hand {
    raw link;
    void (*pair)(struct by_hand *one);
    char take[41], give[41]; /* queue's scripts */
} by_hand;

static void
pair_as_people_do(by_hand *one)
{
    raw_lock(&one->link, "bench/pair");
    raw_unlock(&one->link, "bench/pair");
}

/* TIME is the token; it travels with the SET */
static void
pair_as_plain(by_hand *one)
{
    redisReply *time = NULL;
    int sent = 0;

    raw_append_lock(&one->link, "bench/pair");
    redisAppendCommand(one->link.link, "TIME");
    while (!sent && redisBufferWrite(one->link.link, &sent) == REDIS_OK)
        ;
    raw_locked(&one->link, "bench/pair");
    if (redisGetReply(one->link.link, (void **)&time) != REDIS_OK)
        bench_die("redis-server: %s", one->link.link->errstr);
    freeReplyObject(time);
    raw_unlock(&one->link, "bench/pair");
}

static void
pair_as_queue(by_hand *one)
{
    const char *mark = "L 0123456789abcdef0123456789abcdef:1234 ";
    const char *take[] = { "EVALSHA",
                           one->take,
                           "2",
                           FLOOR_KEY,
                           FLOOR_CLOCK,
                           mark,
                           " +30000 0 0 1 0 30000 10000 1234 host bench ",
                           "60000" };
    const char *give[] = { "EVALSHA", one->give, "1", FLOOR_KEY, mark };

    freeReplyObject(raw_ask(one->link.link, 8, take));
    redisReply *given = raw_ask(one->link.link, 5, give);
    if (given->integer != 1)
        bench_die("queue's scripts do not take and give any more");
    freeReplyObject(given);
}

static double
pairs_by_hand(void *arg, int count)
{
    by_hand *one = arg;
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        one->pair(one);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

/* with a time limit, as dibs has one: a server that stands still must not hold a caller */
static void
floor_open(by_hand *one, void (*pair)(by_hand *one))
{
    raw_open(&one->link, 0);
    one->pair = pair;
    (void)redisSetTimeout(one->link.link, (struct timeval){ 5, 0 });
    raw_load(one->link.link, dibs__queue_lua_take_free, one->take);
    raw_load(one->link.link, dibs__queue_lua_give_lone, one->give);
}

static void
one_place(int place)
{
    const pair_counts counts = { bench_count(200, 5), bench_count(30, 2),
                                 bench_count(150, 10) };
    pair_contestant list[TURNS_MAX];
    peer peers[PEERS_MAX];
    dibs *clients[LAYOUTS];
    by_hand people = { .pair = pair_as_people_do }, floors[2];
    turns t = { 0 };
    char url[128], id[16];
    int count = 1, peer_count;

    place_client(place);
    raw_open(&people.link, 0);
    floor_open(&floors[0], pair_as_plain);
    floor_open(&floors[1], pair_as_queue);
    list[0] =
        (pair_contestant){ "raw", "by hand with hiredis", 0, pairs_by_hand, &people };
    for (int i = 0; i < LAYOUTS; i++) {
        server_url(url, sizeof url, layouts[i].layout);
        clients[i] = bench_open(url);
        list[count++] = (pair_contestant){ layouts[i].layout, layouts[i].label,
                                           layouts[i].bar, pairs_of_dibs, clients[i] };
    }
    list[count++] = (pair_contestant){ "floor.plain", "plain's commands by hand", 0,
                                       pairs_by_hand, &floors[0] };
    list[count++] = (pair_contestant){ "floor.queue", "queue's commands by hand", 0,
                                       pairs_by_hand, &floors[1] };
    peer_count = redis_peers_start(peers, PEERS_MAX, place);
    count = pairs_add_peers(list, count, peers, peer_count);
    pairs_run(&t, list, count, &counts);
    snprintf(id, sizeof id, "pair.%s", place_names[place]);
    pairs_report(&t, list, count, 0, id, place_names[place]);
    turns_free(&t);
    peers_stop(peers, peer_count);
    for (int i = 0; i < LAYOUTS; i++)
        dibs_close(clients[i]);
    raw_close(&people.link);
    raw_close(&floors[0].link);
    raw_close(&floors[1].link);
}

void
redis_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 150 pairs a round");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
