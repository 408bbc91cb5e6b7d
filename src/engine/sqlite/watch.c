/* SPDX-License-Identifier: MIT */
/*
 * Seeing that something was changed. SQLite tells nobody; but a connection that only looks can
 * ask cheaply whether the file is another than it was. One thread of each client does that,
 * more rarely the longer nothing happens, and only while somebody waits: core comes by every
 * second or so for each who does, and after a while without such a visit the thread rests.
 */
#include <signal.h>
#include <string.h>

#include "sqlite.h"

#define NAP_FIRST (DIBS_MS / 2)
#define NAP_MOST (20 * DIBS_MS)
#define PATIENCE (1000 * DIBS_MS) /* with a file that is locked */
#define INTEREST (3000 * DIBS_MS) /* of one visit */

/* what the thread has to itself */
struct look {
    struct lite_conn conn;
    sqlite3_stmt *question;
    int64_t last; /* what the answer was; -1: not known */
};

void
dibs__sqlite_watch_init(struct sqlite *lite)
{
    pthread_mutex_init(&lite->watch.mutex, NULL);
    pthread_cond_init(&lite->watch.cond, NULL);
}

/* rests while nobody waits. 0: go on, 1: somebody waits after a rest, -1: it is over */
static int
rest(struct sqlite *lite)
{
    struct lite_watch *watch = &lite->watch;
    int rested = 0;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->is_ending && lite->sql.host->now() >= watch->wanted) {
        rested = 1;
        pthread_cond_wait(&watch->cond, &watch->mutex);
    }
    int is_ending = watch->is_ending;
    pthread_mutex_unlock(&watch->mutex);
    return is_ending ? -1 : rested;
}

static void
forget(struct look *look)
{
    dibs__sqlite_disconnect(&look->conn, 0);
    memset(look, 0, sizeof *look);
    look->last = -1;
}

static int
ask(struct sqlite *lite, struct look *look, int64_t *answer)
{
    dibs_time deadline = lite->sql.host->now() + PATIENCE;
    struct sql_result result;
    int rc = DIBS_OK;
    if (!look->conn.handle)
        rc = dibs__sqlite_connect(lite, &look->conn, deadline, NULL);
    if (rc)
        return rc;
    dibs__sql_result_init(&result, lite->sql.host);
    rc = dibs__sqlite_query(&look->conn, &look->question, "PRAGMA data_version", NULL, 0,
                            &result, deadline, NULL);
    *answer = dibs__sql_at(&result, 0, 0)->number;
    dibs__sql_result_free(&result);
    return rc;
}

/* 1: something was changed, or it cannot be known */
static int
is_changed(struct sqlite *lite, struct look *look)
{
    int64_t answer = -1;
    if (ask(lite, look, &answer)) {
        forget(look);
        return 0; /* to be told at the next answer */
    }
    int changed = answer != look->last;
    look->last = answer;
    return changed;
}

static void *
run(void *state)
{
    struct sqlite *lite = state;
    const dibs_host *host = lite->sql.host;
    struct look look = { .last = -1 };
    dibs_time nap = NAP_FIRST;
    for (int rested; (rested = rest(lite)) >= 0;) {
        if (rested) /* what came meanwhile is not known */
            look.last = -1;
        if (is_changed(lite, &look)) {
            dibs__sql_changed(&lite->sql);
            nap = NAP_FIRST;
        }
        host->sleep_until(host->now() + nap);
        nap = nap + nap / 2 < NAP_MOST ? nap + nap / 2 : NAP_MOST;
    }
    forget(&look);
    return NULL;
}

static int
start_locked(struct sqlite *lite, dibs_error *err)
{
    sigset_t all, old;
    if (lite->watch.has_thread)
        return DIBS_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&lite->watch.thread, NULL, run, lite);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    lite->watch.has_thread = error == 0;
    if (error)
        return lite->sql.host->fail(err, DIBS_EUNAVAIL, "cannot start a thread: %s",
                                    strerror(error));
    return DIBS_OK;
}

int
dibs__sqlite_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct sqlite *lite = state;
    struct lite_watch *watch = &lite->watch;
    pthread_mutex_lock(&watch->mutex);
    dibs_time now = lite->sql.host->now();
    int is_resting = now >= watch->wanted;
    watch->wanted = now + INTEREST;
    int rc = start_locked(lite, err);
    if (is_resting)
        pthread_cond_signal(&watch->cond);
    pthread_mutex_unlock(&watch->mutex);
    return rc ? rc : dibs__sql_lease_watch(state, claim, deadline, err);
}

void
dibs__sqlite_watch_end(struct sqlite *lite, int forked)
{
    struct lite_watch *watch = &lite->watch;
    if (forked)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->is_ending = 1;
    pthread_cond_signal(&watch->cond);
    pthread_mutex_unlock(&watch->mutex);
    if (watch->has_thread)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->cond);
    pthread_mutex_destroy(&watch->mutex);
}
