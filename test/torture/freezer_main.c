/* SPDX-License-Identifier: MIT */
/*
 * test_freezer CASE VERSION: the freezer of torture/freeze.h, with cgroups of version 1 or 2,
 * on a process of several threads that does nothing but count. Where that version cannot be
 * had, it is skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeze.h"
#include "harness.h"

#define THREADS 4
#define GROUP 7

/* What the processes of a case share. */
struct shared {
    _Atomic uint64_t counts[THREADS];
    _Atomic int is_frozen;
    struct freezer freezer; /* of owner_killed */
};

static struct shared *shared;
static int shared_fd, version;

/* ---- the process that counts ---- */

static void
count(void *unused, int index)
{
    (void)unused;
    for (;;) {
        atomic_fetch_add(&shared->counts[index], 1);
        sleep_ms(1);
    }
}

static pid_t
start_self(const char *what, pid_t other)
{
    char fd[16], pid[16], number[16];
    int keep[] = { shared_fd };
    (void)snprintf(fd, sizeof fd, "%d", shared_fd);
    (void)snprintf(pid, sizeof pid, "%d", (int)other);
    (void)snprintf(number, sizeof number, "%d", version);
    return spawn_self((const char *[]){ what, number, fd, pid, NULL }, keep, 1);
}

/* waits until each of its threads has counted on */
static void
await_counting(void)
{
    int64_t until = now_ms() + slowly(10000);
    for (int i = 0; i < THREADS; i++) {
        uint64_t before = atomic_load(&shared->counts[i]);
        while (atomic_load(&shared->counts[i]) == before) {
            if (now_ms() > until)
                FAIL("thread %d does not count", i);
            sleep_ms(1);
        }
    }
}

static void
check_standing(int64_t for_ms)
{
    uint64_t before[THREADS];
    for (int i = 0; i < THREADS; i++) {
        before[i] = atomic_load(&shared->counts[i]);
    }
    sleep_ms(for_ms);
    for (int i = 0; i < THREADS; i++) {
        CHECK_SAME(atomic_load(&shared->counts[i]), before[i]);
    }
}

/* ---- groups ---- */

static int
groups_left(const struct freezer *freezer)
{
    char begin[32];
    int found = 0;
    struct dirent *entry;
    DIR *folder = opendir(freezer->home);
    CHECK(folder != NULL);
    (void)snprintf(begin, sizeof begin, "dibs-%d-", (int)freezer->owner);
    while ((entry = readdir(folder)) != NULL) {
        found += strncmp(entry->d_name, begin, strlen(begin)) == 0;
    }
    (void)closedir(folder);
    return found;
}

static void
read_cgroups(pid_t pid, char *out, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t len = read(fd, out, size - 1);
    CHECK(len > 0);
    out[len] = '\0';
    (void)close(fd);
}

static int
is_at_home(pid_t pid)
{
    char own[2048], its[2048];
    read_cgroups(getpid(), own, sizeof own);
    read_cgroups(pid, its, sizeof its);
    return strcmp(own, its) == 0;
}

static void
open_freezer(struct freezer *out)
{
    char why[160];
    if (freezer_open(out, version, why) == 0) {
        CHECK_SAME(out->version, version);
        return;
    }
    printf("skipped: %s\n", why);
    exit(EXIT_SKIPPED);
}

/* ---- cases ---- */

static void
stands_still(void)
{
    struct freezer freezer;
    open_freezer(&freezer);
    pid_t pid = start_self("--count", 0);
    for (int round = 0; round < 3; round++) {
        await_counting();
        CHECK_SAME(freezer_take(&freezer, GROUP, pid), 0);
        CHECK(!is_at_home(pid));
        CHECK_SAME(freezer_freeze(&freezer, GROUP), 0);
        check_standing(100);
        freezer_thaw(&freezer, GROUP);
        await_counting();
        CHECK(is_at_home(pid));
    }
    CHECK(groups_left(&freezer) > 0);
    freezer_close(&freezer);
    CHECK_SAME(groups_left(&freezer), 0);
    kill_and_reap(pid);
}

/* who is killed in there does not take another step */
static void
killed(void)
{
    struct freezer freezer;
    open_freezer(&freezer);
    pid_t pid = start_self("--count", 0);
    await_counting();
    CHECK_SAME(freezer_take(&freezer, GROUP, pid), 0);
    CHECK_SAME(freezer_freeze(&freezer, GROUP), 0);
    uint64_t before = atomic_load(&shared->counts[0]);
    CHECK_SAME(kill(pid, SIGKILL), 0);
    freezer_thaw(&freezer, GROUP);
    CHECK_SAME(WTERMSIG(reap(pid, slowly(10000))), SIGKILL);
    CHECK_SAME(atomic_load(&shared->counts[0]), before);
    freezer_close(&freezer);
    CHECK_SAME(groups_left(&freezer), 0);
}

/* closing ends a freeze that nobody has ended */
static void
closed(void)
{
    struct freezer freezer;
    open_freezer(&freezer);
    pid_t pid = start_self("--count", 0);
    await_counting();
    CHECK_SAME(freezer_take(&freezer, GROUP, pid), 0);
    CHECK_SAME(freezer_freeze(&freezer, GROUP), 0);
    freezer_close(&freezer);
    await_counting();
    CHECK(is_at_home(pid) && groups_left(&freezer) == 0);
    kill_and_reap(pid);
}

/* nobody is there to close it: the warden does */
static void
owner_killed(void)
{
    struct freezer freezer;
    open_freezer(&freezer);
    freezer_close(&freezer);
    pid_t pid = start_self("--count", 0);
    await_counting();
    pid_t owner = start_self("--own", pid);
    for (int64_t until = now_ms() + slowly(10000); !atomic_load(&shared->is_frozen);) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
    check_standing(50);
    kill_and_reap(owner);
    await_counting();
    for (int64_t until = now_ms() + slowly(10000); groups_left(&shared->freezer) > 0;) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
    CHECK(is_at_home(pid));
    kill_and_reap(pid);
}

/* a process that is not there cannot be taken in, and a group that is not there not frozen */
static void
refused(void)
{
    struct freezer freezer;
    open_freezer(&freezer);
    pid_t pid = start_self("--count", 0);
    kill_and_reap(pid);
    CHECK(freezer_take(&freezer, GROUP, pid) == -1 && errno == ESRCH);
    CHECK(freezer_freeze(&freezer, GROUP + 1) == -1 && errno == ENOENT);
    freezer_close(&freezer);
    CHECK_SAME(groups_left(&freezer), 0);
}

/* ---- the other processes, and all of it ---- */

static _Noreturn void
live(const char *what, int fd, pid_t other)
{
    shared = shared_map(fd, sizeof *shared);
    if (strcmp(what, "--count") == 0)
        gang_join(gang_start(THREADS, count, NULL));
    open_freezer(&shared->freezer);
    CHECK_SAME(freezer_take(&shared->freezer, GROUP, other), 0);
    CHECK_SAME(freezer_freeze(&shared->freezer, GROUP), 0);
    atomic_store(&shared->is_frozen, 1);
    for (;;) {
        (void)pause();
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = { { "stands_still", stands_still },
              { "killed", killed },
              { "closed", closed },
              { "owner_killed", owner_killed },
              { "refused", refused } };

int
main(int argc, char **argv)
{
    version = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (argc == 5)
        live(argv[1], (int)strtol(argv[3], NULL, 10), (pid_t)strtol(argv[4], NULL, 10));
    limit_time(30 * (unsigned)slow_factor());
    shared = shared_new(sizeof *shared, &shared_fd);
    for (size_t i = 0; argc == 3 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    FAIL("usage: test_freezer CASE VERSION");
}
