/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of postgres:, mysql: and sqlite: share: the parts, which ask for locks
 * by hand and say what is measured. ../bench.h has the rules and the placements, logs.h the
 * servers; the one in memory has its files on a tmpfs, and forces them there all the same.
 * SQLite has no server: there, it is a folder.
 */
#ifndef DIBS_BENCH_SQL_H
#define DIBS_BENCH_SQL_H

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

/* sql_compare measures pairs of dibs, with a layout, and by hand. sql_shell runs a command to
 * its end, and dies if it fails. */
void sql_compare(const server *s, const log_title *title, const char *layout,
                 pair_hand *floor, const char *label, double bar);
void sql_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --------------------------------------------------------------------- parts ---- */

/* sql_pair: lock and unlock of dibs' lease, at most 1.1 times by hand. sql_native: the same
 * of the server's own locks as a layout, at most 1.05 times. sql_handover: with 16 processes
 * that wait, a hand-over takes at most `bar` times a round trip by hand (0: no bar).
 * sql_waiters: statements of a hand-over, with 2, 8 and 64 processes. sql_inside: threads of
 * one process. */
void sql_pair(void);
void sql_native(const char *layout, const char *label);
void sql_handover(double bar);
void sql_waiters(void);
void sql_inside(void);

#endif /* DIBS_BENCH_SQL_H */
