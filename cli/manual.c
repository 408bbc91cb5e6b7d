/* SPDX-License-Identifier: MIT */
/*
 * The manual page: dibs __manual copies the page's prose (docs/man/dibs.1.in) from stdin to
 * stdout and puts in, at the lines that say so, what the table of verbs.c knows. Used by
 * the build.
 */
#include <stdio.h>
#include <string.h>

#include <dibs.h>

#include "cmd.h"
#include "help.h"

/* text for troff: what it would take for its own is escaped */
static void
put_text(const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void
put_facts(const struct fact *facts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fputs(".TP\n.B ", stdout);
        put_text(facts[i].term);
        putchar('\n');
        put_text(facts[i].text);
        putchar('\n');
    }
}

static void
put_verb(const struct verb *verb)
{
    printf(".SS dibs %s\n.B dibs %s\n", verb->name, verb->name);
    put_text(verb->usage);
    fputs("\n.PP\n", stdout);
    put_text(verb->text);
    putchar('\n');
    for (int id = 0; id < OPT_COUNT; id++) {
        char label[64];
        if (!(verb->options & OPT_BIT(id)))
            continue;
        help_label(label, sizeof label, &opt_specs[id]);
        fputs(".TP\n.B ", stdout);
        put_text(label);
        putchar('\n');
        put_text(opt_specs[id].text);
        putchar('\n');
    }
    fputs(".PP\n.EX\n", stdout);
    put_text(verb->example);
    fputs("\n.EE\n", stdout);
}

static void
put_list_of_verbs(void)
{
    for (size_t i = 0; i < verb_count; i++) {
        printf(".TP\n.B dibs %s\n", verbs[i].name);
        put_text(verbs[i].summary);
        putchar('\n');
    }
}

int
cmd_manual(int argc, char **argv)
{
    char line[4096];
    (void)argc, (void)argv;
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "@VERSION@\n") == 0)
            printf(".TH DIBS 1 \"\" \"dibs %s\" \"User Commands\"\n", dibs_version());
        else if (strcmp(line, "@VERBS@\n") == 0)
            put_list_of_verbs();
        else if (strcmp(line, "@OPTIONS@\n") == 0)
            for (size_t i = 0; i < verb_count; i++)
                put_verb(&verbs[i]);
        else if (strcmp(line, "@EXIT@\n") == 0)
            put_facts(exit_facts, exit_fact_count);
        else if (strcmp(line, "@ENVIRONMENT@\n") == 0)
            put_facts(environment_facts, environment_fact_count);
        else
            fputs(line, stdout);
    }
    return ferror(stdin) ? 1 : 0;
}
