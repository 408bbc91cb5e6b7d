/* SPDX-License-Identifier: MIT */
/*
 * Permits, written as the Go API's semaphores are: the lock's entry, which nobody has locked,
 * lists the sessions of the holders; and each of them has locked an entry of its own, so that
 * the others see when it is gone. A session is one permit.
 *
 * The list is changed by compare-and-swap, in one transaction with the entries of the
 * holders: at no time is one there without the other.
 */
#include "claim.h"

#include <stdlib.h>
#include <string.h>

/* of a release: every one that was for nothing was one that somebody else has won */
#define ROUNDS 1000

/* ---- lists ---- */

int
dibs__consul_add_list(struct txn *txn, const struct turn *turn, uint64_t index,
                      uint32_t limit, json_t *holders)
{
    json_t *list = json_pack("{s:I,s:O}", "Limit", (json_int_t)limit, "Holders", holders);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    int rc = text ? dibs__consul_txn_cas(txn, &turn->lock, index, FLAGS_SEMAPHORE, text,
                                         strlen(text))
                  : DIBS_ENOMEM;
    json_decref(list);
    free(text);
    return rc;
}

static int
add_contenders(struct txn *txn, const struct turn *turn)
{
    char note[KIT_NOTE_MAX];
    struct key key;
    size_t len = dibs__consul_note(note, turn, DIBS_PERMITS, 0);
    int rc = DIBS_OK;
    for (uint32_t i = 0; i < turn->stake->count && !rc; i++) {
        const char *session = dibs__consul_session_of(turn, i);
        dibs__consul_contender_key(&key, turn, session);
        rc = dibs__consul_txn_lock(txn, &key, session, FLAGS_SEMAPHORE, note, len);
    }
    return rc;
}

/* Those in the list, and we. */
static json_t *
with_us(const struct turn *turn, const struct view *view)
{
    json_t *all = view->kind == VIEW_PERMITS ? json_copy(view->holders) : json_object();
    int bad = !all;
    for (uint32_t i = 0; i < turn->stake->count && !bad; i++)
        bad = json_object_set_new(all, dibs__consul_session_of(turn, i), json_true());
    if (!bad)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- taking ---- */

static int
mismatch(struct turn *turn, const char *use)
{
    return turn->consul->host->fail(turn->err, DIBS_EMISMATCH,
                                    "the name is in use as %s, not as permits", use);
}

/* What others use in another way is left alone, as long as anybody does. */
static int
check_use(struct turn *turn, const struct view *view)
{
    if (view->kind == VIEW_OTHER)
        return turn->consul->host->fail(turn->err, DIBS_EMISMATCH,
                                        "the key %s is there, and is no lock's",
                                        turn->lock.text);
    if (view->kind == VIEW_HELD)
        return mismatch(turn, "a lock");
    if (view->kind == VIEW_SHARERS && dibs__consul_view_count(view))
        return mismatch(turn, "a shared lock");
    if (view->kind == VIEW_PERMITS && view->limit != turn->claim->limit &&
        json_object_size(view->sessions))
        return turn->consul->host->fail(turn->err, DIBS_EMISMATCH,
                                        "its permits are %u in all", view->limit);
    return DIBS_OK;
}

int
dibs__consul_see_listed(struct turn *turn, struct answer *answer)
{
    struct key key;
    struct entry entry;
    if (answer->status == 409)
        return TURN_AGAIN;
    dibs__consul_contender_key(&key, turn, dibs__consul_session_of(turn, 0));
    if (dibs__consul_entry_of(answer, &key, &entry) == 0)
        return dibs__consul_granted(turn, entry.modify_index);
    dibs__consul_set_flag(turn->stake, STAKE_UNSURE);
    return turn->consul->host->fail(turn->err, DIBS_EUNKNOWN,
                                    "the answer does not tell what is locked");
}

static int
take(struct turn *turn, const struct view *view, json_t *holders)
{
    struct answer answer;
    struct txn *txn = dibs__consul_txn();
    int rc = dibs__consul_epoch_check(turn, txn);
    if (!rc)
        rc = dibs__consul_add_list(txn, turn, view->index, turn->claim->limit, holders);
    if (!rc)
        rc = add_contenders(txn, turn);
    if (!rc)
        rc = dibs__consul_add_gate(txn, turn, view->gate);
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
    if (dibs__consul_find_ours(turn, view, &at, &entry) == 0 &&
        json_object_get(view->holders, entry.session))
        return dibs__consul_granted(turn, entry.modify_index);
    json_t *holders = with_us(turn, view);
    if (!holders)
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    if (json_object_size(holders) > turn->claim->limit)
        rc = dibs__consul_busy(turn, view->answer->index);
    else
        rc = take(turn, view, holders);
    json_decref(holders);
    return rc;
}

int
dibs__consul_permits_round(struct turn *turn)
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

/* Takes our sessions out of the list, and our entries away; *count: how many there were. */
static int
add_removals(struct txn *txn, const struct turn *turn, const struct view *view,
             int *count)
{
    struct entry entry;
    struct key key;
    size_t at = 0;
    int rc = DIBS_OK;
    while (!rc && dibs__consul_find_ours(turn, view, &at, &entry) == 0) {
        ++*count;
        (void)json_object_del(view->holders, entry.session);
        dibs__consul_contender_key(&key, turn, entry.session);
        rc = dibs__consul_txn_delete_cas(txn, &key, entry.modify_index);
    }
    return rc;
}

/* Those who died without a word are not in the view any more; the last takes the list away. */
static int
add_rest(struct txn *txn, const struct turn *turn, const struct view *view)
{
    if (json_object_size(view->holders) == 0)
        return dibs__consul_txn_delete_cas(txn, &turn->lock, view->index);
    return dibs__consul_add_list(txn, turn, view->index, view->limit, view->holders);
}

static int
remove_us(struct turn *turn, const struct view *view, int *was_held)
{
    struct answer answer;
    int count = 0;
    if (view->kind != VIEW_PERMITS)
        return DIBS_OK;
    struct txn *txn = dibs__consul_txn();
    int rc = dibs__consul_txn_check_index(txn, &turn->lock, view->index);
    if (!rc)
        rc = add_removals(txn, turn, view, &count);
    int is_needed = count || json_object_size(view->holders) == 0;
    if (!rc && is_needed)
        rc = add_rest(txn, turn, view);
    if (rc || !is_needed) {
        dibs__consul_txn_free(txn);
        return rc;
    }
    rc = dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    if (rc)
        return rc;
    rc = answer.status == 200 ? DIBS_OK : TURN_AGAIN;
    dibs__consul_answer_free(&answer);
    if (!rc)
        *was_held = count > 0;
    return rc;
}

static int
end_once(struct turn *turn, int *was_held)
{
    struct view view;
    struct answer answer;
    int rc = dibs__consul_see(turn, &view, &answer);
    if (rc)
        return rc;
    rc = remove_us(turn, &view, was_held);
    dibs__consul_unsee(&view, &answer);
    return rc;
}

int
dibs__consul_permits_end(struct turn *turn, int *was_held)
{
    int rc = TURN_AGAIN;
    for (int i = 0; i < ROUNDS && rc == TURN_AGAIN; i++)
        rc = end_once(turn, was_held);
    return rc == TURN_AGAIN ? turn->consul->host->fail(turn->err, DIBS_EUNAVAIL,
                                                       "what is there changes too fast")
                            : rc;
}
