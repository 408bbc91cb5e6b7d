/* SPDX-License-Identifier: MIT */
/* See lookup.h. */
#include "sql/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/wait.h"

#define STACK_BYTES ((size_t)256 * 1024)

/* One question. Who asks and the thread that finds out leave it when they are done. */
struct lookup {
    char name[256];
    struct lookup *next; /* guarded by the mutex, like all below */
    pthread_cond_t changed;
    int users;
    int is_done;
    int error, system_error; /* of getaddrinfo */
};

/* Those that have no answer yet: who asks the same again waits for the same thread, so that a
 * resolver that says nothing has one thread for each name, however often it is tried. */
static struct lookup *under_way;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static int
ask(const char *name, int flags)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    struct addrinfo *found = NULL;
    int error = getaddrinfo(name, NULL, &hints, &found);
    if (error == 0)
        freeaddrinfo(found);
    return error;
}

/* ---- forks ---- */

static void
before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void
after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

/* the threads are the parent's: there is nobody to wait for */
static void
in_child(void)
{
    under_way = NULL;
    pthread_mutex_unlock(&mutex);
}

static void
watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the thread ---- */

static void
leave_locked(struct lookup *lookup)
{
    if (--lookup->users > 0)
        return;
    pthread_cond_destroy(&lookup->changed);
    free(lookup);
}

static void
take_out_locked(struct lookup *lookup)
{
    struct lookup **at = &under_way;
    while (*at && *at != lookup)
        at = &(*at)->next;
    if (*at)
        *at = lookup->next;
}

static void *
run(void *argument)
{
    struct lookup *lookup = argument;
    int error = ask(lookup->name, 0);
    int system_error = errno;
    pthread_mutex_lock(&mutex);
    lookup->error = error;
    lookup->system_error = system_error;
    lookup->is_done = 1;
    take_out_locked(lookup);
    pthread_cond_broadcast(&lookup->changed);
    leave_locked(lookup);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_thread(struct lookup *lookup)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attr, run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static struct lookup *
start_locked(const char *name)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    (void)snprintf(lookup->name, sizeof lookup->name, "%s", name);
    cond_init(&lookup->changed);
    lookup->users = 2;
    lookup->next = under_way;
    under_way = lookup;
    if (start_thread(lookup) == 0)
        return lookup;
    take_out_locked(lookup);
    lookup->users = 1;
    leave_locked(lookup);
    return NULL;
}

/* ---- who asks ---- */

static struct lookup *
join_locked(const char *name)
{
    struct lookup *lookup = under_way;
    while (lookup && strcmp(lookup->name, name) != 0)
        lookup = lookup->next;
    if (!lookup)
        return start_locked(name);
    lookup->users++;
    return lookup;
}

static int
outcome(const struct lookup *lookup, const dibs_host *host, dibs_error *err)
{
    if (!lookup->is_done)
        return host->fail(err, DIBS_EUNAVAIL, "looking up %s took too long",
                          lookup->name);
    if (lookup->error == 0)
        return DIBS_OK;
    return host->fail(err, DIBS_EUNAVAIL, "no address of %s: %s", lookup->name,
                      lookup->error == EAI_SYSTEM ? strerror(lookup->system_error)
                                                  : gai_strerror(lookup->error));
}

int
dibs__sql_look_up(const dibs_host *host, const char *name, dibs_time deadline,
                  dibs_error *err)
{
    if (!name || !*name || *name == '/' || *name == '@' || ask(name, AI_NUMERICHOST) == 0)
        return DIBS_OK;
    int rc = DIBS_OK; /* without a thread it takes as long as it takes */
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&mutex);
    struct lookup *lookup = join_locked(name);
    while (lookup && !lookup->is_done &&
           wait_for(&lookup->changed, &mutex, deadline - host->now()) == 0)
        continue;
    if (lookup) {
        rc = outcome(lookup, host, err);
        leave_locked(lookup);
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}
