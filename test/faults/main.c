/* SPDX-License-Identifier: MIT */
/*
 * dibs_lab [--seed N] [--time MS] [--json] STAGE FAULT   run one cell; see lab.h
 * dibs_lab --list                                        print all cells
 * dibs_lab --notice CASE [--instead CASE]                see notice.c
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_MS 6000

static int
usage(void)
{
    fprintf(stderr, "usage: dibs_lab [--seed N] [--time MS] [--json] STAGE FAULT\n"
                    "       dibs_lab --list\n"
                    "       dibs_lab --notice CASE [--instead CASE]\n");
    return 2;
}

static int
list(void)
{
    for (const struct stage *stage = stages; stage->name != NULL; stage++) {
        for (const struct fault *fault = faults; fault->name != NULL; fault++) {
            if (cell_fits(stage, fault)) {
                printf("%s %s %s %s\n", stage->family->engine, stage->name, fault->name,
                       control_of(stage, fault) != NULL ? "broken" : "clean");
            }
        }
    }
    return 0;
}

static int
run(const char *stage_name, const char *fault_name, const struct cell_options *options)
{
    const struct stage *stage = stage_find(stage_name);
    const struct fault *fault = fault_find(fault_name);
    if (stage == NULL || fault == NULL || !cell_fits(stage, fault)) {
        fprintf(stderr, "dibs_lab: there is no %s with %s; see --list\n", stage_name,
                fault_name);
        return 2;
    }
    return cell_run(stage, fault, options);
}

/* an option with a value moves *at to the value */
static const char *
value_of(const char *option, char **argv, int argc, int *at)
{
    int is_it = strcmp(argv[*at], option) == 0 && *at + 1 < argc;
    *at += is_it;
    return is_it ? argv[*at] : NULL;
}

int
main(int argc, char **argv)
{
    struct cell_options options = { .seed = 1, .run_ms = RUN_MS };
    const char *words[2] = { NULL, NULL }, *notice = NULL, *instead = NULL, *value;
    int count = 0;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    for (int at = 1; at < argc; at++) {
        if ((value = value_of("--seed", argv, argc, &at)) != NULL) {
            options.seed = strtoull(value, NULL, 10);
        } else if ((value = value_of("--time", argv, argc, &at)) != NULL) {
            options.run_ms = strtoll(value, NULL, 10);
        } else if ((value = value_of("--notice", argv, argc, &at)) != NULL) {
            notice = value;
        } else if ((value = value_of("--instead", argv, argc, &at)) != NULL) {
            instead = value;
        } else if (strcmp(argv[at], "--json") == 0) {
            options.json = 1;
        } else if (argv[at][0] == '-' || count == 2) {
            return usage();
        } else {
            words[count++] = argv[at];
        }
    }
    if (notice != NULL) {
        return notice_run(notice, instead);
    }
    return count == 2 && options.run_ms > 0 ? run(words[0], words[1], &options) : usage();
}
