/* SPDX-License-Identifier: MIT */
/* dibs elect: with a command, without, and --observe. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

CASE(runs_cmd_as_leader)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "elect", "x", "--", "sh", "-c", "echo $DIBS_NAME; exit 6"), 6);
    CHECK_TEXT(run.out, "x\n");
    CHECK_SAME(DIBS(&run, "elect", "x", "echo", "-n", "led"), 0);
    CHECK_TEXT(run.out, "led");
    CHECK_SAME(DIBS(&run, "elect", "-c", "exit 3", "x"), 3);
}

CASE(one_leads_at_a_time)
{
    struct proc first, second;
    START(&first, "elect", "--value", "one", "x");
    await_out(&first, "\"token\":");
    check_json(first.out);
    CHECK_SAME(DIBS(&second, "elect", "-n", "x", "true"), 75);
    CHECK_SAME(DIBS(&second, "elect", "-w", "100ms", "x", "true"), 75);
    START(&second, "elect", "x", "echo", "leads");
    await_waiters("x", 1);
    CHECK_SAME(finish(&first), 0);
    CHECK_SAME(finish(&second), 0);
    CHECK_TEXT(second.out, "leads\n");
}

CASE(observers_see_changes)
{
    struct proc observer, json, leader;
    START(&observer, "elect", "--observe", "x");
    await_out(&observer, "x: nobody leads\n");
    START(&json, "elect", "--observe", "--json", "x");
    await_out(&json, "{\"name\":\"x\",\"leader\":null}\n");
    START(&leader, "elect", "--value", "node-1", "x");
    await_out(&observer, "x: node-1 (dibs on ");
    await_out(&json, "\"leader\":{\"value\":\"node-1\",");
    CHECK_SAME(finish(&leader), 0);
    START(&leader, "elect", "--value", "node-2", "x");
    await_out(&observer, "x: node-2 (dibs on ");
    CHECK(kill(leader.pid, SIGKILL) == 0);
    CHECK_SAME(finish(&leader), 137);
    START(&leader, "elect", "x");
    await_out(&leader, "\"previous\":\"expired\"");
    await_out(&observer, "x: dibs on ");
    CHECK(kill(observer.pid, SIGTERM) == 0 && kill(json.pid, SIGTERM) == 0);
    CHECK_SAME(finish(&observer), 143);
    CHECK_SAME(finish(&json), 143);
    check_json(json.out);
    CHECK_SAME(finish(&leader), 0);
}

CASE(observe_once_and_for_a_time)
{
    struct proc observer;
    CHECK_SAME(DIBS(&observer, "elect", "--observe", "-n", "x"), 0);
    CHECK_TEXT(observer.out, "x: nobody leads\n");
    CHECK_SAME(DIBS(&observer, "elect", "--observe", "-w", "200ms", "x"), 75);
    CHECK_TEXT(observer.out, "x: nobody leads\n");
}

CASE(lost_leadership)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "elect", "--url", "mock:?lose_after=300ms", "x", "sleep", "60"),
               79);
}

CASE(usage_errors)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "elect"), 64);
    CHECK_SAME(DIBS(&run, "elect", "a", "b", "--", "true"), 64);
    CHECK_SAME(DIBS(&run, "elect", "--observe", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "elect", "-s", "x"), 64);
}

MAIN(ENTRY(runs_cmd_as_leader), ENTRY(one_leads_at_a_time), ENTRY(observers_see_changes),
     ENTRY(observe_once_and_for_a_time), ENTRY(lost_leadership), ENTRY(usage_errors))
