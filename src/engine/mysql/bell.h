/* SPDX-License-Identifier: MIT */
/* The bells of the lease layout: see bell.c. */
#ifndef DIBS_MY_BELL_H
#define DIBS_MY_BELL_H

#include "wire.h"

int dibs__my_bells_open(struct mysql *mysql, dibs_error *err);
void dibs__my_bells_close(struct my_bells *bells, int forked);

/* watch: the claim waits. attempted: this is what came of an attempt. ended: it was given
 * back or lost. rings: it will be rung when it is its turn, and need not look. */
void dibs__my_bell_watch(struct my_bells *bells, const dibs_claim *claim,
                         dibs_time deadline);
void dibs__my_bell_attempted(struct my_bells *bells, const dibs_claim *claim, int rc,
                             dibs_time deadline);
void dibs__my_bell_ended(struct my_bells *bells, const dibs_claim *claim,
                         dibs_time deadline);
int dibs__my_bell_rings(struct my_bells *bells, const dibs_claim *claim);

#endif /* DIBS_MY_BELL_H */
