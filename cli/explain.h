/* SPDX-License-Identifier: MIT */
/* Explains a wait to the person in front of it: -v of run, hold and elect. */
#ifndef DIBS_CLI_EXPLAIN_H
#define DIBS_CLI_EXPLAIN_H

#include "take.h"

/* On a terminal one line is kept up to date; elsewhere a line is printed when the queue
 * has changed; with --json an event. */
struct explainer {
    struct taking *taking;
    bool wanted, terminal;
    int64_t next_ms;
    char last[256]; /* what was said, but for what changes all the time */
};

void explainer_init(struct explainer *explainer, struct taking *taking);
void explainer_done(struct explainer *explainer);

/* explainer_timeout is for poll; explainer_tell says how things stand if it is time to. */
int explainer_timeout(const struct explainer *explainer);
void explainer_tell(struct explainer *explainer);

/* explain_failure adds to the text of a busy lock's error who has it. */
void explain_failure(struct taking *taking, dibs_error *err);

#endif /* DIBS_CLI_EXPLAIN_H */
