/* SPDX-License-Identifier: MIT */
/*
 * Starts CMD. With vfork, as it must cost no more than flock(1): until it executes CMD the
 * child borrows our memory, so it makes system calls only and changes nothing of ours.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "run.h"

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

static unsigned first_own = 3; /* no descriptor from here on was open at the start */

void
child_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        unsigned long fd = strtoul(entry->d_name, NULL, 10);
        if (fd != (unsigned long)dirfd(folder) && fd >= first_own)
            first_own = (unsigned)fd + 1;
    }
    if (folder)
        (void)closedir(folder);
}

/* All of ours are closed by exec, but libcurl has some that are not. */
static void
keep_own(int lost_fd)
{
    unsigned from = first_own, lost = (unsigned)lost_fd;
    if (lost_fd >= 0 && lost >= from) {
        if (lost > from)
            (void)close_range(from, lost - 1, CLOSE_RANGE_CLOEXEC);
        from = lost + 1;
    }
    (void)close_range(from, ~0u, CLOSE_RANGE_CLOEXEC);
}

static void
complain(const char *text)
{
    /* if stderr cannot be written to, the exit code has to do */
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

int
child_exec(const struct child *child)
{
    execvpe(child->argv[0], child->argv, child->env);
    int error = errno;
    const char *reason = strerrordesc_np(error);
    if (!child->quiet) {
        complain("dibs: cannot run '");
        complain(child->argv[0]);
        complain("': ");
        complain(reason ? reason : "unknown error");
        complain("\n");
    }
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int
child_main(const struct child *child, pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* we may have been orphaned before that */
    if (getppid() != parent)
        return EXIT_CANNOT_RUN;
    if (child->terminal->alone)
        (void)terminal_lend(child->terminal, getpid());
    keep_own(child->lost_fd);
    sigprocmask(SIG_SETMASK, child->mask, NULL);
    return child_exec(child);
}

pid_t
child_start(const struct child *child)
{
    pid_t parent = getpid();
    pid_t pid = vfork();
    if (pid == 0)
        _exit(child_main(child, parent));
    return pid;
}
