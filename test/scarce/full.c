/* SPDX-License-Identifier: MIT */
/* A disk that is full: no two have a lock, every call ends in time, holders who cannot renew
 * are told, and when there is room again all is well. The disk is small, and nobody else sees
 * it. See scarce.h. */
#include "scarce.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* where servers have their folders, and the engines without servers their files */
#define DISK "/dev/shm"
#define SIZE "size=200m"

static int filler = -1;

/* ---- the disk ---- */

int
full_prepare(void)
{
    if (unshare(CLONE_NEWNS) == 0 &&
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("scarce", DISK, "tmpfs", 0, SIZE) == 0) {
        return 0;
    }
    printf("skipped: cannot mount a small disk: %s\n", strerror(errno));
    return -1;
}

/* takes all room that is there, also what was given back since the last time */
static void
fill(void)
{
    if (filler < 0) {
        filler = open(DISK "/filler", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(filler >= 0);
    }
    off_t end = lseek(filler, 0, SEEK_END);
    for (off_t size = 1 << 24; size >= 4096; size /= 2) {
        while (fallocate(filler, 0, end, size) == 0) {
            end += size;
        }
        CHECK(errno == ENOSPC);
    }
}

static void
make_room(void)
{
    CHECK(ftruncate(filler, 0) == 0);
}

/* ---- servers ---- */

/* with everysec it goes on when it cannot write, and says so */
static void
start_redis(void)
{
    static const char *const more[] = { "--appendfsync", "everysec", NULL };
    server_options options = { .durable = 1, .more = more };
    one_start(&options);
}

static void
start(void)
{
    if (strcmp(at->engine, "redis") == 0) {
        start_redis();
    } else if (at->servers > 0) {
        one_start(NULL);
    } else {
        at->start();
    }
}

/* some give up; then somebody has to start them again */
static void
restart_if_dead(void)
{
    siginfo_t end = { 0 };
    if (one.pid == 0) {
        return;
    }
    (void)waitid(P_PID, (id_t)one.pid, &end, WEXITED | WNOHANG | WNOWAIT);
    if (end.si_pid != 0) {
        printf("the server has ended\n");
        server_kill(&one);
        server_restart(&one);
    }
}

void
full_clean_up(void)
{
    one_clean_up();
    if (filler >= 0) {
        close(filler);
        filler = -1;
    }
}

/* ---- what is true meanwhile ---- */

static int outcomes[CODES];

static dibs_hold *
try_lock(dibs *client, const char *name)
{
    dibs_hold *hold = NULL;
    dibs_request request = one_try(name);
    timed call = begin_timed(name, SHORT_MS / 6);
    int code = end_timed(&call, dibs_acquire(&hold, client, &request, &oops));
    outcomes[-code]++;
    return hold;
}

static void
unlock(dibs_hold *hold)
{
    timed call = begin_timed("unlock", 1000);
    int code = dibs_unlock(hold, &oops);
    if (code != DIBS_ELOST) {
        (void)end_timed(&call, code);
    }
}

/* `held`, which may be NULL, is another's */
static void
try_rival(dibs *client, const char *name, const dibs_hold *held)
{
    dibs_hold *second = try_lock(client, name);
    if (second != NULL) {
        CHECK(held == NULL || !dibs_held(held) || !dibs_held(second));
        unlock(second);
    }
}

static void
endure(dibs *first, dibs *second, const dibs_hold *held)
{
    int64_t until = now_ms() + 3 * SHORT_MS;
    for (int i = 0; now_ms() < until; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "new-%d", i);
        fill();
        dibs_hold *hold = try_lock(first, name);
        try_rival(second, name, hold);
        try_rival(second, "held", held);
        if (hold != NULL) {
            unlock(hold);
        }
        sleep_ms(20);
    }
}

/* ---- all of it ---- */

static int told;

static void
on_lost(dibs_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    __atomic_store_n(&told, 1, __ATOMIC_SEQ_CST);
}

static dibs_hold *
take_held(dibs *client)
{
    dibs_hold *hold = NULL;
    dibs_request request = want("held", SHORT_MS);
    request.on_lost = on_lost;
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

static void
recover(dibs *first, dibs *second, dibs_hold *held)
{
    make_room();
    restart_if_dead();
    if (!dibs_held(held)) {
        EVENTUALLY(slowly(500), __atomic_load_n(&told, __ATOMIC_SEQ_CST));
    }
    unlock(held);
    EVENTUALLY(slowly(15000), try_once(first, "held") == DIBS_OK);
    EVENTUALLY(slowly(15000), try_once(second, "held") == DIBS_OK);
    give(take(first, "new-0", SHORT_MS));
    give(take(second, "after", SHORT_MS));
}

static void
report(void)
{
    printf("%s:", at->engine);
    for (int i = 0; i < CODES; i++) {
        if (outcomes[i] > 0) {
            printf(" %d %s", outcomes[i], dibs_errname(-i));
        }
    }
    printf("; %s\n", told ? "lost" : "kept");
}

static int
failures(void)
{
    return outcomes[-DIBS_EUNAVAIL] + outcomes[-DIBS_EUNKNOWN] + outcomes[-DIBS_ENOMEM];
}

void
run_full(void)
{
    char url[512];
    start();
    print_url(url, sizeof(url), &one.port);
    dibs *first = open_url("%s", url), *second = open_url("%s", url);
    dibs_hold *held = take_held(first);
    endure(first, second, held);
    recover(first, second, held);
    report();
    /* without leases nothing is written; MariaDB has room set aside */
    CHECK(is_bound() || strcmp(at->engine, "mysql") == 0 || failures() > 0);
    dibs_close(first);
    dibs_close(second);
}
