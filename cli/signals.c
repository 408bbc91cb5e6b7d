/* SPDX-License-Identifier: MIT */
/* Signals, read from a descriptor; see signals.h. */
#include "signals.h"

#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
#define ENDING_COUNT (sizeof ending / sizeof *ending)

static void
add_unless_ignored(sigset_t *set, int signal)
{
    struct sigaction now;
    if (sigaction(signal, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(set, signal);
}

void
signals_block(struct signals *signals)
{
    signals->fd = -1;
    sigemptyset(&signals->handled);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        add_unless_ignored(&signals->handled, ending[i]);
    sigaddset(&signals->handled, SIGWINCH);
    sigaddset(&signals->handled, SIGCONT);
    sigaddset(&signals->handled, SIGCHLD);
    /* when nobody reads what we say, that must not end us: CMD would go down with us */
    sigaddset(&signals->handled, SIGPIPE);
    /* if our parent ignores SIGCHLD so do we, and then children cannot be waited for */
    (void)signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals->handled, &signals->before);
}

void
signals_block_job_control(struct signals *signals)
{
    add_unless_ignored(&signals->handled, SIGTSTP);
    sigaddset(&signals->handled, SIGTTOU);
    sigprocmask(SIG_BLOCK, &signals->handled, NULL);
}

int
signals_fd(struct signals *signals)
{
    int fd = signalfd(signals->fd, &signals->handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        signals->fd = fd;
    return fd;
}

int
signals_read(struct signals *signals)
{
    struct signalfd_siginfo info;
    if (read(signals->fd, &info, sizeof info) != sizeof info)
        return 0;
    return (int)info.ssi_signo;
}

bool
signals_ends(int signal)
{
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        if (ending[i] == signal)
            return true;
    }
    return false;
}

int
signals_pending_end(const struct signals *signals)
{
    sigset_t pending;
    if (sigpending(&pending) != 0)
        return 0;
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        if (sigismember(&pending, ending[i]) && sigismember(&signals->handled, ending[i]))
            return ending[i];
    }
    return 0;
}

void
signals_done(struct signals *signals)
{
    if (signals->fd >= 0)
        close(signals->fd);
    signals->fd = -1;
}
