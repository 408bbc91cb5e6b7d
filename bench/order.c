/* SPDX-License-Identifier: MIT */
/*
 * First come, first served? 16 processes queue up for one name, each only when the one
 * before it is seen in the queue; then the lock is let go. Exactly this order has to come
 * out again. For flock(2), which cannot be asked who waits, a pause stands in for the
 * look.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "bench.h"

enum { PROCESSES = 16, GIVE_UP_MS = 10000 };

static const char NAME[] = "bench/order";

typedef struct line {
    int with_flock;
    char path[512];
    _Atomic int served;
    int in_turn; /* changed by the lock's holder only */
} line;

static int
open_file(const line *l)
{
    int fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        bench_die("cannot open %s: %s", l->path, strerror(errno));
    return fd;
}

static void
queue_up(void *arg, int me)
{
    line *l = arg;
    dibs_error err;
    dibs_hold *hold;

    if (l->with_flock) {
        int fd = open_file(l);

        flock(fd, LOCK_EX);
        l->in_turn += atomic_fetch_add(&l->served, 1) == me;
        close(fd);
    } else {
        dibs *client = bench_open(bench.url);

        bench_check(dibs_lock(&hold, client, NAME, &err), &err);
        l->in_turn += atomic_fetch_add(&l->served, 1) == me;
        bench_check(dibs_unlock(hold, &err), &err);
        dibs_close(client);
    }
}

/* wait_for_length waits until so many are in the queue. */
static void
wait_for_length(const line *l, dibs *client, size_t length)
{
    for (int ms = 0; ms < GIVE_UP_MS; ms++) {
        dibs_report *report;
        dibs_error err;
        size_t waiting;

        bench_nap_ms(l->with_flock ? 20 : 1);
        if (l->with_flock)
            return;
        bench_check(dibs_inspect(&report, client, NAME, &err), &err);
        waiting = report->waiter_count;
        dibs_report_free(report);
        if (waiting == length)
            return;
    }
    bench_die("process %zu never queued up", length);
}

/* one_line returns how many of 100 were served in turn. */
static double
one_line(dibs *client, int with_flock)
{
    line *l = bench_shared(sizeof *l);
    pid_t children[PROCESSES];
    dibs_error err;
    dibs_hold *hold;
    int fd;

    l->with_flock = with_flock;
    bench_scratch(l->path, sizeof l->path, "order");
    fd = open_file(l);
    bench_check(dibs_lock(&hold, client, NAME, &err), &err);
    flock(fd, LOCK_EX);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = bench_fork(queue_up, l, i);
        wait_for_length(l, client, (size_t)i + 1);
    }
    flock(fd, LOCK_UN);
    bench_check(dibs_unlock(hold, &err), &err);
    for (int i = 0; i < PROCESSES; i++)
        bench_join(children[i]);
    close(fd);
    return 100.0 * l->in_turn / PROCESSES;
}

void
bench_order(void)
{
    dibs *client = bench_open(bench.url);
    series ours = { NULL, 0, 0 }, theirs = { NULL, 0, 0 };

    report_section("first come, first served",
                   "16 processes queue up one after the other; share served in turn");
    for (int run = 0; run < bench.runs; run++) {
        series_add(&ours, one_line(client, 0));
        series_add(&theirs, one_line(client, 1));
    }
    report_bar("order.dibs", "dibs local:", "%", &ours, BAR_AT_LEAST, 100);
    report_figure("order.flock", "flock(2)", "%", &theirs);
    series_free(&ours);
    series_free(&theirs);
    dibs_close(client);
}
