/* SPDX-License-Identifier: MIT */
/*
 * Running a command under a lock. In the order in which things happen:
 *
 *   run_ticket.c     do we hold it already, as part of an outer dibs run?
 *   take.c           take the locks
 *   run_env.c        what CMD finds in its environment
 *   run_child.c      start CMD in a process group of its own
 *   run_supervise.c  pass on signals, watch the lock, until the whole group is gone
 *   run_terminal.c   lend the terminal to CMD; stop and go on as it does
 *   cmd_run.c        all of these together, and giving the locks back
 */
#ifndef DIBS_CLI_RUN_H
#define DIBS_CLI_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "opt.h"
#include "signals.h"
#include "take.h"

/* ---- run_ticket.c ---- */

/* One hold of an outer dibs run that CMD was started under. */
struct ticket {
    char mode; /* 'x', 's' or 'p' */
    uint64_t token;
    int previous; /* enum dibs_previous_end */
};

/* ticket_find looks NAME up in $DIBS_TICKET and makes sure, by asking the engine, that it
 * is still held under that token. Returns 1 and fills in *out; 0 if there is none;
 * DIBS_EDEADLOCK if it is held shared and wanted exclusively. */
int ticket_find(struct ticket *out, dibs *client, const char *name, int mode,
                dibs_error *err);

/* ticket_parse finds the first ticket for that URL and name in a text like $DIBS_TICKET, and
 * returns what is behind it: there may be more. NULL if there is none. */
const char *ticket_parse(struct ticket *out, const char *text, const char *url,
                         const char *name);

/* ticket_print returns the value of DIBS_TICKET for CMD, to be freed: what the outer one
 * says and the holds of `taking`. NULL if memory ran out. */
char *ticket_print(const struct taking *taking);

/* ---- run_env.c ---- */

/* What CMD is told of one name. */
struct grant {
    const char *name;
    uint64_t token;
    int previous;
};

/* Our environment with some variables set. Not setenv: threads of an engine may be reading
 * the environment while we prepare this one. */
struct environment {
    char *set[5];
    size_t count;
    char **list; /* for exec */
};

/* environment_init sets DIBS_NAME, DIBS_TOKEN and DIBS_PREVIOUS for the grants; DIBS_TICKET
 * and DIBS_LOST_FD are left as they are if `ticket` is NULL and `lost_fd` is -1. Returns 0,
 * or -1 if memory ran out. */
int environment_init(struct environment *env, const struct grant *grants, size_t count,
                     const char *ticket, int lost_fd);
void environment_done(struct environment *env);

/* ---- run_terminal.c ---- */

struct terminal {
    int fd;     /* the controlling terminal, or -1 */
    pid_t own;  /* our process group */
    bool alone; /* nobody else in our group needs it: CMD may have it without asking */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* terminal_lend gives the terminal to CMD's group if it is ours to give, and says whether
 * it did. terminal_take_back gets it back if CMD's group has it. */
bool terminal_lend(const struct terminal *terminal, pid_t group);
void terminal_take_back(const struct terminal *terminal, pid_t group);

/* terminal_stop stops us and our group as CMD was stopped, until we are continued. Returns
 * false if nobody could continue us, so that we were not stopped at all. */
bool terminal_stop(int signal);

/* ---- run_child.c ---- */

struct child {
    char *const *argv;
    char *const *env;
    const struct terminal *terminal;
    const sigset_t *mask; /* the signals that shall be blocked in it */
    bool quiet;
    int lost_fd; /* the one descriptor of ours that it gets; -1: none */
};

/* child_descriptors takes note of what is open before we open anything: CMD gets that, as
 * from any shell, and nothing that we or a library opened since. */
void child_descriptors(void);

/* child_start starts CMD as the leader of a new process group and returns its pid, -1 if
 * there can be no more processes. child_exec becomes CMD; it returns 126 or 127 when it
 * cannot, having said so. */
pid_t child_start(const struct child *child);
int child_exec(const struct child *child);

/* ---- run_supervise.c ---- */

/* run_grace_ms is what to ask for in the request: be told of a loss so early that SIGTERM,
 * the time to obey it, and SIGKILL all come before the lease can end. */
uint32_t run_grace_ms(const struct options *options);

/* run_supervised starts CMD under the locks taken and returns when its whole process group
 * is gone: its exit code, or 79 if the lock was lost. */
int run_supervised(struct taking *taking, struct signals *signals, char *const *argv);

/* ---- cmd_run.c ---- */

/* run_command is dibs run for the names and the command given: also that of elect. Returns
 * the exit code. */
int run_command(const struct options *options, char *const *names, size_t count,
                char *const *argv);

/* run_split finds the names and the command among the operands: "NAME CMD...", or "NAME...
 * -- CMD...", or with -c all of them names; `shell` is room for "sh -c STRING". Returns -1,
 * or the exit code with which to end. */
int run_split(struct options *options, char **operands, int count, size_t *names,
              char *const **argv, char *shell[4]);

#endif /* DIBS_CLI_RUN_H */
