/* SPDX-License-Identifier: MIT */
/*
 * Ghosts: sessions whose connection was given up while the server had a statement of ours.
 * It may wait there for a row, and do its work long after we have stopped to count on it. So
 * before anything else is asked, those sessions are ended; then it was done, or never will be.
 */
#include "postgres.h"

#include <stdio.h>

#define LIMIT_MS 2000 /* the server waits so long for their end */
#define VERSION_14 140000

void
dibs__pg_ghost_add(struct postgres *pg, const struct conn *conn)
{
    struct ghosts *ghosts = &pg->ghosts;
    if (pg->pooler != POOLER_NONE || !conn->pid)
        return;
    pthread_mutex_lock(&ghosts->mutex);
    unsigned at = atomic_load(&ghosts->count);
    /* that many at once are the end of the server, not of a connection */
    if (at < GHOSTS_MAX) {
        ghosts->pids[at] = conn->pid;
        ghosts->since[at] = pg->host->now();
        atomic_store(&ghosts->count, at + 1);
    }
    pthread_mutex_unlock(&ghosts->mutex);
}

static unsigned
take_all(struct postgres *pg, struct ghosts *out)
{
    pthread_mutex_lock(&pg->ghosts.mutex);
    unsigned count = atomic_load(&pg->ghosts.count);
    for (unsigned i = 0; i < count; i++) {
        out->pids[i] = pg->ghosts.pids[i];
        out->since[i] = pg->ghosts.since[i];
    }
    atomic_store(&pg->ghosts.count, 0);
    pthread_mutex_unlock(&pg->ghosts.mutex);
    return count;
}

/* Numbers of processes come again; but one that began before we lost it is the same. */
static void
print_end(const struct postgres *pg, char *out, size_t size, int pid, dibs_time since)
{
    char limit[16] = "";
    long long age_us = (long long)((pg->host->now() - since) / 1000);
    if (pg->server_version >= VERSION_14)
        (void)snprintf(limit, sizeof limit, ", %d", LIMIT_MS);
    (void)snprintf(
        out, size,
        "SELECT pg_terminate_backend(pid%s) FROM pg_stat_activity "
        "WHERE pid = %d AND pid <> pg_backend_pid() AND usename = current_user "
        "AND backend_start < clock_timestamp() - interval '%lld us'",
        limit, pid, age_us);
}

int
dibs__pg_ghosts_end(struct postgres *pg, struct conn *conn, dibs_time deadline,
                    dibs_error *err)
{
    struct ghosts ghosts;
    char text[320];
    int rc = DIBS_OK;
    unsigned count = take_all(pg, &ghosts);
    for (unsigned i = 0; i < count; i++) {
        struct conn lost = { .pid = ghosts.pids[i] };
        print_end(pg, text, sizeof text, ghosts.pids[i], ghosts.since[i]);
        if (!rc)
            rc = dibs__pg_exec(pg, conn, text, deadline, err);
        if (rc)
            dibs__pg_ghost_add(pg, &lost);
    }
    /* that statement of ours is not what the caller asked for */
    return rc == DIBS_EUNKNOWN || rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
}
