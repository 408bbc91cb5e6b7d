/* SPDX-License-Identifier: MIT */
/*
 * Turns: one call for a claim, whatever it asks for. See claim.h.
 *
 * In this order: beginning, seats, transactions, answers, releasing, attempts, looking.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* each round that was for nothing was one that somebody else has won */
#define ROUNDS 64
#define LAPSE_LIMIT (250 * DIBS_MS)

/* ---- beginning ---- */

void
dibs__consul_turn_begin(struct turn *turn, struct consul *consul, dibs_claim *claim,
                        struct stake *stake, dibs_time deadline, dibs_error *err)
{
    turn->consul = consul;
    turn->claim = claim;
    turn->stake = stake;
    turn->deadline = deadline;
    turn->err = err;
    turn->expected = turn->gate = 0;
    turn->by_id = 0;
    dibs__consul_lock_key(&turn->lock, consul, claim->name, claim->name_len);
    (void)snprintf(turn->id, sizeof turn->id, "%s-%" PRIx64, consul->session->id_hex,
                   claim->serial);
}

size_t
dibs__consul_note(char out[KIT_NOTE_MAX], const struct turn *turn, int mode,
                  uint64_t token)
{
    const dibs_claim *claim = turn->claim;
    dibs_claim said = { .mode = (uint8_t)mode,
                        .permits = claim->permits,
                        .limit = claim->limit,
                        .lease_ms = claim->lease_ms,
                        .note = claim->note,
                        .token = token };
    return (size_t)dibs__kit_note_write(out, turn->consul->session, &said, turn->id);
}

int
dibs__consul_is_ours(const struct turn *turn, const struct entry *entry)
{
    struct kit_note note;
    if (!*entry->session || !strstr(entry->value, turn->id))
        return 0;
    dibs__kit_note_parse(&note, entry->value, entry->value_len);
    return strcmp(note.id, turn->id) == 0;
}

void
dibs__consul_set_flag(struct stake *stake, unsigned flag)
{
    atomic_fetch_or(&stake->flags, flag);
}

void
dibs__consul_clear_flag(struct stake *stake, unsigned flag)
{
    atomic_fetch_and(&stake->flags, ~flag);
}

int
dibs__consul_has_flag(struct stake *stake, unsigned flag)
{
    return (atomic_load(&stake->flags) & flag) != 0;
}

/* ---- seats ---- */

const char *
dibs__consul_session_of(const struct turn *turn, uint32_t seat)
{
    kit_tenure *tenure =
        dibs__kit_tenure_find(turn->consul->tenures, turn->stake->seats[seat].birth);
    return tenure ? dibs__kit_tenure_id(tenure) : "";
}

static void
leave(struct turn *turn, struct seat *seat)
{
    dibs__kit_tenure_leave(turn->consul->tenures, seat->birth);
    seat->birth = 0;
}

static int
take_place(struct turn *turn, struct seat *seat)
{
    if (seat->place < 0)
        seat->place = dibs__kit_place_take(turn->consul->places, turn->claim);
    if (seat->place < 0)
        return turn->consul->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    return DIBS_OK;
}

static int
join(struct turn *turn, struct seat *seat)
{
    kit_tenure *tenure = NULL;
    int rc = take_place(turn, seat);
    if (!rc)
        rc = dibs__kit_tenure_join(turn->consul->tenures, turn->claim->lease_ms,
                                   (unsigned)seat->place, turn->deadline, &tenure,
                                   turn->err);
    if (!rc)
        seat->birth = dibs__kit_tenure_birth(tenure);
    return rc;
}

/* Nothing of the claim has been sent, whatever became of the session. */
static int
sit_down(struct turn *turn, struct seat *seat)
{
    const dibs_claim *claim = turn->claim;
    kit_tenures *tenures = turn->consul->tenures;
    kit_tenure *tenure = dibs__kit_tenure_find(tenures, seat->birth);
    int rc = DIBS_ELOST;
    if (tenure)
        rc = dibs__kit_tenure_secure(tenures, tenure,
                                     claim->sent + claim->lease_ms * DIBS_MS,
                                     turn->deadline, turn->err);
    if (rc == DIBS_ELOST) {
        dibs__consul_clear_flag(turn->stake, STAKE_MARKED);
        leave(turn, seat);
        rc = join(turn, seat);
    }
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

static int
sit(struct turn *turn)
{
    int rc = DIBS_OK;
    for (uint32_t i = 0; i < turn->stake->count && !rc; i++)
        rc = sit_down(turn, &turn->stake->seats[i]);
    return rc;
}

/* ---- transactions ---- */

/* The server knows best which of our sessions are over. */
static int
drop_lacking(struct turn *turn, const struct answer *answer)
{
    int any = 0;
    for (uint32_t i = 0; i < turn->stake->count; i++) {
        const char *session = dibs__consul_session_of(turn, i);
        if (*session && !dibs__consul_txn_lacks(answer, session))
            continue;
        dibs__kit_tenure_dead(turn->consul->tenures, turn->stake->seats[i].birth);
        any = 1;
    }
    return any;
}

static int
see_refusal(struct turn *turn, const struct answer *answer)
{
    if (drop_lacking(turn, answer))
        return TURN_AGAIN;
    if (!dibs__consul_txn_said(answer, 0))
        return DIBS_OK;
    int rc = dibs__consul_epoch_reload(turn);
    return rc ? rc : TURN_AGAIN;
}

int
dibs__consul_turn_run(struct turn *turn, struct txn *txn, int rc, struct answer *answer)
{
    if (rc) {
        dibs__consul_txn_free(txn);
        return turn->consul->host->fail(turn->err, rc, "%s",
                                        rc == DIBS_ENOMEM ? "out of memory"
                                                          : "its session is over");
    }
    rc = dibs__consul_txn_run(turn->consul, txn, 0, answer, turn->deadline, turn->err);
    if (rc == DIBS_EUNKNOWN)
        dibs__consul_set_flag(turn->stake, STAKE_UNSURE);
    if (rc || answer->status != 409)
        return rc;
    rc = see_refusal(turn, answer);
    if (rc)
        dibs__consul_answer_free(answer);
    return rc;
}

/* ---- answers ---- */

/* The lease counts from `sent`, and must end before a session can. */
int
dibs__consul_granted(struct turn *turn, uint64_t index)
{
    dibs_claim *claim = turn->claim;
    for (uint32_t i = 0; i < turn->stake->count; i++) {
        kit_tenure *tenure =
            dibs__kit_tenure_find(turn->consul->tenures, turn->stake->seats[i].birth);
        dibs_time until = tenure ? dibs__kit_tenure_safe_until(tenure) : 0;
        dibs_time latest = until - claim->lease_ms * DIBS_MS;
        if (latest < claim->sent)
            claim->sent = latest;
    }
    claim->token = token_of(index);
    claim->token_room = TOKEN_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    atomic_store(&turn->stake->index, index);
    dibs__consul_set_flag(turn->stake, STAKE_GRANTED);
    return DIBS_OK;
}

int
dibs__consul_busy(struct turn *turn, uint64_t seen)
{
    turn->stake->seen = seen ? seen : 1;
    return DIBS_EBUSY;
}

/* ---- releasing ---- */

/* It may be either what it was before a downgrade, or after. */
static int
end_it(struct turn *turn, int *was_held)
{
    struct stake *stake = turn->stake;
    int rc = DIBS_OK;
    if (turn->claim->limit)
        return dibs__consul_permits_end(turn, was_held);
    if (!dibs__consul_has_flag(stake, STAKE_SHARED))
        rc = dibs__consul_lock_end(turn, was_held);
    if (!rc && dibs__consul_has_flag(stake, STAKE_SHARED | STAKE_TURNING))
        rc = dibs__consul_share_end(turn, was_held);
    return rc;
}

/* A renewal may move it at the same time, and then it is looked for. */
static int
end_all(struct turn *turn, int *was_held)
{
    struct stake *stake = turn->stake;
    int rc = DIBS_OK;
    *was_held = 0;
    if (!stake->count ||
        !dibs__consul_has_flag(stake, STAKE_GRANTED | STAKE_UNSURE | STAKE_MARKED))
        return DIBS_OK;
    if (dibs__consul_has_flag(stake, STAKE_UNSURE))
        rc = dibs__consul_epoch_bump(turn);
    turn->by_id = dibs__consul_has_flag(stake, STAKE_UNSURE | STAKE_MOVING);
    uint64_t index = atomic_load(&stake->index);
    if (!rc)
        rc = end_it(turn, was_held);
    if (rc || *was_held ||
        (!dibs__consul_has_flag(stake, STAKE_MOVING) &&
         atomic_load(&stake->index) == index))
        return rc;
    turn->by_id = 1;
    return end_it(turn, was_held);
}

static int
end_claim(struct consul *consul, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    int was_held;
    struct stake *stake = dibs__consul_stake_find(consul, claim);
    if (!stake)
        return DIBS_ENOTHELD;
    dibs__consul_turn_begin(&turn, consul, claim, stake, deadline, err);
    dibs__consul_unwatch(consul, stake);
    int rc = end_all(&turn, &was_held);
    if (!rc) {
        rc = was_held && dibs__consul_has_flag(stake, STAKE_GRANTED) ? DIBS_OK
                                                                     : DIBS_ENOTHELD;
        dibs__consul_stake_forget(consul, stake);
    } else if (rc != DIBS_EUNAVAIL) {
        rc = DIBS_EUNKNOWN;
    }
    dibs__consul_stake_put(consul, stake);
    return rc;
}

int
dibs__consul_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                     dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    (void)linger_ms; /* without DIBS_CAP_LINGER there is none */
    int rc = end_claim(consul, claim, deadline, err);
    return dibs__kit_lapse_released(consul->lapses, claim, rc);
}

int
dibs__consul_lapsed(void *state, dibs_claim *claim)
{
    struct consul *consul = state;
    int rc = end_claim(consul, claim, consul->host->now() + LAPSE_LIMIT, NULL);
    return rc == DIBS_OK || rc == DIBS_ENOTHELD;
}

/* ---- attempts ---- */

/* Others were faster time and again. */
static int
give_up_for_now(struct turn *turn)
{
    turn->claim->hint_ms = 1;
    turn->stake->seen = 0;
    return DIBS_EBUSY;
}

/* Core withdraws a claim after EBUSY and EUNKNOWN only, and none that does not queue. */
static int
is_cores(const struct turn *turn, int rc)
{
    return rc == DIBS_OK || rc == DIBS_EUNKNOWN ||
           (rc == DIBS_EBUSY && !(turn->claim->flags & DIBS_CLAIM_NOQUEUE));
}

/* What may be there, and core would leave alone, is taken back. */
static int
take_back(struct turn *turn, int rc)
{
    int was_held;
    if (!dibs__consul_has_flag(turn->stake, STAKE_UNSURE | STAKE_GRANTED | STAKE_MARKED))
        return rc;
    return rc == DIBS_EUNAVAIL || end_all(turn, &was_held) ? DIBS_EUNKNOWN : rc;
}

static int
finish(struct turn *turn, int rc)
{
    struct consul *consul = turn->consul;
    if (rc == TURN_AGAIN)
        rc = give_up_for_now(turn);
    /* a grant is worth nothing if its end cannot be seen to */
    if (rc == DIBS_OK && turn->stake->count)
        rc = dibs__kit_lapse_add(consul->lapses, turn->claim);
    if (!is_cores(turn, rc))
        rc = take_back(turn, rc);
    if (rc != DIBS_EBUSY || !is_cores(turn, rc))
        dibs__consul_unwatch(consul, turn->stake);
    if (!is_cores(turn, rc))
        dibs__consul_stake_forget(consul, turn->stake);
    return rc;
}

int
dibs__consul_attempt(struct consul *consul, dibs_claim *claim, round_fn *round,
                     dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    int rc = TURN_AGAIN;
    struct stake *stake = dibs__consul_stake_take(consul, claim);
    if (!stake)
        return consul->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (dibs__consul_still_watching(consul, stake)) {
        dibs__consul_stake_put(consul, stake);
        return DIBS_EBUSY;
    }
    dibs__consul_turn_begin(&turn, consul, claim, stake, deadline, err);
    for (int i = 0; i < ROUNDS && rc == TURN_AGAIN; i++) {
        rc = sit(&turn);
        if (!rc)
            rc = round(&turn);
    }
    rc = finish(&turn, rc);
    dibs__consul_stake_put(consul, stake);
    return rc;
}

/* ---- looking ---- */

int
dibs__consul_see(struct turn *turn, struct view *view, struct answer *answer)
{
    return dibs__consul_view_get(view, turn->consul, answer, turn->claim->name,
                                 turn->claim->name_len, turn->deadline, turn->err);
}

void
dibs__consul_unsee(struct view *view, struct answer *answer)
{
    dibs__consul_view_free(view);
    dibs__consul_answer_free(answer);
}

void
dibs__consul_contender_key(struct key *out, const struct turn *turn, const char *session)
{
    dibs__consul_folder_key(out, turn->consul, turn->claim->name, turn->claim->name_len);
    dibs__consul_key_add(out, "/");
    dibs__consul_key_add(out, session);
}

int
dibs__consul_find_ours(const struct turn *turn, const struct view *view, size_t *at,
                       struct entry *out)
{
    size_t count = dibs__consul_entries(view->answer);
    while (*at < count) {
        size_t index = (*at)++;
        if (json_object_get(dibs__consul_kv(view->answer, index), "Session") &&
            dibs__consul_entry(view->answer, index, out) == 0 &&
            dibs__consul_is_ours(turn, out))
            return 0;
    }
    return -1;
}

int
dibs__consul_add_gate(struct txn *txn, const struct turn *turn, uint64_t gate)
{
    struct key key;
    if (!gate)
        return DIBS_OK;
    dibs__consul_gate_key(&key, turn->consul, turn->claim->name, turn->claim->name_len);
    int rc = dibs__consul_txn_check_index(txn, &key, gate);
    return rc ? rc : dibs__consul_txn_delete_cas(txn, &key, gate);
}
