/* SPDX-License-Identifier: MIT */
/*
 * The dibs command: picks the verb. Read next: verbs.c (the table of verbs and options),
 * cmd_run.c (the verb that matters most) and run.h (how it supervises a command).
 */
#include <stdio.h>
#include <string.h>

#include <dibs.h>

#include "cmd.h"
#include "help.h"
#include "opt.h"

/* a full disk or a closed pipe behind stdout must not look like success */
static int
finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    perror("dibs: cannot write");
    return code ? code : 1;
}

static int
help(int argc, char **argv)
{
    const struct verb *verb = argc > 1 ? verb_find(argv[1]) : NULL;
    if (argc > 1 && !verb)
        return opt_usage_error(NULL, "there is no verb '%s'", argv[1]);
    if (verb)
        help_verb(stdout, verb);
    else
        help_all(stdout);
    return 0;
}

static int
dispatch(int argc, char **argv)
{
    if (argc < 1)
        return opt_usage_error(NULL, "what shall it be?");
    const struct verb *verb = verb_find(argv[0]);
    if (verb)
        return verb->run(argc, argv);
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
        strcmp(argv[0], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0) {
        printf("dibs %s\n", dibs_version());
        return 0;
    }
    if (strcmp(argv[0], "__complete") == 0)
        return cmd_complete(argc, argv);
    if (strcmp(argv[0], "__manual") == 0)
        return cmd_manual(argc, argv);
    return opt_usage_error(NULL, "there is no verb '%s'", argv[0]);
}

int
main(int argc, char **argv)
{
    return finish(dispatch(argc - 1, argv + 1));
}
