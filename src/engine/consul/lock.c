/* SPDX-License-Identifier: MIT */
/*
 * Exclusive locks, as `consul lock` and the Go API write them: an entry with their mark that
 * the holder's session has locked. Where there is no entry, taking it is one request; what
 * the incumbents leave behind is an entry that nobody has locked, and is taken as it is; so
 * is what sharers and semaphores leave behind who died.
 *
 * A release deletes the entry, if it is still as the grant wrote it.
 *
 * Who finds sharers leaves a mark, so that no more of them come in: an entry where a sharer
 * would have its own.
 */
#include "claim.h"

#include <string.h>

/* the lock-delay goes by without a sign: it is tried after this long, then twice that, ... */
#define DELAY_FIRST_MS 250
#define DELAY_MOST_MS 2000

enum { OP_EPOCH, OP_CHECK, OP_LOCK };

/* ---- marks ---- */

static void
mark_key(struct key *out, const struct turn *turn)
{
    dibs__consul_contender_key(out, turn, dibs__consul_session_of(turn, 0));
}

/* Only this claim has this session at this name, so whatever is there is its mark. */
static int
add_unmark(struct txn *txn, const struct turn *turn)
{
    struct key key;
    if (!dibs__consul_has_flag(turn->stake, STAKE_MARKED) ||
        !*dibs__consul_session_of(turn, 0))
        return DIBS_OK;
    mark_key(&key, turn);
    return dibs__consul_txn_delete(txn, &key);
}

static struct txn *
mark_txn(struct turn *turn, const struct view *view, int *rc)
{
    char note[KIT_NOTE_MAX];
    struct key key;
    struct txn *txn = dibs__consul_txn();
    size_t len = dibs__consul_note(note, turn, DIBS_EXCLUSIVE, 0);
    mark_key(&key, turn);
    *rc = dibs__consul_epoch_check(turn, txn);
    if (!*rc)
        *rc = dibs__consul_txn_check_index(txn, &turn->lock, view->index);
    if (!*rc)
        *rc = dibs__consul_txn_lock(txn, &key, dibs__consul_session_of(turn, 0),
                                    FLAGS_WRITER, note, len);
    return txn;
}

/* Busy, with sharers: what has changed since they were seen is waited for. */
static int
mark(struct turn *turn, const struct view *view, uint64_t seen)
{
    struct answer answer;
    int rc;
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE ||
        dibs__consul_has_flag(turn->stake, STAKE_MARKED))
        return dibs__consul_busy(turn, seen);
    struct txn *txn = mark_txn(turn, view, &rc);
    dibs__consul_set_flag(turn->stake, STAKE_MARKED);
    rc = dibs__consul_turn_run(turn, txn, rc, &answer);
    if (!rc) {
        rc = answer.status == 200 ? dibs__consul_busy(turn, seen) : TURN_AGAIN;
        dibs__consul_answer_free(&answer);
    }
    if (rc == TURN_AGAIN)
        dibs__consul_clear_flag(turn->stake, STAKE_MARKED);
    return rc;
}

static int
unmark(struct turn *turn)
{
    struct answer answer;
    struct txn *txn = dibs__consul_txn();
    int rc = add_unmark(txn, turn);
    if (rc || !dibs__consul_txn_count(txn)) {
        dibs__consul_txn_free(txn);
        return rc;
    }
    rc = dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    if (!rc)
        dibs__consul_answer_free(&answer);
    return rc;
}

/* ---- taking ---- */

static int
see_view(struct turn *turn, struct view *view, uint64_t seen)
{
    const dibs_host *host = turn->consul->host;
    if (view->kind == VIEW_OTHER)
        return host->fail(turn->err, DIBS_EMISMATCH,
                          "the key %s is there, and is no lock's", turn->lock.text);
    if (view->kind == VIEW_HELD && dibs__consul_is_ours(turn, &view->lock))
        return dibs__consul_granted(turn, view->index);
    if (view->kind == VIEW_PERMITS && json_object_size(view->sessions))
        return host->fail(turn->err, DIBS_EMISMATCH,
                          "the name is in use as permits, not as a lock");
    /* one that our own session has is left over from a claim that nobody knows any more */
    int is_held = dibs__consul_view_count(view) > 0;
    if (view->kind == VIEW_HELD)
        is_held = strcmp(view->lock.session, dibs__consul_session_of(turn, 0)) != 0;
    if (is_held && view->kind == VIEW_SHARERS)
        return mark(turn, view, seen);
    if (is_held)
        return dibs__consul_busy(turn, seen);
    turn->expected = view->index;
    turn->gate = view->gate;
    return TURN_AGAIN;
}

static int
look(struct turn *turn)
{
    struct view view;
    struct answer answer;
    int rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    rc = see_view(turn, &view, answer.index);
    dibs__consul_unsee(&view, &answer);
    return rc;
}

static int
begin_delay(struct turn *turn)
{
    struct stake *stake = turn->stake;
    unsigned pause = DELAY_FIRST_MS;
    for (unsigned i = 0; i < stake->delay.count && pause < DELAY_MOST_MS; i++)
        pause *= 2;
    stake->delay.count++;
    stake->delay.until = turn->consul->host->now() + pause * DIBS_MS;
    stake->delay.expected = turn->expected;
    turn->claim->hint_ms = pause;
    stake->seen = 0;
    return DIBS_EBUSY;
}

/* Core asks more often than that. */
static int
is_delayed(struct turn *turn)
{
    const struct stake *stake = turn->stake;
    dibs_time left = stake->delay.until - turn->consul->host->now();
    if (left <= 0)
        return 0;
    turn->claim->hint_ms = (uint32_t)(left / DIBS_MS) + 1;
    return 1;
}

static int
see_answer(struct turn *turn, struct answer *answer)
{
    struct entry entry;
    if (answer->status == 200) {
        dibs__consul_clear_flag(turn->stake, STAKE_MARKED);
        if (dibs__consul_entry_of(answer, &turn->lock, &entry) == 0)
            return dibs__consul_granted(turn, entry.modify_index);
        dibs__consul_set_flag(turn->stake, STAKE_UNSURE);
        return turn->consul->host->fail(turn->err, DIBS_EUNKNOWN,
                                        "the answer does not tell what is locked");
    }
    const char *said = dibs__consul_txn_said(answer, OP_LOCK);
    if (!dibs__consul_txn_said(answer, OP_CHECK) && said && strstr(said, "lock delay"))
        return begin_delay(turn);
    return look(turn);
}

int
dibs__consul_lock_round(struct turn *turn)
{
    char note[KIT_NOTE_MAX];
    struct answer answer;
    if (is_delayed(turn))
        return DIBS_EBUSY;
    if (turn->stake->delay.expected)
        turn->expected = turn->stake->delay.expected;
    turn->stake->delay.expected = 0;
    struct txn *txn = dibs__consul_txn();
    size_t len = dibs__consul_note(note, turn, DIBS_EXCLUSIVE, 0);
    int rc = dibs__consul_epoch_check(turn, txn);
    if (!rc)
        rc = dibs__consul_txn_check_index(txn, &turn->lock, turn->expected);
    if (!rc)
        rc = dibs__consul_txn_lock(txn, &turn->lock, dibs__consul_session_of(turn, 0),
                                   FLAGS_LOCK, note, len);
    if (!rc)
        rc = dibs__consul_add_gate(txn, turn, turn->gate);
    if (!rc)
        rc = add_unmark(txn, turn);
    rc = dibs__consul_turn_run(turn, txn, rc, &answer);
    if (rc)
        return rc;
    rc = see_answer(turn, &answer);
    dibs__consul_answer_free(&answer);
    return rc;
}

/* ---- releasing ---- */

static int
find_index(struct turn *turn, uint64_t *index)
{
    struct answer answer;
    struct entry entry;
    *index = atomic_load(&turn->stake->index);
    if (!turn->by_id)
        return DIBS_OK;
    int rc = dibs__consul_get(turn->consul, &turn->lock, 0, &answer, turn->deadline,
                              turn->err);
    if (rc)
        return rc;
    *index = 0;
    if (dibs__consul_entry_of(&answer, &turn->lock, &entry) == 0 &&
        dibs__consul_is_ours(turn, &entry))
        *index = entry.modify_index;
    dibs__consul_answer_free(&answer);
    return DIBS_OK;
}

int
dibs__consul_lock_end(struct turn *turn, int *was_held)
{
    struct answer answer;
    uint64_t index;
    int rc = find_index(turn, &index);
    if (rc)
        return rc;
    if (!index)
        return unmark(turn);
    struct txn *txn = dibs__consul_txn();
    if (dibs__consul_txn_check_index(txn, &turn->lock, index) ||
        dibs__consul_txn_delete_cas(txn, &turn->lock, index) || add_unmark(txn, turn)) {
        dibs__consul_txn_free(txn);
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    }
    rc = dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    if (rc)
        return rc;
    *was_held = answer.status == 200;
    dibs__consul_answer_free(&answer);
    return *was_held ? DIBS_OK : unmark(turn);
}
