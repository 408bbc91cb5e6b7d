/* SPDX-License-Identifier: MIT */
/* dibs break. That it asks on a terminal is in test_terminal.c. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

CASE(needs_yes)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "break", "x"), 64);
    CHECK_HAS(run.err, "say --yes");
    CHECK_SAME(DIBS(&run, "break"), 64);
    CHECK_SAME(DIBS(&run, "try", "x"), 75);
    let_go(&holder);
}

CASE(ends_the_hold)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "break", "--yes", "--reason", "the host is gone", "x"), 0);
    CHECK_TEXT(run.out, "'x': 1 hold ended\n");
    await_err(&holder, "dibs: ");
    CHECK_SAME(finish(&holder), 79);
    START(&run, "hold", "x");
    await_out(&run, "\"previous\":\"broken\"");
    CHECK(number_after(run.out, "\"token\":") > number_after(holder.out, "\"token\":"));
    CHECK_SAME(finish(&run), 0);
}

CASE(ends_all_sharers)
{
    struct proc one, two, run;
    START(&one, "hold", "-s", "x");
    await_out(&one, "\n");
    START(&two, "hold", "-s", "x");
    await_out(&two, "\n");
    CHECK_SAME(DIBS(&run, "break", "-y", "--json", "x"), 0);
    check_json(run.out);
    CHECK_TEXT(run.out, "{\"name\":\"x\",\"broken\":2}\n");
    CHECK_SAME(finish(&one), 79);
    CHECK_SAME(finish(&two), 79);
}

CASE(lets_the_next_one_in)
{
    struct proc holder, next, run;
    hold(&holder, "x");
    START(&next, "run", "x", "sh", "-c", "echo $DIBS_PREVIOUS");
    await_waiters("x", 1);
    CHECK_SAME(DIBS(&run, "break", "-y", "-q", "x"), 0);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(finish(&next), 0);
    CHECK_TEXT(next.out, "broken\n");
    CHECK_SAME(finish(&holder), 79);
}

CASE(nobody_has_it)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "break", "-y", "x"), 70);
    CHECK_HAS(run.err, "dibs: ");
}

MAIN(ENTRY(needs_yes), ENTRY(ends_the_hold), ENTRY(ends_all_sharers),
     ENTRY(lets_the_next_one_in), ENTRY(nobody_has_it))
