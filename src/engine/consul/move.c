/* SPDX-License-Identifier: MIT */
/*
 * Moving: a hold whose lease became longer than its sessions live is given longer ones. In
 * one transaction it is unlocked by the old session and locked by the new one, so it is ours
 * all the time. Its token stays, and stands in its note from then on.
 *
 * Where it is held is read first; so a move whose answer was lost is found to be done, or is
 * done again.
 */
#include "claim.h"

#include <string.h>

/* A move: for each seat, the tenure that it gets. */
struct move {
    struct turn *turn;
    uint64_t births[PERMITS_MOST];
    const char *sessions[PERMITS_MOST];
};

/* ---- new sessions ---- */

static int
join(struct move *move, uint32_t seat)
{
    struct turn *turn = move->turn;
    struct consul *consul = turn->consul;
    kit_tenure *tenure = NULL;
    int rc = dibs__kit_tenure_join(consul->tenures, turn->claim->lease_ms,
                                   (unsigned)turn->stake->seats[seat].place,
                                   turn->deadline, &tenure, turn->err);
    if (rc)
        return rc;
    move->births[seat] = dibs__kit_tenure_birth(tenure);
    move->sessions[seat] = dibs__kit_tenure_id(tenure);
    return dibs__consul_stake_keep(consul, turn->stake, move->births[seat]);
}

static int
join_all(struct move *move)
{
    int rc = DIBS_OK;
    for (uint32_t i = 0; i < move->turn->stake->count && !rc; i++)
        rc = join(move, i);
    return rc;
}

/* ---- what is to be done ---- */

static int
add_contender(struct txn *txn, const struct move *move, uint32_t seat, uint64_t flags,
              int mode)
{
    char note[KIT_NOTE_MAX];
    struct key key;
    const struct turn *turn = move->turn;
    size_t len = dibs__consul_note(note, turn, mode, turn->claim->token);
    dibs__consul_contender_key(&key, turn, move->sessions[seat]);
    return dibs__consul_txn_lock(txn, &key, move->sessions[seat], flags, note, len);
}

static int
add_leaving(struct txn *txn, const struct move *move, const struct entry *entry)
{
    struct key key;
    dibs__consul_contender_key(&key, move->turn, entry->session);
    return dibs__consul_txn_delete_cas(txn, &key, entry->modify_index);
}

static int
add_lock(struct txn *txn, const struct move *move, const struct view *view)
{
    char note[KIT_NOTE_MAX];
    const struct turn *turn = move->turn;
    size_t len = dibs__consul_note(note, turn, DIBS_EXCLUSIVE, turn->claim->token);
    int rc = dibs__consul_txn_check_index(txn, &turn->lock, view->index);
    if (!rc)
        rc = dibs__consul_txn_unlock(txn, &turn->lock, view->lock.session, FLAGS_LOCK,
                                     note, len);
    return rc ? rc
              : dibs__consul_txn_lock(txn, &turn->lock, move->sessions[0], FLAGS_LOCK,
                                      note, len);
}

/* The lock's entry has to stay that of sharers meanwhile. */
static int
add_sharer(struct txn *txn, const struct move *move, const struct view *view,
           const struct entry *entry)
{
    int rc = dibs__consul_txn_check_index(txn, &move->turn->lock, view->index);
    if (!rc)
        rc = add_leaving(txn, move, entry);
    return rc ? rc : add_contender(txn, move, 0, FLAGS_SHARED, DIBS_SHARED);
}

static int
add_permits(struct txn *txn, const struct move *move, const struct view *view)
{
    struct entry entry;
    size_t at = 0;
    int rc = DIBS_OK;
    while (!rc && dibs__consul_find_ours(move->turn, view, &at, &entry) == 0) {
        (void)json_object_del(view->holders, entry.session);
        rc = add_leaving(txn, move, &entry);
    }
    for (uint32_t i = 0; i < move->turn->stake->count && !rc; i++) {
        rc = add_contender(txn, move, i, FLAGS_SEMAPHORE, DIBS_PERMITS);
        if (json_object_set_new(view->holders, move->sessions[i], json_true()))
            rc = DIBS_ENOMEM;
    }
    return rc ? rc
              : dibs__consul_add_list(txn, move->turn, view->index, view->limit,
                                      view->holders);
}

/* ---- doing it ---- */

static void
done(struct move *move, uint64_t index)
{
    struct stake *stake = move->turn->stake;
    struct consul *consul = move->turn->consul;
    for (uint32_t i = 0; i < stake->count; i++) {
        uint64_t old = atomic_exchange(&stake->seats[i].birth, move->births[i]);
        dibs__consul_stake_swap(consul, stake, move->births[i], old);
    }
    atomic_store(&stake->index, index);
    dibs__consul_clear_flag(stake, STAKE_MOVING);
}

static int
see_answer(struct move *move, struct answer *answer)
{
    struct turn *turn = move->turn;
    struct entry entry;
    struct key key = turn->lock;
    int rc = DIBS_EUNAVAIL; /* it has changed meanwhile: core asks again */
    if (turn->claim->limit || dibs__consul_has_flag(turn->stake, STAKE_SHARED))
        dibs__consul_contender_key(&key, turn, move->sessions[0]);
    if (answer->status == 200 && dibs__consul_entry_of(answer, &key, &entry) == 0) {
        done(move, entry.modify_index);
        rc = DIBS_OK;
    }
    dibs__consul_answer_free(answer);
    return rc;
}

/* What is ours, where it is now; NULL: it is not there any more. */
static const struct entry *
find(const struct turn *turn, const struct view *view, struct entry *entry)
{
    size_t at = 0;
    enum view_kind kind = VIEW_HELD;
    if (turn->claim->limit)
        kind = VIEW_PERMITS;
    else if (dibs__consul_has_flag(turn->stake, STAKE_SHARED))
        kind = VIEW_SHARERS;
    if (view->kind != kind || dibs__consul_find_ours(turn, view, &at, entry))
        return NULL;
    return kind == VIEW_PERMITS && !json_object_get(view->holders, entry->session)
               ? NULL
               : entry;
}

static struct txn *
move_txn(const struct move *move, const struct view *view, const struct entry *entry)
{
    struct txn *txn = dibs__consul_txn();
    int rc;
    if (view->kind == VIEW_PERMITS)
        rc = add_permits(txn, move, view);
    else if (view->kind == VIEW_SHARERS)
        rc = add_sharer(txn, move, view, entry);
    else
        rc = add_lock(txn, move, view);
    if (!rc)
        return txn;
    dibs__consul_txn_free(txn);
    return NULL;
}

static int
go(struct move *move, const struct view *view)
{
    struct turn *turn = move->turn;
    struct answer answer;
    struct entry found;
    const struct entry *entry = find(turn, view, &found);
    if (!entry)
        return DIBS_ELOST;
    if (strcmp(entry->session, move->sessions[0]) == 0) {
        done(move, entry->modify_index);
        return DIBS_OK;
    }
    struct txn *txn = move_txn(move, view, entry);
    if (!txn)
        return DIBS_ENOMEM;
    dibs__consul_set_flag(turn->stake, STAKE_MOVING);
    int rc =
        dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    return rc ? rc : see_answer(move, &answer);
}

int
dibs__consul_move(struct turn *turn)
{
    struct move move = { .turn = turn };
    struct view view;
    struct answer answer;
    int rc = join_all(&move);
    if (!rc)
        rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    rc = go(&move, &view);
    dibs__consul_unsee(&view, &answer);
    /* while a downgrade is under way, nothing is sure */
    return rc == DIBS_ELOST && dibs__consul_has_flag(turn->stake, STAKE_TURNING)
               ? DIBS_EUNKNOWN
               : rc;
}
