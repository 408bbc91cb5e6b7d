/* SPDX-License-Identifier: MIT */
/*
 * Who is granted what: the holders, the queue and the observers of one lock, first come
 * first served. Everything here happens under the lock of the shard.
 *
 * Who watches whom: the claim at the head of the queue watches the processes of all
 * holders, any other the process of the claim before it. So when a lock passes from one
 * exclusive holder to the next, the new head already watches the new holder, and one
 * wake-up is all it costs. Where that does not hold, the claim that must look again is
 * woken: the one behind a claim that has left the queue, and the head when there are more
 * holders than the one it watched.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/local/local.h"

/* -------------------------------------------------------------------- bells ---- */

void
dibs__local_wake(table *t, local_wake *wake, dibs_bell *bell)
{
    if (!wake->first)
        wake->first = bell;
    else if (wake->first != bell)
        t->host->ring(bell);
}

void
dibs__local_wake_done(table *t, local_wake *wake)
{
    if (wake->first)
        t->host->ring(wake->first);
    wake->first = NULL;
}

/* A ringer counts its ring and then wakes; one that died in between has left a bell that
 * says nobody sleeps. So the bells beside a dead process are rung without asking. */
void
dibs__local_alarm(table *t, dibs_bell *bell)
{
    t->host->ring(bell);
    (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void
wake_claim(table *t, local_wake *wake, uint32_t claim)
{
    if (claim)
        dibs__local_wake(t, wake, &get(t, claim, KIND_CLAIM)->claim.bell);
}

static void
wake_observers(table *t, const record *lock, local_wake *wake)
{
    uint32_t left = atomic_load_explicit(&t->known, memory_order_relaxed);
    for (uint32_t i = lock->lock.observers; i && left; i = at(t, i)->next, left--)
        wake_claim(t, wake, i);
}

/* -------------------------------------------------------------------- lists ---- */

/* insert puts a claim behind `before` (0: in front) of a list. */
static void
insert(table *t, uint32_t *head, uint32_t *tail, uint32_t before, uint32_t index)
{
    record *r = at(t, index);
    uint32_t after = before ? get(t, before, KIND_CLAIM)->next : *head;
    r->prev = before;
    r->next = after;
    *(before ? &at(t, before)->next : head) = index;
    if (after)
        get(t, after, KIND_CLAIM)->prev = index;
    else if (tail)
        *tail = index;
}

static void
take_out(table *t, uint32_t *head, uint32_t *tail, uint32_t index)
{
    record *r = at(t, index);
    if (r->prev)
        get(t, r->prev, KIND_CLAIM)->next = r->next;
    else
        *head = r->next;
    if (r->next)
        get(t, r->next, KIND_CLAIM)->prev = r->prev;
    else if (tail)
        *tail = r->prev;
}

static void
count(record *l, const record *claim, uint32_t phase, uint32_t step)
{
    if (phase == PHASE_WAITING) {
        l->lock.waiter_count += step;
    } else if (phase != PHASE_OBSERVING) {
        l->lock.holder_count += step;
        l->lock.permits_out += step * claim->claim.permits;
        if (phase == PHASE_LINGERING)
            l->lock.linger_count += step;
    }
}

/* enter puts a new claim into the list that fits its phase, and makes that a fact. */
void
dibs__local_enter(table *t, uint32_t lock, uint32_t claim, uint32_t phase)
{
    record *l = at(t, lock), *r = at(t, claim);
    set_word(r, KIND_CLAIM | phase);
    if (phase == PHASE_WAITING)
        insert(t, &l->lock.head, &l->lock.tail, l->lock.tail, claim);
    else if (phase == PHASE_OBSERVING)
        insert(t, &l->lock.observers, NULL, 0, claim);
    else
        insert(t, &l->lock.holders, NULL, 0, claim);
    count(l, r, phase, 1);
}

static void
leave(table *t, uint32_t lock, uint32_t claim)
{
    record *l = at(t, lock), *r = at(t, claim);
    uint32_t phase = word_of(r) & PHASE_MASK;
    if (phase == PHASE_WAITING)
        take_out(t, &l->lock.head, &l->lock.tail, claim);
    else if (phase == PHASE_OBSERVING)
        take_out(t, &l->lock.observers, NULL, claim);
    else
        take_out(t, &l->lock.holders, NULL, claim);
    count(l, r, phase, (uint32_t)-1);
}

/* relink puts a claim back where it was, in the course of a rebuild: waiters by ticket,
 * holders by token. Most come in order, so the search starts at the end. */
void
dibs__local_relink(table *t, uint32_t claim)
{
    record *r = at(t, claim), *l = at(t, r->claim.lock);
    uint32_t phase = word_of(r) & PHASE_MASK, before;
    if ((word_of(l) & KIND_MASK) != KIND_LOCK || l->shard != r->shard) {
        give(t, claim); /* it never had a lock, or the file is damaged */
        return;
    }
    if (phase == PHASE_WAITING) {
        before = l->lock.tail;
        while (before && at(t, before)->claim.ticket > r->claim.ticket)
            before = at(t, before)->prev;
        insert(t, &l->lock.head, &l->lock.tail, before, claim);
    } else if (phase == PHASE_OBSERVING) {
        insert(t, &l->lock.observers, NULL, 0, claim);
    } else {
        uint32_t after = l->lock.holders;
        before = 0;
        while (after && at(t, after)->claim.token > r->claim.token) {
            before = after;
            after = at(t, after)->next;
        }
        insert(t, &l->lock.holders, NULL, before, claim);
    }
    count(l, r, phase, 1);
}

/* ------------------------------------------------------------------- grants ---- */

/* fits says whether the holders leave room for this one; the queue is not looked at. */
int
dibs__local_fits(table *t, const record *l, uint32_t mode, uint32_t permits)
{
    if (mode == DIBS_PERMITS)
        return permits <= l->lock.limit && l->lock.permits_out <= l->lock.limit - permits;
    if (!l->lock.holder_count)
        return 1;
    return mode == DIBS_SHARED &&
           get(t, l->lock.holders, KIND_CLAIM)->mode == DIBS_SHARED;
}

/* for people's eyes only, so the clock that is cheap to read will do */
int64_t
dibs__local_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* grant makes a claim that is in no list a holder. */
void
dibs__local_grant(table *t, uint32_t lock, uint32_t claim, local_wake *wake)
{
    record *l = at(t, lock), *r = at(t, claim);
    r->claim.since_ms = dibs__local_wall_ms();
    r->claim.token = atomic_fetch_add(&t->head->counter, 1) + 1;
    r->previous = l->previous;
    dibs__local_enter(t, lock, claim, PHASE_GRANTED);
    if (l->lock.observers)
        wake_observers(t, l, wake);
}

/* settle grants to as many as can be granted, from the head of the queue. */
void
dibs__local_settle(table *t, uint32_t lock, local_wake *wake)
{
    record *l = at(t, lock);
    int granted = 0;
    while (l->lock.head) {
        uint32_t claim = l->lock.head;
        const record *r = get(t, claim, KIND_CLAIM);
        if (!dibs__local_fits(t, l, r->mode, r->claim.permits) ||
            atomic_load(&t->damaged))
            break;
        leave(t, lock, claim);
        dibs__local_grant(t, lock, claim, wake);
        wake_claim(t, wake, claim);
        granted = 1;
    }
    if (granted && l->lock.holder_count > 1)
        wake_claim(t, wake, l->lock.head);
}

static void
free_claim(table *t, uint32_t claim)
{
    uint32_t text = at(t, claim)->claim.text;
    give(t, claim);
    if (text)
        dibs__local_text_free(t, text);
}

/* A bad end is remembered until somebody who was told of it has ended well. */
static void
remember_end(record *l, const record *r, int how)
{
    if (how != DIBS_PREVIOUS_CLEAN)
        l->previous = (uint8_t)how;
    else if (r->mode == DIBS_EXCLUSIVE || r->previous == l->previous)
        l->previous = DIBS_PREVIOUS_CLEAN;
}

/* end takes a claim away, whatever its phase, and lets in who can come in now. */
void
dibs__local_end(table *t, uint32_t lock, uint32_t claim, int how, local_wake *wake)
{
    record *l = at(t, lock), *r = at(t, claim);
    uint32_t phase = word_of(r) & PHASE_MASK, behind = r->next;
    if (phase == PHASE_GRANTED || phase == PHASE_LINGERING)
        remember_end(l, r, how);
    in_order();
    leave(t, lock, claim);
    free_claim(t, claim);
    if (phase == PHASE_OBSERVING)
        return;
    dibs__local_settle(t, lock, wake);
    if (phase == PHASE_WAITING)
        wake_claim(t, wake, behind);
    else if (l->lock.observers)
        wake_observers(t, l, wake);
}

/* end_only ends the only hold of a lock that nobody else wants, cleanly, and the lock with
 * it: what mostly happens, and nothing but that. */
void
dibs__local_end_only(table *t, uint32_t lock, uint32_t claim)
{
    free_claim(t, claim);
    dibs__local_name_free(t, lock);
}

/* linger turns a hold into one without an owner. */
void
dibs__local_linger(table *t, uint32_t lock, uint32_t claim, dibs_time expiry,
                   local_wake *wake)
{
    record *l = at(t, lock), *r = at(t, claim);
    remember_end(l, r, DIBS_PREVIOUS_CLEAN);
    r->claim.expiry = expiry;
    set_word(r, KIND_CLAIM | PHASE_LINGERING);
    l->lock.linger_count++;
    wake_claim(t, wake, l->lock.head); /* it must learn when to look */
}

/* drop_idle frees a lock that nobody uses, unless the next one must be told something. */
void
dibs__local_drop_idle(table *t, uint32_t lock)
{
    const record *l = at(t, lock);
    if (!l->lock.holder_count && !l->lock.waiter_count && !l->lock.observers &&
        l->previous == DIBS_PREVIOUS_CLEAN)
        dibs__local_name_free(t, lock);
}
