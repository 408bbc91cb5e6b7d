/* SPDX-License-Identifier: MIT */
/*
 * The small tools of bench.h: clock, pinning, processes, series of values.
 */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

bench_options bench;

int
bench_count(int full, int tiny)
{
    return bench.smoke ? tiny : full;
}

void
bench_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void
bench_check(int code, const dibs_error *err)
{
    if (code != DIBS_OK)
        bench_die("%s: %s", dibs_errname(code), err->text);
}

static double
read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double
bench_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double
bench_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* the CPUs we were allowed at first; pinning ourselves must not shrink it */
static cpu_set_t *
allowed_cpus(void)
{
    static cpu_set_t set;
    static int known;

    if (!known && sched_getaffinity(0, sizeof set, &set) != 0)
        bench_die("cannot read the CPU affinity: %s", strerror(errno));
    known = 1;
    return &set;
}

int
bench_cpus(void)
{
    return CPU_COUNT(allowed_cpus());
}

void
bench_pin(int index)
{
    cpu_set_t *allowed = allowed_cpus();
    cpu_set_t one;
    int left = index % bench_cpus();

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one) != 0)
                bench_die("cannot pin to CPU %d: %s", cpu, strerror(errno));
            return;
        }
}

const char *const place_names[PLACES] = { "X", "S" };

void
place_client(int place)
{
    bench_pin(place == PLACE_X ? 1 : 0);
}

void *
bench_shared(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        bench_die("no shared memory: %s", strerror(errno));
    return memory;
}

pid_t
bench_fork(void (*body)(void *arg, int index), void *arg, int index)
{
    pid_t parent = getpid();
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    body(arg, index);
    fflush(stdout);
    _exit(0);
}

void
bench_join(pid_t child)
{
    int status;

    if (waitpid(child, &status, 0) != child)
        bench_die("cannot wait for a child: %s", strerror(errno));
    if (status != 0)
        bench_die("a child failed (status %d)", status);
}

void
bench_nap_ms(int ms)
{
    struct timespec time = { ms / 1000, (ms % 1000) * 1000000L };

    nanosleep(&time, NULL);
}

dibs *
bench_open(const char *url)
{
    dibs_error err;
    dibs *client;

    bench_check(dibs_open(&client, url, NULL, &err), &err);
    return client;
}

void
bench_scratch(char *out, size_t size, const char *file)
{
    snprintf(out, size, "%s/%s", bench.dir, file);
}

/* -------------------------------------------------------------------- series ---- */

void
series_add(series *s, double value)
{
    if (s->count == s->room) {
        s->room = s->room == 0 ? 16 : s->room * 2;
        s->values = realloc(s->values, s->room * sizeof *s->values);
        if (s->values == NULL)
            bench_die("out of memory");
    }
    s->values[s->count++] = value;
}

void
series_free(series *s)
{
    free(s->values);
    *s = (series){ NULL, 0, 0 };
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* sorts a copy: the order in which values came stays as it was */
double
series_quantile(const series *s, double q)
{
    double *sorted = malloc((s->count + 1) * sizeof *sorted);
    double at = q * (double)(s->count - 1), value;

    if (sorted == NULL || s->count == 0)
        bench_die("a figure without values");
    memcpy(sorted, s->values, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, compare_doubles);
    value = (sorted[(size_t)floor(at)] + sorted[(size_t)ceil(at)]) / 2;
    free(sorted);
    return value;
}

double
series_median(const series *s)
{
    return series_quantile(s, 0.5);
}

double
series_min(const series *s)
{
    return series_quantile(s, 0);
}

double
series_max(const series *s)
{
    return series_quantile(s, 1);
}

void
series_fold(series *runs, series *rounds)
{
    series_add(runs, series_median(rounds));
    series_free(rounds);
}
