/* SPDX-License-Identifier: MIT */
/* dibs hold, try and wait. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

CASE(until_input_ends)
{
    struct proc run, other;
    START(&run, "hold", "x");
    await_out(&run, "\n");
    check_json(run.out);
    CHECK_HAS(run.out, "{\"name\":\"x\",\"token\":");
    CHECK_HAS(run.out, ",\"previous\":\"clean\",\"lease_ms\":null}\n");
    put(&run, "what is typed does not matter\n");
    CHECK_SAME(DIBS(&other, "try", "x"), 75);
    CHECK_SAME(finish(&run), 0);
    CHECK_SAME(DIBS(&other, "try", "x"), 0);
}

CASE(until_a_signal)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct proc run, other;
    for (size_t i = 0; i < 3; i++) {
        hold(&run, "x");
        CHECK(kill(run.pid, signals[i]) == 0);
        int in_fd = run.in_fd; /* stdin stays open: it is the signal that ends it */
        run.in_fd = -1;
        CHECK_SAME(finish(&run), 0);
        run.in_fd = in_fd;
        end_input(&run);
        CHECK_SAME(DIBS(&other, "run", "-n", "x", "sh", "-c", "echo $DIBS_PREVIOUS"), 0);
        CHECK_TEXT(other.out, "clean\n");
    }
}

CASE(options)
{
    struct proc run, other;
    START(&run, "hold", "-s", "--note", "reading", "x");
    await_out(&run, "\n");
    CHECK_SAME(DIBS(&other, "hold", "-s", "x"), 0);
    CHECK_SAME(DIBS(&other, "hold", "-n", "x"), 75);
    CHECK_TEXT(other.out, "");
    CHECK_SAME(DIBS(&other, "hold", "-w", "100ms", "-E", "3", "x"), 3);
    CHECK_SAME(DIBS(&other, "show", "x"), 0);
    CHECK_HAS(other.out, "reading");
    CHECK_SAME(finish(&run), 0);
    CHECK_SAME(DIBS(&other, "hold"), 64);
    CHECK_SAME(DIBS(&other, "hold", "x", "y"), 64);
}

CASE(interrupted_while_waiting)
{
    struct proc run, other;
    hold(&run, "x");
    START(&other, "hold", "x");
    await_waiters("x", 1);
    CHECK(kill(other.pid, SIGTERM) == 0);
    CHECK_SAME(finish(&other), 143);
    CHECK_TEXT(other.out, "");
    let_go(&run);
}

CASE(output_that_cannot_be_written)
{
    struct proc run, other;
    start_program(
        &run, (const char *const[]){ "sh", "-c", "\"$DIBS\" hold x >/dev/full", NULL });
    CHECK_SAME(finish(&run), 1);
    CHECK_SAME(DIBS(&other, "try", "x"), 0);
}

CASE(try_looks)
{
    struct proc holder, run;
    CHECK_SAME(DIBS(&run, "try", "x"), 0);
    CHECK_TEXT(run.out, "'x' is free\n");
    CHECK_SAME(DIBS(&run, "try", "-q", "x"), 0);
    CHECK_TEXT(run.out, "");
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "try", "x"), 75);
    CHECK_HAS(run.out, "'x' is busy: held by dibs on ");
    CHECK_SAME(DIBS(&run, "try", "-E", "1", "-q", "x"), 1);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "try", "-s", "x"), 75);
    CHECK_SAME(DIBS(&run, "try", "--json", "x"), 75);
    check_json(run.out);
    CHECK_HAS(run.out, "{\"free\":false,\"name\":\"x\"");
    let_go(&holder);
    CHECK_SAME(DIBS(&run, "try", "--json", "x"), 0);
    check_json(run.out);
    CHECK_HAS(run.out, "{\"free\":true");
}

CASE(wait_until_free)
{
    struct proc holder, run;
    CHECK_SAME(DIBS(&run, "wait", "x"), 0);
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "wait", "-n", "x"), 75);
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "wait", "-w", "300ms", "x"), 75);
    CHECK_WITHIN(now_ms() - began, 290, 300 + slowly(3000));
    CHECK_SAME(DIBS(&run, "wait", "-w", "100ms", "-E", "4", "x"), 4);
    START(&run, "wait", "-v", "x");
    await_err(&run, "held by dibs on ");
    let_go(&holder);
    CHECK_SAME(finish(&run), 0);
    /* it takes nothing */
    CHECK_SAME(DIBS(&run, "try", "x"), 0);
}

CASE(wait_ends_when_the_holder_dies)
{
    struct proc holder, run;
    hold(&holder, "x");
    START(&run, "wait", "-v", "-w", "20", "x");
    await_err(&run, "held by");
    CHECK(kill(holder.pid, SIGKILL) == 0);
    CHECK_SAME(finish(&holder), 137);
    CHECK_SAME(finish(&run), 0);
}

CASE(wait_ends_by_a_signal)
{
    struct proc holder, run;
    hold(&holder, "x");
    START(&run, "wait", "-v", "x");
    await_err(&run, "held by");
    CHECK(kill(run.pid, SIGINT) == 0);
    CHECK_SAME(finish(&run), 130);
    let_go(&holder);
}

MAIN(ENTRY(until_input_ends), ENTRY(until_a_signal), ENTRY(options),
     ENTRY(interrupted_while_waiting), ENTRY(output_that_cannot_be_written),
     ENTRY(try_looks), ENTRY(wait_until_free), ENTRY(wait_ends_when_the_holder_dies),
     ENTRY(wait_ends_by_a_signal))
