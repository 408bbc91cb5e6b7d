/* SPDX-License-Identifier: MIT */
/* --help, printed from the table of verbs.c. */
#ifndef DIBS_CLI_HELP_H
#define DIBS_CLI_HELP_H

#include <stdio.h>

#include "opt.h"

void help_all(FILE *out);
void help_verb(FILE *out, const struct verb *verb);

/* help_label writes "-w, -t, --wait DUR": how an option is written. */
void help_label(char *out, size_t size, const struct opt_spec *spec);

#endif /* DIBS_CLI_HELP_H */
