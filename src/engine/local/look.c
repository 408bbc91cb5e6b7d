/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks from outside, and breaking them. What is reported of one lock was true
 * at one moment; two locks may be seen at two.
 */
#include <unistd.h>

#include "engine/local/local.h"

/* ---------------------------------------------------------------- reporting ---- */

static void
read_note(table *t, const record *r, char note[DIBS_NOTE_MAX + 1])
{
    size_t len = r->claim.note_len <= DIBS_NOTE_MAX ? r->claim.note_len : 0;
    if (r->claim.text)
        dibs__local_text_read(t, r->claim.text, 0, note, len);
    else
        memcpy(note, r->claim.note, len < INLINE_NOTE ? len : INLINE_NOTE);
    note[len] = '\0';
}

static int
report_claim(table *t, const record *r, const char *host, dibs_sink *sink)
{
    char note[DIBS_NOTE_MAX + 1], app[APP_MAX + 1] = "";
    uint32_t phase = word_of(r) & PHASE_MASK;
    const record *m = at(t, r->claim.member);
    dibs_party party = { .mode = r->mode,
                         .permits = r->claim.permits,
                         .lease_left_ms = -1 };
    read_note(t, r, note);
    if (phase == PHASE_LINGERING) {
        party.lease_left_ms = (r->claim.expiry - t->host->now()) / DIBS_MS;
    } else if (word_of(m) == r->claim.member_word) {
        party.pid = atomic_load(&m->member.pid);
        memcpy(app, m->member.app, APP_MAX);
    }
    party.token = phase == PHASE_WAITING ? 0 : r->claim.token;
    party.since_ms = r->claim.since_ms;
    party.host = host;
    party.app = app;
    party.note = note;
    return sink->party(sink, phase == PHASE_WAITING, &party);
}

static int
report_list(table *t, uint32_t i, uint32_t left, const char *host, dibs_sink *sink)
{
    int rc = DIBS_OK;
    if (left > atomic_load_explicit(&t->known, memory_order_relaxed)) {
        (void)dibs__local_wrong(t); /* else a ring would be told for ever */
        return DIBS_OK;
    }
    for (; i && left && rc == DIBS_OK; i = at(t, i)->next, left--)
        rc = report_claim(t, get(t, i, KIND_CLAIM), host, sink);
    return rc;
}

/* report_lock says what is left of a lock after the dead have been taken out. */
static int
report_lock(table *t, uint32_t lock, dibs_sink *sink)
{
    record *l = at(t, lock);
    char name[DIBS_NAME_MAX], host[65] = "";
    local_wake wake = { NULL };
    dibs__local_reap(t, lock, 1, &wake);
    dibs__local_wake_done(t, &wake);
    if (!l->lock.holder_count && !l->lock.waiter_count)
        return DIBS_OK;
    int mode = l->mode == DIBS_PERMITS ? DIBS_PERMITS : DIBS_EXCLUSIVE;
    if (l->lock.holders && mode != DIBS_PERMITS)
        mode = get(t, l->lock.holders, KIND_CLAIM)->mode;
    if (!l->lock.name.len || l->lock.name.len > sizeof(name) || mode > DIBS_PERMITS) {
        (void)dibs__local_wrong(t);
        return DIBS_OK; /* finish tells */
    }
    dibs__local_name_read(t, l, name);
    (void)gethostname(host, sizeof(host) - 1);
    int rc = sink->lock(sink, name, l->lock.name.len, mode, l->lock.limit);
    if (rc == DIBS_OK)
        rc = report_list(t, l->lock.holders, l->lock.holder_count, host, sink);
    if (rc == DIBS_OK)
        rc = report_list(t, l->lock.head, l->lock.waiter_count, host, sink);
    return rc;
}

static int
finish(table *t, uint32_t n, int rc, dibs_error *err)
{
    dibs__local_unlock(t, n);
    return atomic_load(&t->damaged) ? dibs__local_damage(t, err) : rc;
}

static int
list_chunk(table *t, uint32_t first, dibs_sink *sink, dibs_error *err)
{
    uint32_t n = at(t, first)->shard;
    if (n >= SHARDS)
        return DIBS_OK;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    for (uint32_t i = first; i < first + CHUNK && rc == DIBS_OK; i++)
        if ((word_of(at(t, i)) & KIND_MASK) == KIND_LOCK) {
            rc = report_lock(t, i, sink);
            dibs__local_drop_idle(t, i);
        }
    return finish(t, n, rc, err);
}

int
dibs__local_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    table *t = ((local_state *)state)->table;
    uint32_t end = atomic_load(&t->head->cursor);
    int rc = DIBS_OK;
    (void)deadline;
    for (uint32_t first = CHUNK; first < end && rc == DIBS_OK; first += CHUNK)
        rc = list_chunk(t, first, sink, err);
    return rc;
}

int
dibs__local_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                    dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    table *t = ((local_state *)state)->table;
    local_key key = { KIND_LOCK, 0, name_hash, name, name_len };
    uint32_t n = shard_of(name_hash);
    (void)deadline;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    uint32_t lock = dibs__local_find(t, &key);
    if (lock) {
        rc = report_lock(t, lock, sink);
        dibs__local_drop_idle(t, lock);
    }
    return finish(t, n, rc, err);
}

/* ----------------------------------------------------------------- breaking ---- */

/* evict_holders frees the records at once: who held them finds another word there. */
static size_t
evict_holders(table *t, uint32_t lock, local_wake *wake)
{
    record *l = at(t, lock);
    size_t broken = 0;
    /* those who come in on the way have larger tokens, and stay */
    uint64_t newest = l->lock.holders ? at(t, l->lock.holders)->claim.token : 0;
    uint32_t left = l->lock.holder_count, next;
    for (uint32_t i = l->lock.holders; i && left; i = next, left--) {
        const record *r = get(t, i, KIND_CLAIM);
        record *m = at(t, r->claim.member);
        next = r->next;
        if (r->claim.token > newest)
            continue;
        int owned = word_of(m) == r->claim.member_word;
        dibs__local_end(t, lock, i, DIBS_PREVIOUS_BROKEN, wake);
        if (owned)
            dibs__local_wake(t, wake, &m->member.bell);
        broken++;
    }
    return broken;
}

int
dibs__local_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                  size_t *broken, dibs_time deadline, dibs_error *err)
{
    table *t = ((local_state *)state)->table;
    local_key key = { KIND_LOCK, 0, name_hash, name, name_len };
    uint32_t n = shard_of(name_hash);
    local_wake wake = { NULL };
    (void)deadline;
    *broken = 0;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    uint32_t lock = dibs__local_find(t, &key);
    if (lock) {
        dibs__local_reap(t, lock, 1, &wake);
        *broken = evict_holders(t, lock, &wake);
        dibs__local_drop_idle(t, lock);
    }
    rc = finish(t, n, rc, err);
    dibs__local_wake_done(t, &wake);
    return rc;
}
