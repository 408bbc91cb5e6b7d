/* SPDX-License-Identifier: MIT */
/*
 * Renewing: what is renewed are the sessions, which are few; the kit sees to it that they
 * are, so that mostly nothing is asked here. Then all that is held is checked to be still as
 * the grant wrote it, many claims in one transaction that changes nothing.
 *
 * A refused transaction names every check that failed. But it reads nothing; so if there are
 * sharers or permits among the others, those are checked again.
 *
 * A hold whose lease became longer than its session moves to another one: see move.c.
 */
#include "claim.h"

#include <string.h>

#define OPS_MOST 64

/* not a code: nobody has looked after this claim yet */
#define PENDING 1

struct item {
    size_t claim; /* its number */
    struct stake *stake;
    uint64_t index;
    int first_op, op_count, is_alone;
};

struct renewal {
    struct consul *consul;
    dibs_claim *const *claims;
    int *results;
    dibs_time deadline, began;
    dibs_error *err;
    struct txn *txn;
    int op_count, item_count, bad;
    struct item items[OPS_MOST];
};

/* ---- sessions ---- */

/* what a failure means for a hold: only the end of a session is certain */
static int
code_of(int rc)
{
    return rc == DIBS_OK || rc == DIBS_ELOST || rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
}

static int
secure(struct renewal *renewal, const dibs_claim *claim, const struct stake *stake)
{
    kit_tenures *tenures = renewal->consul->tenures;
    dibs_time until = renewal->began + claim->lease_ms * DIBS_MS;
    int rc = DIBS_OK;
    for (uint32_t i = 0; i < stake->count && !rc; i++) {
        kit_tenure *tenure = dibs__kit_tenure_find(tenures, stake->seats[i].birth);
        rc = tenure ? dibs__kit_tenure_secure(tenures, tenure, until, renewal->deadline,
                                              renewal->err)
                    : DIBS_ELOST;
    }
    return rc;
}

static int
keep(struct renewal *renewal, dibs_claim *claim, struct stake *stake)
{
    struct turn turn;
    int rc = dibs__consul_has_flag(stake, STAKE_MOVING) ? DIBS_EINVAL
                                                        : secure(renewal, claim, stake);
    if (rc == DIBS_EINVAL) {
        dibs__consul_turn_begin(&turn, renewal->consul, claim, stake, renewal->deadline,
                                renewal->err);
        rc = dibs__consul_move(&turn);
    }
    return code_of(rc);
}

/* ---- what is to be checked ---- */

static void
turn_of(struct turn *turn, const struct renewal *renewal, const struct item *item)
{
    dibs__consul_turn_begin(turn, renewal->consul, renewal->claims[item->claim],
                            item->stake, renewal->deadline, renewal->err);
}

static int
add_contenders(struct renewal *renewal, const struct turn *turn, uint64_t index)
{
    struct key key;
    int rc = DIBS_OK;
    for (uint32_t i = 0; i < turn->stake->count && !rc; i++) {
        dibs__consul_contender_key(&key, turn, dibs__consul_session_of(turn, i));
        rc = dibs__consul_txn_check_index(renewal->txn, &key, index);
    }
    return rc ? rc : dibs__consul_txn_get(renewal->txn, &turn->lock);
}

static void
add_ops(struct renewal *renewal, struct item *item)
{
    struct turn turn;
    turn_of(&turn, renewal, item);
    item->first_op = renewal->op_count;
    int rc = item->is_alone
                 ? dibs__consul_txn_check_index(renewal->txn, &turn.lock, item->index)
                 : add_contenders(renewal, &turn, item->index);
    renewal->op_count += item->op_count;
    renewal->bad |= rc;
}

/* ---- what was answered ---- */

static int
is_listed(const struct turn *turn, const struct entry *lock)
{
    json_t *list = json_loadb(lock->value, lock->value_len, 0, NULL);
    json_t *holders = json_object_get(list, "Holders");
    int is_there = lock->flags == FLAGS_SEMAPHORE;
    for (uint32_t i = 0; i < turn->stake->count && is_there; i++)
        is_there = json_object_get(holders, dibs__consul_session_of(turn, i)) != NULL;
    json_decref(list);
    return is_there;
}

/* Our own entries are there; is that of the lock as well? */
static int
is_open_to_us(struct renewal *renewal, const struct item *item, struct answer *answer)
{
    struct turn turn;
    struct entry entry;
    turn_of(&turn, renewal, item);
    if (dibs__consul_entry_of(answer, &turn.lock, &entry) || *entry.session)
        return 0;
    return turn.claim->limit ? is_listed(&turn, &entry) : entry.flags == FLAGS_SHARED;
}

static int
has_failed(const struct item *item, const struct answer *answer)
{
    for (int i = 0; i < item->op_count; i++)
        if (dibs__consul_txn_said(answer, item->first_op + i))
            return 1;
    return 0;
}

/* A downgrade at the same time changes what is there, and so does another renewal. */
static int
code_of_missing(const struct item *item)
{
    int is_as_it_was =
        !dibs__consul_has_flag(item->stake, STAKE_TURNING | STAKE_MOVING) &&
        atomic_load(&item->stake->index) == item->index;
    return is_as_it_was ? DIBS_ELOST : DIBS_EUNKNOWN;
}

static int
see_item(struct renewal *renewal, const struct item *item, struct answer *answer)
{
    if (answer->status == 409) {
        if (has_failed(item, answer))
            return code_of_missing(item);
        return item->is_alone ? DIBS_OK : PENDING;
    }
    if (!item->is_alone && !is_open_to_us(renewal, item, answer))
        return code_of_missing(item);
    return DIBS_OK;
}

/* Those that are still pending move to the front. */
static void
see_all(struct renewal *renewal, struct answer *answer)
{
    int left = 0;
    for (int i = 0; i < renewal->item_count; i++) {
        struct item item = renewal->items[i];
        int rc = see_item(renewal, &item, answer);
        renewal->results[item.claim] = rc;
        if (rc == PENDING)
            renewal->items[left++] = item;
        else
            dibs__consul_stake_put(renewal->consul, item.stake);
    }
    renewal->item_count = left;
}

static void
fail_all(struct renewal *renewal, int rc)
{
    for (int i = 0; i < renewal->item_count; i++) {
        renewal->results[renewal->items[i].claim] = code_of(rc);
        dibs__consul_stake_put(renewal->consul, renewal->items[i].stake);
    }
    renewal->item_count = 0;
}

/* ---- checking ---- */

static int
run(struct renewal *renewal, struct answer *answer)
{
    renewal->txn = dibs__consul_txn();
    renewal->op_count = renewal->bad = 0;
    for (int i = 0; i < renewal->item_count; i++)
        add_ops(renewal, &renewal->items[i]);
    if (!renewal->bad)
        return dibs__consul_txn_run(renewal->consul, renewal->txn, HTTP_REPEATABLE,
                                    answer, renewal->deadline, renewal->err);
    dibs__consul_txn_free(renewal->txn);
    return DIBS_ENOMEM;
}

/* Each time at least one that has failed is taken out. */
static void
flush(struct renewal *renewal)
{
    for (int i = 0; i < OPS_MOST && renewal->item_count; i++) {
        struct answer answer;
        int rc = run(renewal, &answer);
        if (rc) {
            fail_all(renewal, rc);
            break;
        }
        see_all(renewal, &answer);
        dibs__consul_answer_free(&answer);
    }
    fail_all(renewal, DIBS_EUNKNOWN);
    renewal->op_count = 0;
}

static void
add(struct renewal *renewal, size_t number, struct stake *stake)
{
    struct item item = { .claim = number, .stake = stake };
    item.is_alone =
        !renewal->claims[number]->limit && !dibs__consul_has_flag(stake, STAKE_SHARED);
    item.index = atomic_load(&stake->index);
    item.op_count = item.is_alone ? 1 : (int)stake->count + 1;
    if (renewal->op_count + item.op_count > OPS_MOST)
        flush(renewal);
    renewal->op_count += item.op_count;
    renewal->items[renewal->item_count++] = item;
}

static void
begin_one(struct renewal *renewal, size_t number)
{
    dibs_claim *claim = renewal->claims[number];
    struct stake *stake = dibs__consul_stake_find(renewal->consul, claim);
    int rc = stake ? keep(renewal, claim, stake) : DIBS_ELOST;
    renewal->results[number] = rc;
    if (!rc)
        add(renewal, number, stake);
    else if (stake)
        dibs__consul_stake_put(renewal->consul, stake);
}

/* One that has lapsed meanwhile is being ended. */
static void
write_down(struct renewal *renewal, size_t number)
{
    const dibs_claim *claim = renewal->claims[number];
    dibs_time until = renewal->began + claim->lease_ms * DIBS_MS;
    if (renewal->results[number] == DIBS_OK)
        renewal->results[number] =
            dibs__kit_lapse_move(renewal->consul->lapses, claim, until);
}

void
dibs__consul_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                   dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct renewal renewal = { .consul = consul,
                               .claims = claims,
                               .results = results,
                               .deadline = deadline,
                               .began = consul->host->now(),
                               .err = err };
    for (size_t i = 0; i < n; i++)
        begin_one(&renewal, i);
    flush(&renewal);
    for (size_t i = 0; i < n; i++)
        write_down(&renewal, i);
}
