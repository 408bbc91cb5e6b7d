/* SPDX-License-Identifier: MIT */
/*
 * Sharers, written in a way of our own that the incumbents refuse to touch: the lock's entry
 * has our mark and is locked by nobody, and each sharer has locked an entry of its own below
 * it. It stays as it is while anybody shares, so sharers come and go without being in each
 * other's way.
 *
 * Who wants it alone has to see that there are no sharers, and then lock the entry, before
 * another sharer comes. So each of those writes the gate, an entry beside, as it comes; and
 * who wants it alone compares that. Whoever leaves sees in the same transaction whether it
 * was the last, and then takes all of it away.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- taking ---- */

/* What is written twice in the same way would look as if it was written once. */
static int
add_passage(struct txn *txn, const struct turn *turn)
{
    char value[24];
    struct key gate;
    (void)snprintf(value, sizeof value, "%016" PRIx64, turn->consul->host->random());
    dibs__consul_gate_key(&gate, turn->consul, turn->claim->name, turn->claim->name_len);
    return dibs__consul_txn_set(txn, &gate, FLAGS_SHARED, value, strlen(value));
}

static int
add_sharer(struct txn *txn, const struct turn *turn, const char *session, uint64_t token)
{
    char note[KIT_NOTE_MAX];
    struct key key;
    size_t len = dibs__consul_note(note, turn, DIBS_SHARED, token);
    dibs__consul_contender_key(&key, turn, session);
    return dibs__consul_txn_lock(txn, &key, session, FLAGS_SHARED, note, len);
}

static int
check_use(struct turn *turn, const struct view *view)
{
    if (view->kind == VIEW_OTHER)
        return turn->consul->host->fail(turn->err, DIBS_EMISMATCH,
                                        "the key %s is there, and is no lock's",
                                        turn->lock.text);
    if (view->kind == VIEW_PERMITS && json_object_size(view->sessions))
        return turn->consul->host->fail(turn->err, DIBS_EMISMATCH,
                                        "the name is in use as permits, not as a lock");
    return DIBS_OK;
}

static int
take(struct turn *turn, const struct view *view)
{
    struct answer answer;
    struct txn *txn = dibs__consul_txn();
    int rc = dibs__consul_epoch_check(turn, txn);
    if (!rc && view->kind == VIEW_SHARERS)
        rc = dibs__consul_txn_check_index(txn, &turn->lock, view->index);
    else if (!rc)
        rc = dibs__consul_txn_cas(txn, &turn->lock, view->index, FLAGS_SHARED, "", 0);
    if (!rc)
        rc = add_passage(txn, turn);
    if (!rc)
        rc = add_sharer(txn, turn, dibs__consul_session_of(turn, 0), 0);
    rc = dibs__consul_turn_run(turn, txn, rc, &answer);
    if (rc)
        return rc;
    rc = dibs__consul_see_listed(turn, &answer);
    dibs__consul_answer_free(&answer);
    return rc;
}

static int
see_view(struct turn *turn, const struct view *view)
{
    struct entry entry;
    size_t at = 0;
    int rc = check_use(turn, view);
    if (rc)
        return rc;
    if (view->kind == VIEW_HELD)
        return dibs__consul_busy(turn, view->answer->index);
    if (view->kind == VIEW_SHARERS &&
        dibs__consul_find_ours(turn, view, &at, &entry) == 0)
        return dibs__consul_granted(turn, entry.modify_index);
    /* who waits for the sharers to end would wait for ever, if there were always more */
    if (view->writers)
        return dibs__consul_busy(turn, view->answer->index);
    return take(turn, view);
}

int
dibs__consul_share_round(struct turn *turn)
{
    struct view view;
    struct answer answer;
    int rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    rc = see_view(turn, &view);
    dibs__consul_unsee(&view, &answer);
    return rc;
}

/* ---- releasing ---- */

static int
add_tidying(struct txn *txn, const struct turn *turn, const struct view *view)
{
    int rc = dibs__consul_txn_check_index(txn, &turn->lock, view->index);
    if (!rc)
        rc = dibs__consul_txn_delete_cas(txn, &turn->lock, view->index);
    return rc ? rc : dibs__consul_add_gate(txn, turn, view->gate);
}

/* If it fails, then somebody else has come; or there is nobody, and what is left does no
 * harm. */
static void
tidy_up(struct turn *turn, const struct view *view)
{
    struct answer answer;
    struct txn *txn = dibs__consul_txn();
    if (view->kind != VIEW_SHARERS || dibs__consul_view_count(view) > 0 ||
        add_tidying(txn, turn, view)) {
        dibs__consul_txn_free(txn);
        return;
    }
    if (!dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, NULL))
        dibs__consul_answer_free(&answer);
}

/* The first result is our own entry, as it was before it was deleted. */
static void
see_rest(struct turn *turn, struct answer *answer)
{
    struct view view;
    (void)json_array_remove(json_object_get(answer->json, "Results"), 0);
    if (dibs__consul_view(&view, turn->consul, answer, turn->claim->name,
                          turn->claim->name_len, NULL))
        return;
    tidy_up(turn, &view);
    dibs__consul_view_free(&view);
}

static struct txn *
leave_txn(const struct turn *turn, const struct key *own, uint64_t index)
{
    struct key all;
    struct txn *txn = dibs__consul_txn();
    dibs__consul_all_key(&all, turn->consul, turn->claim->name, turn->claim->name_len);
    if (!dibs__consul_txn_check_index(txn, own, index) &&
        !dibs__consul_txn_delete_cas(txn, own, index) &&
        !dibs__consul_txn_tree(txn, &all))
        return txn;
    dibs__consul_txn_free(txn);
    return NULL;
}

static int
leave(struct turn *turn, const struct key *own, uint64_t index, int *was_held)
{
    struct answer answer;
    struct txn *txn = leave_txn(turn, own, index);
    if (!txn)
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    int rc =
        dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    if (rc)
        return rc;
    if (answer.status == 200) {
        *was_held = 1;
        see_rest(turn, &answer);
    }
    dibs__consul_answer_free(&answer);
    return DIBS_OK;
}

/* Looks for it; *index is 0 if it is not there. */
static int
find(struct turn *turn, struct key *own, uint64_t *index)
{
    struct view view;
    struct answer answer;
    struct entry entry;
    size_t at = 0;
    int rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    *index = 0;
    while (!*index && dibs__consul_find_ours(turn, &view, &at, &entry) == 0) {
        /* before a downgrade it is the lock's entry that is ours */
        if (entry.flags == FLAGS_SHARED) {
            dibs__consul_contender_key(own, turn, entry.session);
            *index = entry.modify_index;
        }
    }
    if (!*index)
        tidy_up(turn, &view);
    dibs__consul_unsee(&view, &answer);
    return DIBS_OK;
}

int
dibs__consul_share_end(struct turn *turn, int *was_held)
{
    struct key own;
    uint64_t index = atomic_load(&turn->stake->index);
    const char *session = dibs__consul_session_of(turn, 0);
    int rc = DIBS_OK;
    dibs__consul_contender_key(&own, turn, session);
    if (turn->by_id || !*session || dibs__consul_has_flag(turn->stake, STAKE_TURNING))
        rc = find(turn, &own, &index);
    return rc || !index ? rc : leave(turn, &own, index, was_held);
}

/* ---- downgrading ---- */

/* The entry is unlocked and becomes that of sharers in one transaction, so nobody gets in
 * between. */
static struct txn *
downgrade_txn(struct turn *turn)
{
    const char *session = dibs__consul_session_of(turn, 0);
    struct txn *txn = dibs__consul_txn();
    int rc =
        dibs__consul_txn_check_index(txn, &turn->lock, atomic_load(&turn->stake->index));
    if (!rc)
        rc = dibs__consul_txn_unlock(txn, &turn->lock, session, FLAGS_SHARED, "", 0);
    if (!rc)
        rc = add_passage(txn, turn);
    if (!rc)
        rc = add_sharer(txn, turn, session, turn->claim->token);
    if (!rc)
        return txn;
    dibs__consul_txn_free(txn);
    return NULL;
}

static int
now_shared(struct turn *turn, const struct entry *entry)
{
    atomic_store(&turn->stake->index, entry->modify_index);
    dibs__consul_set_flag(turn->stake, STAKE_SHARED);
    dibs__consul_clear_flag(turn->stake, STAKE_TURNING);
    turn->claim->mode = DIBS_SHARED;
    return dibs__kit_lapse_move(turn->consul->lapses, turn->claim, 0);
}

/* It is not as we know it: because we have done it before, or because it is lost. */
static int
find_turned(struct turn *turn)
{
    struct view view;
    struct answer answer;
    struct entry entry;
    size_t at = 0;
    int rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    if (view.kind == VIEW_SHARERS &&
        dibs__consul_find_ours(turn, &view, &at, &entry) == 0)
        rc = now_shared(turn, &entry);
    else if (view.kind == VIEW_HELD && dibs__consul_is_ours(turn, &view.lock))
        rc = turn->consul->host->fail(turn->err, DIBS_EUNAVAIL,
                                      "it moves to another session");
    else
        rc = turn->consul->host->fail(turn->err, DIBS_ELOST, "it is not ours any more");
    dibs__consul_unsee(&view, &answer);
    return rc;
}

static int
see_turned(struct turn *turn, struct answer *answer)
{
    struct key key;
    struct entry entry;
    dibs__consul_contender_key(&key, turn, dibs__consul_session_of(turn, 0));
    int rc = dibs__consul_entry_of(answer, &key, &entry) == 0 ? now_shared(turn, &entry)
                                                              : find_turned(turn);
    dibs__consul_answer_free(answer);
    return rc;
}

static int
downgrade(struct turn *turn)
{
    struct answer answer;
    if (!*dibs__consul_session_of(turn, 0))
        return turn->consul->host->fail(turn->err, DIBS_ELOST, "its session is over");
    struct txn *txn = downgrade_txn(turn);
    if (!txn)
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    /* a renewal at the same time must not take it for lost */
    dibs__consul_set_flag(turn->stake, STAKE_TURNING);
    int rc =
        dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    return rc ? rc : see_turned(turn, &answer);
}

int
dibs__consul_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err)
{
    struct turn turn;
    struct consul *consul = state;
    struct stake *stake = dibs__consul_stake_find(consul, claim);
    if (!stake)
        return consul->host->fail(err, DIBS_ELOST, "it is over");
    dibs__consul_turn_begin(&turn, consul, claim, stake, deadline, err);
    int rc = downgrade(&turn);
    dibs__consul_stake_put(consul, stake);
    return rc;
}
