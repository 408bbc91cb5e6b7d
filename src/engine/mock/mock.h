/* SPDX-License-Identifier: MIT */
/*
 * What the three files of the mock: engine share.
 *
 * service.c is the imaginary server: locks, queues, leases and cells in memory. It is
 * what other engines find behind a socket. link.c is the imaginary network: delays and
 * losses as the URL scripts them. mock.c is the engine proper: its slots send a call over
 * the link to the service. Read mock.c first.
 */
#ifndef DIBS_MOCK_H
#define DIBS_MOCK_H

#include <pthread.h>

#include <dibs/engine.h>

/* A grant's token and this many after it belong to the holder's process. */
#define TOKEN_ROOM 999

/* How the link misbehaves; all times in nanoseconds. link.c reads it from the URL. */
struct faults {
    dibs_time delay, jitter;       /* every call takes that long */
    dibs_time fail_from, fail_end; /* unreachable between these, by the service's clock */
    dibs_time lose_after;          /* a hold lasts no longer than this; 0: no limit */
    double drop_request, drop_reply;
    const char *deny; /* this name is denied; NULL: none */
    int seeded;
    uint64_t random; /* the state of the generator, if seeded; guarded by the service */
};

/* One open client: the engine's state, allocated by core. */
struct client {
    dibs_session *session;
    const dibs_host *host;
    struct service *service;
    struct faults faults;
};

enum entry_state {
    WAITING,
    OFFERED, /* it is its turn; the next attempt turns this into a hold */
    HELD,
    LINGERING /* released, but keeps others out until it expires */
};

/* A claim as the service knows it. */
struct entry {
    struct entry *next;
    uint8_t session[16];
    uint64_t serial;
    int state, mode;
    uint32_t permits;
    uint64_t token;
    uint8_t previous;
    dibs_time expires;     /* when it ends unless its owner is heard from */
    dibs_time lose_at;     /* ... and at the latest */
    int64_t since_ms;      /* wall clock, for people */
    struct client *client; /* NULL once that client has closed */
    dibs_bell *bell;       /* of its waiting caller; NULL: nobody to wake */
    char note[DIBS_NOTE_MAX + 1];
};

/* A lock: its entries in the order of arrival. Nobody overtakes, so those who have it (or
 * are offered it) are always the front part of the list. Observers stand anywhere. */
struct lock {
    struct lock *next;
    struct entry *entries;
    int permits;      /* 1: a semaphore */
    uint32_t limit;   /* ... of this many */
    uint8_t previous; /* what the next grant is told */
    uint64_t hash;
    size_t name_len;
    char name[DIBS_NAME_MAX];
};

/* service.c: all functions want the service locked, but for get, put, forget and lock. */
struct service *dibs__mock_service_get(const char *name, int manual,
                                       const dibs_host *host);
void dibs__mock_service_put(struct service *service, struct client *client);
void dibs__mock_forget(const char *name);
void dibs__mock_lock(struct service *service);
void dibs__mock_unlock(struct service *service);
dibs_time dibs__mock_now(const struct service *service);

struct lock *dibs__mock_find_lock(struct service *service, const char *name, size_t len,
                                  uint64_t hash, int create);
struct lock *dibs__mock_next_lock(struct service *service, const struct lock *after);
struct entry *dibs__mock_find_entry(const struct lock *lock, const struct client *client,
                                    uint64_t serial);
struct entry *dibs__mock_enqueue(struct client *client, struct lock *lock,
                                 const dibs_claim *claim);
uint64_t dibs__mock_next_token(struct service *service);
void dibs__mock_drop(struct service *service, struct lock *lock, struct entry *entry);
void dibs__mock_take_away(struct service *service, struct lock *lock, struct entry *entry,
                          int previous); /* drop it, and tell the next and the owner */
void dibs__mock_settle(struct service *service, struct lock *lock);
void dibs__mock_tidy(struct service *service, struct lock *lock);
void dibs__mock_tell_observers(struct service *service, struct lock *lock);

int dibs__mock_cell_read(struct service *service, const dibs_cell_key *key,
                         dibs_cell *out);
int dibs__mock_cell_swap(struct service *service, const dibs_cell_key *key,
                         uint64_t version, const void *value, size_t len,
                         uint64_t *new_version);

/* link.c. send returns DIBS_OK if the request reaches the service, else what the
 * caller is to return; it may sleep. reply returns `code`, or DIBS_EUNKNOWN if the
 * reply is lost, and wants the service locked. */
extern const char *const dibs__mock_params[];
int dibs__mock_link_open(struct client *client, const dibs_url_parts *url,
                         dibs_error *err);
int dibs__mock_send(struct client *client, dibs_time deadline, dibs_error *err);
int dibs__mock_reply(struct client *client, int code, dibs_error *err);

#endif /* DIBS_MOCK_H */
