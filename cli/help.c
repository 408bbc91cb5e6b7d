/* SPDX-License-Identifier: MIT */
/* --help, printed from the table of verbs.c. */
#include "help.h"

#include <string.h>

#define WIDTH 79

/* one paragraph from column `indent` on; the cursor stands at column `at` */
static void
wrap(FILE *out, const char *text, int at, int indent)
{
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (at > indent && at + 1 + word > WIDTH) {
            fputc('\n', out);
            at = 0;
        }
        if (at < indent)
            at += fprintf(out, "%*s", indent - at, "");
        else if (at > indent)
            at += fprintf(out, " ");
        at += fprintf(out, "%.*s", word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void
entry(FILE *out, const char *term, const char *text, int indent)
{
    int at = fprintf(out, "  %s", term);
    if (at >= indent - 1) {
        fputc('\n', out);
        at = 0;
    }
    wrap(out, text, at, indent);
}

void
help_label(char *out, size_t size, const struct opt_spec *spec)
{
    char letters[16] = "";
    if (spec->alias)
        snprintf(letters, sizeof letters, "-%c, -%c, ", spec->letter, spec->alias);
    else if (spec->letter)
        snprintf(letters, sizeof letters, "-%c, ", spec->letter);
    snprintf(out, size, "%s--%s%s%s", letters, spec->name, spec->arg ? " " : "",
             spec->arg ? spec->arg : "");
}

void
help_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "usage: dibs %s %s\n\n", verb->name, verb->usage);
    wrap(out, verb->text, 0, 0);
    fputs("\nOptions:\n", out);
    for (int id = 0; id < OPT_COUNT; id++) {
        char label[64];
        if (!(verb->options & OPT_BIT(id)))
            continue;
        help_label(label, sizeof label, &opt_specs[id]);
        entry(out, label, opt_specs[id].text, 26);
    }
    fputs("\nExamples:\n", out);
    for (const char *at = verb->example; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "  %.*s\n", (int)strcspn(at, "\n"), at);
}

void
help_all(FILE *out)
{
    fputs("usage: dibs VERB [OPTION...] ...\n"
          "\n"
          "dibs: agree on who may use a named thing, across processes and machines.\n"
          "\n"
          "Verbs (dibs VERB --help says more):\n",
          out);
    for (size_t i = 0; i < verb_count; i++)
        entry(out, verbs[i].name, verbs[i].summary, 12);
    fputs("\nEnvironment:\n", out);
    for (size_t i = 0; i < environment_fact_count; i++)
        entry(out, environment_facts[i].term, environment_facts[i].text, 22);
    fputs("\nExit codes: those of CMD, and\n", out);
    for (size_t i = 0; i < exit_fact_count; i++)
        entry(out, exit_facts[i].term, exit_facts[i].text, 10);
}
