/* SPDX-License-Identifier: MIT */
/*
 * Semaphores, as Curator's InterProcessSemaphoreV2 has them: NAME/locks is a queue like that
 * of a lock, NAME/leases has a node for each permit that is out. Who is first in the queue
 * makes its leases, waits until there are few enough, and only then leaves the queue; so
 * permits are given in order, and a large request is not starved by small ones.
 *
 * Here the node in the queue and the leases are made in one transaction, and both are
 * listed with it: if nobody is before us, one more round trip (leaving the queue) is all.
 * If somebody is, the leases are taken back at once. Until then they are in the way of
 * others: Curator's clients wait for a moment longer than they had to, and ours do not
 * count what was made after theirs. That is right, because leases that were made together
 * with a place in the queue are in the order of the queue; and they never outlive that
 * place unless they are granted.
 *
 * Curator leaves the limit to its users to agree on. Here it stands in the nodes, and who
 * finds another one than its own is refused.
 *
 * In this order: nodes, deleting, finding again, judging, attempt, release.
 */
#include "claim.h"

#include <stdio.h>
#include <string.h>

/* what servers take in one request, by default a megabyte, less some room */
#define REQUEST_MAX 900000
/* how many leases of others are asked for their limit: one of ours will be among them */
#define ASKED_MAX 4

/* ---- nodes ---- */

struct places {
    struct path locks, leases;
    char mutex_prefix[CONTENDER_MAX], lease_prefix[CONTENDER_MAX];
};

static void
places_of(struct places *places, const struct turn *turn)
{
    /* turn_begin has seen to it that these are not too long */
    (void)dibs__zk_child(&places->locks, &turn->lock, "locks");
    (void)dibs__zk_child(&places->leases, &turn->lock, "leases");
    dibs__zk_contender_prefix(places->mutex_prefix, turn->zk, turn->claim,
                              CONTENDER_LOCK);
    dibs__zk_contender_prefix(places->lease_prefix, turn->zk, turn->claim,
                              CONTENDER_LEASE);
}

static int
make_places(struct turn *turn, const struct places *places)
{
    struct path child;
    int rc =
        dibs__zk_make_parents(turn->session, &places->locks, turn->deadline, turn->err);
    (void)dibs__zk_child(&child, &places->locks, "x");
    if (!rc)
        rc = dibs__zk_make_parents(turn->session, &child, turn->deadline, turn->err);
    (void)dibs__zk_child(&child, &places->leases, "x");
    if (!rc)
        rc = dibs__zk_make_parents(turn->session, &child, turn->deadline, turn->err);
    return rc ? rc : TURN_AGAIN;
}

/* ---- deleting ---- */

/* The ops that delete a claim's nodes, with their paths. */
struct ending {
    uint32_t count;
    struct op *ops;
    size_t path_size;
    char *paths;
};

static int
ending_new(struct ending *ending, const struct turn *turn)
{
    const dibs_host *host = turn->zk->host;
    size_t most = (size_t)turn->claim->permits + 1;
    ending->count = 0;
    ending->path_size = turn->lock.len + 2 * CONTENDER_MAX;
    ending->ops = host->alloc(most * sizeof *ending->ops);
    ending->paths = host->alloc(most * ending->path_size);
    if (ending->ops && ending->paths)
        return DIBS_OK;
    host->free(ending->ops);
    host->free(ending->paths);
    return DIBS_ENOMEM;
}

static void
ending_free(struct ending *ending, const dibs_host *host)
{
    dibs__zk_ops_free(ending->ops, (int)ending->count);
    host->free(ending->ops);
    host->free(ending->paths);
}

static void
ending_add(struct ending *ending, const struct path *folder, const char *prefix,
           int32_t number)
{
    char *path = ending->paths + ending->count * ending->path_size;
    snprintf(path, ending->path_size, "%s/%s%010d", folder->text, prefix, (int)number);
    ending->ops[ending->count++] =
        (struct op){ .kind = OP_DELETE, .path = path, .version = -1 };
}

/* The leases first: they must not be there without the place in the queue. */
static void
ending_fill(struct ending *ending, const struct turn *turn, const struct places *places,
            unsigned what)
{
    for (uint32_t i = 0; what & MINE_LEASES && i < turn->claim->permits; i++)
        ending_add(ending, &places->leases, places->lease_prefix,
                   (int32_t)(turn->mine.beside + i));
    if (what & MINE_NODE)
        ending_add(ending, &places->locks, places->mutex_prefix, turn->mine.number);
}

/* One by one, where some may have gone already. */
static int
delete_each(struct turn *turn, struct ending *ending)
{
    int rc = dibs__zk_turn_run(turn, ending->ops, (int)ending->count);
    for (uint32_t i = 0; i < ending->count && !rc; i++) {
        const struct op *op = &ending->ops[i];
        if (op->rc != ZOK && op->rc != ZNONODE)
            rc = dibs__zk_refused(turn->zk, op, turn->err);
    }
    return rc;
}

/* All in one, so that who waits for several permits is woken once. */
static int
delete_all(struct turn *turn, struct ending *ending, int *were_there)
{
    struct op multi = { .kind = OP_MULTI,
                        .parts = ending->ops,
                        .part_count = (int)ending->count };
    *were_there = 0;
    if (!ending->count)
        return DIBS_OK;
    int rc = dibs__zk_turn_run(turn, &multi, 1);
    if (rc)
        return rc;
    *were_there = multi.rc == ZOK;
    return multi.rc == ZOK ? DIBS_OK : delete_each(turn, ending);
}

/* drop deletes what is named of the claim's nodes: MINE_NODE, MINE_LEASES. */
static int
drop(struct turn *turn, const struct places *places, unsigned what, int *were_there)
{
    struct ending ending;
    what &= turn->mine.flags;
    *were_there = 0;
    if (!what)
        return DIBS_OK;
    int rc = ending_new(&ending, turn);
    if (rc)
        return rc;
    ending_fill(&ending, turn, places, what);
    rc = delete_all(turn, &ending, were_there);
    ending_free(&ending, turn->zk->host);
    if (!rc)
        turn->mine.flags &= ~what;
    return rc;
}

/* ---- finding again ---- */

/* strays are leases of ours that are not all of them: some were broken */
static int
drop_strays(struct turn *turn, const struct places *places, const struct queue *leases)
{
    struct path path;
    int rc = DIBS_OK;
    for (int i = 0; i < leases->count && !rc; i++) {
        if (!leases->items[i].is_ours)
            continue;
        (void)dibs__zk_child(&path, &places->leases, leases->items[i].node);
        struct op op = { .kind = OP_DELETE, .path = path.text, .version = -1 };
        rc = dibs__zk_turn_run(turn, &op, 1);
    }
    return rc;
}

static uint32_t
count_own(const struct queue *queue)
{
    uint32_t count = 0;
    for (int i = 0; i < queue->count; i++)
        count += queue->items[i].is_ours != 0;
    return count;
}

static int
take_czxid(struct turn *turn, const struct places *places, const char *node)
{
    struct path path;
    (void)dibs__zk_child(&path, &places->leases, node);
    struct op op = { .kind = OP_EXISTS, .path = path.text };
    int rc = dibs__zk_turn_run(turn, &op, 1);
    if (!rc && op.rc == ZOK)
        turn->mine.czxid = op.stat.czxid;
    else if (!rc)
        rc = TURN_AGAIN;
    return rc;
}

/* What is there of ours, and what does that mean? Leases without a place in the queue are
 * granted if we were about to leave it, else somebody took the place away. */
static int
sort_out(struct turn *turn, const struct places *places, const struct queue *locks,
         const struct queue *leases)
{
    struct mine *mine = &turn->mine;
    int all = count_own(leases) == turn->claim->permits;
    int in_queue = locks->own >= 0;
    int granted = mine->flags & MINE_GRANTED && all && !in_queue;
    int rc = DIBS_OK;
    if (!granted && !(all && in_queue)) {
        rc = drop_strays(turn, places, leases);
        all = 0;
    } else {
        rc = take_czxid(turn, places, leases->items[leases->own].node);
    }
    if (rc)
        return rc;
    mine->flags = (in_queue ? MINE_NODE : 0u) | (all ? MINE_LEASES : 0u) |
                  (granted ? MINE_GRANTED : 0u);
    if (in_queue)
        mine->number = (int32_t)locks->items[locks->own].number;
    if (all)
        mine->beside = (uint32_t)leases->items[leases->own].number;
    turn->is_new = 1;
    return DIBS_OK;
}

/* The queues at both places; free the items of both. A place that is not there is empty. */
struct queues {
    struct queue locks, leases;
};

static int
read_place(struct queue *out, const struct turn *turn, const struct op *op,
           const char *own)
{
    static const struct String_vector nothing = { 0 };
    if (op->rc != ZOK && op->rc != ZNONODE)
        return dibs__zk_refused(turn->zk, op, turn->err);
    return dibs__zk_queue_read(out, turn->zk, op->rc == ZOK ? &op->children : &nothing,
                               own);
}

static void
queues_free(struct queues *queues, const dibs_host *host)
{
    host->free(queues->locks.items);
    host->free(queues->leases.items);
}

static int
queues_read(struct queues *out, const struct turn *turn, const struct places *places,
            const struct op *locks, const struct op *leases)
{
    *out = (struct queues){ 0 };
    int rc = read_place(&out->locks, turn, locks, places->mutex_prefix);
    if (!rc)
        rc = read_place(&out->leases, turn, leases, places->lease_prefix);
    if (rc)
        queues_free(out, turn->zk->host);
    return rc;
}

static int
find_again(struct turn *turn, const struct places *places)
{
    struct queues queues;
    struct op ops[] = { { .kind = OP_SYNC, .path = turn->lock.text },
                        { .kind = OP_CHILDREN, .path = places->locks.text },
                        { .kind = OP_CHILDREN, .path = places->leases.text } };
    int rc = dibs__zk_turn_run(turn, ops, 3);
    if (!rc)
        rc = queues_read(&queues, turn, places, &ops[1], &ops[2]);
    if (!rc) {
        rc = sort_out(turn, places, &queues.locks, &queues.leases);
        queues_free(&queues, turn->zk->host);
    }
    dibs__zk_ops_free(ops, 3);
    return rc;
}

static int
end_it(struct turn *turn, int *were_there)
{
    struct places places;
    int rc = DIBS_OK;
    *were_there = 0;
    places_of(&places, turn);
    if (turn->mine.flags & MINE_UNSURE)
        rc = find_again(turn, &places);
    /* they may have gone between two looks: then look once more */
    if (rc == TURN_AGAIN && turn->session)
        rc = find_again(turn, &places);
    if (!rc)
        rc = drop(turn, &places, MINE_NODE | MINE_LEASES, were_there);
    if (rc == TURN_AGAIN)
        return turn->session ? DIBS_EUNKNOWN : DIBS_OK;
    return rc;
}

/* ---- judging ---- */

/* others' nodes that are asked for the limit that their owners know */
struct asking {
    int count;
    struct path paths[ASKED_MAX];
    struct op
        ops[ASKED_MAX + 2]; /* with one in front and one behind for something else */
};

static void
ask_node(struct asking *asking, const struct path *folder, const char *node)
{
    struct path *path = &asking->paths[asking->count];
    if (asking->count == ASKED_MAX || dibs__zk_child(path, folder, node))
        return;
    asking->ops[++asking->count] = (struct op){ .kind = OP_GET, .path = path->text };
}

/* the nearest before `end`, which are likely to stay longest */
static void
ask_before(struct asking *asking, const struct path *folder, const struct queue *queue,
           int end)
{
    for (int i = end - 1; i >= 0 && asking->count < ASKED_MAX; i--)
        if (!queue->items[i].is_ours)
            ask_node(asking, folder, queue->items[i].node);
}

static int
check_limits(const struct turn *turn, const struct asking *asking)
{
    struct kit_note note;
    for (int i = 1; i <= asking->count; i++) {
        const struct op *op = &asking->ops[i];
        if (op->rc != ZOK)
            continue;
        dibs__zk_note_of(&note, op);
        if (note.limit && note.limit != turn->claim->limit)
            return turn->zk->host->fail(
                turn->err, DIBS_EMISMATCH, "the limit is %u there, not %u",
                (unsigned)note.limit, (unsigned)turn->claim->limit);
    }
    return DIBS_OK;
}

static int
ask_limits(struct turn *turn, struct asking *asking)
{
    if (!asking->count)
        return DIBS_OK;
    int rc = dibs__zk_turn_run(turn, asking->ops + 1, asking->count);
    if (!rc)
        rc = check_limits(turn, asking);
    dibs__zk_ops_free(asking->ops + 1, asking->count);
    return rc;
}

/* What came of leaving the queue: did it work, are the leases still there, and do the
 * others know the same limit? */
static int
see_left(struct turn *turn, const struct asking *asking)
{
    const struct op *left = &asking->ops[0], *lease = &asking->ops[asking->count + 1];
    if (left->rc != ZOK && left->rc != ZNONODE)
        return dibs__zk_refused(turn->zk, left, turn->err);
    turn->mine.flags &= ~(unsigned)(MINE_UNSURE | MINE_NODE);
    int rc = check_limits(turn, asking);
    if (rc)
        return rc;
    if (lease->rc != ZOK) {
        turn->mine.flags &= ~(unsigned)(MINE_LEASES | MINE_GRANTED);
        return TURN_AGAIN;
    }
    turn->mine.czxid = lease->stat.czxid;
    return dibs__zk_granted(turn);
}

/* There are permits for us. Leaving the queue is what makes it a grant. */
static int
leave_queue(struct turn *turn, const struct places *places, struct asking *asking)
{
    struct path mutex, lease;
    int count = asking->count + 2;
    (void)dibs__zk_node_path(&mutex, turn, &places->locks, CONTENDER_LOCK,
                             turn->mine.number);
    (void)dibs__zk_node_path(&lease, turn, &places->leases, CONTENDER_LEASE,
                             (int32_t)turn->mine.beside);
    asking->ops[0] = (struct op){ .kind = OP_DELETE, .path = mutex.text, .version = -1 };
    asking->ops[count - 1] = (struct op){ .kind = OP_EXISTS, .path = lease.text };
    turn->mine.flags |= MINE_GRANTED;
    dibs__zk_turn_unsure(turn);
    int rc = dibs__zk_turn_run(turn, asking->ops, count);
    if (!rc)
        rc = see_left(turn, asking);
    dibs__zk_ops_free(asking->ops, count);
    return rc;
}

/* First in the queue, but too few permits are left. */
static int
wait_for_permits(struct turn *turn, const struct places *places, struct asking *asking)
{
    int gone = 0;
    int rc = turn->is_new && !turn->armed ? ask_limits(turn, asking) : DIBS_OK;
    if (rc)
        return rc;
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return dibs__zk_take_back(turn, end_it) ? DIBS_EUNKNOWN : DIBS_EBUSY;
    turn->claim->position = 1;
    if (turn->armed)
        return DIBS_EBUSY;
    rc = dibs__zk_wait_at(turn, places->leases.text, WATCH_CHILDREN, &gone);
    /* what changed before the watch was there is not told: look once more */
    turn->armed = rc == DIBS_EBUSY && !gone && !turn->claim->hint_ms;
    return turn->armed || gone ? TURN_AGAIN : rc;
}

static int
first_in_queue(struct turn *turn, const struct places *places, const struct queue *leases)
{
    struct asking asking = { 0 };
    uint32_t before = (uint32_t)leases->own;
    ask_before(&asking, &places->leases, leases, leases->own);
    if (before <= turn->claim->limit - turn->claim->permits)
        return leave_queue(turn, places, &asking);
    return wait_for_permits(turn, places, &asking);
}

static int
not_first(struct turn *turn, const struct places *places, const struct queues *queues)
{
    struct asking asking = { 0 };
    int were_there;
    int rc = drop(turn, places, MINE_LEASES, &were_there);
    if (turn->is_new) {
        ask_node(&asking, &places->locks, queues->locks.items[0].node);
        ask_before(&asking, &places->leases, &queues->leases, queues->leases.own);
    }
    if (!rc)
        rc = ask_limits(turn, &asking);
    if (rc)
        return rc;
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return dibs__zk_take_back(turn, end_it) ? DIBS_EUNKNOWN : DIBS_EBUSY;
    return dibs__zk_wait_for(turn, &places->locks,
                             queues->locks.items[queues->locks.own - 1].node,
                             (uint32_t)queues->locks.own + 1);
}

/* Somebody deleted nodes of ours: what is left goes too, and new ones are made. */
static int
begin_anew(struct turn *turn, const struct places *places, const struct queues *queues)
{
    int rc = drop_strays(turn, places, &queues->leases);
    if (rc)
        return rc;
    turn->mine.flags &= ~(unsigned)(MINE_LEASES | MINE_GRANTED);
    if (queues->locks.own < 0)
        turn->mine.flags &= ~(unsigned)MINE_NODE;
    return TURN_AGAIN;
}

static int
judge(struct turn *turn, const struct places *places, const struct queues *queues)
{
    int is_whole = count_own(&queues->leases) == turn->claim->permits;
    int has_left = !(turn->mine.flags & MINE_NODE);
    if (!is_whole || (!has_left && queues->locks.own < 0))
        return begin_anew(turn, places, queues);
    if (has_left)
        return dibs__zk_granted(turn); /* again */
    if (queues->locks.own == 0)
        return first_in_queue(turn, places, &queues->leases);
    return not_first(turn, places, queues);
}

/* ---- attempt ---- */

/* what one round sends */
struct asked {
    char data[KIT_NOTE_MAX];
    struct path mutex, lease;
    struct op *parts;
    int part_count;
    struct op ops[4]; /* making, and the children at three places */
    int count;
};

static int
check_size(const struct turn *turn, size_t one)
{
    if (turn->claim->permits <= REQUEST_MAX / one)
        return DIBS_OK;
    return turn->zk->host->fail(turn->err, DIBS_EINVAL,
                                "%u permits at once are too many for one request: at "
                                "most %u",
                                (unsigned)turn->claim->permits,
                                (unsigned)(REQUEST_MAX / one));
}

static struct op
create_op(const struct asked *asked, const struct path *path, int data_len)
{
    return (struct op){ .kind = OP_CREATE,
                        .path = path->text,
                        .data = asked->data,
                        .data_len = data_len,
                        .mode = ZOO_EPHEMERAL_SEQUENTIAL };
}

/* the nodes that the claim does not have yet, all in one transaction */
static int
add_making(struct asked *asked, struct turn *turn, const struct places *places)
{
    int len = dibs__zk_data_write(asked->data, turn->zk, turn->claim);
    (void)dibs__zk_child(&asked->mutex, &places->locks, places->mutex_prefix);
    (void)dibs__zk_child(&asked->lease, &places->leases, places->lease_prefix);
    int rc = check_size(turn, asked->lease.len + (size_t)len + 64);
    if (rc)
        return rc;
    asked->parts =
        turn->zk->host->alloc(((size_t)turn->claim->permits + 1) * sizeof(struct op));
    if (!asked->parts)
        return DIBS_ENOMEM;
    for (uint32_t i = 0; i < turn->claim->permits; i++)
        asked->parts[asked->part_count++] = create_op(asked, &asked->lease, len);
    if (!(turn->mine.flags & MINE_NODE))
        asked->parts[asked->part_count++] = create_op(asked, &asked->mutex, len);
    asked->ops[asked->count++] = (struct op){ .kind = OP_MULTI,
                                              .parts = asked->parts,
                                              .part_count = asked->part_count };
    return DIBS_OK;
}

static void
add_listing(struct asked *asked, const struct path *folder)
{
    asked->ops[asked->count++] = (struct op){ .kind = OP_CHILDREN, .path = folder->text };
}

/* What became of the nodes that were to be made. */
static int
see_made(struct turn *turn, const struct places *places, const struct asked *asked)
{
    const struct op *multi = &asked->ops[0];
    const struct op *last = &asked->parts[asked->part_count - 1];
    int32_t lease;
    if (!dibs__zk_was_answered(multi))
        return DIBS_OK;
    turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    if (multi->rc == ZNONODE) {
        /* without the places there is no node of ours in the queue any more */
        turn->mine.flags &= ~(unsigned)MINE_NODE;
        return make_places(turn, places);
    }
    if (multi->rc == ZNOCHILDRENFOREPHEMERALS)
        return turn->zk->host->fail(turn->err, DIBS_EMISMATCH,
                                    "the name is in use in the layout `node`");
    if (multi->rc != ZOK)
        return dibs__zk_refused(turn->zk, multi, turn->err);
    int rc = dibs__zk_created(&asked->parts[0], &lease);
    if (!rc && !(turn->mine.flags & MINE_NODE)) {
        rc = dibs__zk_created(last, &turn->mine.number);
        turn->is_new = 1;
    }
    turn->mine.beside = (uint32_t)lease;
    turn->mine.flags |= MINE_NODE | MINE_LEASES;
    return rc;
}

/* Contenders beside `locks` and `leases` mean that the name is that of a lock. */
static int
no_lock(const struct turn *turn, const struct op *listed)
{
    struct contender contender;
    for (int i = 0; listed->rc == ZOK && i < listed->children.count; i++)
        if (dibs__zk_contender(&contender, listed->children.data[i], NULL) == 0)
            return turn->zk->host->fail(turn->err, DIBS_EMISMATCH,
                                        "the name is in use as a lock, not as permits");
    return DIBS_OK;
}

static int
see_all(struct turn *turn, const struct places *places, const struct asked *asked)
{
    struct queues queues;
    const struct op *listed = &asked->ops[asked->count - 3];
    int rc = no_lock(turn, &listed[0]);
    if (!rc)
        rc = queues_read(&queues, turn, places, &listed[1], &listed[2]);
    if (rc)
        return rc;
    rc = judge(turn, places, &queues);
    queues_free(&queues, turn->zk->host);
    return rc;
}

static int
ask_all(struct turn *turn, const struct places *places, struct asked *asked)
{
    int makes = asked->part_count > 0;
    if (makes)
        dibs__zk_turn_unsure(turn);
    int rc = dibs__zk_turn_run(turn, asked->ops, asked->count);
    if (rc == DIBS_EUNAVAIL && makes)
        turn->mine.flags &= ~(unsigned)MINE_UNSURE;
    if (makes && (rc == DIBS_OK || rc == DIBS_EUNKNOWN)) {
        int made = see_made(turn, places, asked);
        rc = made ? made : rc;
    }
    return rc ? rc : see_all(turn, places, asked);
}

static int
one_round(struct turn *turn)
{
    struct places places;
    struct asked asked;
    int rc = DIBS_OK;
    places_of(&places, turn);
    asked.parts = NULL;
    asked.part_count = asked.count = 0;
    if (turn->mine.flags & MINE_UNSURE)
        rc = find_again(turn, &places);
    if (!rc && !(turn->mine.flags & MINE_LEASES))
        rc = add_making(&asked, turn, &places);
    if (rc)
        return rc;
    add_listing(&asked, &turn->lock);
    add_listing(&asked, &places.locks);
    add_listing(&asked, &places.leases);
    rc = ask_all(turn, &places, &asked);
    dibs__zk_ops_free(asked.ops, asked.count);
    turn->zk->host->free(asked.parts);
    return rc;
}

int
dibs__zk_permits_attempt(struct zk *zk, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err)
{
    return dibs__zk_rounds(zk, claim, one_round, end_it, deadline, err);
}

/* ---- release ---- */

int
dibs__zk_permits_release(struct turn *turn)
{
    int were_there;
    int rc = end_it(turn, &were_there);
    if (rc)
        return rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
    return turn->mine.flags & MINE_GRANTED && were_there ? DIBS_OK : DIBS_ENOTHELD;
}

/* ---- for locks ---- */

static int
is_semaphore(const struct String_vector *children)
{
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], "locks") == 0 ||
            strcmp(children->data[i], "leases") == 0)
            return 1;
    return 0;
}

int
dibs__zk_no_semaphore(struct turn *turn, const struct String_vector *children)
{
    struct places places;
    if (!is_semaphore(children))
        return DIBS_OK;
    places_of(&places, turn);
    struct op ops[] = { { .kind = OP_CHILDREN, .path = places.locks.text },
                        { .kind = OP_CHILDREN, .path = places.leases.text } };
    int rc = dibs__zk_turn_run(turn, ops, 2);
    if (!rc && (ops[0].children.count || ops[1].children.count))
        rc = turn->zk->host->fail(turn->err, DIBS_EMISMATCH,
                                  "the name is in use as permits, not as a lock");
    dibs__zk_ops_free(ops, 2);
    return rc;
}
