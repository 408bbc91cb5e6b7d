/* SPDX-License-Identifier: MIT */
/*
 * Taking the locks of a command line, all or none, for run, hold and elect. A lock that is
 * free at once costs no thread; otherwise one waits in the background, so that a signal
 * ends the wait at once and -v can explain it.
 */
#ifndef DIBS_CLI_TAKE_H
#define DIBS_CLI_TAKE_H

#include <dibs.h>

#include "opt.h"
#include "signals.h"

struct taking {
    const struct options *options;
    dibs *client;
    size_t count;
    dibs_wanted *wanted;
    dibs_hold **holds;
    int64_t granted_ms; /* boot time */
};

/* taking_init prepares the requests; `grace_ms` is that of dibs_request. taking_done frees
 * what it has, giving back what is still held. */
int taking_init(struct taking *taking, const struct options *options, dibs *client,
                char *const *names, size_t count, uint32_t grace_ms);
void taking_done(struct taking *taking);

/* taking_get takes them. Returns -1 when they are ours, or the exit code to end with; then
 * nothing is held and what is wrong has been said. */
int taking_get(struct taking *taking, struct signals *signals);

/* taking_held says whether all are still ours. taking_release gives them back: DIBS_OK, or
 * the first code that went wrong. */
int taking_held(const struct taking *taking);
int taking_release(struct taking *taking, dibs_error *err);

#endif /* DIBS_CLI_TAKE_H */
