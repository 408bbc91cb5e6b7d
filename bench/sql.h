/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of postgres:, mysql: and sqlite: share: the parts, which ask for locks
 * by hand and say what is measured. ../bench.h has the rules and the placements, logs.h the
 * servers; the one in memory has its files on a tmpfs, and forces them there all the same.
 * SQLite has no server: there, it is a folder.
 */
#ifndef DIBS_BENCH_SQL_H
#define DIBS_BENCH_SQL_H

#include "crowd.h"
#include "logs.h"
#include "pairs.h"

#define SQL_LAYOUT "lease"

/* ------------------------------------------------------------- locks by hand ---- */

/* raw_open makes one connection to a server, with its statements prepared; as crowd.h and
 * pairs.h want it, what it returns has no type. raw_lock and raw_unlock are the least that a
 * lease in a table takes: an upsert if nobody has it, and a delete. raw_native_lock and
 * -unlock use the locks that the server itself has, if it has some. Each have one name. */
void *raw_open(const void *server);
void raw_close(void *raw);
void raw_lock(void *raw);
void raw_unlock(void *raw);
void raw_native_lock(void *raw);
void raw_native_unlock(void *raw);

/* The same with the very statements that dibs sends: what they cost more than the others is
 * the price of its guarantees, and what dibs costs more than they is that of its client. */
void *its_open(const void *server);
void its_close(void *its);
void its_lock(void *its);
void its_unlock(void *its);
void its_native_lock(void *its);
void its_native_unlock(void *its);

/* a lone holder's record, as dibs writes it */
#define ITS_NAME "bench/its"
#define ITS_RECORD                                                                       \
    "H 0 0 0 0123456789abcdef0123456789abcdef:1234 0 1 0 30000 10000 "                   \
    "dibs_bench machine 12345 \n"
#define ITS_LEASE_US 30000000

/* sql_shell runs a command to its end, and dies if it fails. */
void sql_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* sql_compare measures pairs of dibs with a layout, by hand, and of dibs' statements by
 * hand. */
typedef struct sql_pairs {
    const char *layout, *label; /* of what is done by hand */
    pair_hand floor, its;
    double bar;
} sql_pairs;

void sql_compare(const server *s, const log_title *title, sql_pairs *them);

/* --------------------------------------------------------------------- parts ---- */

/* sql_pair: lock and unlock of dibs' lease, at most 1.1 times by hand. sql_native: the same
 * of the server's own locks as a layout, at most 1.05 times. sql_handover: with 16 processes
 * that wait, a hand-over takes at most `bar` times a round trip by hand (0: no bar); beside
 * it one of the server's own locks, by hand, if it has some. sql_waiters: statements of a
 * hand-over, with 2, 8 and 64 processes. sql_inside: threads of one process. */
void sql_pair(void);
void sql_native(const char *layout, const char *label);
void sql_handover(double bar, const crowd_lock *native, const char *native_label);
void sql_waiters(void);
void sql_inside(void);

#endif /* DIBS_BENCH_SQL_H */
