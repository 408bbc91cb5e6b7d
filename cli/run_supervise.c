/* SPDX-License-Identifier: MIT */
/*
 * Supervises CMD: one loop that waits for signals, for the loss of a lock, and for the time
 * at which patience ends, until CMD's whole process group is gone.
 *
 * Signals are blocked and read from a descriptor, so none is missed between a look and the
 * sleep. A process group's number cannot be used by others while its leader has not been
 * waited for, so what CMD leaves behind is sent SIGTERM before that. It is only polled for
 * after that; the number then is taken as long as one of them is left.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "run.h"

#define GRACE_SLACK_MS 500 /* between SIGKILL and the end of the lease */
#define LOST_WATCH_MS 10   /* see watch_locks */
#define LOST_POLL_MS 100   /* how often to look at a hold that has no descriptor */
/* how often to look whether a group is gone, of which nothing tells */
#define GROUP_POLL_MIN_MS 1
#define GROUP_POLL_MAX_MS 20
#define EXIT_NO_RESOURCE 71
#define NEVER INT64_MAX

struct supervisor {
    struct taking *taking;
    struct signals *signals;
    const struct options *options;
    struct terminal terminal;
    int lost_fd;        /* what CMD sees as DIBS_LOST_FD */
    struct pollfd *fds; /* signals, then the holds' */
    bool watching;      /* the holds' descriptors are polled */
    int64_t started_ms;
    pid_t group;
    bool ended; /* CMD has; others of its group may be left */
    bool gone;  /* so have they */
    int exit_code;
    bool lost;
    int64_t due_ms;  /* when a loss is told, if nothing is renewed from here on */
    int64_t kill_ms; /* when to send SIGKILL */
    int group_poll_ms;
};

uint32_t
run_grace_ms(const struct options *options)
{
    uint32_t lease_ms = options->ttl_ms ? options->ttl_ms : LEASE_DEFAULT_MS;
    if (options->on_lost != ON_LOST_TERM)
        return 0;
    /* half of the lease at most, so that there is time to renew it more than once */
    if (options->kill_after_ms >= lease_ms / 2)
        return lease_ms / 2;
    uint32_t grace_ms = options->kill_after_ms + GRACE_SLACK_MS;
    return grace_ms < lease_ms / 2 ? grace_ms : lease_ms / 2;
}

/* after a loss: how long CMD may take to obey SIGTERM */
static int64_t
lost_patience_ms(const struct options *options)
{
    int64_t grace_ms = run_grace_ms(options);
    int64_t slack_ms = grace_ms / 10 < GRACE_SLACK_MS ? grace_ms / 10 : GRACE_SLACK_MS;
    int64_t longest = grace_ms - slack_ms;
    return options->kill_after_ms < longest ? options->kill_after_ms : longest;
}

/* ---- the process group ---- */

static void
kill_group_at(struct supervisor *run, int64_t when_ms)
{
    if (when_ms < run->kill_ms)
        run->kill_ms = when_ms;
}

/* whether a process is in the group and not just a zombie whose parent does not care */
static bool
is_live_member(const char *pid, pid_t group)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[len] = 0;
    /* the name stands in parentheses and may hold anything, so look from its end */
    const char *rest = strrchr(line, ')');
    char state = 0;
    int its_group = 0;
    return rest && sscanf(rest, ") %c %*d %d", &state, &its_group) == 2 &&
           its_group == group && state != 'Z' && state != 'X';
}

static bool
has_live_member(pid_t group)
{
    DIR *folder = opendir("/proc");
    bool found = !folder; /* cannot tell: then it is there */
    struct dirent *entry;
    while (folder && !found && (entry = readdir(folder)))
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                is_live_member(entry->d_name, group);
    if (folder)
        closedir(folder);
    return found;
}

static bool
group_is_gone(const struct supervisor *run)
{
    if (kill(-run->group, 0) != 0 && errno == ESRCH)
        return true;
    /* they may be dead, but nobody reaps them (in a container, say): that takes a closer
     * look, so not at once */
    return run->group_poll_ms >= GROUP_POLL_MAX_MS && !has_live_member(run->group);
}

/* ---- CMD's own changes of state ---- */

static void
cmd_ended(struct supervisor *run, const siginfo_t *info)
{
    siginfo_t reaped;
    bool by_itself = info->si_code == CLD_EXITED;
    run->ended = true;
    run->exit_code = by_itself ? info->si_status : EXIT_SIGNAL + info->si_status;
    (void)kill(-run->group, SIGTERM);
    terminal_take_back(&run->terminal, run->group);
    (void)waitid(P_PID, (id_t)run->group, &reaped, WEXITED);
    run->gone = group_is_gone(run);
    if (run->gone)
        return;
    if (run->options->verbose)
        say(run->options, "the command has left processes behind: ending them");
    (void)kill(-run->group, SIGCONT); /* stopped ones obey SIGTERM only when they go on */
    run->group_poll_ms = GROUP_POLL_MIN_MS;
    kill_group_at(run, now_ms() + run->options->kill_after_ms);
}

static void
cmd_stopped(struct supervisor *run, int signal)
{
    bool for_terminal = signal == SIGTTIN || signal == SIGTTOU;
    if (!for_terminal && signal != SIGTSTP)
        return; /* somebody stopped it on purpose: none of the terminal's business */
    if (for_terminal && terminal_lend(&run->terminal, run->group)) {
        (void)kill(-run->group, SIGCONT);
        return;
    }
    terminal_take_back(&run->terminal, run->group);
    if (terminal_stop(signal))
        return; /* the SIGCONT that ended this is passed on in its turn */
    /* nobody is there to continue us: do as the kernel does with orphans */
    if (for_terminal)
        (void)kill(-run->group, SIGHUP);
    (void)terminal_lend(&run->terminal, run->group);
    (void)kill(-run->group, SIGCONT);
}

/* returns whether there may be more to see: one SIGCHLD can stand for several changes */
static bool
look_at_cmd(struct supervisor *run)
{
    siginfo_t info = { 0 };
    int flags = WEXITED | WSTOPPED | WNOHANG;
    if (run->ended || waitid(P_PID, (id_t)run->group, &info, flags | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    if (info.si_code != CLD_STOPPED) {
        cmd_ended(run, &info);
        return false;
    }
    if (waitid(P_PID, (id_t)run->group, &info, WSTOPPED | WNOHANG) == 0 &&
        info.si_pid != 0)
        cmd_stopped(run, info.si_status);
    return true;
}

static void
pass_on_signals(struct supervisor *run)
{
    for (int signal; !run->gone && (signal = signals_read(run->signals)) != 0;) {
        if (signal == SIGCHLD) {
            while (look_at_cmd(run))
                continue;
        } else if (signal == SIGCONT) {
            if (!run->ended && run->terminal.alone)
                (void)terminal_lend(&run->terminal, run->group);
            (void)kill(-run->group, SIGCONT);
        } else if (signal != SIGTTOU && signal != SIGPIPE) {
            (void)kill(-run->group, signal);
        }
    }
}

/* ---- the locks ---- */

static void
tell_lost(const struct supervisor *run)
{
    static const char *const doings[] = { "ending the command", "killing the command",
                                          "the command goes on" };
    const struct options *options = run->options;
    for (size_t i = 0; i < run->taking->count; i++) {
        char shown[NAME_PRINT_MAX];
        const char *name = run->taking->wanted[i].request.name;
        if (dibs_held(run->taking->holds[i]))
            continue;
        if (options->json && !options->quiet) {
            struct json json;
            event_begin(&json, "lost");
            json_bytes(&json, "name", name, strlen(name));
            json_uint(&json, "token", dibs_token(run->taking->holds[i]));
            event_end(&json);
        }
        say(options, "lost '%s' while the command ran: %s",
            name_print(shown, name, strlen(name)), doings[options->on_lost]);
    }
}

static int64_t
loss_due_ms(const struct supervisor *run)
{
    int64_t due = NEVER, now = now_ms();
    for (size_t i = 0; i < run->taking->count; i++) {
        int64_t left = dibs_remaining(run->taking->holds[i]);
        if (left == 0)
            return run->due_ms; /* it is over: that was when */
        if (left < due - now)
            due = now + left + 1; /* what is left is rounded down */
    }
    return due;
}

/* It was due no later than now; if we slept meanwhile, stopped or frozen, maybe long before.
 * Then the time to obey SIGTERM may be over too. When it was due is what was known before the
 * sleep: a renewal since then may have put it off, so the time is too short rather than too
 * long. */
static int64_t
lost_kill_ms(const struct supervisor *run)
{
    int64_t now = now_ms();
    return (run->due_ms < now ? run->due_ms : now) + lost_patience_ms(run->options);
}

static void
look_at_locks(struct supervisor *run)
{
    if (run->lost || taking_held(run->taking))
        return;
    run->lost = true;
    (void)eventfd_write(run->lost_fd, 1);
    if (run->options->on_lost == ON_LOST_TERM) {
        (void)kill(-run->group, SIGTERM);
        (void)kill(-run->group, SIGCONT);
        kill_group_at(run, lost_kill_ms(run));
    } else if (run->options->on_lost == ON_LOST_KILL) {
        kill_group_at(run, now_ms());
    }
    tell_lost(run);
}

/* Being told of a loss may cost the library a thread. Where a hold has no lease, hardly
 * anything can end it, so CMD is given LOST_WATCH_MS first: if it is over by then, giving
 * the lock back will tell. */
static void
watch_locks(struct supervisor *run)
{
    run->watching = true;
    for (size_t i = 0; i < run->taking->count; i++) {
        int fd = dibs_lost_fd(run->taking->holds[i], NULL);
        run->fds[1 + i] = (struct pollfd){ fd >= 0 ? fd : -1, POLLIN, 0 };
    }
}

/* ---- the loop ---- */

static int
timeout_of(const struct supervisor *run)
{
    int64_t now = now_ms(), until = run->kill_ms;
    if (!run->lost && run->due_ms < until)
        until = run->due_ms;
    if (!run->watching && run->started_ms + LOST_WATCH_MS < until)
        until = run->started_ms + LOST_WATCH_MS;
    for (size_t i = 0; run->watching && !run->lost && i < run->taking->count; i++) {
        if (run->fds[1 + i].fd < 0 && now + LOST_POLL_MS < until)
            until = now + LOST_POLL_MS;
    }
    if (run->ended && now + run->group_poll_ms < until)
        until = now + run->group_poll_ms;
    if (until == NEVER)
        return -1;
    return until <= now ? 0 : until - now > 60000 ? 60000 : (int)(until - now);
}

static void
step(struct supervisor *run)
{
    nfds_t count = 1 + (run->watching && !run->lost ? run->taking->count : 0);
    if (!run->lost)
        run->due_ms = loss_due_ms(run);
    if (poll(run->fds, count, timeout_of(run)) > 0 && run->fds[0].revents)
        pass_on_signals(run);
    if (run->ended && (run->gone || (run->gone = group_is_gone(run))))
        return;
    if (!run->watching && now_ms() >= run->started_ms + LOST_WATCH_MS)
        watch_locks(run);
    look_at_locks(run);
    if (now_ms() >= run->kill_ms) {
        (void)kill(-run->group, SIGKILL);
        run->kill_ms = NEVER;
    }
    if (run->ended && run->group_poll_ms < GROUP_POLL_MAX_MS)
        run->group_poll_ms *= 2;
}

static void
supervise(struct supervisor *run)
{
    run->fds[0] = (struct pollfd){ run->signals->fd, POLLIN, 0 };
    while (!run->gone)
        step(run);
}

/* ---- all together ---- */

static int
start(struct supervisor *run, char *const *argv, char *const *env)
{
    struct child child = {
        argv,        env, &run->terminal, &run->signals->before, run->options->quiet,
        run->lost_fd
    };
    run->started_ms = now_ms();
    run->group = child_start(&child);
    if (run->group > 0)
        return 0;
    say(run->options, "cannot start a process: %s", strerror(errno));
    return -1;
}

static int
environment_of(struct environment *env, const struct taking *taking, int lost_fd)
{
    struct grant *grants = calloc(taking->count, sizeof *grants);
    char *ticket = ticket_print(taking);
    int bad = -1;
    memset(env, 0, sizeof *env);
    for (size_t i = 0; grants && i < taking->count; i++)
        grants[i] =
            (struct grant){ taking->wanted[i].request.name, dibs_token(taking->holds[i]),
                            dibs_previous(taking->holds[i]) };
    if (grants && ticket)
        bad = environment_init(env, grants, taking->count, ticket, lost_fd);
    free(ticket);
    free(grants);
    return bad;
}

int
run_supervised(struct taking *taking, struct signals *signals, char *const *argv)
{
    struct supervisor run = { .taking = taking,
                              .signals = signals,
                              .due_ms = NEVER,
                              .kill_ms = NEVER,
                              .options = taking->options,
                              .exit_code = EXIT_NO_RESOURCE };
    struct environment env;
    run.fds = calloc(taking->count + 1, sizeof *run.fds);
    run.lost_fd = eventfd(0, 0); /* CMD inherits it */
    signals_block_job_control(signals);
    int bad = environment_of(&env, taking, run.lost_fd);
    if (bad || !run.fds || run.lost_fd < 0 || signals_fd(signals) < 0) {
        (void)say_out_of_memory(run.options);
    } else {
        terminal_open(&run.terminal);
        if (dibs_caps(taking->client) & DIBS_CAP_LEASE)
            watch_locks(&run);
        if (start(&run, argv, env.list) == 0)
            supervise(&run);
        terminal_close(&run.terminal);
    }
    environment_done(&env);
    if (run.lost_fd >= 0)
        close(run.lost_fd);
    free(run.fds);
    return run.lost && run.options->on_lost != ON_LOST_IGNORE ? EXIT_LOST : run.exit_code;
}
