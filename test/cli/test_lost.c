/* SPDX-License-Identifier: MIT */
/* dibs run when the lock is lost while CMD runs, and engines that fail. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "freeze.h"

/* the hold ends after 0.3 s, which the next renewal shows; renewals come at a third of the
 * lease */
#define LOSING "mock:?lose_after=300ms"
#define SOON "--ttl=1s"

CASE(cmd_is_ended)
{
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, "--ttl=2s", "x", "sh", "-c",
                    "trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done"),
               79);
    CHECK_WITHIN(now_ms() - began, 0, 700 + slowly(3000));
    CHECK_TEXT(run.out, "told\n");
    CHECK_HAS(run.err, "dibs: lost 'x' while the command ran: ending the command\n");
}

/* on a lease of 2 s SIGTERM and SIGKILL both come before it can end, whatever -k says */
CASE(stubborn_cmd_is_killed_in_time)
{
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, "--ttl=2s", "-k", "60", "x", "sh", "-c",
                    "trap '' TERM; while :; do sleep 0.01; done"),
               79);
    CHECK_WITHIN(now_ms() - began, 0, 2000 + slowly(1500));
}

/* ---- the whole tree stands still ---- */

static void
open_freezer(struct freezer *out)
{
    char why[160];
    if (freezer_open(out, 0, why) == 0)
        return;
    printf("skipped: %s\n", why);
    exit(EXIT_SKIPPED);
}

static void
freeze_tree(const struct freezer *freezer, const struct proc *run, pid_t cmd, pid_t kid)
{
    CHECK_SAME(freezer_take(freezer, 0, run->pid), 0);
    CHECK_SAME(freezer_take(freezer, 0, cmd), 0);
    CHECK_SAME(freezer_take(freezer, 0, kid), 0);
    CHECK_SAME(freezer_freeze(freezer, 0), 0);
}

/* Nobody in it could tell that time went by, but when it goes on the lease is over: then there
 * is no time left for SIGTERM to be obeyed. Without that, 45 of 100 of a lease would be. */
CASE(frozen_tree_is_ended_at_once)
{
    struct proc run;
    struct freezer freezer;
    char ttl[32];
    open_freezer(&freezer);
    (void)snprintf(ttl, sizeof ttl, "--ttl=%lldms", (long long)slowly(4000));
    START(&run, "run", "--url", "mock:", ttl, "-k", "60", "x", "sh", "-c",
          "trap '' TERM; sleep 600 & echo cmd=$$ kid=$! ready; "
          "while :; do sleep 0.01; done");
    await_out(&run, "ready\n");
    pid_t cmd = (pid_t)number_after(run.out, "cmd=");
    pid_t kid = (pid_t)number_after(run.out, "kid=");
    freeze_tree(&freezer, &run, cmd, kid);
    sleep_ms(slowly(4500));
    CHECK(is_alive(cmd) && is_alive(kid));
    int64_t thawed = now_ms();
    freezer_thaw(&freezer, 0);
    CHECK_SAME(finish(&run), 79);
    CHECK_WITHIN(now_ms() - thawed, 0, slowly(1500));
    CHECK_HAS(run.err, "dibs: lost 'x' while the command ran: ending the command\n");
    CHECK(!is_alive(cmd) && !is_alive(kid));
    freezer_close(&freezer);
}

/* ---- what is done then ---- */

CASE(whole_group_is_ended)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, SOON, "x", "sh", "-c",
                    "sleep 60 & echo pid=$!; wait"),
               79);
    CHECK(!is_alive((pid_t)number_after(run.out, "pid=")));
}

CASE(kill_at_once)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, SOON, "--on-lost", "kill", "x", "sh",
                    "-c", "trap 'echo told' TERM; while :; do sleep 0.01; done"),
               79);
    CHECK_TEXT(run.out, "");
    CHECK_HAS(run.err, "killing the command");
}

CASE(ignore)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, SOON, "--on-lost=ignore", "x", "sh",
                    "-c", "sleep 1; echo done; exit 5"),
               5);
    CHECK_TEXT(run.out, "done\n");
    CHECK_HAS(run.err, "the command goes on");
}

CASE(descriptor_tells)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--url", LOSING, SOON, "--on-lost=ignore", "x", "sh",
                    "-c", "dd bs=8 count=1 <&$DIBS_LOST_FD 2>/dev/null | wc -c"),
               0);
    CHECK_SAME(number_after(run.out, ""), 8);
}

CASE(json_event)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--json", "--url", LOSING, SOON, "x", "sleep", "60"),
               79);
    check_json(run.err);
    CHECK_HAS(run.err, "{\"event\":\"lost\",\"name\":\"x\",\"token\":");
    CHECK_HAS(run.err, "{\"event\":\"exit\",\"code\":79}\n");
}

CASE(max_hold)
{
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "--max-hold", "300ms", "x", "sleep", "60"), 79);
    CHECK_WITHIN(now_ms() - began, 100, 300 + slowly(3000));
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "true"), 0);
}

CASE(broken)
{
    struct proc run, other;
    START(&run, "run", "x", "sh", "-c", "echo ready; exec sleep 60");
    await_out(&run, "ready\n");
    CHECK_SAME(DIBS(&other, "break", "--yes", "x"), 0);
    CHECK_SAME(finish(&run), 79);
    CHECK_SAME(DIBS(&other, "run", "x", "sh", "-c", "echo $DIBS_PREVIOUS"), 0);
    CHECK_TEXT(other.out, "broken\n");
}

/* also one whose command is over before anybody looked */
CASE(broken_at_the_end)
{
    struct proc run, other;
    START(&run, "run", "x", "sh", "-c", "\"$DIBS\" break -y x");
    int code = finish(&run);
    CHECK(code == 79);
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 0);
}

CASE(hold_exits_79)
{
    struct proc run;
    START(&run, "hold", "--url", LOSING, SOON, "x");
    await_out(&run, "\"token\":");
    await_err(&run, "dibs: ");
    CHECK_SAME(finish(&run), 79);
}

CASE(engine_is_away)
{
    static const char *const url = "mock:?fail_after=0ms";
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "--url", url, "-w", "300ms", "x", "echo", "ran"), 69);
    CHECK_WITHIN(now_ms() - began, 0, 300 + slowly(3000));
    CHECK_TEXT(run.out, "");
    CHECK_HAS(run.err, "is the server up");
    /* that is not what --skip is about */
    CHECK_SAME(DIBS(&run, "run", "--url", url, "-n", "--skip", "x", "echo", "ran"), 69);
    CHECK_TEXT(run.out, "");
    START(&run, "run", "--url", url, "x", "echo", "ran");
    sleep_ms(200);
    CHECK(kill(run.pid, SIGINT) == 0);
    CHECK_SAME(finish(&run), 130);
}

MAIN(ENTRY(cmd_is_ended), ENTRY(stubborn_cmd_is_killed_in_time),
     ENTRY(frozen_tree_is_ended_at_once), ENTRY(whole_group_is_ended),
     ENTRY(kill_at_once), ENTRY(ignore), ENTRY(descriptor_tells), ENTRY(json_event),
     ENTRY(max_hold), ENTRY(broken), ENTRY(broken_at_the_end), ENTRY(hold_exits_79),
     ENTRY(engine_is_away))
