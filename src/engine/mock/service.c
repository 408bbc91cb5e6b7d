/* SPDX-License-Identifier: MIT */
/*
 * The imaginary server of mock:: services by name, their locks and cells, and the one
 * rule of who is next (dibs__mock_settle). Other engines have all this behind a socket,
 * or in a script that runs there. Nothing here knows of faults; see link.c for those.
 *
 * In this order: services, locks, entries, who is next, cells.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mock.h"

#define BUCKETS 4096

struct cell {
    struct cell *next;
    int space;
    size_t name_len;
    char name[DIBS_NAME_MAX];
    dibs_cell now;
};

struct service {
    struct service *next;
    const dibs_host *host;
    char *name; /* "" if it belongs to one client */
    int manual; /* the cell mock/advance moves the clock */

    pthread_mutex_t mutex; /* guards all below, and the entries of its clients */
    uint64_t last_token;
    uint64_t last_version;
    struct lock *locks[BUCKETS];
    struct cell *cells;
};

/* Named services outlive their clients, as servers do: until the process ends. */
static pthread_mutex_t services_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct service *services;

static struct service *
service_new(const char *name, int manual, const dibs_host *host)
{
    struct service *service = host->alloc(sizeof(*service));
    size_t len = strlen(name);

    if (!service)
        return NULL;
    service->name = host->alloc(len + 1);
    if (!service->name) {
        host->free(service);
        return NULL;
    }
    memcpy(service->name, name, len);
    service->host = host;
    service->manual = manual;
    pthread_mutex_init(&service->mutex, NULL);
    return service;
}

struct service *
dibs__mock_service_get(const char *name, int manual, const dibs_host *host)
{
    struct service *service;

    if (!*name)
        return service_new(name, manual, host);
    pthread_mutex_lock(&services_mutex);
    for (service = services; service; service = service->next)
        if (strcmp(service->name, name) == 0)
            break;
    if (!service) {
        service = service_new(name, manual, host);
        if (service) {
            service->next = services;
            services = service;
        }
    }
    pthread_mutex_unlock(&services_mutex);
    return service;
}

static void
service_free(struct service *service)
{
    const dibs_host *host = service->host;
    struct lock *lock;

    while ((lock = dibs__mock_next_lock(service, NULL))) {
        while (lock->entries)
            dibs__mock_drop(service, lock, lock->entries);
        lock->previous = DIBS_PREVIOUS_CLEAN;
        dibs__mock_tidy(service, lock);
    }
    for (struct cell *cell = service->cells, *next; cell; cell = next) {
        next = cell->next;
        host->free(cell);
    }
    pthread_mutex_destroy(&service->mutex);
    host->free(service->name);
    host->free(service);
}

/* dibs__mock_forget ends a named service, as if its server had been wiped. Nobody may use
 * it any more. For test/sim, which needs thousands of them. */
void
dibs__mock_forget(const char *name)
{
    struct service **at = &services, *service;

    pthread_mutex_lock(&services_mutex);
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    service = *at;
    if (service)
        *at = service->next;
    pthread_mutex_unlock(&services_mutex);
    if (service)
        service_free(service);
}

/* disconnect makes the service forget a client. What that held stays until it expires;
 * and what has no lease ends here, with its process. */
static void
disconnect(struct service *service, struct lock *lock, struct client *client)
{
    for (struct entry *e = lock->entries, *next; e; e = next) {
        next = e->next;
        if (e->client != client)
            continue;
        e->client = NULL;
        e->bell = NULL;
        if (e->expires == DIBS_NEVER)
            dibs__mock_take_away(service, lock, e, DIBS_PREVIOUS_EXPIRED);
    }
    dibs__mock_settle(service, lock);
}

void
dibs__mock_service_put(struct service *service, struct client *client)
{
    struct lock *lock = NULL;

    if (!*service->name) {
        service_free(service);
        return;
    }
    dibs__mock_lock(service);
    while ((lock = dibs__mock_next_lock(service, lock)))
        disconnect(service, lock, client);
    dibs__mock_unlock(service);
}

void
dibs__mock_lock(struct service *service)
{
    pthread_mutex_lock(&service->mutex);
}

void
dibs__mock_unlock(struct service *service)
{
    pthread_mutex_unlock(&service->mutex);
}

dibs_time
dibs__mock_now(const struct service *service)
{
    return service->host->now();
}

struct lock *
dibs__mock_find_lock(struct service *service, const char *name, size_t len, uint64_t hash,
                     int create)
{
    struct lock **bucket = &service->locks[hash % BUCKETS], *lock;

    for (lock = *bucket; lock; lock = lock->next)
        if (lock->name_len == len && memcmp(lock->name, name, len) == 0)
            return lock;
    if (!create)
        return NULL;
    lock = service->host->alloc(sizeof(*lock));
    if (!lock)
        return NULL;
    memcpy(lock->name, name, len);
    lock->name_len = len;
    lock->hash = hash;
    lock->next = *bucket;
    *bucket = lock;
    return lock;
}

struct lock *
dibs__mock_next_lock(struct service *service, const struct lock *after)
{
    size_t bucket = after ? after->hash % BUCKETS + 1 : 0;

    if (after && after->next)
        return after->next;
    for (; bucket < BUCKETS; bucket++)
        if (service->locks[bucket])
            return service->locks[bucket];
    return NULL;
}

/* dibs__mock_tidy forgets a lock that nobody uses and that has nothing to tell. */
void
dibs__mock_tidy(struct service *service, struct lock *lock)
{
    struct lock **at = &service->locks[lock->hash % BUCKETS];

    if (lock->entries || lock->previous != DIBS_PREVIOUS_CLEAN)
        return;
    while (*at != lock)
        at = &(*at)->next;
    *at = lock->next;
    service->host->free(lock);
}

struct entry *
dibs__mock_find_entry(const struct lock *lock, const struct client *client,
                      uint64_t serial)
{
    const uint8_t *session = client->session->id;
    struct entry *e = lock->entries;

    while (e && (e->serial != serial || memcmp(e->session, session, sizeof(e->session))))
        e = e->next;
    return e;
}

static int64_t
wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* dibs__mock_enqueue adds a claim at the end of the queue; settling may then admit it. */
struct entry *
dibs__mock_enqueue(struct client *client, struct lock *lock, const dibs_claim *claim)
{
    struct entry *entry = client->host->alloc(sizeof(*entry)), **end = &lock->entries;

    if (!entry)
        return NULL;
    memcpy(entry->session, client->session->id, sizeof(entry->session));
    entry->serial = claim->serial;
    entry->state = WAITING;
    entry->mode = claim->mode;
    entry->permits = claim->permits;
    entry->expires = DIBS_NEVER;
    entry->lose_at = DIBS_NEVER;
    entry->since_ms = wall_ms();
    entry->client = client;
    strncpy(entry->note, claim->note, DIBS_NOTE_MAX);
    while (*end)
        end = &(*end)->next;
    *end = entry;
    return entry;
}

/* Tokens are spaced, so that the holder's process can hand the lock on inside itself. */
uint64_t
dibs__mock_next_token(struct service *service)
{
    service->last_token += TOKEN_ROOM + 1;
    return service->last_token;
}

void
dibs__mock_tell_observers(struct service *service, struct lock *lock)
{
    for (struct entry *e = lock->entries; e; e = e->next)
        if (e->mode == DIBS_OBSERVE && e->bell)
            service->host->ring(e->bell);
}

void
dibs__mock_drop(struct service *service, struct lock *lock, struct entry *entry)
{
    struct entry **at = &lock->entries;
    int was_held = entry->state == HELD;

    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    service->host->free(entry);
    if (was_held)
        dibs__mock_tell_observers(service, lock);
}

void
dibs__mock_take_away(struct service *service, struct lock *lock, struct entry *entry,
                     int previous)
{
    lock->previous = (uint8_t)previous;
    if (entry->client)
        service->host->ring(entry->client->session->keeper_bell);
    dibs__mock_drop(service, lock, entry);
}

static void
drop_expired(struct service *service, struct lock *lock)
{
    dibs_time now = dibs__mock_now(service);

    for (struct entry *e = lock->entries, *next; e; e = next) {
        next = e->next;
        if (e->expires > now)
            continue;
        if (e->state == HELD)
            dibs__mock_take_away(service, lock, e, DIBS_PREVIOUS_EXPIRED);
        else
            dibs__mock_drop(service, lock, e);
    }
}

/* dibs__mock_settle lets time pass: what has expired goes, and then whoever is first in
 * line and goes together with all before it is offered the lock. The first who does not
 * ends the search, so nobody is overtaken and no writer starves. */
void
dibs__mock_settle(struct service *service, struct lock *lock)
{
    uint64_t used = 0;
    int exclusive = 0;

    drop_expired(service, lock);
    for (struct entry *e = lock->entries; e; e = e->next) {
        if (e->mode == DIBS_OBSERVE)
            continue;
        if (e->state == WAITING) {
            if (e->mode == DIBS_EXCLUSIVE ? used > 0 : exclusive)
                return;
            if (e->mode == DIBS_PERMITS && used + e->permits > lock->limit)
                return;
            e->state = OFFERED;
            if (e->bell)
                service->host->ring(e->bell);
        }
        used += e->permits;
        exclusive |= e->mode == DIBS_EXCLUSIVE;
    }
}

static struct cell *
find_cell(const struct service *service, const dibs_cell_key *key)
{
    struct cell *cell = service->cells;

    while (cell && (cell->space != key->space || cell->name_len != key->name_len ||
                    memcmp(cell->name, key->name, key->name_len) != 0))
        cell = cell->next;
    return cell;
}

int
dibs__mock_cell_read(struct service *service, const dibs_cell_key *key, dibs_cell *out)
{
    const struct cell *cell = find_cell(service, key);

    out->version = 0;
    out->len = 0;
    if (!cell)
        return DIBS_ENOTFOUND;
    *out = cell->now;
    return DIBS_OK;
}

/* is_advance recognises the cell by which a test moves the clock. */
static int
is_advance(const struct service *service, const dibs_cell_key *key)
{
    static const char name[] = "mock/advance";

    return service->manual && key->space == DIBS_SPACE_CELL &&
           key->name_len == sizeof(name) - 1 &&
           memcmp(key->name, name, key->name_len) == 0;
}

/* advance moves the clock of the whole process, and lets happen what is due by then. */
static int
advance(struct service *service, const char *value, size_t len)
{
    struct lock *lock = NULL;
    char digits[16] = "";

    if (len >= sizeof(digits))
        return DIBS_EINVAL;
    memcpy(digits, value, len);
    service->host->advance_clock(strtoll(digits, NULL, 10));
    while ((lock = dibs__mock_next_lock(service, lock)))
        dibs__mock_settle(service, lock);
    return DIBS_OK;
}

int
dibs__mock_cell_swap(struct service *service, const dibs_cell_key *key, uint64_t version,
                     const void *value, size_t len, uint64_t *new_version)
{
    struct cell *cell = find_cell(service, key);

    if (is_advance(service, key)) {
        *new_version = ++service->last_version;
        return advance(service, value, len);
    }
    if ((cell ? cell->now.version : 0) != version)
        return DIBS_ECONFLICT;
    if (!cell) {
        cell = service->host->alloc(sizeof(*cell));
        if (!cell)
            return DIBS_ENOMEM;
        cell->space = key->space;
        cell->name_len = key->name_len;
        memcpy(cell->name, key->name, key->name_len);
        cell->next = service->cells;
        service->cells = cell;
    }
    cell->now.version = *new_version = ++service->last_version;
    cell->now.len = len;
    if (len)
        memcpy(cell->now.value, value, len);
    return DIBS_OK;
}
