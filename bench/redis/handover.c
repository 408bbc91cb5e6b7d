/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs: 16 processes that all want one name, all the time. dibs hands over to the
 * one that is next; the other contestant tells everybody (herd.c). Who lets go asks again
 * when another one has got it, so that every grant is a hand-over, with 15 waiting.
 *
 * The processes are told by a shared page which lock to fight for in this round, and count
 * there while they have it; the page proves exclusion too. Commands are counted by the
 * server.
 */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "herd.h"

#define NAME "bench/handover"

enum { PROCESSES = 16, NOBODY = -1 };
enum contestant { DIBS, HERD, CONTESTANTS, QUIT = CONTESTANTS };

static const char *const contestant_names[CONTESTANTS] = { "dibs", "publish-to-all" };
static const double bars[PLACES] = { 2.5, 6 };

typedef struct page {
    int place;
    _Atomic uint32_t round; /* futex: a change starts a round, or ends all */
    _Atomic int wanted;     /* enum contestant of this round */
    _Atomic int stop;
    _Atomic int running;
    _Atomic int owner;       /* who is inside, or NOBODY */
    _Atomic uint32_t grants; /* futex: who let go waits for it to change */
} page;

static void
futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    struct timespec most = { 0, 50000000 };

    syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static int
stopped(page *p)
{
    return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

/* inside is what a process does while it has the lock; returns which grant this was. */
static uint32_t
inside(page *p, int me)
{
    uint32_t grant;

    if (atomic_exchange(&p->owner, me) != NOBODY)
        bench_die("two processes had the lock at once");
    grant = atomic_fetch_add(&p->grants, 1) + 1;
    futex_wake(&p->grants, 1);
    atomic_store(&p->owner, NOBODY);
    return grant;
}

static void
after(page *p, uint32_t grant)
{
    while (!stopped(p) && atomic_load(&p->grants) == grant)
        futex_wait(&p->grants, grant);
}

static void
fight_dibs(page *p, int me, dibs *client)
{
    dibs_error err;
    dibs_hold *hold;

    while (!stopped(p)) {
        uint32_t grant;

        bench_check(dibs_lock(&hold, client, NAME, &err), &err);
        grant = inside(p, me);
        bench_check(dibs_unlock(hold, &err), &err);
        after(p, grant);
    }
}

static void
fight_herd(page *p, int me, herd *h)
{
    while (!stopped(p)) {
        uint32_t grant;

        herd_lock(h);
        grant = inside(p, me);
        herd_unlock(h);
        after(p, grant);
    }
}

static void
process(void *arg, int me)
{
    page *p = arg;
    uint32_t round = 0;
    char url[128];
    dibs *client;
    herd h;

    place_client(p->place);
    server_url(url, sizeof url, "queue");
    client = bench_open(url);
    herd_open(&h, NAME "/all");
    for (;;) {
        while (atomic_load(&p->round) == round)
            futex_wait(&p->round, round);
        round++;
        if (atomic_load(&p->wanted) == QUIT)
            break;
        if (atomic_load(&p->wanted) == DIBS)
            fight_dibs(p, me, client);
        else
            fight_herd(p, me, &h);
        atomic_fetch_sub(&p->running, 1);
    }
    herd_close(&h);
    dibs_close(client);
}

static void
start_round(page *p, int wanted)
{
    atomic_store(&p->wanted, wanted);
    atomic_store(&p->stop, 0);
    atomic_store(&p->running, PROCESSES);
    atomic_store(&p->owner, NOBODY);
    atomic_fetch_add(&p->round, 1);
    futex_wake(&p->round, PROCESSES);
}

static void
end_round(page *p)
{
    atomic_store(&p->stop, 1);
    futex_wake(&p->grants, PROCESSES);
    for (int waited_ms = 0; atomic_load(&p->running) > 0; waited_ms++) {
        if (waited_ms > 40000)
            bench_die("a process did not come back from its lock");
        bench_nap_ms(1);
    }
}

/* What a run gathers per contestant. */
typedef struct tally {
    series rate, commands;
} tally;

static void
one_round(page *p, int who, redisContext *link, tally *t)
{
    double start, grants, commands, seconds;

    start_round(p, who);
    bench_nap_ms(bench_count(50, 5));
    grants = atomic_load(&p->grants);
    commands = server_calls(link, CLIENT_COMMANDS);
    start = bench_now_ns();
    bench_nap_ms(bench_count(250, 20));
    seconds = (bench_now_ns() - start) / 1e9;
    grants = atomic_load(&p->grants) - grants;
    commands = server_calls(link, CLIENT_COMMANDS) - commands;
    end_round(p);
    if (grants < 1)
        grants = 1;
    series_add(&t->rate, grants / seconds);
    series_add(&t->commands, commands / grants);
}

static void
one_run(page *p, redisContext *link, tally *runs, series *ratios)
{
    tally rounds[CONTESTANTS];
    series ratio = { NULL, 0, 0 };

    memset(rounds, 0, sizeof rounds);
    for (int i = 0; i < bench_count(6, 1); i++) {
        for (int who = 0; who < CONTESTANTS; who++)
            one_round(p, who, link, &rounds[who]);
        series_add(&ratio, rounds[DIBS].rate.values[i] / rounds[HERD].rate.values[i]);
    }
    for (int who = 0; who < CONTESTANTS; who++) {
        series_fold(&runs[who].rate, &rounds[who].rate);
        series_fold(&runs[who].commands, &rounds[who].commands);
    }
    series_fold(ratios, &ratio);
}

static void
report_tally(const char *place, int who, tally *t)
{
    const char *name = contestant_names[who];
    char id[64], label[96];

    snprintf(id, sizeof id, "handover.%s.%s", place, name);
    snprintf(label, sizeof label, "%s, %s: hand-overs", place, name);
    report_figure(id, label, "/s", &t->rate);
    snprintf(id, sizeof id, "handover.%s.%s.commands", place, name);
    snprintf(label, sizeof label, "%s, %s: commands per hand-over", place, name);
    if (who == DIBS)
        report_bar(id, label, "", &t->commands, BAR_AT_MOST, 2.5);
    else
        report_figure(id, label, "", &t->commands);
    series_free(&t->rate);
    series_free(&t->commands);
}

static void
one_place(int place)
{
    page *p = bench_shared(sizeof *p);
    tally runs[CONTESTANTS];
    series ratios = { NULL, 0, 0 };
    pid_t children[PROCESSES];
    redisContext *link = server_connect(0);
    char id[64], label[96];

    memset(runs, 0, sizeof runs);
    p->place = place;
    for (int i = 0; i < PROCESSES; i++)
        children[i] = bench_fork(process, p, i);
    for (int run = 0; run < bench.runs; run++)
        one_run(p, link, runs, &ratios);
    start_round(p, QUIT);
    for (int i = 0; i < PROCESSES; i++)
        bench_join(children[i]);
    redisFree(link);
    for (int who = 0; who < CONTESTANTS; who++)
        report_tally(place_names[place], who, &runs[who]);
    snprintf(id, sizeof id, "handover.%s.ratio", place_names[place]);
    snprintf(label, sizeof label, "%s, dibs / publish-to-all: hand-overs",
             place_names[place]);
    report_bar(id, label, "x", &ratios, BAR_AT_LEAST, bars[place]);
    series_free(&ratios);
}

void
redis_handover(void)
{
    report_section(
        "hand-overs between 16 processes, one name",
        "dibs (queue) against a lock that tells everybody, as Redisson's does; "
        "rounds of 250 ms in turn");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
