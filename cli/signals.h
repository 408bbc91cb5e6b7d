/* SPDX-License-Identifier: MIT */
/*
 * Signals, read from a descriptor instead of handled: they are blocked from before a lock
 * is asked for until it has been given back, so that none can hit between a grant and the
 * start of the command, and no handler ever runs. A signal that was ignored when we were
 * started (nohup, a background job of a plain shell) stays ignored.
 */
#ifndef DIBS_CLI_SIGNALS_H
#define DIBS_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    sigset_t before; /* what was blocked when we were started: CMD gets this back */
    sigset_t handled;
    int fd; /* -1 until signals_fd */
};

/* signals_block blocks what ends a wait or is passed on to CMD, SIGCHLD and SIGPIPE. */
void signals_block(struct signals *signals);

/* signals_block_job_control blocks SIGTSTP and SIGTTOU too: from now on the command, not
 * we, is what the terminal stops. */
void signals_block_job_control(struct signals *signals);

/* signals_fd returns a descriptor to poll, -1 if there is none to be had. */
int signals_fd(struct signals *signals);

/* signals_read returns the next signal that has come, 0 if there is none. */
int signals_read(struct signals *signals);

/* signals_ends says whether a signal ends a process that waits; signals_pending_end
 * returns one that has come and does, or 0. */
bool signals_ends(int signal);
int signals_pending_end(const struct signals *signals);

/* signals_done closes the descriptor; what is blocked stays so. */
void signals_done(struct signals *signals);

#endif /* DIBS_CLI_SIGNALS_H */
