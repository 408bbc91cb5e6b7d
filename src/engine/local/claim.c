/* SPDX-License-Identifier: MIT */
/*
 * The life of a claim, as core drives it. In order: what to answer, a new claim, observing,
 * attempt, watch, and last renew, release and downgrade.
 *
 * A claim's priv[0] is its record's index and, above it, the word the record had while it
 * waited. priv[1] is not 0 right after watch, when an attempt needs to look at the word
 * only: its upper half is what the bell was at when watch found out whom to watch, so that
 * a ring since then is not slept through. priv[2] is the hint that goes with that.
 */
#include "engine/local/local.h"

enum { POLL_MS = 20, POSITIONS = 64, WATCH_AT_ONCE = WATCH_MAX };

static uint32_t
index_of(const dibs_claim *claim)
{
    return (uint32_t)claim->priv[0];
}

/* mine returns the claim's record if it still is the claim's, else NULL. */
static record *
mine(const local_state *s, const dibs_claim *claim)
{
    uint32_t waiting = (uint32_t)(claim->priv[0] >> 32);
    if (!claim->priv[0])
        return NULL;
    record *r = at(s->table, index_of(claim));
    if ((word_of(r) & ~PHASE_MASK) != waiting || r->claim.serial != claim->serial ||
        r->claim.member != s->member || (word_of(r) & PHASE_MASK) == PHASE_LINGERING)
        return NULL;
    return r;
}

static local_key
key_of(const dibs_claim *claim)
{
    return (local_key){ KIND_LOCK, 0, claim->name_hash, claim->name, claim->name_len };
}

/* finish gives the shard back, wakes who is due, and turns damage into an error. */
static int
finish(table *t, uint32_t n, local_wake *wake, int rc, dibs_error *err)
{
    dibs__local_unlock(t, n);
    dibs__local_wake_done(t, wake);
    if (atomic_load_explicit(&t->damaged, memory_order_relaxed))
        return dibs__local_damage(t, err);
    return rc;
}

/* ---------------------------------------------------------------- answering ---- */

static int
answer_granted(dibs_claim *claim, const record *r, uint32_t word)
{
    claim->token = r->claim.token;
    claim->token_room = 0;
    claim->previous = r->previous;
    claim->alive = &r->word;
    claim->alive_value = word;
    claim->bell = &claim->own_bell;
    return DIBS_OK;
}

/* Only the head of the queue must look again when a lingering hold is over. */
static uint32_t
linger_hint(table *t, const record *l)
{
    dibs_time left = DIBS_NEVER;
    uint32_t steps = l->lock.holder_count;
    if (!l->lock.linger_count)
        return 0;
    for (uint32_t i = l->lock.holders; i && steps; i = at(t, i)->next, steps--) {
        const record *r = get(t, i, KIND_CLAIM);
        if ((word_of(r) & PHASE_MASK) == PHASE_LINGERING && r->claim.expiry < left)
            left = r->claim.expiry;
    }
    left = (left - t->host->now()) / DIBS_MS + 1;
    return left < 1 ? 1 : left > 1000 ? 1000 : (uint32_t)left;
}

static uint32_t
position_of(table *t, const record *r)
{
    for (uint32_t position = 1; position <= POSITIONS; position++) {
        if (!r->prev)
            return position;
        r = get(t, r->prev, KIND_CLAIM);
    }
    return 0;
}

static int
answer_busy(table *t, dibs_claim *claim, record *r, uint32_t position)
{
    claim->bell = &r->claim.bell;
    claim->seen = dibs_bell_seen(&r->claim.bell);
    claim->position = position;
    claim->hint_ms = position == 1 ? linger_hint(t, at(t, r->claim.lock)) : 0;
    claim->priv[2] = claim->hint_ms;
    return DIBS_EBUSY;
}

/* ---------------------------------------------------------------- a new one ---- */

static uint32_t
new_claim(const local_state *s, dibs_claim *claim, uint32_t lock, dibs_error *err)
{
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash), text = 0;
    size_t note_len = *claim->note ? strnlen(claim->note, DIBS_NOTE_MAX) : 0;
    if (note_len > INLINE_NOTE &&
        dibs__local_text_new(&text, t, n, claim->note, note_len, NULL, 0, err) != DIBS_OK)
        return 0;
    uint32_t index = take(t, n, err);
    if (!index) {
        dibs__local_text_free(t, text);
        return 0;
    }
    record *r = at(t, index);
    r->mode = claim->mode;
    r->previous = 0;
    r->claim.lock = lock;
    r->claim.member = s->member;
    r->claim.member_word = s->member_word;
    r->claim.permits = claim->mode == DIBS_PERMITS ? claim->permits : 1;
    r->claim.serial = claim->serial;
    r->claim.token = r->claim.ticket = 0;
    r->claim.since_ms = 0;
    r->claim.text = text;
    r->claim.note_len = (uint16_t)note_len;
    if (note_len && !text)
        memcpy(r->claim.note, claim->note, note_len);
    uint32_t generation = word_of(r) & ~(WORD_GENERATION - 1);
    claim->priv[0] = (uint64_t)(generation | KIND_CLAIM) << 32 | index;
    claim->priv[1] = 0;
    return index;
}

static int
in_use(const record *l)
{
    return l->lock.holder_count || l->lock.waiter_count;
}

/* agree sees to it that a lock is of the kind that the claim asks for. */
static int
agree(table *t, uint32_t lock, const dibs_claim *claim, local_wake *wake, dibs_error *err)
{
    record *l = at(t, lock);
    uint8_t mode = claim->mode == DIBS_PERMITS ? DIBS_PERMITS : DIBS_EXCLUSIVE;
    uint32_t limit = claim->mode == DIBS_PERMITS ? claim->limit : 0;
    if (l->mode == mode && l->lock.limit == limit)
        return DIBS_OK;
    if (in_use(l))
        dibs__local_reap(t, lock, 1, wake);
    if (!in_use(l)) {
        l->mode = mode;
        l->lock.limit = limit;
        return DIBS_OK;
    }
    if (l->mode == DIBS_PERMITS)
        return t->host->fail(err, DIBS_EMISMATCH,
                             "it is in use as a semaphore of %u permits", l->lock.limit);
    return t->host->fail(err, DIBS_EMISMATCH,
                         "it is in use as a lock, not as a semaphore");
}

static int
has_room(table *t, uint32_t lock, const dibs_claim *claim)
{
    const record *l = at(t, lock);
    return !l->lock.head && dibs__local_fits(t, l, claim->mode, claim->permits);
}

static int
place(const local_state *s, dibs_claim *claim, uint32_t lock, local_wake *wake,
      dibs_error *err)
{
    table *t = s->table;
    int room = has_room(t, lock, claim);
    if (!room) {
        dibs__local_reap(t, lock, claim->flags & DIBS_CLAIM_NOQUEUE, wake);
        room = has_room(t, lock, claim);
    }
    if (!room && claim->flags & DIBS_CLAIM_NOQUEUE)
        return DIBS_EBUSY;
    uint32_t index = new_claim(s, claim, lock, err);
    if (!index)
        return DIBS_ENOMEM;
    record *r = at(t, index);
    if (room) {
        dibs__local_grant(t, lock, index, wake);
        return answer_granted(claim, r, word_of(r));
    }
    r->claim.ticket = ++t->shards[r->shard].ticket;
    r->claim.since_ms = dibs__local_wall_ms();
    dibs__local_enter(t, lock, index, PHASE_WAITING);
    return answer_busy(t, claim, r, at(t, lock)->lock.waiter_count);
}

static void
touch(const local_state *s, uint32_t n)
{
    _Atomic uint64_t *touched = &at(s->table, s->member)->member.touched;
    if (!(atomic_load_explicit(touched, memory_order_relaxed) >> n & 1))
        atomic_fetch_or(touched, UINT64_C(1) << n);
}

static int
ask(const local_state *s, dibs_claim *claim, dibs_error *err)
{
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    local_key key = key_of(claim);
    if (claim->mode == DIBS_PERMITS && claim->permits > claim->limit)
        return t->host->fail(err, DIBS_EINVAL, "it has only %u permits", claim->limit);
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    touch(s, n);
    uint32_t lock = dibs__local_find(t, &key);
    if (!lock && !(lock = dibs__local_name_new(t, &key, err)))
        rc = DIBS_ENOMEM;
    else if ((rc = agree(t, lock, claim, &wake, err)) == DIBS_OK)
        rc = place(s, claim, lock, &wake, err);
    if (rc != DIBS_OK && rc != DIBS_EBUSY && lock)
        dibs__local_drop_idle(t, lock);
    return finish(t, n, &wake, rc, err);
}

/* ---------------------------------------------------------------- observing ---- */

static int
observe_locked(const local_state *s, dibs_claim *claim, local_wake *wake, dibs_error *err)
{
    table *t = s->table;
    local_key key = key_of(claim);
    record *r = mine(s, claim);
    if (!r) {
        uint32_t lock = dibs__local_find(t, &key);
        if (!lock && !(lock = dibs__local_name_new(t, &key, err)))
            return DIBS_ENOMEM;
        uint32_t index = new_claim(s, claim, lock, err);
        if (!index) {
            dibs__local_drop_idle(t, lock);
            return DIBS_ENOMEM;
        }
        dibs__local_enter(t, lock, index, PHASE_OBSERVING);
        r = at(t, index);
    }
    record *l = get(t, r->claim.lock, KIND_LOCK);
    int busy = answer_busy(t, claim, r, 0);
    dibs__local_reap(t, r->claim.lock, claim->priv[1] == 0, wake);
    claim->hint_ms = linger_hint(t, l);
    claim->priv[1] = 0;
    uint64_t newest =
        l->lock.holders ? get(t, l->lock.holders, KIND_CLAIM)->claim.token : 0;
    if (newest == claim->token)
        return busy;
    claim->token = newest;
    return DIBS_OK;
}

static int
observe(const local_state *s, dibs_claim *claim, dibs_error *err)
{
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    int rc = dibs__local_lock(s->table, n, err);
    if (rc != DIBS_OK)
        return rc;
    touch(s, n);
    rc = observe_locked(s, claim, &wake, err);
    return finish(s->table, n, &wake, rc, err);
}

/* ------------------------------------------------------------------ attempt ---- */

/* look_again is for a claim that was queued before. */
static int
look_again(const local_state *s, dibs_claim *claim, dibs_error *err)
{
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    record *r = mine(s, claim);
    if (r && (word_of(r) & PHASE_MASK) == PHASE_WAITING) {
        if (!r->prev)
            dibs__local_reap(t, r->claim.lock, 1, &wake);
        r = mine(s, claim);
    }
    if (!r)
        rc = DIBS_ENOTHELD;
    else if ((word_of(r) & PHASE_MASK) == PHASE_GRANTED)
        rc = answer_granted(claim, r, word_of(r));
    else
        rc = answer_busy(t, claim, r, position_of(t, r));
    rc = finish(t, n, &wake, rc, err);
    if (rc == DIBS_EBUSY && dibs__local_unlinked(t, err) != DIBS_OK)
        return DIBS_EUNAVAIL;
    return rc;
}

int
dibs__local_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    const local_state *s = state;
    (void)deadline;
    if (claim->mode == DIBS_OBSERVE)
        return observe(s, claim, err);
    if (!claim->priv[0])
        return ask(s, claim, err);
    record *r = at(s->table, index_of(claim));
    if (claim->priv[1]) { /* right after watch: has it been granted since? */
        claim->seen = (uint32_t)(claim->priv[1] >> 32);
        claim->priv[1] = 0;
        claim->hint_ms = (uint32_t)claim->priv[2];
        if (word_of(r) == claim->priv[0] >> 32)
            return DIBS_EBUSY;
    }
    /* what goes with a grant was written before its word: the shard need not be locked,
     * unless it was broken, and the record used again, while we read */
    uint32_t granted = (uint32_t)(claim->priv[0] >> 32) | PHASE_GRANTED;
    if (word_of(r) == granted) {
        (void)answer_granted(claim, r, granted);
        in_order();
        if (word_of(r) == granted)
            return DIBS_OK;
    }
    int rc = look_again(s, claim, err);
    if (rc != DIBS_ENOTHELD)
        return rc;
    claim->priv[0] = 0; /* granted and broken before we saw it */
    return ask(s, claim, err);
}

/* -------------------------------------------------------------------- watch ---- */

typedef struct blockers {
    uint32_t count, more;
    uint32_t members[WATCH_AT_ONCE], words[WATCH_AT_ONCE];
} blockers;

static void
add_blocker(blockers *b, const record *r)
{
    if ((word_of(r) & PHASE_MASK) == PHASE_LINGERING)
        return;
    if (b->count && b->members[b->count - 1] == r->claim.member)
        return;
    if (b->count == WATCH_AT_ONCE) {
        b->more = 1;
        return;
    }
    b->members[b->count] = r->claim.member;
    b->words[b->count++] = r->claim.member_word;
}

/* find_blockers: see "who watches whom" in queue.c. */
static void
find_blockers(table *t, const record *r, blockers *b)
{
    int waits = (word_of(r) & PHASE_MASK) == PHASE_WAITING;
    if ((word_of(r) & PHASE_MASK) == PHASE_GRANTED)
        return;
    if (waits && r->prev) {
        add_blocker(b, get(t, r->prev, KIND_CLAIM));
        return;
    }
    const record *l = get(t, r->claim.lock, KIND_LOCK);
    uint32_t left = l->lock.holder_count;
    for (uint32_t i = l->lock.holders; i && left; i = at(t, i)->next, left--)
        add_blocker(b, get(t, i, KIND_CLAIM));
}

int
dibs__local_watch_claim(void *state, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err)
{
    const local_state *s = state;
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    blockers b;
    b.count = b.more = 0;
    (void)deadline;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    record *r = mine(s, claim);
    if (r) {
        claim->priv[1] = (uint64_t)dibs_bell_seen(&r->claim.bell) << 32 | 1;
        find_blockers(t, r, &b);
    }
    rc = finish(t, n, &wake, DIBS_OK, err);
    uint32_t poll = b.more;
    for (uint32_t i = 0; i < b.count; i++)
        poll |= (uint32_t)dibs__local_watch(t, b.members[i], b.words[i]);
    if (poll && (!claim->priv[2] || claim->priv[2] > POLL_MS))
        claim->priv[2] = POLL_MS;
    return rc;
}

/* --------------------------------------------------- renew, release, downgrade ---- */

void
dibs__local_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                  dibs_time deadline, dibs_error *err)
{
    (void)state;
    (void)deadline;
    for (size_t i = 0; i < n; i++) {
        int ours =
            claims[i]->alive && atomic_load(claims[i]->alive) == claims[i]->alive_value;
        results[i] = ours ? DIBS_OK : DIBS_ELOST;
        if (!ours)
            (void)((local_state *)state)
                ->table->host->fail(err, DIBS_ELOST, "somebody broke it");
    }
}

static int
is_only(const record *l)
{
    return l->lock.holder_count == 1 && !l->lock.head && !l->lock.observers &&
           l->previous == DIBS_PREVIOUS_CLEAN;
}

static void
end_claim(table *t, const record *r, uint32_t index, uint32_t linger_ms, local_wake *wake)
{
    uint32_t lock = r->claim.lock;
    const record *l = get(t, lock, KIND_LOCK);
    int granted = (word_of(r) & PHASE_MASK) == PHASE_GRANTED;
    if (granted && linger_ms) {
        dibs__local_linger(t, lock, index, t->host->now() + linger_ms * DIBS_MS, wake);
    } else if (granted && is_only(l)) {
        dibs__local_end_only(t, lock, index);
    } else {
        dibs__local_end(t, lock, index, DIBS_PREVIOUS_CLEAN, wake);
        dibs__local_drop_idle(t, lock);
    }
}

int
dibs__local_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                    dibs_time deadline, dibs_error *err)
{
    const local_state *s = state;
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    (void)deadline;
    if (!claim->priv[0])
        return DIBS_ENOTHELD;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    const record *r = mine(s, claim);
    int granted = r && (word_of(r) & PHASE_MASK) == PHASE_GRANTED;
    if (r)
        end_claim(t, r, index_of(claim), linger_ms, &wake);
    if (!granted)
        claim->bell = &claim->own_bell;
    return finish(t, n, &wake, granted ? DIBS_OK : DIBS_ENOTHELD, err);
}

int
dibs__local_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    const local_state *s = state;
    table *t = s->table;
    uint32_t n = shard_of(claim->name_hash);
    local_wake wake = { NULL };
    (void)deadline;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    record *r = mine(s, claim);
    if (!r || (word_of(r) & PHASE_MASK) != PHASE_GRANTED)
        return finish(t, n, &wake, DIBS_ELOST, err);
    at(t, r->claim.lock)->previous = DIBS_PREVIOUS_CLEAN; /* its writer was told */
    r->mode = DIBS_SHARED;
    claim->mode = DIBS_SHARED;
    dibs__local_settle(t, r->claim.lock, &wake);
    return finish(t, n, &wake, DIBS_OK, err);
}
