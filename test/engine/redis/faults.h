/* SPDX-License-Identifier: MIT */
/*
 * Faults of real servers, and what a user of dibs sees of them. Unlike the cases of
 * test/conform these name the engine: they do to its server what can be done to a Redis.
 *
 * restart.c: it is killed, forgets, stands still, loads. refuse.c: it answers, but no.
 * access.c: passwords, TLS, addresses that lead nowhere.
 */
#ifndef TEST_REDIS_FAULTS_H
#define TEST_REDIS_FAULTS_H

#include <stdatomic.h>

#include "servers.h"
#include "user.h"

/* fault_main runs the case that the arguments name; NULL ends the list. */
int fault_main(int argc, char **argv, const fault_case *cases);

/* What a case may use; ended after it, also when it fails. `folder` is for files. The
 * layout is from the arguments, or "queue". */
extern server one;
extern server_set set;
extern char folder[64];

void make_folder(void);

/* url_of writes the URL of `one` with the layout and, if not "", more parameters, as in
 * "guard=2s". open_one opens it. */
void url_of(char *out, size_t size, const char *more);
dibs *open_one(void);

#endif /* TEST_REDIS_FAULTS_H */
