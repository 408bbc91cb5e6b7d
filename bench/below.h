/* SPDX-License-Identifier: MIT */
/*
 * Speaks to an engine below the library: for parts that need more waiters than a small machine
 * has processes for. One session is every waiter.
 */
#ifndef DIBS_BENCH_BELOW_H
#define DIBS_BENCH_BELOW_H

#include "core/url.h"

#include <dibs/engine.h>

typedef struct below {
    const dibs_engine *engine;
    dibs__url url;
    dibs_session session;
    void *state;
    const char *name; /* of the lock */
    uint64_t last_serial;
} below;

void below_open(below *b, const char *url, const char *name);
void below_close(below *b);

/* below_claim makes a new exclusive claim of it; nothing is sent. attempt returns DIBS_OK
 * or DIBS_EBUSY, and dies of anything else; so do the others. */
void below_claim(below *b, dibs_claim *claim);
int below_attempt(below *b, dibs_claim *claim);
void below_watch(below *b, dibs_claim *claim);
void below_release(below *b, dibs_claim *claim);

#endif /* DIBS_BENCH_BELOW_H */
