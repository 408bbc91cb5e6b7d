/* SPDX-License-Identifier: MIT */
/*
 * Renewing: what is renewed is the session, so all that is to be done for a claim is to see
 * that its nodes are still there. The nodes of many claims are checked in one transaction,
 * which a quorum answers for; so its answer also says how long the session lives.
 *
 * If one node is missing, the transaction does not say which others are. Then they are
 * looked at one by one, in requests that travel together. So are nodes whose path could be
 * somebody else's by now: there it is the czxid that tells.
 */
#include "claim.h"

#include <stdio.h>
#include <string.h>

#define NODES_AT_ONCE 200
#define TEXT_ROOM 65536

/* not a code: nobody has looked after this claim yet */
#define PENDING 1

struct renewal {
    struct zk *zk;
    dibs_claim *const *claims;
    int *results;
    dibs_time deadline, began;
    dibs_error *err;
    struct session *session;
    size_t claim; /* whose nodes are being added */
    /* the nodes to be checked next */
    int count;
    size_t owners[NODES_AT_ONCE];
    struct op checks[NODES_AT_ONCE];
    struct op looks[NODES_AT_ONCE + 1];
    size_t text_len;
    char text[TEXT_ROOM];
};

/* ---- the nodes of a claim ---- */

static int
each_lease(const struct turn *turn, int (*each)(void *arg, const char *path), void *arg)
{
    struct path folder, path;
    int rc = dibs__zk_child(&folder, &turn->lock, "leases");
    for (uint32_t i = 0; i < turn->claim->permits && !rc; i++) {
        /* they were made together, so their numbers follow one another, and may wrap */
        int32_t number = (int32_t)(turn->mine.beside + i);
        rc = dibs__zk_node_path(&path, turn, &folder, CONTENDER_LEASE, number);
        if (!rc)
            rc = each(arg, path.text);
    }
    return rc;
}

int
dibs__zk_each_node(struct zk *zk, const dibs_claim *claim, const struct mine *mine,
                   int (*each)(void *arg, const char *path), void *arg)
{
    struct path path;
    /* a turn that only names things changes nothing */
    struct turn turn = { .zk = zk, .claim = (dibs_claim *)claim, .mine = *mine };
    int rc = dibs__zk_lock_path(&turn.lock, zk, claim->name, claim->name_len);
    if (rc)
        return rc;
    if (zk->is_node)
        return each(arg, turn.lock.text);
    if (claim->limit)
        return each_lease(&turn, each, arg);
    rc = dibs__zk_node_path(&path, &turn, &turn.lock, dibs__zk_kind(zk, claim, mine),
                            mine->number);
    return rc ? rc : each(arg, path.text);
}

/* ---- results ---- */

static void
set_result(struct renewal *renewal, size_t claim, int code)
{
    if (renewal->results[claim] != DIBS_ELOST)
        renewal->results[claim] = code;
}

/* what a failure of run means for a hold: only the end of the session is certain */
static int
code_of(int rc)
{
    return rc == DIBS_ELOST || rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
}

static void
set_all(struct renewal *renewal, int rc)
{
    for (int i = 0; i < renewal->count; i++)
        set_result(renewal, renewal->owners[i], code_of(rc));
}

/* ---- looking closely ---- */

static int
paths_do_not_tell(const struct zk *zk, const dibs_claim *claim)
{
    return zk->is_node || (zk->naming == NAMING_BARE && !claim->limit);
}

static int
is_there(const struct renewal *renewal, int index)
{
    const dibs_claim *claim = renewal->claims[renewal->owners[index]];
    const struct op *look = &renewal->looks[1 + index];
    if (look->rc != ZOK)
        return 0;
    return !paths_do_not_tell(renewal->zk, claim) ||
           look->stat.czxid == dibs__zk_mine(claim).czxid;
}

/* A node that is not there may have been replaced by a reader's, by a downgrade that is
 * under way at the same time. */
static int
look_for_reader(struct renewal *renewal, size_t owner)
{
    dibs_claim *claim = renewal->claims[owner];
    struct turn turn = { .zk = renewal->zk,
                         .claim = claim,
                         .mine = dibs__zk_mine(claim) };
    struct path path;
    if (claim->limit || renewal->zk->is_node ||
        dibs__zk_lock_path(&turn.lock, renewal->zk, claim->name, claim->name_len) ||
        dibs__zk_node_path(&path, &turn, &turn.lock, CONTENDER_READ, turn.mine.number))
        return DIBS_ELOST;
    struct op op = { .kind = OP_EXISTS, .path = path.text };
    int rc = dibs__zk_run(renewal->session, &op, 1, renewal->deadline, renewal->err);
    if (rc)
        return code_of(rc);
    return op.rc == ZOK ? DIBS_OK : DIBS_ELOST;
}

/* The transaction makes the server catch up, and proves the session, whatever it says. */
static void
look_closely(struct renewal *renewal)
{
    struct op *looks = renewal->looks;
    memset(looks, 0, ((size_t)renewal->count + 1) * sizeof *looks);
    looks[0] = (struct op){ .kind = OP_MULTI, .parts = renewal->checks, .part_count = 1 };
    for (int i = 0; i < renewal->count; i++)
        looks[1 + i] = (struct op){ .kind = OP_EXISTS, .path = renewal->checks[i].path };
    int rc = dibs__zk_run(renewal->session, looks, 1 + renewal->count, renewal->deadline,
                          renewal->err);
    if (rc)
        set_all(renewal, rc);
    for (int i = 0; i < renewal->count && !rc; i++)
        if (!is_there(renewal, i))
            set_result(renewal, renewal->owners[i],
                       look_for_reader(renewal, renewal->owners[i]));
    dibs__zk_ops_free(looks, 1 + renewal->count);
}

/* ---- checking ---- */

static void
check(struct renewal *renewal)
{
    struct op multi = { .kind = OP_MULTI,
                        .parts = renewal->checks,
                        .part_count = renewal->count };
    int rc = dibs__zk_run(renewal->session, &multi, 1, renewal->deadline, renewal->err);
    if (rc)
        set_all(renewal, rc);
    else if (multi.rc != ZOK)
        look_closely(renewal);
    dibs__zk_ops_free(&multi, 1);
}

static void
flush(struct renewal *renewal)
{
    if (!renewal->count)
        return;
    if (paths_do_not_tell(renewal->zk, renewal->claims[renewal->owners[0]]))
        look_closely(renewal);
    else
        check(renewal);
    renewal->count = 0;
    renewal->text_len = 0;
}

static int
add_node(void *arg, const char *path)
{
    struct renewal *renewal = arg;
    size_t size = strlen(path) + 1;
    if (renewal->count == NODES_AT_ONCE || renewal->text_len + size > TEXT_ROOM)
        flush(renewal);
    char *copy = renewal->text + renewal->text_len;
    memcpy(copy, path, size);
    renewal->text_len += size;
    renewal->owners[renewal->count] = renewal->claim;
    renewal->checks[renewal->count++] =
        (struct op){ .kind = OP_CHECK, .path = copy, .version = -1 };
    return DIBS_OK;
}

/* whether two claims can be checked together: in one session and in the same way */
static int
go_together(const struct zk *zk, const dibs_claim *a, const dibs_claim *b)
{
    return dibs__zk_mine(a).birth == dibs__zk_mine(b).birth &&
           paths_do_not_tell(zk, a) == paths_do_not_tell(zk, b);
}

static void
renew_with(struct renewal *renewal, size_t first, size_t n)
{
    const dibs_claim *leader = renewal->claims[first];
    renewal->session = dibs__zk_session_born(renewal->zk, dibs__zk_mine(leader).birth);
    for (size_t i = first; i < n; i++) {
        const dibs_claim *claim = renewal->claims[i];
        struct mine mine = dibs__zk_mine(claim);
        if (renewal->results[i] != PENDING || !go_together(renewal->zk, leader, claim))
            continue;
        renewal->results[i] = renewal->session ? DIBS_OK : DIBS_ELOST;
        renewal->claim = i;
        if (renewal->session)
            (void)dibs__zk_each_node(renewal->zk, claim, &mine, add_node, renewal);
    }
    flush(renewal);
}

/* What is not proved yet may be after a tick, by one more answer of a quorum. */
static int
await_evidence(const struct renewal *renewal, struct session *session, dibs_time until)
{
    const dibs_host *host = renewal->zk->host;
    dibs_time later = host->now() + renewal->zk->tick_ms * DIBS_MS;
    struct op check = { .kind = OP_CHECK, .path = "/", .version = -1 };
    struct op op = { .kind = OP_MULTI, .parts = &check, .part_count = 1 };
    if (later < renewal->deadline) {
        host->sleep_until(later);
        (void)dibs__zk_run(session, &op, 1, renewal->deadline, renewal->err);
        dibs__zk_ops_free(&op, 1);
    }
    if (dibs__zk_safe_until(session) >= until)
        return DIBS_OK;
    return host->fail(renewal->err, DIBS_EUNKNOWN,
                      "it is not certain that the session lives that long");
}

/* Its nodes are there; but does the session surely outlive the lease that is asked for? If
 * that has become longer, another session may. */
static int
check_evidence(const struct renewal *renewal, dibs_claim *claim)
{
    dibs_time until = renewal->began + claim->lease_ms * DIBS_MS;
    struct mine mine = dibs__zk_mine(claim);
    struct session *session = dibs__zk_session_born(renewal->zk, mine.birth);
    int rc = session ? DIBS_OK : DIBS_ELOST;
    if (!rc && (mine.flags & MINE_MOVING || dibs__zk_safe_until(session) < until))
        rc = dibs__zk_move(renewal->zk, claim, renewal->deadline, &session, renewal->err);
    if (!rc && dibs__zk_safe_until(session) < until)
        rc = await_evidence(renewal, session, until);
    return rc ? rc : dibs__kit_lapse_move(renewal->zk->lapses, claim, until);
}

void
dibs__zk_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
               dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    struct renewal *renewal = zk->host->alloc(sizeof *renewal);
    for (size_t i = 0; i < n; i++)
        results[i] = renewal ? PENDING : DIBS_EUNAVAIL;
    if (!renewal)
        return;
    renewal->zk = zk;
    renewal->claims = claims;
    renewal->results = results;
    renewal->deadline = deadline;
    renewal->began = zk->host->now();
    renewal->err = err;
    for (size_t i = 0; i < n; i++) {
        if (results[i] == PENDING)
            renew_with(renewal, i, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (results[i] == DIBS_OK)
            results[i] = check_evidence(renewal, claims[i]);
    }
    zk->host->free(renewal);
}
