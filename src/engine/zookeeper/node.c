/* SPDX-License-Identifier: MIT */
/*
 * The layout node: one ephemeral node is the lock. Whoever makes it holds it, and all others
 * watch it. It is there for fleets that use it: who is next is chance, and every release
 * wakes all who wait.
 *
 * The node's path is the same for all, so a node is known as ours by its czxid, or while
 * that is not known by the UUID in its data. Deleting cannot ask for either: between our
 * look and our delete somebody could break the lock and somebody else take it. That takes
 * two writes within one round trip of ours; it is the price of this layout.
 */
#include "claim.h"

#include <string.h>

/* ---- whose node is it ---- */

static int
is_ours(const struct turn *turn, const struct op *op)
{
    char uuid[UUID_LEN + 1];
    struct kit_note note;
    if (turn->mine.flags & MINE_NODE)
        return op->stat.czxid == turn->mine.czxid;
    dibs__zk_uuid(turn->zk, turn->claim, uuid);
    dibs__zk_note_of(&note, op);
    return strcmp(note.id, uuid) == 0;
}

static void
take_node(struct turn *turn, const struct op *op)
{
    turn->mine.flags |= MINE_NODE;
    turn->mine.czxid = op->stat.czxid;
}

/* ---- ending ---- */

static int
delete_node(struct turn *turn, int version, int *was_there)
{
    struct op op = { .kind = OP_DELETE, .path = turn->lock.text, .version = version };
    int rc = dibs__zk_turn_run(turn, &op, 1);
    *was_there = !rc && op.rc == ZOK;
    if (rc || op.rc == ZOK || op.rc == ZNONODE)
        return rc;
    /* somebody wrote into it meanwhile: look again */
    return op.rc == ZBADVERSION ? DIBS_EUNKNOWN
                                : dibs__zk_refused(turn->zk, &op, turn->err);
}

/* DIBS_OK: nothing of the claim is left. The server may be behind: it catches up first. */
static int
end_it(struct turn *turn, int *was_there)
{
    struct op ops[] = { { .kind = OP_SYNC, .path = turn->lock.text },
                        { .kind = OP_GET, .path = turn->lock.text } };
    *was_there = 0;
    int rc = dibs__zk_turn_run(turn, ops, 2);
    int found = !rc && ops[1].rc == ZOK && is_ours(turn, &ops[1]);
    if (!rc && ops[1].rc != ZOK && ops[1].rc != ZNONODE)
        rc = dibs__zk_refused(turn->zk, &ops[1], turn->err);
    int version = ops[1].stat.version;
    dibs__zk_ops_free(ops, 2);
    if (found)
        rc = delete_node(turn, version, was_there);
    return rc == TURN_AGAIN ? DIBS_OK : rc; /* it ended with its session */
}

static int
release(struct zk *zk, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    int was_there;
    int rc = dibs__zk_turn_begin(&turn, zk, claim, 0, deadline, err);
    if (rc && rc != DIBS_EINVAL)
        return DIBS_EUNAVAIL;
    if (rc || !turn.session || !(turn.mine.flags & (MINE_NODE | MINE_UNSURE)))
        return DIBS_ENOTHELD;
    int was_granted = (turn.mine.flags & MINE_GRANTED) != 0;
    rc = end_it(&turn, &was_there);
    if (rc)
        return rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
    return was_granted && was_there ? DIBS_OK : DIBS_ENOTHELD;
}

int
dibs__zk_node_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                      dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    (void)linger_ms; /* without DIBS_CAP_LINGER there is none */
    dibs__zk_unwatch(zk, claim);
    return dibs__kit_lapse_released(zk->lapses, claim, release(zk, claim, deadline, err));
}

/* ---- attempt ---- */

static int
wait_for_it(struct turn *turn)
{
    int gone = 0;
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return DIBS_EBUSY;
    int rc = dibs__zk_wait_at(turn, turn->lock.text, WATCH_NODE, &gone);
    return rc == DIBS_EBUSY && gone ? TURN_AGAIN : rc;
}

/* There is a node. It may be ours, if the answer to an earlier attempt was lost. */
static int
see_holder(struct turn *turn)
{
    struct op op = { .kind = OP_GET, .path = turn->lock.text };
    int rc = dibs__zk_turn_run(turn, &op, 1);
    if (!rc && op.rc == ZNONODE) {
        turn->mine.flags = 0;
        rc = TURN_AGAIN;
    } else if (!rc && op.rc != ZOK) {
        rc = dibs__zk_refused(turn->zk, &op, turn->err);
    } else if (!rc && !op.stat.ephemeralOwner) {
        turn->mine.flags = 0;
        rc = turn->zk->host->fail(turn->err, DIBS_EMISMATCH,
                                  "its node is not ephemeral: another layout uses it");
    } else if (!rc && is_ours(turn, &op)) {
        take_node(turn, &op);
        rc = dibs__zk_granted(turn);
    } else if (!rc) {
        turn->mine.flags = 0;
        rc = wait_for_it(turn);
    }
    if (!rc)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    dibs__zk_ops_free(&op, 1);
    return rc;
}

static int
see_created(struct turn *turn, const struct op *op, int was_unsure)
{
    if (!was_unsure)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    switch (op->rc) {
    case ZOK:
        turn->mine.flags = 0;
        take_node(turn, op);
        return dibs__zk_granted(turn);
    case ZNODEEXISTS:
        return see_holder(turn);
    case ZNONODE: {
        int rc =
            dibs__zk_make_parents(turn->session, &turn->lock, turn->deadline, turn->err);
        return rc ? rc : TURN_AGAIN;
    }
    default:
        return dibs__zk_refused(turn->zk, op, turn->err);
    }
}

static int
one_round(struct turn *turn)
{
    char data[KIT_NOTE_MAX];
    int was_unsure = (turn->mine.flags & MINE_UNSURE) != 0;
    struct op op = { .kind = OP_CREATE,
                     .path = turn->lock.text,
                     .data = data,
                     .data_len = dibs__zk_data_write(data, turn->zk, turn->claim),
                     .mode = ZOO_EPHEMERAL };
    if (turn->mine.flags & MINE_NODE)
        return see_holder(turn);
    dibs__zk_turn_unsure(turn);
    int rc = dibs__zk_turn_run(turn, &op, 1);
    if (rc == DIBS_EUNAVAIL && !was_unsure)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    if (!rc)
        rc = see_created(turn, &op, was_unsure);
    dibs__zk_ops_free(&op, 1);
    return rc;
}

int
dibs__zk_node_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    /* only with DIBS_CAP_OBSERVE, which this layout does not have */
    if (claim->mode == DIBS_OBSERVE)
        return DIBS_EUNSUPPORTED;
    if (dibs__zk_still_watching(zk, claim))
        return DIBS_EBUSY;
    return dibs__zk_rounds(zk, claim, one_round, end_it, deadline, err);
}
