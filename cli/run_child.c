/* SPDX-License-Identifier: MIT */
/*
 * Starts CMD. With vfork, as it must cost no more than flock(1): until it executes CMD the
 * child borrows our memory, so it makes system calls only and changes nothing of ours.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "run.h"

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

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
