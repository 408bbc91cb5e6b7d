/* SPDX-License-Identifier: MIT */
/*
 * Epochs: requests that come late do no harm.
 *
 * A request whose answer was lost may still be on its way to the servers when we have given
 * up its claim; and what it takes then would be held as long as its session lives, by nobody.
 * So every request that takes something first checks the epoch of its session: that there
 * is no entry %epoch/SESSION, or that its ModifyIndex is the one we know. Who withdraws a
 * claim that such a request was sent for writes that entry before it looks what is there.
 * The session has locked the entry, so it goes with it.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All of a claim is taken in one transaction: the epoch of its first session is enough. */
static kit_tenure *
first_tenure(const struct turn *turn)
{
    return dibs__kit_tenure_find(turn->consul->tenures, turn->stake->seats[0].birth);
}

/* It rises as long as the session lives, so an older answer changes nothing. */
static void
learn(kit_tenure *tenure, uint64_t index)
{
    _Atomic uint64_t *word = dibs__kit_tenure_word(tenure);
    uint64_t known = atomic_load(word);
    while (known < index && !atomic_compare_exchange_weak(word, &known, index))
        ;
}

static uint64_t
known_of(kit_tenure *tenure)
{
    return atomic_load(dibs__kit_tenure_word(tenure));
}

/* A session that is over has no epoch, and takes nothing. */
int
dibs__consul_epoch_check(struct turn *turn, struct txn *txn)
{
    struct key key;
    kit_tenure *tenure = first_tenure(turn);
    if (!tenure)
        return DIBS_EUNAVAIL;
    dibs__consul_epoch_key(&key, turn->consul, dibs__kit_tenure_id(tenure));
    return dibs__consul_txn_check_index(txn, &key, known_of(tenure));
}

/* ---- writing ---- */

/* Written again with the same value, an entry would keep its ModifyIndex. */
static struct txn *
write_txn(const struct turn *turn, kit_tenure *tenure, const struct key *key,
          uint64_t index)
{
    char value[24];
    struct txn *txn = dibs__consul_txn();
    (void)snprintf(value, sizeof value, "%016" PRIx64, turn->consul->host->random());
    if (!dibs__consul_txn_check_index(txn, key, index) &&
        !dibs__consul_txn_lock(txn, key, dibs__kit_tenure_id(tenure), FLAGS_CELL, value,
                               strlen(value)))
        return txn;
    dibs__consul_txn_free(txn);
    return NULL;
}

/* *written: it was as expected, and is another one now. */
static int
write_epoch(struct turn *turn, kit_tenure *tenure, uint64_t expected, int *written)
{
    struct key key;
    struct entry entry;
    struct answer answer;
    dibs__consul_epoch_key(&key, turn->consul, dibs__kit_tenure_id(tenure));
    struct txn *txn = write_txn(turn, tenure, &key, expected);
    if (!txn)
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    int rc =
        dibs__consul_txn_run(turn->consul, txn, 0, &answer, turn->deadline, turn->err);
    if (rc)
        return rc;
    *written = dibs__consul_entry_of(&answer, &key, &entry) == 0;
    if (*written)
        learn(tenure, entry.modify_index);
    dibs__consul_answer_free(&answer);
    return DIBS_OK;
}

/* ---- when it is another one ---- */

static int
read_epoch(struct turn *turn, kit_tenure *tenure, uint64_t *index)
{
    struct key key;
    struct entry entry;
    struct answer answer;
    dibs__consul_epoch_key(&key, turn->consul, dibs__kit_tenure_id(tenure));
    int rc = dibs__consul_get(turn->consul, &key, 0, &answer, turn->deadline, turn->err);
    if (rc)
        return rc;
    *index = dibs__consul_entry_of(&answer, &key, &entry) == 0 ? entry.modify_index : 0;
    dibs__consul_answer_free(&answer);
    return DIBS_OK;
}

/* Somebody may have deleted the entry, and then there is to be a new one. */
static int
reload(struct turn *turn, kit_tenure *tenure)
{
    uint64_t index = 0;
    int written, rc = read_epoch(turn, tenure, &index);
    if (!rc && index == 0 && known_of(tenure) != 0)
        return write_epoch(turn, tenure, 0, &written);
    learn(tenure, index);
    return rc;
}

int
dibs__consul_epoch_reload(struct turn *turn)
{
    kit_tenure *tenure = first_tenure(turn);
    return tenure ? reload(turn, tenure) : DIBS_OK;
}

/* If it is not the one we know, then it is newer than all that we have sent. */
int
dibs__consul_epoch_bump(struct turn *turn)
{
    kit_tenure *tenure = first_tenure(turn);
    int written = 0;
    if (!tenure)
        return DIBS_OK;
    int rc = write_epoch(turn, tenure, known_of(tenure), &written);
    return rc || written ? rc : reload(turn, tenure);
}
