/* SPDX-License-Identifier: MIT */
/* Holding without a command: dibs hold, and dibs elect without CMD. */
#ifndef DIBS_CLI_HOLD_H
#define DIBS_CLI_HOLD_H

#include "opt.h"

/* hold_until_end takes the lock, prints the line that says so, and holds until stdin ends
 * or a signal comes. Returns the exit code. */
int hold_until_end(const struct options *options, char *name);

#endif /* DIBS_CLI_HOLD_H */
