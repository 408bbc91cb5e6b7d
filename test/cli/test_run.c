/* SPDX-License-Identifier: MIT */
/*
 * dibs run, but for signals, terminals and losses. In this order: exit codes and the command
 * line, waiting, exclusion and modes, the environment, re-entry, --at-least, what is said,
 * names and URLs.
 */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CASE(exit_code_is_cmds)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "exit 7"), 7);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "true"), 0);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "false"), 1);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "kill -9 $$"), 137);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "kill -TERM $$"), 143);
}

CASE(cannot_execute)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "--", "/nonexistent/cmd"), 127);
    CHECK_HAS(run.err,
              "dibs: cannot run '/nonexistent/cmd': No such file or directory\n");
    CHECK_SAME(DIBS(&run, "run", "x", "--", "/dev/null"), 126);
    CHECK_HAS(run.err, "Permission denied");
    CHECK_SAME(DIBS(&run, "run", "-q", "x", "--", "/nonexistent/cmd"), 127);
    CHECK_TEXT(run.err, "");
    /* and the lock is free again */
    CHECK_SAME(DIBS(&run, "try", "x"), 0);
}

CASE(usage_errors)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run"), 64);
    CHECK_HAS(run.err, "usage: dibs run ");
    CHECK_SAME(DIBS(&run, "run", "x"), 64);
    CHECK_SAME(DIBS(&run, "run", "x", "--"), 64);
    CHECK_SAME(DIBS(&run, "run", "--", "--", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "--nonesuch", "x", "true"), 64);
    CHECK_HAS(run.err, "there is no option --nonesuch");
    CHECK_SAME(DIBS(&run, "run", "-Z", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "-w", "soon", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "-j", "0", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "-E", "256", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "--on-lost", "cry", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "--ttl", "0", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "--skip=yes", "x", "true"), 64);
    CHECK_SAME(DIBS(&run, "run", "-w"), 64);
    CHECK_SAME(DIBS(&run, "run", "x", "rsync", "-a", "--", "b"), 64);
    CHECK_HAS(run.err, "'-a' is no NAME: write -- before CMD");
    CHECK_SAME(DIBS(&run, "run", "", "true"), 64);
    CHECK_SAME(DIBS(&run, "nonesuch"), 64);
    CHECK_TEXT(run.out, "");
}

CASE(output_is_cmds_alone)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "echo out; echo err >&2"), 0);
    CHECK_TEXT(run.out, "out\n");
    CHECK_TEXT(run.err, "err\n");
    CHECK_SAME(DIBS(&run, "run", "-v", "--json", "x", "--", "echo", "out"), 0);
    CHECK_TEXT(run.out, "out\n");
}

CASE(input_is_cmds)
{
    struct proc run;
    START(&run, "run", "x", "--", "cat");
    put(&run, "hello\n");
    CHECK_SAME(finish(&run), 0);
    CHECK_TEXT(run.out, "hello\n");
}

CASE(cmds_options_are_not_ours)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "echo", "-n", "-v", "--json"), 0);
    CHECK_TEXT(run.out, "-v --json");
    CHECK_SAME(DIBS(&run, "run", "-x", "x", "--", "echo", "a", "--", "b"), 0);
    CHECK_TEXT(run.out, "a -- b\n");
    CHECK_SAME(DIBS(&run, "run", "--", "x", "echo", "-v"), 0);
    CHECK_TEXT(run.out, "-v\n");
}

CASE(shell_string)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "-c", "echo $((1 + 2)); exit 5", "x"), 5);
    CHECK_TEXT(run.out, "3\n");
    CHECK_SAME(DIBS(&run, "run", "x", "-c", "exit 6"), 6);
    CHECK_SAME(DIBS(&run, "run", "--command=exit 8", "x", "y"), 8);
}

CASE(busy)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "true"), 75);
    CHECK_HAS(run.err, "dibs: cannot lock 'x'");
    CHECK_HAS(run.err, "held by dibs on ");
    CHECK_SAME(DIBS(&run, "run", "-nq", "x", "true"), 75);
    CHECK_TEXT(run.err, "");
    CHECK_SAME(DIBS(&run, "run", "-n", "-E", "9", "x", "true"), 9);
    CHECK_SAME(DIBS(&run, "run", "-n", "--conflict-exit-code", "0", "x", "true"), 0);
    CHECK_SAME(DIBS(&run, "run", "-n", "--skip", "x", "echo", "ran"), 0);
    CHECK_TEXT(run.out, "");
    CHECK_TEXT(run.err, "");
    CHECK_SAME(DIBS(&run, "run", "-w0", "x", "true"), 75);
    let_go(&holder);
    CHECK_SAME(DIBS(&run, "run", "-n", "-E", "9", "x", "sh", "-c", "exit 75"), 75);
}

CASE(wait_limit)
{
    static const char *const spellings[] = { "-w300ms", "-t0.3", "--wait=300ms" };
    struct proc holder, run;
    hold(&holder, "x");
    for (size_t i = 0; i < 3; i++) {
        int64_t began = now_ms();
        CHECK_SAME(DIBS(&run, "run", spellings[i], "x", "echo", "ran"), 75);
        CHECK_WITHIN(now_ms() - began, 290, 300 + slowly(3000));
        CHECK_TEXT(run.out, "");
    }
    CHECK_SAME(DIBS(&run, "run", "-w", "0.1", "--skip", "x", "true"), 0);
    await_waiters("x", 0);
    let_go(&holder);
}

CASE(environment_defaults)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK(setenv("DIBS_WAIT", "0", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "x", "true"), 75);
    /* flags win */
    START(&run, "run", "-w", "20", "x", "echo", "ran");
    await_waiters("x", 1);
    let_go(&holder);
    CHECK_SAME(finish(&run), 0);
    CHECK_TEXT(run.out, "ran\n");
    CHECK(setenv("DIBS_WAIT", "later", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "x", "true"), 78);
    CHECK_HAS(run.err, "DIBS_WAIT is not a duration: 'later'");
    CHECK(unsetenv("DIBS_WAIT") == 0);
    CHECK(setenv("DIBS_TTL", "-3", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "x", "true"), 78);
    CHECK(setenv("DIBS_TTL", "20s", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "x", "true"), 0);
    CHECK(setenv("DIBS_URL", "mock:", 1) == 0);
    START(&run, "hold", "x");
    await_out(&run, "\"lease_ms\":20000");
    CHECK_SAME(finish(&run), 0);
    START(&run, "hold", "--ttl", "15", "x");
    await_out(&run, "\"lease_ms\":15000");
    CHECK_SAME(finish(&run), 0);
}

CASE(two_take_turns)
{
    struct proc first, second;
    START(&first, "run", "x", "--", "sh", "-c", "echo in; read line; echo out");
    await_out(&first, "in\n");
    START(&second, "run", "x", "--", "echo", "in too");
    await_waiters("x", 1);
    CHECK_TEXT(second.out, "");
    put(&first, "\n");
    CHECK_SAME(finish(&first), 0);
    CHECK_SAME(finish(&second), 0);
    CHECK_TEXT(second.out, "in too\n");
}

CASE(many_take_turns)
{
    /* a counter in a file: every lost update shows that two were in at once */
    static const char *script =
        "for i in 1 2 3 4 5 6 7 8 9 10; do \"$DIBS\" run count sh -c "
        "'n=$(cat \"$0\"); echo $((n + 1)) >\"$0\"' \"$0\"; done";
    struct proc procs[6], read_it;
    char path[300];
    snprintf(path, sizeof path, "%s", in_folder("counter"));
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs("0\n", file) >= 0 && fclose(file) == 0);
    for (size_t i = 0; i < 6; i++)
        start_program(&procs[i], (const char *const[]){ "sh", "-c", script, path, NULL });
    for (size_t i = 0; i < 6; i++)
        CHECK_SAME(finish(&procs[i]), 0);
    start_program(&read_it, (const char *const[]){ "cat", path, NULL });
    CHECK_SAME(finish(&read_it), 0);
    CHECK_TEXT(read_it.out, "60\n");
}

CASE(shared_and_exclusive)
{
    struct proc one, two, other;
    START(&one, "run", "-s", "x", "--", "cat");
    put(&one, "one\n");
    await_out(&one, "one\n");
    START(&two, "run", "--shared", "x", "--", "cat");
    put(&two, "two\n");
    await_out(&two, "two\n");
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 75);
    CHECK_SAME(DIBS(&other, "run", "-n", "-s", "-x", "x", "true"), 75);
    CHECK_SAME(DIBS(&other, "try", "-s", "x"), 0);
    CHECK_SAME(DIBS(&other, "try", "x"), 75);
    CHECK_SAME(finish(&one), 0);
    CHECK_SAME(finish(&two), 0);
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 0);
}

CASE(slots)
{
    struct proc one, two, other;
    START(&one, "run", "-j", "2", "x", "--", "cat");
    put(&one, "one\n");
    await_out(&one, "one\n");
    CHECK_SAME(DIBS(&other, "try", "-j2", "x"), 0);
    START(&two, "run", "--slots=2", "x", "--", "cat");
    put(&two, "two\n");
    await_out(&two, "two\n");
    CHECK_SAME(DIBS(&other, "run", "-n", "-j2", "x", "true"), 75);
    CHECK_SAME(DIBS(&other, "try", "-j2", "x"), 75);
    CHECK_SAME(DIBS(&other, "run", "-n", "-j3", "x", "true"), 78);
    CHECK_HAS(other.err, "dibs show");
    CHECK_SAME(finish(&one), 0);
    CHECK_SAME(DIBS(&other, "run", "-n", "-j2", "x", "true"), 0);
    CHECK_SAME(finish(&two), 0);
}

CASE(several_names)
{
    struct proc run, other;
    START(&run, "run", "b", "a", "c", "--", "sh", "-c", "echo \"$DIBS_NAME\"; cat");
    await_out(&run, "b\na\nc\n");
    CHECK_SAME(DIBS(&other, "run", "-n", "a", "true"), 75);
    CHECK_SAME(DIBS(&other, "run", "-n", "b", "true"), 75);
    CHECK_SAME(DIBS(&other, "run", "-n", "c", "true"), 75);
    /* all or nothing: d is not kept when c cannot be had */
    CHECK_SAME(DIBS(&other, "run", "-n", "d", "c", "--", "true"), 75);
    CHECK_SAME(DIBS(&other, "try", "d"), 0);
    CHECK_SAME(finish(&run), 0);
    CHECK_SAME(DIBS(&other, "run", "-n", "c", "b", "a", "--", "true"), 0);
}

CASE(environment_of_cmd)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c",
                    "echo \"name=$DIBS_NAME token=$DIBS_TOKEN previous=$DIBS_PREVIOUS\"; "
                    "test -e /proc/self/fd/$DIBS_LOST_FD && echo fd=there"),
               0);
    CHECK_HAS(run.out, "name=x token=");
    CHECK_HAS(run.out, " previous=clean\n");
    CHECK_HAS(run.out, "fd=there\n");
    long first = number_after(run.out, "token=");
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "echo token=$DIBS_TOKEN"), 0);
    CHECK(number_after(run.out, "token=") > first);
    CHECK(first > 0);
}

CASE(no_descriptor_leaks)
{
    static const char *const list = "ls /proc/self/fd | wc -l";
    struct proc without, run;
    start_program(&without, (const char *const[]){ "sh", "-c", list, NULL });
    CHECK_SAME(finish(&without), 0);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", list), 0);
    /* one more: that which DIBS_LOST_FD names */
    CHECK_SAME(number_after(run.out, ""), number_after(without.out, "") + 1);
}

CASE(descriptors_of_the_caller)
{
    static const char *const list = "exec 7</dev/null; exec \"$DIBS\" run x -- sh -c "
                                    "'readlink /proc/self/fd/7'";
    struct proc run;
    start_program(&run, (const char *const[]){ "sh", "-c", list, NULL });
    CHECK_SAME(finish(&run), 0);
    CHECK_TEXT(run.out, "/dev/null\n");
}

CASE(previous_expired)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK(kill(holder.pid, SIGKILL) == 0);
    CHECK_SAME(finish(&holder), 137);
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "echo $DIBS_PREVIOUS"), 0);
    CHECK_TEXT(run.out, "expired\n");
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "echo $DIBS_PREVIOUS"), 0);
    CHECK_TEXT(run.out, "clean\n");
}

CASE(nested_reenters)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c",
                    "outer=$DIBS_TOKEN; \"$DIBS\" run -v -w 5 x -- sh -c "
                    "'test $DIBS_TOKEN = '$outer' && echo same; exit 4'"),
               4);
    CHECK_TEXT(run.out, "same\n");
    CHECK_HAS(run.err, "the dibs run around this one holds it already");
    /* what is held exclusively serves sharers too */
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "\"$DIBS\" run -s -w5 x echo in"),
               0);
    CHECK_TEXT(run.out, "in\n");
    CHECK_SAME(DIBS(&run, "run", "-j1", "x", "--", "sh", "-c",
                    "\"$DIBS\" run -j1 -w5 x echo in"),
               0);
    CHECK_TEXT(run.out, "in\n");
    CHECK_SAME(DIBS(&run, "run", "x", "--", "sh", "-c", "\"$DIBS\" run x nonesuch-cmd"),
               127);
}

CASE(nested_other_names)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "a", "--", "sh", "-c",
                    "\"$DIBS\" run b -- sh -c '\"$DIBS\" run -w5 a b -- echo both; "
                    "\"$DIBS\" run -w5 a c -- sh -c \"echo \\$DIBS_NAME\"'"),
               0);
    CHECK_TEXT(run.out, "both\nc\n");
}

CASE(nested_upgrade_is_refused)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "-s", "x", "--", "sh", "-c", "\"$DIBS\" run -w5 x true"),
               70);
    CHECK_HAS(run.err, "the dibs run around this one shares it");
}

CASE(ticket_is_no_proof)
{
    struct proc first, holder, run;
    CHECK_SAME(DIBS(&first, "run", "x", "--", "sh", "-c", "echo $DIBS_TICKET"), 0);
    first.out[strcspn(first.out, "\n")] = 0;
    CHECK(strlen(first.out) > 20);
    hold(&holder, "x");
    CHECK(setenv("DIBS_TICKET", first.out, 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "echo", "ran"), 75);
    CHECK_TEXT(run.out, "");
    CHECK(setenv("DIBS_TICKET", "garbage,,0-x,ffffffffffffffff-x-1-0-78", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "echo", "ran"), 75);
    let_go(&holder);
    CHECK_SAME(DIBS(&run, "run", "-n", "x", "echo", "ran"), 0);
}

CASE(at_least)
{
    struct proc run, other;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "-v", "--at-least", "3s", "x", "sh", "-c", "exit 3"), 3);
    CHECK_WITHIN(now_ms() - began, 0, 2900);
    CHECK_HAS(run.err, "keeping others out for ");
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 75);
    CHECK_SAME(DIBS(&other, "run", "--skip", "-n", "x", "echo", "ran"), 0);
    CHECK_TEXT(other.out, "");
    CHECK_SAME(DIBS(&other, "run", "-w", "20", "x", "true"), 0);
    CHECK_WITHIN(now_ms() - began, 2990, 3000 + slowly(3000));
}

CASE(at_least_is_over)
{
    struct proc run, other;
    CHECK_SAME(DIBS(&run, "run", "-v", "--at-least", "100ms", "x", "sleep", "0.3"), 0);
    CHECK(strstr(run.err, "keeping") == NULL);
    CHECK_SAME(DIBS(&other, "run", "-n", "x", "true"), 0);
}

/* an engine that cannot keep others out for us: we stay until then */
CASE(at_least_without_the_engine)
{
    struct proc run;
    int64_t began = now_ms();
    CHECK_SAME(DIBS(&run, "run", "--url", "mock:?caps=-linger", "--at-least", "600ms",
                    "x", "sh", "-c", "exit 3"),
               3);
    CHECK_WITHIN(now_ms() - began, 590, 600 + slowly(3000));
    START(&run, "run", "--url", "mock:?caps=-linger", "--at-least", "60", "x", "echo",
          "ran");
    await_out(&run, "ran");
    sleep_ms(50);
    CHECK(kill(run.pid, SIGTERM) == 0);
    CHECK_SAME(finish(&run), 0);
}

CASE(verbose_explains_the_wait)
{
    struct proc holder, first, second;
    char expected[64];
    hold(&holder, "x");
    START(&first, "run", "-w", "20", "x", "true");
    await_waiters("x", 1);
    START(&second, "run", "-v", "x", "echo", "ran");
    await_err(&second, "dibs: waiting for 'x': 2nd of 2; held by dibs on ");
    snprintf(expected, sizeof expected, ", pid %d, for ", (int)holder.pid);
    await_err(&second, expected);
    let_go(&holder);
    CHECK_SAME(finish(&first), 0);
    CHECK_SAME(finish(&second), 0);
    CHECK_HAS(second.err, "dibs: granted 'x' after ");
    CHECK_HAS(second.err, "previous clean");
    CHECK_TEXT(second.out, "ran\n");
}

CASE(json_events)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "run", "--json", "-n", "x", "true"), 75);
    check_json(run.err);
    CHECK_HAS(run.err, "{\"event\":\"error\",\"code\":\"EBUSY\",\"text\":\"");
    START(&run, "run", "--json", "x", "sh", "-c", "exit 6");
    await_err(&run, "{\"event\":\"waiting\",\"place\":1,\"name\":\"x\"");
    let_go(&holder);
    CHECK_SAME(finish(&run), 6);
    check_json(run.err);
    CHECK_HAS(run.err, "{\"event\":\"granted\",\"name\":\"x\",\"token\":");
    CHECK_HAS(run.err, "{\"event\":\"exit\",\"code\":6}\n");
}

CASE(odd_names)
{
    static const char *const names[] = { "a b",      "a'b",      "a\"b", "a\nb",
                                         "\xff\xfe", "\xc3\xa4", "../x", "%00",
                                         "*",        "-x",       "a\tb" };
    struct proc holder, run;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        START(&holder, "hold", "--", names[i]);
        await_out(&holder, "\n");
        check_json(holder.out);
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            CHECK_SAME(DIBS(&run, "run", "-n", "--", names[j], "true"), i == j ? 75 : 0);
        CHECK_SAME(DIBS(&run, "show", "--json", "--", names[i]), 0);
        check_json(run.out);
        CHECK_SAME(DIBS(&run, "ls", "--json"), 0);
        check_json(run.out);
        CHECK_SAME(DIBS(&run, "ls"), 0);
        let_go(&holder);
    }
    CHECK_SAME(DIBS(&run, "run", "\xff\xfe", "sh", "-c", "printf %s \"$DIBS_NAME\""), 0);
    CHECK_TEXT(run.out, "\xff\xfe");
}

CASE(name_too_long)
{
    char name[514];
    struct proc run;
    memset(name, 'n', sizeof name);
    name[513] = 0;
    CHECK_SAME(DIBS(&run, "run", name, "true"), 64);
    name[512] = 0;
    CHECK_SAME(DIBS(&run, "run", name, "true"), 0);
}

CASE(note_and_app_are_shown)
{
    struct proc run, show;
    START(&run, "run", "--note", "nightly dump", "x", "--", "/bin/cat");
    put(&run, "in\n");
    await_out(&run, "in\n");
    CHECK_SAME(DIBS(&show, "show", "--json", "x"), 0);
    check_json(show.out);
    CHECK_HAS(show.out, "\"app\":\"cat\"");
    CHECK_HAS(show.out, "\"note\":\"nightly dump\"");
    CHECK_SAME(finish(&run), 0);
}

CASE(bad_urls)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "--url", "nonesuch:", "x", "true"), 78);
    CHECK_SAME(DIBS(&run, "run", "--url", "mock:?deny=x", "x", "echo", "ran"), 77);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "run", "--url", "mock:?nonesuch=1", "x", "true"), 78);
    CHECK(setenv("DIBS_ENGINE_DIR", "/nonexistent", 1) == 0);
    CHECK_SAME(DIBS(&run, "run", "--url", "mysql://127.0.0.1:1/x", "x", "true"), 78);
    CHECK_HAS(run.err, "engine mysql is not installed");
}

CASE(flag_wins_over_url_variable)
{
    struct proc holder, run;
    hold(&holder, "x");
    CHECK_SAME(DIBS(&run, "run", "-n", "--url", "mock:", "x", "echo", "ran"), 0);
    CHECK_TEXT(run.out, "ran\n");
    let_go(&holder);
}

MAIN(ENTRY(exit_code_is_cmds), ENTRY(cannot_execute), ENTRY(usage_errors),
     ENTRY(output_is_cmds_alone), ENTRY(input_is_cmds), ENTRY(cmds_options_are_not_ours),
     ENTRY(shell_string), ENTRY(busy), ENTRY(wait_limit), ENTRY(environment_defaults),
     ENTRY(two_take_turns), ENTRY(many_take_turns), ENTRY(shared_and_exclusive),
     ENTRY(slots), ENTRY(several_names), ENTRY(environment_of_cmd),
     ENTRY(no_descriptor_leaks), ENTRY(descriptors_of_the_caller),
     ENTRY(previous_expired), ENTRY(nested_reenters), ENTRY(nested_other_names),
     ENTRY(nested_upgrade_is_refused), ENTRY(ticket_is_no_proof), ENTRY(at_least),
     ENTRY(at_least_is_over), ENTRY(at_least_without_the_engine),
     ENTRY(verbose_explains_the_wait), ENTRY(json_events), ENTRY(odd_names),
     ENTRY(name_too_long), ENTRY(note_and_app_are_shown), ENTRY(bad_urls),
     ENTRY(flag_wins_over_url_variable))
