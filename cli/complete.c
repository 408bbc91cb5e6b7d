/* SPDX-License-Identifier: MIT */
/*
 * Completion: dibs __complete WORD... prints, one per line, what the last WORD (which may
 * be empty) can become, with a tab and an explanation where there is one. The scripts in
 * completions/ hand it what was typed, so that what a shell offers is what the table of
 * verbs.c says, and the locks that are in use.
 */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "common.h"

#define ASK_MS 500 /* a shell must not hang because a server does */

static void
offer(const char *typed, const char *word, const char *text)
{
    if (strncmp(word, typed, strlen(typed)) == 0)
        printf("%s\t%s\n", word, text);
}

static void
offer_verbs(const char *typed)
{
    for (size_t i = 0; i < verb_count; i++)
        offer(typed, verbs[i].name, verbs[i].summary);
    offer(typed, "--help", "what dibs can do");
    offer(typed, "--version", "which dibs this is");
}

static void
offer_options(const struct verb *verb, const char *typed)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        char word[64];
        if (!(verb->options & OPT_BIT(id)))
            continue;
        snprintf(word, sizeof word, "--%s", opt_specs[id].name);
        offer(typed, word, opt_specs[id].text);
    }
}

static int
offer_lock(const dibs_report *report, void *arg)
{
    char name[NAME_PRINT_MAX];
    /* what had to be escaped cannot be completed */
    if (strlen(name_print(name, report->name, report->name_len)) == report->name_len)
        offer(arg, name, "");
    return 0;
}

static void
offer_locks(const char *typed)
{
    struct options options = { .wait_ms = ASK_MS };
    dibs *client = NULL;
    int code = client_open(&client, &options, NULL, NULL);
    if (code == DIBS_OK)
        code = dibs_list(client, NULL, offer_lock, (void *)(uintptr_t)typed, NULL);
    (void)code; /* no answer is no offer */
    dibs_close(client);
}

static void
offer_choices(const char *choices, const char *typed)
{
    while (choices && *choices) {
        char word[32];
        size_t len = strcspn(choices, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, choices);
        offer(typed, word, "");
        choices += len + (choices[len] == ' ');
    }
}

/* the option a word is, if it is one that needs another word behind it */
static const struct opt_spec *
needs_argument(const struct verb *verb, const char *word)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        const struct opt_spec *spec = &opt_specs[id];
        bool by_name =
            word[0] == '-' && word[1] == '-' && strcmp(word + 2, spec->name) == 0;
        bool by_letter =
            word[0] == '-' && spec->letter && word[1] == spec->letter && !word[2];
        if ((verb->options & OPT_BIT(id)) && spec->arg && (by_name || by_letter))
            return spec;
    }
    return NULL;
}

static void
offer_operand(const struct verb *verb, int index, const char *typed)
{
    if (verb->operand == OPERAND_CELL && index == 0) {
        offer(typed, "get", "print the value");
        offer(typed, "set", "change the value");
    } else if (index == 0 && verb->operand != OPERAND_NONE) {
        offer_locks(typed);
    } else if (verb->operand == OPERAND_LOCK_THEN_COMMAND) {
        puts("<command>\t"); /* the scripts complete commands themselves */
    }
}

int
cmd_complete(int argc, char **argv)
{
    const char *typed = argc > 1 ? argv[argc - 1] : "";
    const struct verb *verb = argc > 2 ? verb_find(argv[1]) : NULL;
    int operands = 0;
    if (argc <= 2) {
        offer_verbs(typed);
        return 0;
    }
    for (int i = 2; verb && i < argc - 1; i++) {
        const struct opt_spec *spec =
            operands == 0 ? needs_argument(verb, argv[i]) : NULL;
        if (spec && i + 1 == argc - 1) {
            offer_choices(spec->choices, typed);
            return 0;
        }
        if (spec)
            i++;
        else
            operands += argv[i][0] != '-' || operands > 0;
    }
    bool options_too = operands == 0 || (verb && verb->operand == OPERAND_CELL);
    if (verb && typed[0] == '-' && options_too)
        offer_options(verb, typed);
    else if (verb)
        offer_operand(verb, operands, typed);
    return 0;
}
