/* SPDX-License-Identifier: MIT */
/* --help, --version and completion; one_table.sh compares them with the manual page. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char *const all_verbs[] = { "run",   "hold",  "try",   "wait",
                                         "elect", "cell",  "fence", "ls",
                                         "show",  "break", "bench", "engines" };

CASE(overall)
{
    struct proc help, same;
    CHECK_SAME(DIBS(&help, "--help"), 0);
    CHECK_TEXT(help.err, "");
    for (size_t i = 0; i < sizeof all_verbs / sizeof *all_verbs; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "\n  %s ", all_verbs[i]);
        CHECK_HAS(help.out, entry);
    }
    CHECK_HAS(help.out, "DIBS_URL");
    CHECK_SAME(DIBS(&same, "help"), 0);
    CHECK_TEXT(same.out, help.out);
    CHECK_SAME(DIBS(&same, "-h"), 0);
    CHECK_TEXT(same.out, help.out);
    CHECK_SAME(DIBS(&same, "help", "nonesuch"), 64);
    start(&same, (const char *const[]){ NULL });
    CHECK_SAME(finish(&same), 64);
}

CASE(of_each_verb)
{
    for (size_t i = 0; i < sizeof all_verbs / sizeof *all_verbs; i++) {
        struct proc help, same;
        char usage[64];
        CHECK_SAME(DIBS(&help, all_verbs[i], "--help"), 0);
        snprintf(usage, sizeof usage, "usage: dibs %s ", all_verbs[i]);
        CHECK(strncmp(help.out, usage, strlen(usage)) == 0);
        CHECK_TEXT(help.err, "");
        CHECK_SAME(DIBS(&same, all_verbs[i], "-h"), 0);
        CHECK_TEXT(same.out, help.out);
        CHECK_SAME(DIBS(&same, "help", all_verbs[i]), 0);
        CHECK_TEXT(same.out, help.out);
        /* fits a terminal of 80 columns */
        for (const char *line = help.out; *line; line += strcspn(line, "\n") + 1)
            CHECK(strcspn(line, "\n") < 80 || strncmp(line, "usage", 5) == 0 ||
                  strncmp(line, "  dibs", 6) == 0);
    }
}

CASE(version)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "--version"), 0);
    CHECK(strncmp(run.out, "dibs 0.", 7) == 0);
    CHECK_SAME(DIBS(&run, "-V"), 0);
}

CASE(full_disk_is_an_error)
{
    struct proc run;
    start_program(
        &run, (const char *const[]){ "sh", "-c", "\"$DIBS\" --help >/dev/full", NULL });
    CHECK_SAME(finish(&run), 1);
    CHECK_HAS(run.err, "cannot write");
}

CASE(completion_of_verbs_and_options)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "__complete", ""), 0);
    CHECK_HAS(run.out, "run\t");
    CHECK_HAS(run.out, "engines\t");
    CHECK_SAME(DIBS(&run, "__complete", "en"), 0);
    CHECK_TEXT(run.out, "engines\twhich engines are there\n");
    CHECK_SAME(DIBS(&run, "__complete", "run", "--on"), 0);
    CHECK(strncmp(run.out, "--on-lost\t", 10) == 0);
    CHECK_SAME(DIBS(&run, "__complete", "run", "--on-lost", ""), 0);
    CHECK_TEXT(run.out, "term\t\nkill\t\nignore\t\n");
    CHECK_SAME(DIBS(&run, "__complete", "run", "-w", ""), 0);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "__complete", "cell", ""), 0);
    CHECK_TEXT(run.out, "get\tprint the value\nset\tchange the value\n");
    CHECK_SAME(DIBS(&run, "__complete", "cell", "set", "--if"), 0);
    CHECK(strncmp(run.out, "--if-version\t", 13) == 0);
    CHECK_SAME(DIBS(&run, "__complete", "ls", "--skip"), 0);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "__complete", "nonesuch", ""), 0);
    CHECK_TEXT(run.out, "");
}

CASE(completion_of_locks)
{
    struct proc holder, run;
    hold(&holder, "deploy");
    CHECK_SAME(DIBS(&run, "__complete", "show", "de"), 0);
    CHECK_TEXT(run.out, "deploy\t\n");
    CHECK_SAME(DIBS(&run, "__complete", "run", "-n", "de"), 0);
    CHECK_TEXT(run.out, "deploy\t\n");
    CHECK_SAME(DIBS(&run, "__complete", "run", "-n", "deploy", "ma"), 0);
    CHECK_TEXT(run.out, "<command>\t\n");
    CHECK_SAME(DIBS(&run, "__complete", "show", "x"), 0);
    CHECK_TEXT(run.out, "");
    let_go(&holder);
}

MAIN(ENTRY(overall), ENTRY(of_each_verb), ENTRY(version), ENTRY(full_disk_is_an_error),
     ENTRY(completion_of_verbs_and_options), ENTRY(completion_of_locks))
