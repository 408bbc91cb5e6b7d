/* SPDX-License-Identifier: MIT */
/*
 * What tests share that use dibs as its users do, through dibs.h and the module of an
 * engine, while something happens to the servers. Unlike the rest of this folder it knows
 * dibs; it is a library of its own, `user`.
 *
 * A program is `test_ENGINE_TOPIC CASE [LAYOUT]`, with one case per process. Each engine has
 * a faults.h of its own besides, for what can be done to its servers.
 */
#ifndef TEST_USER_H
#define TEST_USER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dibs.h>

#include "harness.h"

typedef struct fault_case {
    const char *name;
    void (*run)(void);
} fault_case;

/* What the cases of an engine need. `clean_up` ends what a case may have started; it is
 * called after failures too, so it must be safe in a signal handler. */
typedef struct fault_stage {
    const char *title; /* what is missing, if it is */
    int (*is_present)(void);
    const char *nowhere; /* a URL of the engine where nobody listens */
    const char *layout;  /* if the arguments name none */
    unsigned limit_s;    /* of a case */
    void (*clean_up)(void);
} fault_stage;

/* fault_run runs the case that the arguments name, and sees to it that no thread and no
 * descriptor is left of it. A case whose name is NULL ends the list. */
int fault_run(int argc, char **argv, const fault_stage *stage, const fault_case *cases);

/* from the arguments, or what the stage says */
extern const char *layout;

/* A lease that is short, but long enough to be renewed. */
#define LEASE_MS ((uint32_t)slowly(500))

/* ---- checks ---- */

extern _Thread_local dibs_error oops;
void expect_code(const char *file, int line, const char *call, int got, int want);
#define GIVES(code, call) expect_code(__FILE__, __LINE__, #call, (call), (code))
#define OK(call) GIVES(DIBS_OK, call)

/* CHECK_SAYS: the last error says that. */
void check_says(const char *file, int line, const char *part);
#define CHECK_SAYS(part) check_says(__FILE__, __LINE__, part)

/* EVENTUALLY waits until it holds, for at most that long. */
#define EVENTUALLY(limit_ms, condition)                                                  \
    for (int64_t until_ms = now_ms() + (limit_ms); !(condition); sleep_ms(5)) {          \
        if (now_ms() > until_ms) {                                                       \
            FAIL("this does not come true: %s", #condition);                             \
        }                                                                                \
    }

/* ---- clients and locks ---- */

/* open_url must work; try_open may fail, after limit_ms. */
dibs *open_url(const char *format, ...) __attribute__((format(printf, 1, 2)));
int try_open(dibs **out, const char *url, uint32_t limit_ms);

/* want returns a request with that lease that waits long, but not for ever; try_for one
 * with the short lease that does not wait. take must get it, give must work; try_take does
 * not wait, and gives back what it gets. */
dibs_request want(const char *name, uint32_t lease_ms);
dibs_request try_for(const char *name);
dibs_hold *take(dibs *client, const char *name, uint32_t lease_ms);
int try_take(dibs *client, const char *name);
void give(dibs_hold *hold);

/* A wait in the background; end_wait must get the lock within that time. */
dibs_op *begin_wait(dibs *client, const char *name, uint32_t lease_ms);
dibs_hold *end_wait(dibs_op *op, int64_t limit_ms);
int has_ended(dibs_op *op, int64_t limit_ms);

/* is_lost waits for the end of a hold. */
int is_lost(dibs_hold *hold, int64_t limit_ms);

#endif /* TEST_USER_H */
