/* SPDX-License-Identifier: MIT */
/*
 * The layout curator: a lock is a node, and who wants it makes a numbered node in there.
 * The lowest number holds; readers hold together up to the first writer. Everybody else
 * watches only the one that it waits for, so the end of a hold wakes one.
 *
 * An attempt makes the claim's node and lists all of them in one round trip. What it found
 * may be out of date at once, but not in a way that does harm: who was before us has a
 * lower number, and if the listing does not show it, it has gone.
 *
 * A node whose creation was not confirmed is found again by its name, which has the claim's
 * UUID in it (or by its data). A server that we came to after a lost connection may be
 * behind, so it is told to catch up first; and what the lost connection still carried is
 * refused by the servers once the session has moved.
 *
 * In this order: finding again, attempt, release, downgrade, the table.
 */
#include "claim.h"

#include <stdio.h>
#include <string.h>

/* ---- finding the node again ---- */

static int
names_do_not_tell(const struct turn *turn)
{
    return turn->zk->naming == NAMING_BARE;
}

/* by what stands in them: the one with our UUID */
static int
find_in_data(struct turn *turn, const struct queue *queue, int *found)
{
    char uuid[UUID_LEN + 1];
    struct kit_note note;
    struct path path;
    int rc = DIBS_OK;
    *found = -1;
    dibs__zk_uuid(turn->zk, turn->claim, uuid);
    /* the newest first: it is likely among them */
    for (int i = queue->count - 1; i >= 0 && *found < 0 && !rc; i--) {
        if (!queue->items[i].is_ours ||
            dibs__zk_child(&path, &turn->lock, queue->items[i].node))
            continue;
        struct op op = { .kind = OP_GET, .path = path.text };
        rc = dibs__zk_turn_run(turn, &op, 1);
        if (!rc && op.rc == ZOK) {
            dibs__zk_note_of(&note, &op);
            *found = strcmp(note.id, uuid) == 0 ? i : -1;
        }
        dibs__zk_ops_free(&op, 1);
    }
    return rc;
}

static int
find_in_queue(struct turn *turn, const struct queue *queue, int *found)
{
    *found = queue->own;
    return names_do_not_tell(turn) ? find_in_data(turn, queue, found) : DIBS_OK;
}

static int
take_number(struct turn *turn, const struct contender *own)
{
    struct path path;
    turn->mine.number = (int32_t)own->number;
    if (dibs__zk_child(&path, &turn->lock, own->node))
        return DIBS_EINVAL;
    struct op op = { .kind = OP_EXISTS, .path = path.text };
    int rc = dibs__zk_turn_run(turn, &op, 1);
    if (rc)
        return rc;
    turn->mine.czxid = op.stat.czxid;
    turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    if (op.rc == ZOK)
        turn->mine.flags |= MINE_NODE;
    turn->is_new = 1;
    return op.rc == ZOK || op.rc == ZNONODE ? DIBS_OK
                                            : dibs__zk_refused(turn->zk, &op, turn->err);
}

static int
look_for_own(struct turn *turn, const struct String_vector *children)
{
    char prefix[CONTENDER_MAX];
    struct queue queue;
    int found;
    dibs__zk_contender_prefix(prefix, turn->zk, turn->claim,
                              dibs__zk_kind(turn->zk, turn->claim, &turn->mine));
    int rc = dibs__zk_queue_read(&queue, turn->zk, children, prefix);
    if (rc)
        return rc;
    rc = find_in_queue(turn, &queue, &found);
    if (!rc && found >= 0)
        rc = take_number(turn, &queue.items[found]);
    else if (!rc)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    turn->zk->host->free(queue.items);
    return rc;
}

/* Was the node made whose creation nobody confirmed? */
static int
find_again(struct turn *turn)
{
    struct op ops[] = { { .kind = OP_SYNC, .path = turn->lock.text },
                        { .kind = OP_CHILDREN, .path = turn->lock.text } };
    int rc = dibs__zk_turn_run(turn, ops, 2);
    if (!rc && ops[1].rc == ZNONODE)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    else if (!rc && ops[1].rc != ZOK)
        rc = dibs__zk_refused(turn->zk, &ops[1], turn->err);
    else if (!rc)
        rc = look_for_own(turn, &ops[1].children);
    dibs__zk_ops_free(ops, 2);
    return rc;
}

/* ---- ending ---- */

/* The path of a node has our UUID in it. If it has not, the node of that number could be
 * somebody else's, should the numbers have begun again since somebody deleted ours. */
static int
is_still_ours(struct turn *turn, const struct path *path, int *is_ours)
{
    char uuid[UUID_LEN + 1];
    struct kit_note note;
    struct op op = { .kind = OP_GET, .path = path->text };
    *is_ours = 1;
    if (!names_do_not_tell(turn))
        return DIBS_OK;
    dibs__zk_uuid(turn->zk, turn->claim, uuid);
    int rc = dibs__zk_turn_run(turn, &op, 1);
    dibs__zk_note_of(&note, &op);
    *is_ours = !rc && op.rc == ZOK &&
               (op.stat.czxid == turn->mine.czxid || strcmp(note.id, uuid) == 0);
    dibs__zk_ops_free(&op, 1);
    return rc;
}

static int
delete_node(struct turn *turn, enum contender_kind kind, int *was_there)
{
    struct path path;
    *was_there = 0;
    if (dibs__zk_node_path(&path, turn, &turn->lock, kind, turn->mine.number))
        return DIBS_EINVAL;
    int rc = is_still_ours(turn, &path, was_there);
    if (rc || !*was_there)
        return rc;
    struct op op = { .kind = OP_DELETE, .path = path.text, .version = -1 };
    rc = dibs__zk_turn_run(turn, &op, 1);
    *was_there = !rc && op.rc == ZOK;
    return rc || op.rc == ZOK || op.rc == ZNONODE
               ? rc
               : dibs__zk_refused(turn->zk, &op, turn->err);
}

/* DIBS_OK: nothing of the claim is left. */
static int
end_it(struct turn *turn, int *was_there)
{
    int rc = DIBS_OK;
    *was_there = 0;
    if (turn->mine.flags & MINE_UNSURE && !(turn->mine.flags & MINE_NODE))
        rc = find_again(turn);
    unsigned flags = turn->mine.flags;
    if (!rc && flags & MINE_NODE)
        rc = delete_node(turn, dibs__zk_kind(turn->zk, turn->claim, &turn->mine),
                         was_there);
    /* whether it was downgraded is not known: then its node may have the other name */
    if (!rc && flags & MINE_NODE && flags & MINE_UNSURE && !*was_there)
        rc = delete_node(turn, CONTENDER_READ, was_there);
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
    if (rc || !turn.session)
        return DIBS_ENOTHELD;
    if (claim->limit)
        return dibs__zk_permits_release(&turn);
    int was_granted = (turn.mine.flags & MINE_GRANTED) != 0;
    rc = end_it(&turn, &was_there);
    if (rc)
        return rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
    return was_granted && was_there ? DIBS_OK : DIBS_ENOTHELD;
}

int
dibs__zk_curator_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                         dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    (void)linger_ms; /* without DIBS_CAP_LINGER there is none */
    dibs__zk_unwatch(zk, claim);
    return dibs__kit_lapse_released(zk->lapses, claim, release(zk, claim, deadline, err));
}

/* ---- attempt ---- */

/* What became of the node that was to be made; with MINE_UNSURE still set, nobody knows. */
static int
see_created(struct turn *turn, const struct op *op)
{
    struct path child;
    if (!dibs__zk_was_answered(op))
        return DIBS_OK;
    turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    switch (op->rc) {
    case ZOK:
        turn->mine.flags |= MINE_NODE;
        turn->mine.czxid = op->stat.czxid;
        turn->is_new = 1;
        return dibs__zk_created(op, &turn->mine.number);
    case ZNONODE: {
        int rc = dibs__zk_child(&child, &turn->lock, "x");
        if (!rc)
            rc = dibs__zk_make_parents(turn->session, &child, turn->deadline, turn->err);
        return rc ? rc : TURN_AGAIN;
    }
    case ZNOCHILDRENFOREPHEMERALS:
        return turn->zk->host->fail(turn->err, DIBS_EMISMATCH,
                                    "the name is in use in the layout `node`");
    default:
        return dibs__zk_refused(turn->zk, op, turn->err);
    }
}

static uint32_t
position_of(const struct queue *queue)
{
    int place = queue->own - dibs__zk_queue_holders(queue) + 1;
    return place > 0 ? (uint32_t)place : 1;
}

static int
busy(struct turn *turn, const struct queue *queue, int before)
{
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return dibs__zk_take_back(turn, end_it) ? DIBS_EUNKNOWN : DIBS_EBUSY;
    return dibs__zk_wait_for(turn, &turn->lock, queue->items[before].node,
                             position_of(queue));
}

static int
judge(struct turn *turn, const struct String_vector *children)
{
    char own[CONTENDER_MAX + 16], prefix[CONTENDER_MAX];
    struct queue queue;
    dibs__zk_contender_prefix(prefix, turn->zk, turn->claim,
                              dibs__zk_kind(turn->zk, turn->claim, &turn->mine));
    snprintf(own, sizeof own, "%s%010d", prefix, (int)turn->mine.number);
    int rc = dibs__zk_queue_read(&queue, turn->zk, children, own);
    if (rc)
        return rc;
    int before = queue.own < 0 ? -1 : dibs__zk_queue_before(&queue, queue.own);
    if (queue.own < 0) {
        turn->mine.flags &= ~(unsigned)(MINE_NODE | MINE_GRANTED);
        rc = TURN_AGAIN; /* somebody deleted it: make another */
    } else if (turn->is_new) {
        rc = dibs__zk_no_semaphore(turn, children);
    }
    if (!rc)
        rc = before < 0 ? dibs__zk_granted(turn) : busy(turn, &queue, before);
    turn->zk->host->free(queue.items);
    return rc;
}

static int
see_listed(struct turn *turn, const struct op *op)
{
    if (op->rc == ZOK)
        return judge(turn, &op->children);
    if (op->rc != ZNONODE)
        return dibs__zk_refused(turn->zk, op, turn->err);
    turn->mine.flags &= ~(unsigned)(MINE_NODE | MINE_GRANTED);
    return TURN_AGAIN;
}

static int
list(struct turn *turn)
{
    struct op op = { .kind = OP_CHILDREN, .path = turn->lock.text };
    int rc = dibs__zk_turn_run(turn, &op, 1);
    if (!rc)
        rc = see_listed(turn, &op);
    dibs__zk_ops_free(&op, 1);
    return rc;
}

static int
make_and_list(struct turn *turn)
{
    char prefix[CONTENDER_MAX], data[KIT_NOTE_MAX];
    struct path path;
    dibs__zk_contender_prefix(prefix, turn->zk, turn->claim,
                              dibs__zk_kind(turn->zk, turn->claim, &turn->mine));
    if (dibs__zk_child(&path, &turn->lock, prefix))
        return DIBS_EINVAL;
    struct op ops[] = { { .kind = OP_CREATE,
                          .path = path.text,
                          .data = data,
                          .data_len = dibs__zk_data_write(data, turn->zk, turn->claim),
                          .mode = ZOO_EPHEMERAL_SEQUENTIAL },
                        { .kind = OP_CHILDREN, .path = turn->lock.text } };
    dibs__zk_turn_unsure(turn);
    int rc = dibs__zk_turn_run(turn, ops, 2);
    if (rc == DIBS_EUNAVAIL)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    if (rc == DIBS_OK || rc == DIBS_EUNKNOWN) {
        int made = see_created(turn, &ops[0]);
        rc = made ? made : rc;
    }
    if (!rc)
        rc = see_listed(turn, &ops[1]);
    dibs__zk_ops_free(ops, 2);
    return rc;
}

static int
one_round(struct turn *turn)
{
    int rc = DIBS_OK;
    if (turn->mine.flags & MINE_UNSURE)
        rc = find_again(turn);
    if (rc)
        return rc;
    return turn->mine.flags & MINE_NODE ? list(turn) : make_and_list(turn);
}

/* A waiter that has its place and has heard nothing needs no answer from the servers. */
static int
still_waits(struct zk *zk, dibs_claim *claim)
{
    if (!dibs__zk_still_watching(zk, claim))
        return 0;
    struct mine mine = dibs__zk_mine(claim);
    claim->position = mine.flags & MINE_LEASES ? 1 : mine.beside;
    return 1;
}

/* An attempt that says EBUSY watches already, so there is no slot `watch`. */
int
dibs__zk_curator_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err)
{
    struct zk *zk = state;
    if (still_waits(zk, claim))
        return DIBS_EBUSY;
    if (claim->mode == DIBS_OBSERVE)
        return dibs__zk_observe(zk, claim, deadline, err);
    if (claim->limit)
        return dibs__zk_permits_attempt(zk, claim, deadline, err);
    return dibs__zk_rounds(zk, claim, one_round, end_it, deadline, err);
}

/* ---- downgrade ---- */

/* The reader's node has the writer's number, so it is where the writer was; and it says
 * which token the hold has, as that is not its own. */
static int
write_reader(char data[KIT_NOTE_MAX], const struct turn *turn)
{
    const dibs_claim *claim = turn->claim;
    dibs_claim reader = {
        .mode = DIBS_SHARED,
        .permits = 1,
        .lease_ms = claim->lease_ms,
        .serial = claim->serial,
        .note = claim->note,
        .token = claim->token,
    };
    return dibs__zk_data_write(data, turn->zk, &reader);
}

/* The reader's node is there already if the answer to an earlier call was lost. */
static int
is_downgraded(struct turn *turn, const struct path *reader, int rc)
{
    struct op op = { .kind = OP_EXISTS, .path = reader->text };
    if (rc != ZNODEEXISTS)
        return rc == ZNONODE ? DIBS_ELOST : DIBS_EUNKNOWN;
    rc = dibs__zk_run(turn->session, &op, 1, turn->deadline, turn->err);
    return rc ? rc : op.rc == ZOK ? DIBS_OK : DIBS_ELOST;
}

static int
replace(struct turn *turn, const struct path *writer, const struct path *reader)
{
    char data[KIT_NOTE_MAX];
    struct op parts[] = {
        { .kind = OP_CREATE,
          .path = reader->text,
          .data = data,
          .data_len = write_reader(data, turn),
          .mode = ZOO_EPHEMERAL },
        { .kind = OP_DELETE, .path = writer->text, .version = -1 },
    };
    struct op multi = { .kind = OP_MULTI, .parts = parts, .part_count = 2 };
    dibs__zk_turn_unsure(turn);
    int rc = dibs__zk_run(turn->session, &multi, 1, turn->deadline, turn->err);
    if (!rc && multi.rc != ZOK)
        rc = is_downgraded(turn, reader, multi.rc);
    dibs__zk_ops_free(&multi, 1);
    return rc;
}

int
dibs__zk_curator_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                           dibs_error *err)
{
    struct zk *zk = state;
    struct path writer, reader;
    struct turn turn;
    int rc = dibs__zk_turn_begin(&turn, zk, claim, 0, deadline, err);
    if (rc || !turn.session)
        return DIBS_ELOST;
    if (dibs__zk_node_path(&writer, &turn, &turn.lock,
                           dibs__zk_kind(zk, claim, &turn.mine), turn.mine.number) ||
        dibs__zk_node_path(&reader, &turn, &turn.lock, CONTENDER_READ, turn.mine.number))
        return DIBS_ELOST;
    rc = replace(&turn, &writer, &reader);
    if (rc == DIBS_OK || rc == DIBS_EUNAVAIL)
        turn.mine.flags &= ~(unsigned)MINE_UNSURE;
    if (rc == DIBS_OK)
        turn.mine.flags |= MINE_READER;
    dibs__zk_turn_store(&turn);
    (void)dibs__kit_lapse_move(zk->lapses, claim, 0);
    if (rc == DIBS_OK)
        claim->mode = DIBS_SHARED;
    return rc == DIBS_OK || rc == DIBS_ELOST || rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
}
