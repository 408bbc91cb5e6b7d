/* SPDX-License-Identifier: MIT */
/*
 * Rows of locks that nobody uses any more. A row stays when its lock is given back, so that
 * taking it again is a change and not an insertion, and its versions and ticks rise. Whoever
 * passes takes away those that were not used for long: then the database's clock, by which a
 * new row's version and tick begin, is surely ahead of the old ones.
 */
#include "sql/lease.h"

#define UNUSED_US (INT64_C(600) * 1000000)
#define SWEEP_EVERY (300 * 1000 * DIBS_MS)
#define SWEEP_MOST 1000

/* clients that live shortly take turns by chance */
void
dibs__lease_sweep_init(struct sql *sql)
{
    dibs_time first = (dibs_time)(sql->host->random() % (uint64_t)SWEEP_EVERY);
    atomic_store(&sql->lease->sweep_at, sql->host->now() + first);
}

void
dibs__lease_sweep(struct sql *sql, dibs_time deadline)
{
    const struct sql_value params[] = { sql_number(UNUSED_US), sql_number(SWEEP_MOST) };
    dibs_time now = sql->host->now(), due = atomic_load(&sql->lease->sweep_at);
    if (now < due || now >= deadline)
        return;
    if (!atomic_compare_exchange_strong(&sql->lease->sweep_at, &due, now + SWEEP_EVERY))
        return;
    (void)dibs__lease_run(sql, 0, SQL_SWEEP, params, 2, NULL, deadline, NULL);
}
