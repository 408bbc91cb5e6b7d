/* SPDX-License-Identifier: MIT */
/*
 * Looking up the names of the servers, in a thread of its own: the library would do it in
 * ours, for as long as it takes, with a session's mutex held. It gets addresses only.
 *
 * A lookup that nobody waits for any longer is left to its thread, which frees it.
 */
#include "link.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "util/wait.h"

#define AGAIN_AFTER (2000 * DIBS_MS) /* names are looked up again, while nobody answers */
#define ADDRESS_MAX 80

struct lookup {
    const dibs_host *host;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    int users; /* these: guarded by the mutex */
    int is_done;
    int error;    /* of getaddrinfo, for the last name without an address */
    char *found;  /* "address:port,...", NULL: none */
    char hosts[]; /* "name:port,..." */
};

struct names {
    pthread_mutex_t mutex;
    struct lookup *running;
    dibs_time started;
    char *addresses;
    uint64_t edition; /* of the addresses; 0: none yet */
};

/* ---- looking up ---- */

/* Adds an address to a text that grows; returns the text, or NULL when out of memory. */
static char *
add_address(const dibs_host *host, char *text, const struct addrinfo *at,
            const char *port)
{
    char name[ADDRESS_MAX];
    size_t used = text ? strlen(text) : 0;
    if (getnameinfo(at->ai_addr, at->ai_addrlen, name, sizeof name, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return text;
    size_t size = used + strlen(name) + strlen(port) + 3;
    char *grown = host->alloc(size);
    if (grown)
        (void)snprintf(grown, size, "%s%s%s:%s", text ? text : "", text ? "," : "", name,
                       port);
    host->free(text);
    return grown;
}

/* One "name:port" of a list; the port is what comes after the last colon. */
static int
look_up_one(const dibs_host *host, const char *entry, size_t len, int flags, char **found)
{
    char name[256], port[8];
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = flags };
    struct addrinfo *list = NULL;
    const char *colon = memrchr(entry, ':', len);
    size_t name_len = (size_t)(colon - entry), port_len = len - name_len - 1;
    if (name_len >= sizeof name || port_len >= sizeof port)
        return EAI_NONAME;
    (void)snprintf(name, sizeof name, "%.*s", (int)name_len, entry);
    (void)snprintf(port, sizeof port, "%.*s", (int)port_len, colon + 1);
    int error = getaddrinfo(name, port, &hints, &list);
    for (struct addrinfo *at = list; !error && at; at = at->ai_next)
        *found = add_address(host, *found, at, port);
    if (!error)
        freeaddrinfo(list);
    return error;
}

/* Returns 0 if each one had an address, else what getaddrinfo said of the last without. */
static int
look_up_all(const dibs_host *host, const char *hosts, int flags, char **found)
{
    int error = 0;
    while (*hosts) {
        size_t len = strcspn(hosts, ",");
        int one = look_up_one(host, hosts, len, flags, found);
        error = one ? one : error;
        hosts += len + (hosts[len] == ',');
    }
    return error;
}

/* ---- its thread ---- */

static void
leave(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    int left = --lookup->users;
    pthread_mutex_unlock(&lookup->mutex);
    if (left)
        return;
    pthread_mutex_destroy(&lookup->mutex);
    pthread_cond_destroy(&lookup->done);
    lookup->host->free(lookup->found);
    lookup->host->free(lookup);
}

static void *
lookup_run(void *arg)
{
    struct lookup *lookup = arg;
    char *found = NULL;
    int error = look_up_all(lookup->host, lookup->hosts, 0, &found);
    pthread_mutex_lock(&lookup->mutex);
    lookup->found = found;
    lookup->error = error;
    lookup->is_done = 1;
    pthread_cond_broadcast(&lookup->done);
    pthread_mutex_unlock(&lookup->mutex);
    leave(lookup);
    return NULL;
}

static int
start_thread(struct lookup *lookup)
{
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&thread, NULL, lookup_run, lookup);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!error)
        pthread_detach(thread);
    return error;
}

/* A lookup that runs; its users are the thread and the caller. */
static struct lookup *
start(const struct zk *zk)
{
    size_t size = strlen(zk->hosts) + 1;
    struct lookup *lookup = zk->host->alloc(sizeof *lookup + size);
    if (!lookup)
        return NULL;
    lookup->host = zk->host;
    lookup->users = 2;
    memcpy(lookup->hosts, zk->hosts, size);
    pthread_mutex_init(&lookup->mutex, NULL);
    cond_init(&lookup->done);
    if (start_thread(lookup) == 0)
        return lookup;
    lookup->users = 1;
    leave(lookup);
    return NULL;
}

/* ---- for sessions ---- */

/* Takes over what a lookup has found, if it has ended. */
static void
harvest_locked(struct zk *zk, struct names *names)
{
    struct lookup *lookup = names->running;
    if (!lookup)
        return;
    pthread_mutex_lock(&lookup->mutex);
    int is_done = lookup->is_done;
    char *found = lookup->found;
    if (is_done)
        lookup->found = NULL;
    pthread_mutex_unlock(&lookup->mutex);
    if (!is_done)
        return;
    if (found) {
        zk->host->free(names->addresses);
        names->addresses = found;
        names->edition++;
    }
    names->running = NULL;
    leave(lookup);
}

static struct lookup *
join_or_start_locked(struct zk *zk, struct names *names)
{
    if (!names->running) {
        names->started = zk->host->now();
        names->running = start(zk);
    }
    return names->running;
}

/* Waits for a lookup of the caller's own. */
static int
await(const struct zk *zk, struct lookup *lookup, dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->is_done && zk->host->now() < deadline)
        (void)wait_for(&lookup->done, &lookup->mutex, deadline - zk->host->now());
    if (!lookup->is_done)
        rc = zk->host->fail(err, DIBS_EUNAVAIL, "looking up %s took too long", zk->hosts);
    else if (!lookup->found && lookup->error)
        rc = zk->host->fail(err, DIBS_EUNAVAIL, "no address of %s: %s", zk->hosts,
                            gai_strerror(lookup->error));
    pthread_mutex_unlock(&lookup->mutex);
    return rc;
}

int
dibs__zk_names_await(struct zk *zk, dibs_time deadline, dibs_error *err)
{
    struct names *names = zk->names;
    struct lookup *lookup = NULL;
    int rc = DIBS_OK;
    pthread_mutex_lock(&names->mutex);
    harvest_locked(zk, names);
    int is_known = names->addresses != NULL;
    if (!is_known)
        lookup = join_or_start_locked(zk, names);
    if (lookup) {
        pthread_mutex_lock(&lookup->mutex);
        lookup->users++;
        pthread_mutex_unlock(&lookup->mutex);
    }
    pthread_mutex_unlock(&names->mutex);
    if (lookup) {
        rc = await(zk, lookup, deadline, err);
        leave(lookup);
    } else if (!is_known) {
        rc = zk->host->fail(err, DIBS_ENOMEM, "cannot look up %s", zk->hosts);
    }
    return rc;
}

char *
dibs__zk_names_copy(struct zk *zk, uint64_t *edition)
{
    struct names *names = zk->names;
    char *copy = NULL;
    pthread_mutex_lock(&names->mutex);
    harvest_locked(zk, names);
    if (names->addresses && names->edition != *edition) {
        size_t size = strlen(names->addresses) + 1;
        copy = zk->host->alloc(size);
        if (copy) {
            memcpy(copy, names->addresses, size);
            *edition = names->edition;
        }
    }
    pthread_mutex_unlock(&names->mutex);
    return copy;
}

void
dibs__zk_names_doubt(struct zk *zk)
{
    struct names *names = zk->names;
    pthread_mutex_lock(&names->mutex);
    harvest_locked(zk, names);
    if (!names->running && zk->host->now() > names->started + AGAIN_AFTER)
        (void)join_or_start_locked(zk, names);
    pthread_mutex_unlock(&names->mutex);
}

int
dibs__zk_names_open(struct zk *zk)
{
    struct names *names = zk->host->alloc(sizeof *names);
    if (!names)
        return DIBS_ENOMEM;
    pthread_mutex_init(&names->mutex, NULL);
    zk->names = names;
    names->started = zk->host->now();
    /* addresses need no thread, and no second look */
    if (look_up_all(zk->host, zk->hosts, AI_NUMERICHOST, &names->addresses) == 0) {
        names->edition = 1;
        names->started = DIBS_NEVER - AGAIN_AFTER;
    } else {
        zk->host->free(names->addresses);
        names->addresses = NULL;
    }
    return DIBS_OK;
}

void
dibs__zk_names_close(struct zk *zk, int forked)
{
    struct names *names = zk->names;
    if (!names)
        return;
    if (names->running && !forked)
        leave(names->running);
    zk->host->free(names->addresses);
    zk->host->free(names);
    zk->names = NULL;
}
