/* SPDX-License-Identifier: MIT */
/*
 * Ghosts: sessions whose connection was given up while the server had a statement of ours.
 * It may wait there for a row, and do its work long after we have stopped to count on it. So
 * before anything else is asked, those sessions are ended; then it was done, or never will be.
 *
 * But for those that wait for a synchronous standby: ended then, PostgreSQL would let everybody
 * see what the standby may never hear of. They have done their work, and nobody knows of it;
 * until that is settled nothing else is asked. One that begins to wait for the standby between
 * our look and our word is ended all the same: there is no way to ask for both at once.
 */
#include "postgres.h"

#include <stdio.h>
#include <string.h>

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
copy_all(struct postgres *pg, int pids[GHOSTS_MAX], dibs_time since[GHOSTS_MAX])
{
    const struct ghosts *ghosts = &pg->ghosts;
    pthread_mutex_lock(&pg->ghosts.mutex);
    unsigned count = atomic_load(&ghosts->count);
    memcpy(pids, ghosts->pids, sizeof ghosts->pids);
    memcpy(since, ghosts->since, sizeof ghosts->since);
    pthread_mutex_unlock(&pg->ghosts.mutex);
    return count;
}

/* another thread may have ended it too */
static void
forget(struct postgres *pg, int pid, dibs_time since)
{
    struct ghosts *ghosts = &pg->ghosts;
    pthread_mutex_lock(&ghosts->mutex);
    unsigned last = atomic_load(&ghosts->count), at = 0;
    while (at < last && (ghosts->pids[at] != pid || ghosts->since[at] != since))
        at++;
    if (at < last) {
        ghosts->pids[at] = ghosts->pids[last - 1];
        ghosts->since[at] = ghosts->since[last - 1];
        atomic_store(&ghosts->count, last - 1);
    }
    pthread_mutex_unlock(&ghosts->mutex);
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
        "SELECT CASE WHEN wait_event = 'SyncRep' THEN 'standby' "
        "WHEN pg_terminate_backend(pid%s) THEN '' ELSE 'end' END FROM pg_stat_activity "
        "WHERE pid = %d AND pid <> pg_backend_pid() AND usename = current_user "
        "AND backend_start < clock_timestamp() - interval '%lld us'",
        limit, pid, age_us);
}

/* what is left to wait for, "" if nothing is */
static int
ask_for_end(struct postgres *pg, struct conn *conn, int pid, dibs_time since,
            char waits[16], dibs_time deadline, dibs_error *err)
{
    char text[512];
    PGresult *result = NULL;
    print_end(pg, text, sizeof text, pid, since);
    int rc = dibs__pg_query(pg, conn, text, &result, deadline, err);
    if (!rc)
        (void)snprintf(waits, 16, "%s",
                       PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return rc;
}

/* One that is about to end by itself cannot be ended any more; at the second look it has. */
static int
end_one(struct postgres *pg, struct conn *conn, int pid, dibs_time since,
        dibs_time deadline, dibs_error *err)
{
    char waits[16] = "end";
    int rc = DIBS_OK;
    for (int looks = 0; !rc && looks < 2 && strcmp(waits, "end") == 0; looks++)
        rc = ask_for_end(pg, conn, pid, since, waits, deadline, err);
    if (rc)
        return rc;
    if (*waits)
        return pg->host->fail(
            err, DIBS_EUNAVAIL, "what was asked before still waits for %s",
            strcmp(waits, "end") == 0 ? "its end" : "a synchronous standby");
    forget(pg, pid, since);
    return DIBS_OK;
}

int
dibs__pg_ghosts_end(struct postgres *pg, struct conn *conn, dibs_time deadline,
                    dibs_error *err)
{
    int pids[GHOSTS_MAX], rc = DIBS_OK;
    dibs_time since[GHOSTS_MAX];
    unsigned count = copy_all(pg, pids, since);
    for (unsigned i = 0; !rc && i < count; i++)
        rc = end_one(pg, conn, pids[i], since[i], deadline, err);
    /* that statement of ours is not what the caller asked for */
    return rc == DIBS_EUNKNOWN || rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
}
