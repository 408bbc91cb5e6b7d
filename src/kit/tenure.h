/* SPDX-License-Identifier: MIT */
/*
 * What the files of tenures share: tenure.c has the tenures, tenure_length.c says how long
 * they are, tenure_thread.c is the thread that keeps and ends them, and runs the lapses.
 *
 * The store is never asked while the mutex is held. What a thread asks for meanwhile is
 * marked in the tenure (BEGINNING, is_busy), so that others wait for its answer instead of
 * asking as well.
 *
 * A claim may be renewed while it is released, or while its lapse is ended: the one has
 * found the tenure that the other leaves. So a tenure that is over and has no users stays
 * for a while, longer than such a call takes.
 */
#ifndef DIBS_KIT_TENURE_H
#define DIBS_KIT_TENURE_H

#include "kit.h"

enum tenure_state { BEGINNING, ALIVE, OVER };

struct kit_tenure {
    kit_tenure *next;
    uint64_t birth; /* these six: constant from when it is ALIVE */
    int64_t wanted_ms;
    unsigned n;
    dibs_time ttl;
    dibs_time lease; /* the longest that it is kept for */
    char id[KIT_ID_MAX];
    _Atomic dibs_time safe_until;
    _Atomic uint64_t word;
    enum tenure_state state;
    unsigned users;
    dibs_time left;  /* when the last user did */
    int is_busy;     /* somebody is asking the store to keep it, or to end it */
    dibs_time due;   /* when the thread has to look at it */
    dibs_time pause; /* after the next failure */
    unsigned looks;  /* of the thread since it is over and unused */
};

struct kit_tenures {
    dibs_session *session;
    const dibs_host *host;
    const kit_tenure_ops *ops;
    kit_lapses *lapses;
    void *state;
    pthread_mutex_t mutex;  /* for all below, and for what changes in tenures */
    pthread_cond_t changed; /* a tenure has begun, failed to, or was kept */
    pthread_cond_t woken;   /* for the thread */
    kit_tenure *first;
    uint64_t births;
    pthread_t thread;
    int has_thread, is_woken, is_stopping;
};

static inline dibs_time
earlier(dibs_time a, dibs_time b)
{
    return a < b ? a : b;
}

static inline dibs_time
later(dibs_time a, dibs_time b)
{
    return a > b ? a : b;
}

/* ---- tenure_length.c ---- */

/* wanted_ms is what to ask the store for; less than is needed, if it allows no more.
 * check_length: DIBS_OK, or EINVAL if so long a tenure is too short. lease_of is the longest
 * lease that wants such a length. */
int64_t dibs__kit_wanted_ms(const kit_tenures *tenures, int64_t lease_ms);
int dibs__kit_check_length(const kit_tenures *tenures, int64_t lease_ms, int64_t ttl_ms,
                           dibs_error *err);
dibs_time dibs__kit_lease_of(const kit_tenures *tenures, int64_t ttl_ms);

/* ---- tenure.c; with the mutex held, all of them ---- */

/* Asks the store to keep it. The caller uses the tenure, or is the thread. */
int dibs__kit_keep(kit_tenures *tenures, kit_tenure *tenure, dibs_time deadline,
                   dibs_error *err);
/* how much longer it is than a lease */
dibs_time dibs__kit_slack(const kit_tenure *tenure);
void dibs__kit_unlink(kit_tenures *tenures, const kit_tenure *tenure);

/* ---- tenure_thread.c ---- */

/* start and wake with the mutex held, stop without. */
int dibs__kit_thread_start(kit_tenures *tenures, dibs_error *err);
void dibs__kit_thread_wake(kit_tenures *tenures);
void dibs__kit_thread_stop(kit_tenures *tenures);

#endif /* DIBS_KIT_TENURE_H */
