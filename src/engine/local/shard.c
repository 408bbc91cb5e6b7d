/* SPDX-License-Identifier: MIT */
/*
 * A shard: its lock, its records, and how it is put right after a death.
 *
 * The lock is a robust mutex: the kernel hands it to the next one who asks with a note
 * that its owner died. Then nothing derived can be trusted, and `rebuild` makes all of it
 * again from the facts in the records. If that process dies as well, the next one starts
 * over. Nothing in here waits for anything but a mutex, and for that two seconds at most:
 * a process stopped by a signal in the few instructions under a shard's lock must not hang
 * all others without a word.
 */
#include <errno.h>
#include <time.h>

#include "engine/local/local.h"

enum { LOCK_SPINS = 200, LOCK_SECONDS = 2 };

static void rebuild(table *t, uint32_t n);

/* ---------------------------------------------------------------- the lock ---- */

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A damaged mutex of another type could make libc wait for ever, or abort. */
static inline int
mutex_is_sound(const pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
    return mutex->__data.__kind == (128 | 16); /* shared between processes, robust */
#else
    (void)mutex;
    return 1;
#endif
}

static int
wait_for_mutex(pthread_mutex_t *mutex)
{
    for (int i = 0; i < LOCK_SPINS; i++) {
        relax();
        int rc = pthread_mutex_trylock(mutex);
        if (rc != EBUSY)
            return rc;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_SECONDS;
    return pthread_mutex_timedlock(mutex, &until);
}

static int
lock_slowly(table *t, uint32_t n, int rc, dibs_error *err)
{
    pthread_mutex_t *mutex = &t->shards[n].mutex;
    if (rc == EBUSY)
        rc = wait_for_mutex(mutex);
    if (rc == 0)
        return DIBS_OK;
    if (rc == EOWNERDEAD) {
        rebuild(t, n);
        pthread_mutex_consistent(mutex);
        return DIBS_OK;
    }
    if (rc == ETIMEDOUT)
        return t->host->fail(
            err, DIBS_EUNAVAIL,
            "%s/table is locked by a process that does not go on: is one "
            "of its users stopped?",
            t->path);
    atomic_store(&t->damaged, 1);
    return dibs__local_damage(t, err);
}

int
dibs__local_lock(table *t, uint32_t n, dibs_error *err)
{
    pthread_mutex_t *mutex = &t->shards[n].mutex;
    if (atomic_load_explicit(&t->damaged, memory_order_relaxed) || !mutex_is_sound(mutex))
        return dibs__local_damage(t, err);
    int rc = pthread_mutex_trylock(mutex);
    return rc == 0 ? DIBS_OK : lock_slowly(t, n, rc, err);
}

void
dibs__local_unlock(table *t, uint32_t n)
{
    pthread_mutex_unlock(&t->shards[n].mutex);
}

/* -------------------------------------------------------------- its records ---- */

/* take_chunk gives the shard records nobody had before. The cursor moves last: who dies
 * before that has given nothing, and there is nothing to repair. */
static int
take_chunk(table *t, uint32_t n, dibs_error *err)
{
    int rc = dibs__local_lock(t, GROW_SHARD, err);
    if (rc != DIBS_OK)
        return rc;
    uint32_t first = atomic_load(&t->head->cursor);
    if (first + CHUNK > atomic_load(&t->head->records))
        rc = dibs__local_grow(t, err);
    if (rc == DIBS_OK) {
        for (uint32_t i = first; i < first + CHUNK; i++)
            at(t, i)->shard = (uint8_t)n;
        in_order();
        atomic_store(&t->head->cursor, first + CHUNK);
    }
    dibs__local_unlock(t, GROW_SHARD);
    for (uint32_t i = first + CHUNK; rc == DIBS_OK && i-- > first;)
        push_free(t, i);
    return rc;
}

uint32_t
dibs__local_take_slowly(table *t, uint32_t n, dibs_error *err)
{
    if (!t->shards[n].free && take_chunk(t, n, err) != DIBS_OK)
        return 0;
    uint32_t index = pop_free(t, n);
    if (!index) {
        atomic_store(&t->damaged, 1);
        (void)dibs__local_damage(t, err);
    }
    return index;
}

uint32_t
dibs__local_next(table *t, uint32_t index, uint32_t n)
{
    uint32_t end = atomic_load(&t->head->cursor);
    index = index ? index + 1 : CHUNK;
    /* all records of a chunk belong to one shard: look at the first only */
    while (index < end && index % CHUNK == 0 && at(t, index)->shard != n)
        index += CHUNK;
    return index < end ? index : 0;
}

/* -------------------------------------------------------------- the rebuild ---- */

/* First pass: whatever is a list is empty, and what belongs to no claim is linked. */
static void
rebuild_clear(table *t, uint32_t index, record *r)
{
    local_shard *sh = &t->shards[r->shard];
    uint32_t *bucket;
    r->mark = 0;
    switch (word_of(r) & KIND_MASK) {
    case KIND_FREE:
        push_free(t, index);
        break;
    case KIND_LOCK:
        memset(&r->lock.holders, 0, LOCK_END - offsetof(lock_part, holders));
        /* fall through */
    case KIND_CELL:
        bucket = bucket_of(t, r->lock.name.hash);
        r->next = *bucket;
        *bucket = index;
        break;
    case KIND_MEMBER:
        r->next = sh->members;
        r->prev = 0;
        if (sh->members)
            at(t, sh->members)->prev = index;
        sh->members = index;
        break;
    }
}

static void
mark_text(table *t, uint32_t text)
{
    /* a marked one ends the walk, so that a damaged ring cannot hold it up */
    for (; text && !get(t, text, KIND_TEXT)->mark; text = at(t, text)->next)
        at(t, text)->mark = 1;
}

/* Second pass: claims go back to their locks, and texts that are in use are marked. */
static void
rebuild_link(table *t, uint32_t index, record *r)
{
    local_shard *sh = &t->shards[r->shard];
    switch (word_of(r) & KIND_MASK) {
    case KIND_LOCK:
        mark_text(t, r->lock.name.text);
        break;
    case KIND_CELL:
        mark_text(t, r->cell.name.text);
        mark_text(t, r->cell.value);
        break;
    case KIND_CLAIM:
        mark_text(t, r->claim.text);
        if (r->claim.ticket > sh->ticket)
            sh->ticket = r->claim.ticket;
        dibs__local_relink(t, index);
        break;
    }
}

/* Third pass: texts without an owner go, and every lock does what was left undone. */
static void
rebuild_settle(table *t, uint32_t index, record *r)
{
    local_wake wake = { NULL };
    switch (word_of(r) & KIND_MASK) {
    case KIND_TEXT:
        if (!r->mark)
            give(t, index);
        break;
    case KIND_LOCK:
        dibs__local_settle(t, index, &wake);
        dibs__local_wake_done(t, &wake);
        dibs__local_drop_idle(t, index);
        break;
    case KIND_CLAIM:
        dibs__local_alarm(t, &r->claim.bell);
        break;
    }
}

static void
rebuild(table *t, uint32_t n)
{
    static void (*const passes[])(
        table *, uint32_t, record *) = { rebuild_clear, rebuild_link, rebuild_settle };
    if (n == GROW_SHARD)
        return;
    t->shards[n].free = t->shards[n].members = 0;
    if (n < SHARDS)
        memset(&t->buckets[n * BUCKETS], 0, BUCKETS * sizeof(uint32_t));
    for (size_t pass = 0; pass < sizeof(passes) / sizeof(passes[0]); pass++)
        for (uint32_t i = dibs__local_next(t, 0, n); i; i = dibs__local_next(t, i, n))
            if (at(t, i)->shard == n)
                passes[pass](t, i, at(t, i));
}
