/* SPDX-License-Identifier: MIT */
/* What the tests of the redlock engine share: five servers, and clients of all of them. */
#ifndef REDLOCK_STAGE_H
#define REDLOCK_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dibs.h>

#include "servers.h"

#define NODES 5
#define NAME "deploy"

extern server_set set;
extern dibs_error oops;

/* A case; it finds no servers, and starts what it needs. */
typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

/* run_case runs the case that the arguments name; the list ends with an empty one. */
int run_case(int argc, char **argv, const test_case *cases);

/* start starts servers that know nothing of each other; open_with opens a client of all of
 * them, with "?..." behind the URL. It must work. */
void start(int count, const server_options *each);
void url_of(char *out, size_t size, const char *more);
dibs *open_with(const char *more);

void expect(const char *file, int line, const char *call, int got, int want);
#define GIVES(code, call) expect(__FILE__, __LINE__, #call, (call), (code))
#define OK(call) GIVES(DIBS_OK, call)

/* take takes the lock, and must get it; lease_ms 0: the default. give gives it back. */
dibs_hold *take(dibs *client, uint32_t lease_ms);
void give(dibs_hold *hold);

/* try_for is dibs_trylock that gives back what it got. */
int try_for(dibs *client);

/* How many servers have the key of the lock, and what one has. */
int copies(void);
int has_value(const server *at, const char *value);

/* comes_to waits until as many servers have the key. */
void comes_to(int count, int64_t limit_ms);

/* calls counts the scripts that a server has run. */
int64_t calls(const server *at);

#endif /* REDLOCK_STAGE_H */
