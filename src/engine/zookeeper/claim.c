/* SPDX-License-Identifier: MIT */
/* What the layouts have in common about claims. See claim.h. */
#include "claim.h"

#include <stdio.h>
#include <string.h>

/* where nobody can be watched, a waiter looks again after this long */
#define BLIND_MS 500
/* what nodes of ours are called below that of the lock has room in every path */
#define DEEPEST (sizeof "/leases/" + CONTENDER_MAX + sizeof "-2147483648")

/* ---- what is remembered ---- */

struct mine
dibs__zk_mine(const dibs_claim *claim)
{
    uint64_t priv[3];
    dibs__kit_priv_read(priv, claim);
    return (struct mine){
        .birth = priv[0],
        .flags = (unsigned)(priv[2] & ((1u << MINE_FLAG_BITS) - 1)),
        .number = (int32_t)(uint32_t)priv[1],
        .beside = (uint32_t)(priv[1] >> 32),
        .czxid = (int64_t)(priv[2] >> MINE_FLAG_BITS),
    };
}

void
dibs__zk_mine_store(dibs_claim *claim, const struct mine *mine)
{
    uint64_t priv[3] = { mine->birth,
                         (uint64_t)mine->beside << 32 | (uint32_t)mine->number,
                         (uint64_t)mine->czxid << MINE_FLAG_BITS | mine->flags };
    dibs__kit_priv_write(claim, priv);
}

int
dibs__zk_data_write(char out[KIT_NOTE_MAX], const struct zk *zk, const dibs_claim *claim)
{
    char uuid[UUID_LEN + 1];
    dibs__zk_uuid(zk, claim, uuid);
    return dibs__kit_note_write(out, zk->session, claim, uuid);
}

void
dibs__zk_note_of(struct kit_note *out, const struct op *op)
{
    dibs__kit_note_parse(out, op->got.text, op->got.len > 0 ? (size_t)op->got.len : 0);
}

/* `limit` and `flags` never change, so they may be read whenever. */
enum contender_kind
dibs__zk_kind(const struct zk *zk, const dibs_claim *claim, const struct mine *mine)
{
    if (mine->flags & MINE_READER)
        return CONTENDER_READ;
    if (claim->flags & DIBS_CLAIM_ELECTION && !claim->limit)
        return CONTENDER_LATCH;
    return zk->is_rw && !claim->limit ? CONTENDER_WRITE : CONTENDER_LOCK;
}

int
dibs__zk_node_path(struct path *out, const struct turn *turn, const struct path *folder,
                   enum contender_kind kind, int32_t number)
{
    char prefix[CONTENDER_MAX], node[CONTENDER_MAX + 16];
    dibs__zk_contender_prefix(prefix, turn->zk, turn->claim, kind);
    snprintf(node, sizeof node, "%s%010d", prefix, (int)number);
    return dibs__zk_child(out, folder, node);
}

/* ---- a turn ---- */

static int
open_session(struct turn *turn)
{
    int rc = dibs__zk_session_for(turn->zk, turn->claim->lease_ms, turn->deadline,
                                  &turn->session, turn->err);
    if (!rc)
        turn->mine = (struct mine){ .birth = dibs__zk_birth(turn->session) };
    if (!rc && turn->claim->mode == DIBS_SHARED)
        turn->mine.flags = MINE_READER;
    return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
}

/* Nodes that may have moved are not over with the session that they were in; any other is
 * good enough to end them. */
static int
find_session(struct turn *turn, int opens)
{
    turn->session = NULL;
    if (turn->mine.birth)
        turn->session = dibs__zk_session_born(turn->zk, turn->mine.birth);
    if (turn->session)
        return DIBS_OK;
    if (turn->mine.flags & MINE_MOVING && !opens)
        return dibs__zk_home(turn->zk, turn->deadline, &turn->session, turn->err);
    return opens ? open_session(turn) : DIBS_OK;
}

int
dibs__zk_turn_begin(struct turn *turn, struct zk *zk, dibs_claim *claim, int opens,
                    dibs_time deadline, dibs_error *err)
{
    turn->zk = zk;
    turn->claim = claim;
    turn->deadline = deadline;
    turn->err = err;
    turn->is_new = turn->armed = 0;
    turn->mine = dibs__zk_mine(claim);
    if (dibs__zk_lock_path(&turn->lock, zk, claim->name, claim->name_len) ||
        turn->lock.len + DEEPEST > sizeof turn->lock.text)
        return zk->host->fail(err, DIBS_EINVAL, "the path of its node is too long");
    return find_session(turn, opens);
}

void
dibs__zk_turn_store(struct turn *turn)
{
    dibs__zk_mine_store(turn->claim, &turn->mine);
}

void
dibs__zk_turn_unsure(struct turn *turn)
{
    turn->mine.flags |= MINE_UNSURE;
    dibs__zk_turn_store(turn);
}

int
dibs__zk_turn_lost(struct turn *turn)
{
    turn->session = NULL;
    turn->mine = (struct mine){ 0 };
    return TURN_AGAIN;
}

int
dibs__zk_turn_run(struct turn *turn, struct op *ops, int count)
{
    int rc = dibs__zk_run(turn->session, ops, count, turn->deadline, turn->err);
    return rc == DIBS_ELOST ? dibs__zk_turn_lost(turn) : rc;
}

int
dibs__zk_was_answered(const struct op *op)
{
    switch (op->rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZCLOSING:
        return 0;
    default:
        return 1;
    }
}

int
dibs__zk_created(const struct op *op, int32_t *number)
{
    struct contender contender;
    if (!op->created || dibs__zk_contender(&contender, op->created, NULL))
        return DIBS_ECORRUPT;
    *number = (int32_t)contender.number;
    return DIBS_OK;
}

/* ---- rounds ---- */

static int
is_anywhere(const struct turn *turn)
{
    return turn->session && turn->mine.flags & (MINE_UNSURE | MINE_NODE | MINE_LEASES);
}

/* Out of date time and again: a waiter that has its place comes back soon. */
static int
give_up_for_now(struct turn *turn)
{
    if (!is_anywhere(turn) || turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return turn->zk->host->fail(turn->err, DIBS_EUNAVAIL,
                                    "what is there changes too fast");
    turn->claim->hint_ms = 1;
    return DIBS_EBUSY;
}

int
dibs__zk_take_back(struct turn *turn, ending_fn *end)
{
    int was_there;
    int rc = end(turn, &was_there);
    if (!rc)
        turn->mine = (struct mine){ 0 };
    return rc;
}

/* Core withdraws a claim after EBUSY and EUNKNOWN only. */
static int
finish(struct turn *turn, int rc, ending_fn *end)
{
    if (rc == TURN_AGAIN)
        rc = give_up_for_now(turn);
    if (rc != DIBS_OK && rc != DIBS_EBUSY && rc != DIBS_EUNKNOWN && is_anywhere(turn) &&
        (rc == DIBS_EUNAVAIL || dibs__zk_take_back(turn, end)))
        rc = DIBS_EUNKNOWN;
    if (rc != DIBS_EBUSY)
        dibs__zk_unwatch(turn->zk, turn->claim);
    dibs__zk_turn_store(turn);
    return rc;
}

/* A grant is worth nothing if its end cannot be seen to. */
static int
write_down(struct turn *turn, ending_fn *end)
{
    int rc = dibs__kit_lapse_add(turn->zk->lapses, turn->claim);
    return rc ? finish(turn, rc, end) : DIBS_OK;
}

int
dibs__zk_rounds(struct zk *zk, dibs_claim *claim, int (*round)(struct turn *turn),
                ending_fn *end, dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    dibs__zk_unwatch(zk, claim);
    int rc = dibs__zk_turn_begin(&turn, zk, claim, 1, deadline, err);
    if (rc)
        return rc;
    rc = round(&turn);
    for (int i = 1; rc == TURN_AGAIN && i < TURN_ROUNDS; i++) {
        rc = turn.session ? DIBS_OK : open_session(&turn);
        if (!rc)
            rc = round(&turn);
    }
    rc = finish(&turn, rc, end);
    return rc ? rc : write_down(&turn, end);
}

/* ---- answers ---- */

/* The lease counts from `sent`, and must end before the session can. */
int
dibs__zk_granted(struct turn *turn)
{
    dibs_claim *claim = turn->claim;
    dibs_time latest = dibs__zk_safe_until(turn->session) - claim->lease_ms * DIBS_MS;
    if (latest < claim->sent)
        claim->sent = latest;
    claim->token = token_of(turn->mine.czxid);
    claim->token_room = TOKEN_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    turn->mine.flags |= MINE_GRANTED;
    return DIBS_OK;
}

int
dibs__zk_wait_at(struct turn *turn, const char *path, enum watch_kind kind, int *gone)
{
    int rc = dibs__zk_watch(turn->session, turn->claim, path, kind, gone, turn->deadline,
                            turn->err);
    /* who may not read a node may still know whether it is there */
    if (rc == DIBS_EDENIED && kind == WATCH_NODE)
        rc = dibs__zk_watch(turn->session, turn->claim, path, WATCH_PLACE, gone,
                            turn->deadline, turn->err);
    if (rc == DIBS_ELOST)
        return dibs__zk_turn_lost(turn);
    if (rc != DIBS_EUNAVAIL && rc != DIBS_EUNKNOWN)
        return rc ? rc : DIBS_EBUSY;
    /* that it is busy is known all the same */
    turn->claim->hint_ms = BLIND_MS;
    return DIBS_EBUSY;
}

int
dibs__zk_wait_for(struct turn *turn, const struct path *folder, const char *child,
                  uint32_t position)
{
    struct path path;
    int gone = 0;
    turn->claim->position = position;
    if (!(turn->mine.flags & MINE_LEASES))
        turn->mine.beside = position;
    /* others may give their nodes names of any length */
    if (dibs__zk_child(&path, folder, child)) {
        turn->claim->hint_ms = BLIND_MS;
        return DIBS_EBUSY;
    }
    int rc = dibs__zk_wait_at(turn, path.text, WATCH_NODE, &gone);
    return rc == DIBS_EBUSY && gone ? TURN_AGAIN : rc;
}
