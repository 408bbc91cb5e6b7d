/* SPDX-License-Identifier: MIT */
/*
 * The terminal and job control.
 *
 * CMD runs in a process group of its own, so the terminal must know which group is in the
 * foreground. If we are alone in ours (we lead it, and stdin and stdout are the terminal),
 * CMD gets the terminal from the start. Otherwise others share our group (the rest of a
 * pipeline such as `dibs run x -- cmd | less`, a script) and may need the terminal
 * themselves: then CMD gets it when it asks, that is when it is stopped for reading from
 * it or setting it up in the background; until then what is typed reaches us, and we pass
 * it on.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "run.h"

void
terminal_open(struct terminal *terminal)
{
    terminal->own = getpgrp();
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal->alone =
        terminal->fd >= 0 && terminal->own == getpid() && isatty(0) && isatty(1);
}

void
terminal_close(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

bool
terminal_lend(const struct terminal *terminal, pid_t group)
{
    /* only who is in the foreground has it to give */
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->own &&
           tcsetpgrp(terminal->fd, group) == 0;
}

void
terminal_take_back(const struct terminal *terminal, pid_t group)
{
    if (terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group)
        (void)tcsetpgrp(terminal->fd, terminal->own);
}

/* The default action of the signal stops us, unless our group is orphaned: then the kernel
 * drops it. When somebody has continued us, that SIGCONT is pending. */
bool
terminal_stop(int signal)
{
    sigset_t one, pending;
    sigemptyset(&one);
    sigaddset(&one, signal);
    (void)kill(0, signal);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT);
}
