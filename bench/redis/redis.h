/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of redis: and redlock: share: servers of our own, and what people
 * would write by hand with hiredis. ../bench.h has the rules.
 */
#ifndef DIBS_BENCH_REDIS_H
#define DIBS_BENCH_REDIS_H

#include <hiredis/hiredis.h>

#include "../bench.h"
#include "../peers.h"

/* ------------------------------------------------------------------- servers ---- */

/* server_port starts the i-th server at first use, and returns its port. They end with
 * us. server_connect returns a connection of hiredis to it. */
int server_port(int i);
redisContext *server_connect(int i);

/* server_url writes the URL of the first server with that layout. */
void server_url(char *out, size_t size, const char *layout);

/* server_calls returns how often the server ran any of these commands, in lower case and
 * each with a space before and behind; server_usec how long it took. NULL: all of them. */
double server_calls(redisContext *link, const char *commands);
double server_usec(redisContext *link, const char *commands);

/* Commands that only clients send: scripts do not call them. */
#define CLIENT_COMMANDS " evalsha eval subscribe unsubscribe ping wait client|setname "

/* --------------------------------------------------------- locks by hand ---- */

/* raw_ask is redisCommandArgv that dies of errors, connection lost included. */
redisReply *raw_ask(redisContext *link, int count, const char **words);

/* raw_load makes the script known, and writes its SHA. */
void raw_load(redisContext *link, const char *script, char sha[41]);

/* A lock as the documentation of Redis has it: SET NX PX and a compare-and-delete. */
#define RAW_VALUE "0123456789abcdef0123456789abcdef"
typedef struct raw {
    redisContext *link;
    char sha[41];
} raw;

void raw_open(raw *r, int i);
void raw_close(raw *r);
/* raw_lock is both: append_lock sends nothing yet, and locked waits for the answer. */
void raw_append_lock(raw *r, const char *name);
void raw_locked(raw *r, const char *name);
void raw_lock(raw *r, const char *name);
void raw_unlock(raw *r, const char *name);

/* --------------------------------------------------------------------- peers ---- */

/* redis_peers_start starts the lock libraries of other languages that are there: see
 * ../peers.h. */
int redis_peers_start(peer *out, int most, int place);

/* ---------------------------------------------------------------- benchmarks ---- */

void redis_pair(void);
void redis_threads(void);
void redis_handover(void);
void redis_inside(void);
void redis_waiters(void);
void redis_redlock(void);
void redis_holds(void);

#endif /* DIBS_BENCH_REDIS_H */
