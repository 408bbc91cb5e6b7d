/* SPDX-License-Identifier: MIT */
/* Other processes, temporary folders and memory shared with them. See harness.h. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SPAWNED 256
#define MAX_ARGUMENTS 16

/* the processes that are not reaped yet; 0 is a free place */
static _Atomic pid_t spawned[MAX_SPAWNED];

static void
remember(pid_t pid)
{
    for (size_t i = 0; i < MAX_SPAWNED; i++) {
        pid_t nobody = 0;
        if (atomic_compare_exchange_strong(&spawned[i], &nobody, pid)) {
            return;
        }
    }
    FAIL("more than %d processes at once", MAX_SPAWNED);
}

/* says whether it was there */
static int
forget(pid_t pid)
{
    for (size_t i = 0; i < MAX_SPAWNED; i++) {
        pid_t same = pid;
        if (pid > 0 && atomic_compare_exchange_strong(&spawned[i], &same, 0)) {
            return 1;
        }
    }
    return 0;
}

static _Noreturn void
become(char *const *argv, const int *keep, size_t keep_count)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < keep_count; i++) {
        fcntl(keep[i], F_SETFD, 0);
    }
    execv("/proc/self/exe", argv);
    _exit(127);
}

pid_t
spawn_self(const char *const *arguments, const int *keep, size_t keep_count)
{
    char *argv[MAX_ARGUMENTS + 2] = { (char *)"self" };
    for (size_t i = 0; arguments[i] != NULL; i++) {
        if (i == MAX_ARGUMENTS) {
            FAIL("too many arguments");
        }
        argv[i + 1] = (char *)arguments[i];
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(argv, keep, keep_count);
    }
    if (pid < 0) {
        FAIL("cannot fork: errno %d", errno);
    }
    remember(pid);
    return pid;
}

static _Noreturn void
become_program(char *const *argv, const char *log)
{
    int nothing = open("/dev/null", O_RDONLY);
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nothing >= 0 && output >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0) {
        close(nothing);
        close(output);
        execvp(argv[0], argv);
    }
    _exit(127);
}

pid_t
spawn_program(const char *const *argv, const char *log)
{
    pid_t pid = fork();
    if (pid == 0) {
        become_program((char *const *)(uintptr_t)argv, log);
    }
    if (pid < 0) {
        FAIL("cannot fork: errno %d", errno);
    }
    remember(pid);
    return pid;
}

int
reap(pid_t pid, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    int status = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid) {
            (void)forget(pid);
            return status;
        }
        if (got < 0 && errno != EINTR) {
            FAIL("process %d is not ours: errno %d", (int)pid, errno);
        }
        if (now_ms() > until) {
            FAIL("process %d does not end", (int)pid);
        }
        sleep_ms(1);
    }
}

void
kill_and_reap(pid_t pid)
{
    kill(pid, SIGKILL);
    (void)reap(pid, 10000);
}

void
kill_spawned(pid_t pid)
{
    /* once reaped, the number may be somebody else's */
    if (forget(pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

void
kill_all_spawned(void)
{
    for (size_t i = 0; i < MAX_SPAWNED; i++) {
        pid_t pid = atomic_exchange(&spawned[i], 0);
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
    }
}

void
temp_dir(char *out, size_t size, const char *base)
{
    int len = snprintf(out, size, "%s/dibs-test-XXXXXX", base);
    if (len < 0 || (size_t)len >= size || mkdtemp(out) == NULL) {
        FAIL("cannot make a folder below %s: errno %d", base, errno);
    }
}

void
remove_tree(const char *path)
{
    /* rm(1), because nftw(3) may not be called from a signal handler */
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
}

void *
shared_new(size_t size, int *fd)
{
    *fd = memfd_create("dibs-test", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)size) != 0) {
        FAIL("cannot make shared memory: errno %d", errno);
    }
    return shared_map(*fd, size);
}

void *
shared_map(int fd, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        FAIL("cannot map shared memory: errno %d", errno);
    }
    return memory;
}
