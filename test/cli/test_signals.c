/* SPDX-License-Identifier: MIT */
/* dibs run: signals while waiting and while running, and what is left of a group. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

CASE(end_a_wait)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    struct proc holder, run;
    hold(&holder, "x");
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        START(&run, "run", "x", "echo", "ran");
        await_waiters("x", 1);
        int64_t began = now_ms();
        CHECK(kill(run.pid, signals[i]) == 0);
        CHECK_SAME(finish(&run), 128 + signals[i]);
        CHECK_WITHIN(now_ms() - began, 0, slowly(3000));
        CHECK_TEXT(run.out, "");
        await_waiters("x", 0);
    }
    let_go(&holder);
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "true"), 0);
}

CASE(end_a_wait_for_several)
{
    struct proc holder, run;
    hold(&holder, "b");
    START(&run, "run", "a", "b", "--", "echo", "ran");
    await_waiters("b", 1);
    CHECK(kill(run.pid, SIGTERM) == 0);
    CHECK_SAME(finish(&run), 143);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "run", "-n", "a", "true"), 0);
    let_go(&holder);
}

CASE(are_passed_on)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "TERM", SIGTERM },   { "INT", SIGINT },   { "HUP", SIGHUP },
                    { "QUIT", SIGQUIT },   { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
                    { "WINCH", SIGWINCH }, { "CONT", SIGCONT } };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct proc run;
        char script[128];
        snprintf(script, sizeof script,
                 "trap 'echo got; exit 42' %s; echo ready; while :; do sleep 0.01; done",
                 signals[i].name);
        START(&run, "run", "x", "sh", "-c", script);
        await_out(&run, "ready\n");
        CHECK(kill(run.pid, signals[i].number) == 0);
        CHECK_SAME(finish(&run), 42);
        CHECK_TEXT(run.out, "ready\ngot\n");
    }
}

CASE(default_action_of_cmd)
{
    struct proc run;
    START(&run, "run", "x", "sh", "-c", "echo ready; exec sleep 60");
    await_out(&run, "ready\n");
    CHECK(kill(run.pid, SIGTERM) == 0);
    CHECK_SAME(finish(&run), 143);
}

/* what was ignored when we were started stays so, for us and for CMD */
CASE(ignored_stay_ignored)
{
    struct proc holder, run;
    hold(&holder, "x");
    start_program(&run, (const char *const[]){ "sh", "-c",
                                               "trap '' HUP; exec \"$DIBS\" run x sh -c "
                                               "'kill -HUP $$; echo alive'",
                                               NULL });
    await_waiters("x", 1);
    CHECK(kill(run.pid, SIGHUP) == 0);
    sleep_ms(100);
    await_waiters("x", 1);
    let_go(&holder);
    CHECK_SAME(finish(&run), 0);
    CHECK_TEXT(run.out, "alive\n");
}

CASE(cmd_starts_with_none_blocked)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "grep", "SigBlk", "/proc/self/status"), 0);
    CHECK_TEXT(run.out, "SigBlk:\t0000000000000000\n");
}

/* nobody reads our stderr any more: no reason to die and take CMD along */
CASE(broken_pipe)
{
    struct proc holder, run;
    hold(&holder, "x");
    START(&run, "run", "-v", "x", "sh", "-c", "sleep 0.2; echo ran");
    await_err(&run, "waiting for");
    CHECK(close(run.err_fd) == 0);
    run.err_fd = -1;
    let_go(&holder);
    CHECK_SAME(finish(&run), 0);
    CHECK_TEXT(run.out, "ran\n");
}

CASE(parent_that_ignores_children)
{
    struct proc run;
    (void)signal(SIGCHLD, SIG_IGN);
    START(&run, "run", "x", "sh", "-c", "exit 9");
    (void)signal(SIGCHLD, SIG_DFL);
    CHECK_SAME(finish(&run), 9);
}

CASE(leftovers_are_ended)
{
    struct proc run, other;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "-v", "x", "sh", "-c", "sleep 60 & echo pid=$!; exit 3"),
               3);
    CHECK_WITHIN(now_ms() - began, 0, 4900); /* SIGKILL would come after 5 s */
    CHECK_HAS(run.err, "left processes behind");
    CHECK(!is_alive((pid_t)number_after(run.out, "pid=")));
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 0);
}

/* a leftover that does not obey keeps the lock taken until it is killed */
CASE(stubborn_leftovers_are_killed)
{
    struct proc run, other;
    START(&run, "run", "-k", "1s", "x", "sh", "-c",
          "sh -c 'trap \"\" TERM; echo ready >&2; while :; do sleep 0.05; done' & "
          "echo pid=$!; sleep 0.5; exit 3");
    await_err(&run, "ready");
    await_out(&run, "pid=");
    int64_t began = now_ms();
    START(&other, "run", "x", "true");
    CHECK_SAME(finish(&other), 0);
    int64_t took = now_ms() - began;
    CHECK_SAME(finish(&run), 3);
    CHECK_WITHIN(took, 900, 1500 + slowly(3000));
    CHECK(!is_alive((pid_t)number_after(run.out, "pid=")));
}

CASE(stopped_leftovers_are_ended)
{
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(
        DIBS(&run, "run", "x", "sh", "-c", "sleep 60 & kill -STOP $!; echo pid=$!"), 0);
    CHECK_WITHIN(now_ms() - began, 0, 4900); /* SIGKILL would come after 5 s */
    CHECK(!is_alive((pid_t)number_after(run.out, "pid=")));
}

CASE(kill_9_takes_cmd_along)
{
    struct proc run, other;
    START(&run, "run", "x", "sh", "-c", "echo pid=$$; exec sleep 60");
    await_out(&run, "\n");
    pid_t cmd = (pid_t)number_after(run.out, "pid=");
    CHECK(kill(run.pid, SIGKILL) == 0);
    CHECK_SAME(finish(&run), 137);
    await_gone(cmd);
    CHECK_SAME(DIBS(&other, "run", "-w", "10", "x", "sh", "-c", "echo $DIBS_PREVIOUS"),
               0);
    CHECK_TEXT(other.out, "expired\n");
}

/* a signal that has come before the start ends it there, as if it had waited */
CASE(pending_at_the_start)
{
    struct proc run;
    start_program(&run, (const char *const[]){
                            "env", "--block-signal=TERM", "sh", "-c",
                            "kill -TERM $$; exec \"$DIBS\" run x echo ran", NULL });
    CHECK_SAME(finish(&run), 143);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "try", "x"), 0);
}

/* wherever a signal hits, it gets through */
CASE(storm_at_the_start)
{
    for (int i = 0; i < 40; i++) {
        struct proc run;
        START(&run, "run", "x", "sh", "-c", "exec sleep 60");
        sleep_ms(i % 8);
        CHECK(kill(run.pid, SIGTERM) == 0);
        CHECK_SAME(finish(&run), 143);
    }
    struct proc other;
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 0);
}

MAIN(ENTRY(end_a_wait), ENTRY(end_a_wait_for_several), ENTRY(are_passed_on),
     ENTRY(default_action_of_cmd), ENTRY(ignored_stay_ignored),
     ENTRY(cmd_starts_with_none_blocked), ENTRY(broken_pipe),
     ENTRY(parent_that_ignores_children), ENTRY(leftovers_are_ended),
     ENTRY(stubborn_leftovers_are_killed), ENTRY(stopped_leftovers_are_ended),
     ENTRY(kill_9_takes_cmd_along), ENTRY(pending_at_the_start),
     ENTRY(storm_at_the_start))
