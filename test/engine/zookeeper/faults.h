/* SPDX-License-Identifier: MIT */
/*
 * Faults of real servers, and what a user of dibs sees of them. Unlike the cases of
 * test/conform these name the engine: they do to its servers, and to the connections with
 * them, what can be done to a ZooKeeper.
 *
 * outage.c: one server is killed, stands still, or its answers are lost. access.c: who may
 * use what, and in which sessions holds live. ensemble.c: three servers, of which one is
 * killed, stands still or is cut off.
 *
 * A program is `test_zookeeper_TOPIC CASE [LAYOUT]`, with one case per process.
 */
#ifndef TEST_ZOOKEEPER_FAULTS_H
#define TEST_ZOOKEEPER_FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dibs.h>

#include "servers.h"

typedef struct fault_case {
    const char *name;
    void (*run)(void);
} fault_case;

/* fault_main runs the case that the arguments name; NULL ends the list. */
int fault_main(int argc, char **argv, const fault_case *cases);

/* What a case may use; ended after it, also when it fails. */
extern server one;
extern server_set set;
extern wires lines;        /* from clients to servers */
extern wires between;      /* from server to server */
extern const char *layout; /* from the arguments, or "curator" */

/* Where the locks of clients are that open_at opens. */
#define ROOT "/locks"

/* start_one starts one server, with wires to it; start_three an ensemble with wires to each
 * and between them. `options` may be NULL. */
void start_one(const server_options *options);
void start_three(const server_options *options);

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

/* open_at opens a client of the server behind a port; open_all one of all that there are
 * wires to. open_url opens another, and try_open may fail, after limit_ms. */
dibs *open_at(int port);
dibs *open_all(void);
dibs *open_url(const char *format, ...) __attribute__((format(printf, 1, 2)));
int try_open(dibs **out, const char *url, uint32_t limit_ms);

/* want returns a request with that lease that waits long, but not for ever. take must get
 * it, give must work; try_take does not wait, and gives back what it gets. */
dibs_request want(const char *name, uint32_t lease_ms);
dibs_hold *take(dibs *client, const char *name, uint32_t lease_ms);
int try_take(dibs *client, const char *name);
void give(dibs_hold *hold);

/* A wait in the background; end_wait must get the lock within that time. */
dibs_op *begin_wait(dibs *client, const char *name, uint32_t lease_ms);
dibs_hold *end_wait(dibs_op *op, int64_t limit_ms);
int has_ended(dibs_op *op, int64_t limit_ms);

/* is_lost waits for the end of a hold. */
int is_lost(dibs_hold *hold, int64_t limit_ms);

/* count_nodes counts what locks there are on a server; owner_of the session of the node
 * that stands alone below a lock, or is the lock. */
int count_nodes(const server *server);
int64_t owner_of(const server *server, const char *name);

#endif /* TEST_ZOOKEEPER_FAULTS_H */
