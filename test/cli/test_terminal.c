/* SPDX-License-Identifier: MIT */
/* dibs run on a terminal: who has it, and job control under a real shell. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
on_terminal(struct proc *proc, const char *const *arguments)
{
    const char *argv[20] = { getenv("DIBS") };
    for (size_t i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    start_on_terminal(proc, argv);
}
#define ON_TERMINAL(proc, ...)                                                           \
    on_terminal((proc), (const char *const[]){ __VA_ARGS__, NULL })

/* An interactive shell with job control. What is typed is echoed by the terminal, so tests
 * look for words that the line typed does not contain as such. */
static void
start_shell(struct proc *shell)
{
    CHECK(setenv("PS1", "ready> ", 1) == 0);
    CHECK(setenv("TERM", "dumb", 1) == 0);
    start_on_terminal(shell, (const char *const[]){ "bash", "--norc", "--noprofile",
                                                    "--noediting", "-i", NULL });
    await_out(shell, "ready> ");
}

static void
end_shell(struct proc *shell)
{
    put(shell, "exit 0\n");
    CHECK_SAME(finish(shell), 0);
}

CASE(cmd_reads_it)
{
    struct proc run;
    ON_TERMINAL(&run, "run", "x", "sh", "-c", "echo ask; read line; echo got-$line");
    await_out(&run, "ask");
    put(&run, "hello\n");
    await_out(&run, "got-hello");
    CHECK_SAME(finish(&run), 0);
}

CASE(cmd_is_in_the_foreground)
{
    struct proc run;
    ON_TERMINAL(&run, "run", "x", "sh", "-c",
                "ps -o pgid=,tpgid= -p $$ | { read own front; "
                "test $own = $front && echo in front; }");
    CHECK_SAME(finish(&run), 0);
    CHECK_HAS(run.out, "in front");
}

CASE(interrupt_key)
{
    struct proc run;
    ON_TERMINAL(&run, "run", "x", "sh", "-c", "echo ask; exec sleep 60");
    await_out(&run, "ask");
    put(&run, "\003");
    CHECK_SAME(finish(&run), 130);
}

CASE(interrupt_key_while_waiting)
{
    struct proc holder, run;
    hold(&holder, "x");
    ON_TERMINAL(&run, "run", "x", "echo", "ran");
    await_waiters("x", 1);
    put(&run, "\003");
    CHECK_SAME(finish(&run), 130);
    CHECK(strstr(run.out, "ran") == NULL);
    let_go(&holder);
}

/* one line that is rewritten, and gone when the command starts */
CASE(status_line)
{
    struct proc holder, run;
    hold(&holder, "x");
    ON_TERMINAL(&run, "run", "-v", "x", "echo", "ran");
    await_out(&run, "\r\033[Kdibs: waiting for 'x': 1st of 1; held by ");
    await_out(&run, "for 1s");
    CHECK(strchr(run.out, '\n') == NULL);
    let_go(&holder);
    CHECK_SAME(finish(&run), 0);
    CHECK_HAS(run.out, "\r\033[Kdibs: granted 'x'");
    CHECK_HAS(run.out, "ran\r\n");
}

CASE(stop_and_continue)
{
    struct proc shell;
    start_shell(&shell);
    put(&shell, "\"$DIBS\" run x sh -c 'echo be''gun; read line; echo got-$line'\n");
    await_out(&shell, "begun");
    put(&shell, "\032");
    await_out(&shell, "Stopped");
    /* the shell has its terminal back, and the lock is still held */
    put(&shell, "\"$DIBS\" run -n x true; echo code''-$?\n");
    await_out(&shell, "code-75");
    put(&shell, "fg\n");
    await_out(&shell, "fg\r\n");
    put(&shell, "again\n");
    await_out(&shell, "got-again");
    put(&shell, "\"$DIBS\" run -n x sh -c 'exit 4'; echo code''-$?\n");
    await_out(&shell, "code-4");
    end_shell(&shell);
}

CASE(background_then_foreground)
{
    struct proc shell;
    start_shell(&shell);
    put(&shell, "\"$DIBS\" run x sh -c 'echo be''gun; read line; echo got-$line' &\n");
    await_out(&shell, "begun");
    /* reading in the background stops the job */
    put(&shell, "while ! jobs | grep Stop; do sleep 0.05; done; echo st''opped\n");
    await_out(&shell, "stopped");
    put(&shell, "fg\n");
    await_out(&shell, "fg\r\n");
    put(&shell, "late\n");
    await_out(&shell, "got-late");
    end_shell(&shell);
}

CASE(interrupt_key_under_a_shell)
{
    struct proc shell;
    start_shell(&shell);
    put(&shell, "\"$DIBS\" run x sh -c 'echo be''gun; exec sleep 60'\n");
    await_out(&shell, "begun");
    put(&shell, "\003");
    put(&shell, "echo code''-$?\n");
    await_out(&shell, "code-130");
    end_shell(&shell);
}

/* the other end of a pipe shares our group and may need the terminal more than CMD */
CASE(pipeline)
{
    struct proc shell;
    start_shell(&shell);
    put(&shell, "\"$DIBS\" run x sh -c 'read line; echo got-$line' | cat; echo do''ne\n");
    sleep_ms(300);
    put(&shell, "typed\n");
    await_out(&shell, "got-typed");
    await_out(&shell, "done");
    put(&shell, "\"$DIBS\" run x sh -c 'echo be''gun >&2; exec sleep 60' | cat\n");
    await_out(&shell, "begun");
    put(&shell, "\032");
    await_out(&shell, "Stopped");
    put(&shell, "fg\n");
    await_out(&shell, "fg\r\n");
    sleep_ms(200);
    put(&shell, "\003");
    put(&shell, "echo code''-${PIPESTATUS[0]}\n");
    await_out(&shell, "code-130");
    end_shell(&shell);
}

/* the script reads from the terminal before and after the command does */
CASE(script_without_job_control)
{
    struct proc shell;
    start_shell(&shell);
    put(&shell,
        "sh -c '\"$DIBS\" run x sh -c \"read a; echo cmd-\\$a\"; read b; echo me-$b'\n");
    sleep_ms(300);
    put(&shell, "typed\n");
    await_out(&shell, "cmd-typed");
    put(&shell, "more\n");
    await_out(&shell, "me-more");
    end_shell(&shell);
}

CASE(break_asks)
{
    struct proc holder, ask;
    hold(&holder, "x");
    ON_TERMINAL(&ask, "break", "x");
    await_out(&ask, "Take it away?");
    CHECK_HAS(ask.out, "held by dibs on ");
    put(&ask, "n\n");
    CHECK_SAME(finish(&ask), 1);
    CHECK_SAME(DIBS(&ask, "try", "x"), 75);
    ON_TERMINAL(&ask, "break", "x");
    await_out(&ask, "Take it away?");
    put(&ask, "y\n");
    CHECK_SAME(finish(&ask), 0);
    CHECK_HAS(ask.out, "'x': 1 hold ended");
    CHECK_SAME(finish(&holder), 79);
}

CASE(tables_have_bold_heads)
{
    struct proc holder, list;
    hold(&holder, "x");
    ON_TERMINAL(&list, "ls");
    CHECK_SAME(finish(&list), 0);
    CHECK_HAS(list.out, "\033[1mNAME");
    let_go(&holder);
}

MAIN(ENTRY(cmd_reads_it), ENTRY(cmd_is_in_the_foreground), ENTRY(interrupt_key),
     ENTRY(interrupt_key_while_waiting), ENTRY(status_line), ENTRY(stop_and_continue),
     ENTRY(background_then_foreground), ENTRY(interrupt_key_under_a_shell),
     ENTRY(pipeline), ENTRY(script_without_job_control), ENTRY(break_asks),
     ENTRY(tables_have_bold_heads))
