/* SPDX-License-Identifier: MIT */
/*
 * An uncontended lock+unlock pair, one process on one CPU: dibs on `local:` against
 * flock(2) on an open file, which is what people use today; an OFD fcntl lock; and a
 * robust mutex in shared memory, the least that any lock which survives its holder's
 * death costs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "bench.h"

typedef struct contest {
    dibs *client;
    int fd;
    pthread_mutex_t *mutex;
} contest;

static void
dibs_pairs(contest *c, int count)
{
    dibs_error err;
    dibs_hold *hold;

    for (int i = 0; i < count; i++) {
        bench_check(dibs_lock(&hold, c->client, "bench/pair", &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
    }
}

static void
flock_pairs(contest *c, int count)
{
    for (int i = 0; i < count; i++)
        if (flock(c->fd, LOCK_EX) != 0 || flock(c->fd, LOCK_UN) != 0)
            bench_die("flock: %s", strerror(errno));
}

static void
fcntl_pairs(contest *c, int count)
{
    for (int i = 0; i < count; i++) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

        if (fcntl(c->fd, F_OFD_SETLKW, &lock) != 0)
            bench_die("fcntl: %s", strerror(errno));
        lock.l_type = F_UNLCK;
        if (fcntl(c->fd, F_OFD_SETLKW, &lock) != 0)
            bench_die("fcntl: %s", strerror(errno));
    }
}

static void
mutex_pairs(contest *c, int count)
{
    for (int i = 0; i < count; i++)
        if (pthread_mutex_lock(c->mutex) != 0 || pthread_mutex_unlock(c->mutex) != 0)
            bench_die("the robust mutex failed");
}

static pthread_mutex_t *
robust_mutex(void)
{
    pthread_mutex_t *mutex = bench_shared(sizeof *mutex);
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return mutex;
}

static const struct {
    const char *id, *label;
    void (*pairs)(contest *c, int count);
} contestants[] = {
    { "pair.dibs", "dibs local:", dibs_pairs },
    { "pair.flock", "flock(2)", flock_pairs },
    { "pair.ofd", "fcntl(2), OFD", fcntl_pairs },
    { "pair.mutex", "robust mutex, process-shared (floor)", mutex_pairs },
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0], DIBS = 0, FLOCK = 1 };

/* one_run adds the run's median per contestant, and that of dibs over flock per round. */
static void
one_run(contest *c, series *runs, series *ratios)
{
    series rounds[CONTESTANTS] = { { NULL, 0, 0 } };
    series ratio = { NULL, 0, 0 };
    int pairs = bench_count(2000, 50);

    for (int round = 0; round < bench_count(200, 3); round++) {
        double took[CONTESTANTS];

        for (int i = 0; i < CONTESTANTS; i++) {
            double start = bench_now_ns();

            contestants[i].pairs(c, pairs);
            took[i] = (bench_now_ns() - start) / pairs;
            series_add(&rounds[i], took[i]);
        }
        series_add(&ratio, took[DIBS] / took[FLOCK]);
    }
    for (int i = 0; i < CONTESTANTS; i++) {
        series_add(&runs[i], series_median(&rounds[i]));
        series_free(&rounds[i]);
    }
    series_add(ratios, series_median(&ratio));
    series_free(&ratio);
}

void
bench_pair(void)
{
    contest c = { bench_open(bench.url), -1, robust_mutex() };
    series runs[CONTESTANTS] = { { NULL, 0, 0 } };
    series ratios = { NULL, 0, 0 };
    char path[512];

    report_section("uncontended lock+unlock pair",
                   "one process, one CPU; contestants in turn, 2000 pairs a round");
    bench_pin(bench_cpus() - 1);
    bench_scratch(path, sizeof path, "pair");
    c.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c.fd < 0)
        bench_die("cannot open %s: %s", path, strerror(errno));
    for (int run = 0; run < bench.runs; run++)
        one_run(&c, runs, &ratios);
    for (int i = 0; i < CONTESTANTS; i++) {
        report_figure(contestants[i].id, contestants[i].label, "ns", &runs[i]);
        series_free(&runs[i]);
    }
    report_bar("pair.ratio", "dibs / flock", "x", &ratios, BAR_AT_MOST, 0.25);
    series_free(&ratios);
    close(c.fd);
    dibs_close(c.client);
}
