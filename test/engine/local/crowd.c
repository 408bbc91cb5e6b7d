/* SPDX-License-Identifier: MIT */
/*
 * As many as a machine can have: ten thousand threads on one name and on a name each, a
 * thousand processes on one name. One is inside at a time, all get in, and memory has its
 * bounds. A sanitizer needs so much for each thread and process that there are fewer of them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

#include "harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

enum {
    THREADS = IS_SANITIZED ? 500 : 10000,
    PROCESSES = IS_SANITIZED ? 100 : 1000,
    STACK_BYTES = IS_SANITIZED ? 512 << 10 : 64 << 10,
    ROUNDS = 2,
    KIB_OF_THREAD = 32, /* that it uses: its stack, its thread, its place in line */
    KIB_OF_PROCESS = 4096
};

/* what all processes see */
struct scene {
    _Atomic int inside;
    _Atomic int ready;
    int visits; /* plain on purpose: the lock makes it come out right */
};

static char folder[64], url[96];
static dibs *client;
static struct scene *scene;
static int has_own_name;

static void
require(int rc, const dibs_error *err)
{
    if (rc != DIBS_OK)
        FAIL("%s", err->text);
}

static void
visit(const char *name)
{
    dibs_hold *hold;
    dibs_error err;
    require(dibs_timedlock(&hold, client, name, slowly(100000), &err), &err);
    if (!has_own_name) {
        CHECK_SAME(atomic_fetch_add(&scene->inside, 1), 0);
        scene->visits++;
        CHECK_SAME(atomic_fetch_sub(&scene->inside, 1), 1);
    }
    require(dibs_unlock(hold, &err), &err);
}

/* ---- threads ---- */

static void *
be_one_of_many(void *arg)
{
    char name[32] = "all";
    if (has_own_name)
        (void)snprintf(name, sizeof name, "own %d", (int)(intptr_t)arg);
    atomic_fetch_add(&scene->ready, 1);
    for (int i = 0; i < ROUNDS; i++)
        visit(name);
    return NULL;
}

static long
used_kib(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

/* all that there are begin while the lock is held, so that all are there at once */
static int
start_threads(pthread_t *threads)
{
    pthread_attr_t attr;
    int count = 0;
    pthread_attr_init(&attr);
    CHECK(pthread_attr_setstacksize(&attr, STACK_BYTES) == 0);
    while (count < THREADS && pthread_create(&threads[count], &attr, be_one_of_many,
                                             (void *)(intptr_t)count) == 0)
        count++;
    pthread_attr_destroy(&attr);
    return count;
}

static void
crowd_of_threads(int own_names)
{
    static pthread_t threads[THREADS];
    dibs_hold *hold;
    dibs_error err;
    has_own_name = own_names;
    require(dibs_lock(&hold, client, "all", &err), &err);
    long before = used_kib();
    int count = start_threads(threads);
    for (int64_t end = now_ms() + slowly(60000); atomic_load(&scene->ready) < count;) {
        CHECK(now_ms() < end);
        sleep_ms(5);
    }
    require(dibs_unlock(hold, &err), &err);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    long used = used_kib() - before;
    printf("%d threads, %ld KiB more\n", count, used);
    if (count < THREADS) {
        printf("skipped: this machine has room for %d threads only\n", count);
        exit(EXIT_SKIPPED);
    }
    CHECK_SAME(scene->visits, own_names ? 0 : THREADS * ROUNDS);
    CHECK(IS_SANITIZED || used < (long)THREADS * KIB_OF_THREAD);
}

static void
threads_one_name(void)
{
    crowd_of_threads(0);
}

static void
threads_many_names(void)
{
    crowd_of_threads(1);
}

/* ---- processes ---- */

static void
be_a_process(void)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs_error err;
    limit_time((unsigned)slowly(200));
    options.open_wait_ms = (uint32_t)slowly(60000);
    require(dibs_open(&client, url, &options, &err), &err);
    atomic_fetch_add(&scene->ready, 1);
    for (int i = 0; i < ROUNDS; i++)
        visit("all");
    dibs_close(client);
    if (!IS_SANITIZED && used_kib() > KIB_OF_PROCESS)
        FAIL("a process uses %ld KiB", used_kib());
    _exit(0);
}

static int
start_processes(pid_t *pids)
{
    int count = 0;
    (void)fflush(NULL);
    while (count < PROCESSES && (pids[count] = fork()) >= 0) {
        if (pids[count] == 0)
            be_a_process();
        count++;
    }
    return count;
}

static void
processes(void)
{
    static pid_t pids[PROCESSES];
    dibs_hold *hold;
    dibs_error err;
    int failed = 0;
    require(dibs_lock(&hold, client, "all", &err), &err);
    int count = start_processes(pids);
    for (int64_t end = now_ms() + slowly(60000);
         atomic_load(&scene->ready) < count && now_ms() < end;)
        sleep_ms(5);
    int ready = atomic_load(&scene->ready);
    require(dibs_unlock(hold, &err), &err);
    for (int i = 0; i < count; i++) {
        int status = 0;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        failed += status != 0;
    }
    printf("%d processes, of which %d were there at once\n", count, ready);
    if (count < PROCESSES) {
        printf("skipped: this machine has room for %d processes only\n", count);
        exit(EXIT_SKIPPED);
    }
    CHECK_SAME(failed, 0);
    CHECK_SAME(ready, PROCESSES);
    CHECK_SAME(scene->visits, PROCESSES * ROUNDS);
}

/* ---- */

static void
clean_up(void)
{
    remove_tree(folder);
}

static int
run(const char *name)
{
    if (strcmp(name, "threads_one_name") == 0)
        threads_one_name();
    else if (strcmp(name, "threads_many_names") == 0)
        threads_many_names();
    else if (strcmp(name, "processes") == 0)
        processes();
    else
        return 2;
    return 0;
}

int
main(int argc, char **argv)
{
    int fd;
    dibs_error err;
    temp_dir(folder, sizeof folder, "/dev/shm");
    on_failure(clean_up);
    (void)atexit(clean_up);
    limit_time((unsigned)slowly(120));
    scene = shared_new(sizeof *scene, &fd);
    (void)snprintf(url, sizeof url, "local:%s", folder);
    require(dibs_open(&client, url, NULL, &err), &err);
    int status = argc == 2 ? run(argv[1]) : 2;
    dibs_close(client);
    return status;
}
