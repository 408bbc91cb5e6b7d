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

/* A hand is one connection to a server, with its statements prepared; as crowd.h and pairs.h
 * want it, it has no type here. raw_open makes one with the least that a lease in a table
 * takes: an upsert if nobody has it, and a delete; and with the locks that the server itself
 * has, if it has some. its_open makes one with the very statements that dibs sends: what they
 * cost more than the others is the price of its guarantees, and what dibs costs more than they
 * is that of its client. Each have one name. */
enum hand_statement {
    HAND_FIRST, /* of dibs: takes a name that nobody had yet */
    HAND_TAKE,
    HAND_GIVE,
    HAND_NATIVE_TAKE,
    HAND_NATIVE_GIVE,
    HAND_STATEMENTS
};

void *raw_open(const void *server);
void *its_open(const void *server);
void hand_close(void *hand);
void hand_lock(void *hand);
void hand_unlock(void *hand);
void hand_native_lock(void *hand);
void hand_native_unlock(void *hand);

/* For the above, from the hand.c of a database: hand_change runs a statement, and returns how
 * many rows it changed; hand_call runs one that asks for something, and dies if it does not
 * get it. hand_change_one dies unless it is one row; hand_warm_up leaves the row of a name
 * that somebody had once. */
int hand_change(void *hand, int which);
void hand_call(void *hand, int which);
void hand_change_one(void *hand, int which);
void hand_warm_up(void *hand);

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
extern const crowd_lock sql_native_lock;
void sql_handover(double bar, const crowd_lock *native, const char *native_label);
void sql_waiters(void);
void sql_inside(void);

#endif /* DIBS_BENCH_SQL_H */
