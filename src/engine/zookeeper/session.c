/* SPDX-License-Identifier: MIT */
/*
 * The sessions of a client: one for each class of leases, opened when it is first needed,
 * and again after it has expired. Expired ones are kept until the client closes, without
 * their handles: somebody may still look at one. life.c says how long a session lives.
 *
 * Parts: classes; birth and death; finding them; open and close.
 */
#include "link.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/wait.h"

#define LEASE_MS 30000 /* of those who name none: their session is also the home */

/* ---- classes ---- */

/* 100 ms, 150, 200, 300, 400, 600 ...: near enough to the lease, and few. */
static int64_t
class_of(int64_t need_ms)
{
    int64_t ms = 100;
    while (ms < need_ms && ms < INT32_MAX / 4) {
        if (ms + ms / 2 >= need_ms)
            return ms + ms / 2;
        ms *= 2;
    }
    return ms;
}

static int64_t
wanted_for(const struct zk *zk, int64_t lease_ms)
{
    if (zk->session_ms)
        return zk->session_ms;
    return class_of(dibs__zk_life_need_ms(lease_ms, zk->tick_ms));
}

/* ---- birth and death ---- */

static void
nothing_to_log(const char *message)
{
    (void)message;
}

/* Session events say nothing that zoo_state does not. */
static void
session_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

#ifdef DIBS_ZK_TLS
/* the library's header has it only for who was configured as the library was */
zhandle_t *zookeeper_init_ssl(const char *hosts, const char *files, watcher_fn watcher,
                              int timeout_ms, const clientid_t *id, void *context,
                              int flags);
#endif

static zhandle_t *
init_handle(struct session *session, const char *addresses, const clientid_t *id)
{
    int wanted_ms = (int)session->wanted_ms;
#ifdef DIBS_ZK_TLS
    if (session->zk->tls)
        return zookeeper_init_ssl(addresses, session->zk->tls, session_event, wanted_ms,
                                  id, session, ZOO_NO_LOG_CLIENTENV);
#endif
    return zookeeper_init2(addresses, session_event, wanted_ms, id, session,
                           ZOO_NO_LOG_CLIENTENV, nothing_to_log);
}

static zhandle_t *
make_handle(struct session *session, const char *addresses, const clientid_t *id)
{
    const struct zk *zk = session->zk;
    zoo_set_debug_level((ZooLogLevel)0); /* it must not print */
    zhandle_t *handle = init_handle(session, addresses, id);
    if (!handle)
        return NULL;
    /* or it would look names up each time it is called */
    (void)zoo_set_servers_resolution_delay(handle, -1);
    if (zk->credentials)
        (void)zoo_add_auth(handle, "digest", zk->credentials,
                           (int)strlen(zk->credentials), NULL, NULL);
    return handle;
}

static void
free_session(struct session *session)
{
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    session->zk->host->free(session);
}

static unsigned
count_addresses(const char *addresses)
{
    unsigned count = 1;
    for (; *addresses; addresses++)
        count += *addresses == ',';
    return count;
}

static struct session *
make_session(struct zk *zk, int64_t wanted_ms, const char *addresses, uint64_t edition)
{
    struct session *session = zk->host->alloc(sizeof *session);
    if (!session)
        return NULL;
    session->zk = zk;
    session->wanted_ms = wanted_ms;
    session->fd = -1;
    session->names_edition = edition;
    session->addresses = count_addresses(addresses);
    pthread_mutex_init(&session->mutex, NULL);
    cond_init(&session->changed);
    session->handle = make_handle(session, addresses, NULL);
    if (session->handle)
        return session;
    free_session(session);
    return NULL;
}

static int
give_birth(struct zk *zk, int64_t wanted_ms, struct session **out, dibs_error *err)
{
    struct sessions *all = zk->sessions;
    uint64_t edition = 0;
    char *addresses = dibs__zk_names_copy(zk, &edition);
    struct session *session =
        addresses ? make_session(zk, wanted_ms, addresses, edition) : NULL;
    zk->host->free(addresses);
    if (!session)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    session->birth = ++all->births;
    session->next = atomic_load(&all->first);
    atomic_store(&all->first, session);
    dibs__zk_pump_wake(zk);
    *out = session;
    return DIBS_OK;
}

/* The old handle sends no goodbye, as it is not connected. */
void
dibs__zk_remake(struct session *session)
{
    struct zk *zk = session->zk;
    uint64_t edition = 0;
    clientid_t id = *zoo_client_id(session->handle);
    char *addresses = dibs__zk_names_copy(zk, &edition);
    zhandle_t *handle = addresses ? make_handle(session, addresses, &id) : NULL;
    zk->host->free(addresses);
    explicit_bzero(&id, sizeof id);
    if (!handle)
        return;
    (void)zookeeper_close(session->handle);
    session->handle = handle;
    session->names_edition = edition;
    session->has_debris = 0;
    session->watch_bytes = 0;
    session->is_behind = 1;
    dibs__zk_watch_lost(session);
}

void
dibs__zk_bury(struct session *session, int fate)
{
    struct zk *zk = session->zk;
    zhandle_t *handle = session->handle;
    session->fate = fate;
    session->handle = NULL;
    session->fd = -1;
    session->mask = 0;
    session->connected = 0;
    atomic_store(&session->life.safe_until, 0);
    (void)zookeeper_close(handle);
    dibs__zk_watch_lost(session);
    pthread_cond_broadcast(&session->changed);
    zk->host->ring(zk->session->keeper_bell);
}

/* ---- finding them ---- */

static int
is_alive(struct session *session)
{
    pthread_mutex_lock(&session->mutex);
    int alive = session->handle != NULL;
    pthread_mutex_unlock(&session->mutex);
    return alive;
}

static struct session *
find(struct sessions *all, int64_t wanted_ms)
{
    struct session *session = atomic_load(&all->first);
    while (session && (session->wanted_ms != wanted_ms || !is_alive(session)))
        session = session->next;
    return session;
}

/* Nobody has looked after this session for a while, so it may be over. Nothing is in it. */
static void
abandon_if_old(struct session *session, dibs_time since)
{
    pthread_mutex_lock(&session->mutex);
    if (session->handle && session->zk->host->now() > since + session->life.timeout / 3) {
        if (session->fd != -1) {
            (void)shutdown(session->fd, SHUT_RDWR);
            (void)dibs__zk_process(session, POLLIN);
        }
        if (session->handle)
            dibs__zk_bury(session, ZCLOSING);
    }
    pthread_mutex_unlock(&session->mutex);
}

/* A client that was opened has no thread before it is used. */
static int
wake_up_locked(struct zk *zk, dibs_error *err)
{
    struct sessions *all = zk->sessions;
    struct session *session = atomic_load(&all->first);
    if (dibs__zk_pump_is_on(zk))
        return DIBS_OK;
    for (; session; session = session->next)
        abandon_if_old(session, dibs__zk_pump_parked(zk));
    return dibs__zk_pump_start(zk, err);
}

static int
open_locked(struct zk *zk, int64_t wanted_ms, struct session **out, dibs_error *err)
{
    int rc = wake_up_locked(zk, err);
    if (rc)
        return rc;
    *out = find(zk->sessions, wanted_ms);
    return *out ? DIBS_OK : give_birth(zk, wanted_ms, out, err);
}

static int
find_or_open(struct zk *zk, int64_t wanted_ms, dibs_time deadline, struct session **out,
             dibs_error *err)
{
    struct sessions *all = zk->sessions;
    *out = dibs__zk_pump_is_on(zk) ? find(all, wanted_ms) : NULL;
    if (*out)
        return DIBS_OK;
    int rc = dibs__zk_names_await(zk, deadline, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&all->mutex);
    rc = open_locked(zk, wanted_ms, out, err);
    pthread_mutex_unlock(&all->mutex);
    return rc;
}

/* A session is of no use before the servers have said how long it is. */
static int
await_first(struct session *session, dibs_time deadline, int64_t *granted_ms,
            dibs_error *err)
{
    int rc = DIBS_OK;
    pthread_mutex_lock(&session->mutex);
    if (!session->was_connected)
        rc = dibs__zk_await_connection(session, deadline, err);
    *granted_ms = session->granted_ms;
    pthread_mutex_unlock(&session->mutex);
    return rc == DIBS_ELOST ? DIBS_EUNAVAIL : rc; /* nothing was in it yet */
}

static int
check_length(const struct zk *zk, uint32_t lease_ms, int64_t granted_ms, dibs_error *err)
{
    int64_t need = dibs__zk_life_need_ms(lease_ms, zk->tick_ms);
    if (granted_ms >= need)
        return DIBS_OK;
    return zk->host->fail(err, DIBS_EINVAL,
                          "a lease of %u ms needs a session of %lld ms, and the servers "
                          "granted %lld: use a shorter lease, or a longer "
                          "maxSessionTimeout there%s",
                          lease_ms, (long long)need, (long long)granted_ms,
                          zk->session_ms ? ", or a longer session=" : "");
}

int
dibs__zk_session_for(struct zk *zk, uint32_t lease_ms, dibs_time deadline,
                     struct session **out, dibs_error *err)
{
    struct session *session;
    int64_t granted_ms;
    int rc = find_or_open(zk, wanted_for(zk, lease_ms), deadline, &session, err);
    if (!rc)
        rc = await_first(session, deadline, &granted_ms, err);
    if (!rc)
        rc = check_length(zk, lease_ms, granted_ms, err);
    if (rc)
        return rc;
    atomic_store_explicit(&session->used, zk->host->now(), memory_order_relaxed);
    *out = session;
    return DIBS_OK;
}

int
dibs__zk_home(struct zk *zk, dibs_time deadline, struct session **out, dibs_error *err)
{
    struct session *session;
    int64_t granted_ms;
    int rc = find_or_open(zk, wanted_for(zk, LEASE_MS), deadline, &session, err);
    if (!rc)
        rc = await_first(session, deadline, &granted_ms, err);
    if (!rc)
        *out = session;
    return rc;
}

uint64_t
dibs__zk_birth(const struct session *session)
{
    return session->birth;
}

struct session *
dibs__zk_session_born(struct zk *zk, uint64_t birth)
{
    struct sessions *all = zk->sessions;
    struct session *session = atomic_load(&all->first);
    while (session && session->birth != birth)
        session = session->next;
    if (!session || !is_alive(session))
        return NULL;
    atomic_store_explicit(&session->used, zk->host->now(), memory_order_relaxed);
    return session;
}

dibs_time
dibs__zk_safe_until(const struct session *session)
{
    return atomic_load_explicit(&session->life.safe_until, memory_order_acquire);
}

/* ---- open and close ---- */

int
dibs__zk_sessions_open(struct zk *zk, dibs_time deadline, dibs_error *err)
{
    struct sessions *all = zk->host->alloc(sizeof *all);
    struct session *home;
    if (!all)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    pthread_mutex_init(&all->mutex, NULL);
    zk->sessions = all;
    if (dibs__zk_watches_open(zk) || dibs__zk_names_open(zk) || dibs__zk_lapses_open(zk))
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    int rc = dibs__zk_pump_open(zk, err);
    if (!rc)
        rc = dibs__zk_home(zk, deadline, &home, err);
    if (!rc)
        dibs__zk_pump_park(zk);
    return rc;
}

/* In a child the server must not hear of it: the connection is the parent's. What a thread
 * of the parent was busy with when it forked cannot be taken apart here. */
static void
close_in_child(struct session *session)
{
    int fd = session->fd;
    int dead = fd == -1 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd != -1 && (dead == -1 || dup2(dead, fd) == -1))
        (void)close(fd);
    if (dead != -1)
        (void)close(dead);
    if (pthread_mutex_trylock(&session->mutex) == 0)
        (void)zookeeper_close(session->handle);
}

static void
close_session(struct session *session, int forked)
{
    if (session->handle && forked) {
        close_in_child(session);
    } else if (session->handle) {
        /* it waits for the server's goodbye, too long to hold up others for an xid: that
         * of the last request of a session matters to nobody */
        (void)zookeeper_close(session->handle);
    }
    if (forked)
        session->zk->host->free(session);
    else
        free_session(session);
}

void
dibs__zk_sessions_close(struct zk *zk, int forked)
{
    struct sessions *all = zk->sessions;
    if (!all)
        return;
    dibs__zk_pump_close(zk, forked);
    struct session *session = atomic_load(&all->first);
    while (session) {
        struct session *next = session->next;
        close_session(session, forked);
        session = next;
    }
    dibs__zk_watches_close(zk);
    dibs__zk_names_close(zk, forked);
    dibs__kit_lapses_free(zk->lapses, forked);
    zk->lapses = NULL;
    if (!forked)
        pthread_mutex_destroy(&all->mutex);
    zk->host->free(all);
    zk->sessions = NULL;
}
