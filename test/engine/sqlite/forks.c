/* SPDX-License-Identifier: MIT */
/* Children of a process that has the file open. SQLite keeps one list of its locks for the
 * process, and a fork copies it. */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

enum { FORKS = 20, THREADS = 4 };

static void
reap_well(pid_t pid)
{
    int status;
    CHECK(pid > 0);
    CHECK_SAME(waitpid(pid, &status, 0), pid);
    CHECK_SAME(status, 0);
}

/* what a child does with a client of its own, while its parent holds NAME */
static void
live_on(dibs *of_parent)
{
    dibs_hold *hold = NULL;
    GIVES(DIBS_EINVAL, dibs_trylock(&hold, of_parent, NAME, &oops));
    dibs_close(of_parent);
    dibs *own = open_url("%s", file_url());
    GIVES(DIBS_EBUSY, try_take(own, NAME));
    for (int i = 0; i < 20; i++)
        give(take(own, NAME "/child", LEASE_MS));
    dibs_close(own);
}

static void
need_threads_in_children(void)
{
    if (threads_work_after_fork())
        return;
    puts("a sanitizer cannot follow threads after a fork");
    exit(EXIT_SKIPPED);
}

/* A child has locks of its own on the file: while it writes, the parent cannot, and what
 * both write is there. */
static void
own_client(void)
{
    need_threads_in_children();
    dibs *client = open_url("%s", file_url());
    dibs_hold *hold = take(client, NAME, (uint32_t)slowly(10000));
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            live_on(client);
            _exit(0);
        }
        for (int n = 0; n < 20; n++)
            give(take(client, NAME "/parent", LEASE_MS));
        reap_well(pid);
    }
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(client);
    check_whole();
}

static _Atomic int is_over;

static void
take_and_give(void *arg, int index)
{
    char name[32];
    (void)snprintf(name, sizeof name, NAME "/%d", index);
    while (!atomic_load(&is_over))
        give(take(arg, name, (uint32_t)slowly(2000)));
}

/* The address sanitizer's allocator does not survive a fork amid other threads. */
#if defined(__SANITIZE_ADDRESS__)
#define FORKS_AMID_THREADS 0
#else
#define FORKS_AMID_THREADS 1
#endif

/* forks hit threads at all points of what they do */
static void
while_busy(void)
{
    need_threads_in_children();
    if (!FORKS_AMID_THREADS) {
        puts("a sanitizer cannot follow forks amid threads");
        exit(EXIT_SKIPPED);
    }
    dibs *client = open_url("%s", file_url());
    dibs_hold *hold = take(client, NAME, (uint32_t)slowly(10000));
    gang *threads = gang_start(THREADS, take_and_give, client);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            live_on(client);
            _exit(0);
        }
        reap_well(pid);
    }
    atomic_store(&is_over, 1);
    gang_join(threads);
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(client);
    check_whole();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "own_client", own_client },
        { "while_busy", while_busy },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &sqlite_stage, cases);
}
