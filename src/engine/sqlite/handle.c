/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing, and forks.
 *
 * SQLite locks files with fcntl. Such locks belong to the process, so SQLite keeps one list of
 * open files for the process, with the locks it has on each. A fork copies that list and not
 * the locks: a child that opens the same file would take its parent's locks for its own, and
 * two processes would write at once. Therefore
 *
 *  - no thread of ours is inside SQLite when a fork happens: the list and all memory of SQLite
 *    are whole in the child, as far as we use it;
 *  - a child never uses what its parent opened. Before it opens a file itself it closes what
 *    it inherited, so that nothing of it is left in the list. Closing tells nobody anything:
 *    the locks are the parent's, whom an unlock of the child does not concern, and
 *    NO_CKPT_ON_CLOSE keeps it from tidying up, which it had no lock for.
 *
 * A child that opens nothing does nothing.
 */
#include <stdlib.h>

#include "sqlite.h"

#define GATE_INIT PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static pthread_rwlock_t gate = GATE_INIT; /* a fork writes, everybody else reads */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handle
    *list; /* guarded by list_mutex, which is only taken inside the gate */
static unsigned generation; /* changed by a fork only */

static void
before_fork(void)
{
    pthread_rwlock_wrlock(&gate);
}

static void
after_fork(void)
{
    pthread_rwlock_unlock(&gate);
}

/* The gate counts who waits at it, and those threads are not here. */
static void
in_child(void)
{
    static const pthread_rwlock_t fresh = GATE_INIT;
    gate = fresh;
    generation++;
}

static void
prepare(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

void
dibs__sqlite_enter(void)
{
    pthread_once(&once, prepare);
    pthread_rwlock_rdlock(&gate);
}

void
dibs__sqlite_leave(void)
{
    pthread_rwlock_unlock(&gate);
}

static void
close_db(sqlite3 *db)
{
    sqlite3_stmt *statement;
    while ((statement = sqlite3_next_stmt(db, NULL)))
        (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
}

static void
bury_inherited_locked(void)
{
    for (struct handle **at = &list; *at;) {
        struct handle *handle = *at;
        if (handle->generation == generation) {
            at = &handle->next;
            continue;
        }
        *at = handle->next;
        (void)sqlite3_db_config(handle->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        close_db(handle->db);
        free(handle);
    }
}

int
dibs__sqlite_handle_open(struct handle **out, const char *path)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return SQLITE_NOMEM;
    handle->generation = generation;
    pthread_mutex_lock(&list_mutex);
    bury_inherited_locked();
    int rc = sqlite3_open_v2(path, &handle->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                 SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    handle->next = list;
    list = handle;
    pthread_mutex_unlock(&list_mutex);
    (void)sqlite3_extended_result_codes(handle->db, 1);
    *out = handle;
    return rc;
}

void
dibs__sqlite_handle_close(struct handle *handle)
{
    pthread_mutex_lock(&list_mutex);
    struct handle **at = &list;
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    pthread_mutex_unlock(&list_mutex);
    close_db(handle->db);
    free(handle);
}
