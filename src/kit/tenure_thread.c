/* SPDX-License-Identifier: MIT */
/* The thread of the tenures: keeps those that are used, ends those that are not, and runs
 * the lapses. It starts with the first tenure. */
#include "tenure.h"

#include <signal.h>
#include <string.h>

#include "util/wait.h"

#define PATIENCE_LEAST (250 * DIBS_MS) /* with the store */
#define PATIENCE_MOST (2000 * DIBS_MS)
/* How long what is over stays: so many looks, so far apart. Looks and not time, which goes
 * on while the process is stopped. */
#define LOOKS 120
#define LOOK_EVERY (1000 * DIBS_MS)

/* ---- one tenure; the mutex is held ---- */

/* When one that nobody uses is ended: who comes back soon finds it. */
static dibs_time
end_of_rest(const kit_tenure *tenure)
{
    return tenure->users ? DIBS_NEVER : tenure->left + tenure->ttl;
}

static dibs_time
due_of(const kit_tenure *tenure)
{
    if (tenure->state == BEGINNING || tenure->is_busy)
        return DIBS_NEVER;
    if (tenure->state == OVER)
        return tenure->users ? DIBS_NEVER : tenure->due;
    return earlier(tenure->due, end_of_rest(tenure));
}

/* It is over before the store is told: nobody finds it any more. */
static void
end_locked(kit_tenures *tenures, kit_tenure *tenure, dibs_time deadline)
{
    tenure->state = OVER;
    tenure->is_busy = 1;
    pthread_mutex_unlock(&tenures->mutex);
    (void)tenures->ops->end(tenures->state, tenure->id, deadline);
    pthread_mutex_lock(&tenures->mutex);
    tenure->is_busy = 0;
    tenure->due = tenures->host->now() + LOOK_EVERY;
}

static void
forget_locked(kit_tenures *tenures, kit_tenure *tenure)
{
    tenure->due = tenures->host->now() + LOOK_EVERY;
    if (++tenure->looks < LOOKS)
        return;
    dibs__kit_unlink(tenures, tenure);
    tenures->host->free(tenure);
}

static void
tend_locked(kit_tenures *tenures, kit_tenure *tenure)
{
    dibs_time now = tenures->host->now();
    dibs_time patience = later(dibs__kit_slack(tenure) / 2, PATIENCE_LEAST);
    dibs_time deadline = now + earlier(patience, PATIENCE_MOST);
    if (tenure->state == OVER)
        forget_locked(tenures, tenure);
    else if (end_of_rest(tenure) <= now)
        end_locked(tenures, tenure, deadline);
    else
        (void)dibs__kit_keep(tenures, tenure, deadline, NULL);
}

/* Sees to those that are due, and returns when the next one is. */
static dibs_time
tend_all_locked(kit_tenures *tenures)
{
    dibs_time now = tenures->host->now(), due = DIBS_NEVER;
    kit_tenure *tenure = tenures->first;
    while (tenure && !tenures->is_stopping) {
        if (due_of(tenure) <= now) {
            tend_locked(tenures, tenure);
            due = DIBS_NEVER;
            tenure = tenures->first; /* the list may be another one */
        } else {
            due = earlier(due, due_of(tenure));
            tenure = tenure->next;
        }
    }
    return due;
}

/* ---- the thread ---- */

static void
rest_locked(kit_tenures *tenures, dibs_time due)
{
    if (!tenures->is_woken && !tenures->is_stopping)
        (void)wait_for(&tenures->woken, &tenures->mutex, due - tenures->host->now());
}

static void *
run(void *arg)
{
    kit_tenures *tenures = arg;
    pthread_mutex_lock(&tenures->mutex);
    while (!tenures->is_stopping) {
        tenures->is_woken = 0;
        dibs_time due = tend_all_locked(tenures);
        pthread_mutex_unlock(&tenures->mutex);
        due = earlier(due, dibs__kit_lapses_run(tenures->lapses));
        pthread_mutex_lock(&tenures->mutex);
        rest_locked(tenures, due);
    }
    pthread_mutex_unlock(&tenures->mutex);
    return NULL;
}

int
dibs__kit_thread_start(kit_tenures *tenures, dibs_error *err)
{
    sigset_t all, old;
    if (tenures->has_thread)
        return DIBS_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&tenures->thread, NULL, run, tenures);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    tenures->has_thread = error == 0;
    if (error)
        return tenures->host->fail(err, DIBS_EUNAVAIL, "cannot start a thread: %s",
                                   strerror(error));
    return DIBS_OK;
}

void
dibs__kit_thread_wake(kit_tenures *tenures)
{
    tenures->is_woken = 1;
    pthread_cond_signal(&tenures->woken);
}

void
dibs__kit_thread_stop(kit_tenures *tenures)
{
    pthread_mutex_lock(&tenures->mutex);
    tenures->is_stopping = 1;
    dibs__kit_thread_wake(tenures);
    pthread_mutex_unlock(&tenures->mutex);
    if (tenures->has_thread)
        pthread_join(tenures->thread, NULL);
}
