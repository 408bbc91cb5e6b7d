/* SPDX-License-Identifier: MIT */
/*
 * Permits: a line of keys NAME/permits/LEASE, each of which says how many permits it wants
 * of how many. As many from the oldest on as fit into the limit together hold.
 *
 * The first that does not fit waits until something in the line is deleted. Those behind it
 * wait for the one before, which tells them when it gets its own: it writes its key again.
 */
#include "claim.h"

/* more holders than that are read all at once, with those who wait */
#define FRONT_MAX 1000

static void
line_of(const struct turn *turn, struct key *line, struct key *end)
{
    *line = turn->line;
    dibs__etcd_key_add(line, "permits/", 8);
    dibs__etcd_range_end(end, line);
}

/* The front of the line, with one more than can hold; who is before us; and contenders of
 * other kinds, which may not be there. */
static http_text *
look(const struct turn *turn, http_text *list)
{
    struct key line, end;
    uint32_t limit = turn->claim->limit;
    line_of(turn, &line, &end);
    const struct range front = { .key = &line,
                                 .end = &end,
                                 .limit = limit < FRONT_MAX ? limit + 1 : 0 };
    list = dibs__etcd_list_add(list, dibs__etcd_range(&front));
    list = dibs__etcd_nearest(turn, list, &line, &end, RANGE_KEYS_ONLY);
    list = dibs__etcd_nearest(turn, list, &turn->line, &line, RANGE_KEYS_ONLY);
    return dibs__etcd_nearest(turn, list, &end, &turn->end, RANGE_KEYS_ONLY);
}

/* ---- where we stand ---- */

enum standing { HOLDS, IS_NEXT, WAITS };

struct view {
    enum standing standing;
    int has_others_behind;
};

static uint32_t
permits_of(const struct kv *kv, uint32_t *limit)
{
    struct kit_note note;
    dibs__kit_note_parse(&note, kv->value, kv->value_len);
    *limit = note.limit;
    return note.permits ? note.permits : 1;
}

static int
read_front(struct turn *turn, struct answer *answer, int op, struct view *view)
{
    size_t count = dibs__etcd_kvs(answer, op);
    uint64_t sum = 0;
    int is_full = 0;
    view->standing = WAITS;
    for (size_t i = 0; i < count; i++) {
        struct kv kv;
        uint32_t limit;
        if (dibs__etcd_kv(answer, op, i, &kv))
            return turn->etcd->host->fail(turn->err, DIBS_ECORRUPT,
                                          "a key of the line cannot be read");
        uint32_t permits = permits_of(&kv, &limit);
        if (limit && limit != turn->claim->limit)
            return dibs__etcd_mismatch(turn, "with another limit");
        int fits = !is_full && sum + permits <= turn->claim->limit;
        if (dibs__etcd_key_is(&kv.key, &turn->own)) {
            view->standing = fits ? HOLDS : is_full ? WAITS : IS_NEXT;
            view->has_others_behind = i + 1 < count;
            return DIBS_OK;
        }
        sum += permits;
        is_full = !fits;
    }
    return DIBS_OK;
}

static int
check_others(struct turn *turn, struct answer *answer, int op)
{
    struct kv kv;
    for (int i = 0; i < 2; i++) {
        int found = dibs__etcd_before(turn, answer, op + i, &kv);
        if (found)
            return found < 0 ? DIBS_ECORRUPT
                             : dibs__etcd_mismatch(turn, "as a lock, not as permits");
    }
    return DIBS_OK;
}

/* That it is not told is no reason to give back what we have: who waits looks by himself,
 * if later. */
static int
take(struct turn *turn, const struct view *view, int is_new)
{
    const struct rewriting as_it_is = { 0 };
    if (!is_new && view->has_others_behind)
        (void)dibs__etcd_rewrite(turn->etcd, turn->claim, &turn->mine, &as_it_is,
                                 turn->deadline, NULL);
    return dibs__etcd_granted(turn);
}

static int
wait_behind(struct turn *turn, struct answer *answer, int op, const struct view *view)
{
    struct key line, end;
    struct kv before;
    if (view->standing == IS_NEXT) {
        line_of(turn, &line, &end);
        return dibs__etcd_busy(turn, &(struct spot){ .key = &line, .end = &end }, NULL);
    }
    int found = dibs__etcd_before(turn, answer, op, &before);
    if (found <= 0)
        return found ? DIBS_ECORRUPT : TURN_AGAIN;
    return dibs__etcd_busy(turn, &(struct spot){ .key = &before.key, .sees_puts = 1 },
                           NULL);
}

static int
judge(struct turn *turn, struct answer *answer, int op)
{
    struct view view = { 0 };
    int rc = check_others(turn, answer, op + 2);
    if (!rc)
        rc = read_front(turn, answer, op, &view);
    if (rc)
        return rc;
    if (view.standing == HOLDS)
        return take(turn, &view, op > 0);
    return wait_behind(turn, answer, op + 1, &view);
}

const struct way dibs__etcd_permits = { .kind = KIND_PERMITS,
                                        .look = look,
                                        .judge = judge };
