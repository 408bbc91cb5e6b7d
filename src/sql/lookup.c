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

/* One question. Who asks and the thread that finds out leave it when they are done. */
struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int users; /* guarded by the mutex, like all below */
    int is_done;
    int error, system_error; /* of getaddrinfo */
    char name[256];
};

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

static void
leave(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    int left = --lookup->users;
    pthread_mutex_unlock(&lookup->mutex);
    if (left > 0)
        return;
    pthread_cond_destroy(&lookup->changed);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

static void *
run(void *argument)
{
    struct lookup *lookup = argument;
    int error = ask(lookup->name, 0);
    int system_error = errno;
    pthread_mutex_lock(&lookup->mutex);
    lookup->error = error;
    lookup->system_error = system_error;
    lookup->is_done = 1;
    pthread_cond_signal(&lookup->changed);
    pthread_mutex_unlock(&lookup->mutex);
    leave(lookup);
    return NULL;
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_thread(struct lookup *lookup)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

static struct lookup *
start(const char *name)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    (void)snprintf(lookup->name, sizeof lookup->name, "%s", name);
    pthread_mutex_init(&lookup->mutex, NULL);
    cond_init(&lookup->changed);
    lookup->users = 2;
    if (start_thread(lookup) == 0)
        return lookup;
    lookup->users = 1;
    leave(lookup);
    return NULL;
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
    struct lookup *lookup = start(name);
    if (!lookup) /* then it takes as long as it takes */
        return DIBS_OK;
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->is_done &&
           wait_for(&lookup->changed, &lookup->mutex, deadline - host->now()) == 0)
        ;
    int rc = outcome(lookup, host, err);
    pthread_mutex_unlock(&lookup->mutex);
    leave(lookup);
    return rc;
}
