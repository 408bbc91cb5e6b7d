/* SPDX-License-Identifier: MIT */
/*
 * Faults of real servers, and what a user of dibs sees of them. Unlike the cases of
 * test/conform these name the engine: they do to its server what can be done to a Redis.
 *
 * restart.c: it is killed, forgets, stands still, loads. refuse.c: it answers, but no.
 * access.c: passwords, TLS, addresses that lead nowhere.
 *
 * A program is `test_redis_TOPIC CASE [LAYOUT]`, with one case per process.
 */
#ifndef TEST_REDIS_FAULTS_H
#define TEST_REDIS_FAULTS_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <dibs.h>

#include "servers.h"

typedef struct fault_case {
    const char *name;
    void (*run)(void);
} fault_case;

/* fault_main runs the case that the arguments name; NULL ends the list. */
int fault_main(int argc, char **argv, const fault_case *cases);

/* What a case may use; ended after it, also when it fails. `folder` is for files. */
extern server one;
extern server_set set;
extern char folder[64];
extern const char *layout; /* from the arguments, or "queue" */

void make_folder(void);

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

/* ---- clients and locks ---- */

/* url_of writes the URL of `one` with the layout and, if not "", more parameters, as in
 * "guard=2s". open_one opens it, open_url another; try_open may fail, after limit_ms. */
void url_of(char *out, size_t size, const char *more);
dibs *open_one(void);
dibs *open_url(const char *url);
int try_open(dibs **out, const char *url, uint32_t limit_ms);

/* want returns a request with the short lease that waits long, but not for ever; try_for
 * one that does not wait. take must get it and give must work. */
dibs_request want(const char *name);
dibs_request try_for(const char *name);
dibs_hold *take(dibs *client, const char *name);
int try_take(dibs *client, const char *name);
void give(dibs_hold *hold);

/* A wait in the background; end_wait must get the lock within that time. */
dibs_op *begin_wait(dibs *client, const char *name);
dibs_hold *end_wait(dibs_op *op, int64_t limit_ms);
int has_ended(dibs_op *op, int64_t limit_ms);

/* is_lost waits for the end of a hold. */
int is_lost(dibs_hold *hold, int64_t limit_ms);

#endif /* TEST_REDIS_FAULTS_H */
