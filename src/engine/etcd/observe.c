/* SPDX-License-Identifier: MIT */
/*
 * Observing: who holds a lock now, and waiting until that is somebody else. An observer has
 * no key. It watches the holder's; or, where another holder may come while this one stays
 * (readers, permits, nobody at all), the whole line.
 */
#include "claim.h"

#define ROUNDS 8

/* Only names things: there is no claim behind it. */
static void
name_line(struct turn *turn)
{
    dibs__etcd_line_key(&turn->line, turn->etcd, turn->claim->name,
                        turn->claim->name_len);
    dibs__etcd_range_end(&turn->end, &turn->line);
}

static int
ask(struct turn *turn, int64_t limit, struct answer *answer)
{
    const struct range range = { .key = &turn->line, .end = &turn->end, .limit = limit };
    int rc = dibs__etcd_ask(turn->etcd, "/kv/range", dibs__etcd_range_alone(&range),
                            HTTP_REPEATABLE, answer, turn->deadline, turn->err);
    if (!rc)
        turn->revision = dibs__etcd_revision(answer);
    return rc;
}

/* ---- those who hold together ---- */

static int
is_reader(const struct turn *turn, const struct kv *kv)
{
    return dibs__etcd_under(turn, &kv->key, "read/") || dibs__etcd_shares(kv);
}

/* Goes along the line; 1: this one holds, with all before it. */
static int
holds_too(const struct turn *turn, const struct kv *kv, uint64_t *sum)
{
    struct kit_note note;
    if (!dibs__etcd_under(turn, &kv->key, "permits/"))
        return is_reader(turn, kv);
    dibs__kit_note_parse(&note, kv->value, kv->value_len);
    *sum += note.permits ? note.permits : 1;
    return note.limit && *sum <= note.limit;
}

/* Tokens rise along the line, so the last who holds has the newest. */
static int
newest_of_many(struct turn *turn, uint64_t *token)
{
    struct answer answer;
    struct kv kv;
    uint64_t sum = 0;
    int rc = ask(turn, 0, &answer);
    size_t count = rc ? 0 : dibs__etcd_kvs(&answer, -1);
    *token = 0;
    for (size_t i = 0; i < count && dibs__etcd_kv(&answer, -1, i, &kv) == 0 &&
                       holds_too(turn, &kv, &sum);
         i++)
        *token = token_of(kv.create);
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* ---- looking ---- */

/* Is it another than the one that the observer knows? Else wait for a change. */
static int
compare(struct turn *turn, uint64_t token, const struct spot *spot)
{
    const struct spot *const spots[SPOTS] = { spot };
    if (token == turn->claim->token)
        return dibs__etcd_wait(turn->etcd, turn->claim, spots, turn->revision,
                               turn->deadline, turn->err);
    turn->claim->token = token;
    return DIBS_OK;
}

static int
see_oldest(struct turn *turn, struct answer *answer)
{
    struct kv kv;
    uint64_t token = 0;
    struct spot line = { .key = &turn->line, .end = &turn->end, .sees_puts = 1 };
    if (!dibs__etcd_kvs(answer, -1))
        return compare(turn, 0, &line);
    if (dibs__etcd_kv(answer, -1, 0, &kv))
        return turn->etcd->host->fail(turn->err, DIBS_ECORRUPT, "a key cannot be read");
    if (!dibs__etcd_under(turn, &kv.key, "permits/") && !is_reader(turn, &kv))
        return compare(turn, token_of(kv.create),
                       &(struct spot){ .key = &kv.key, .sees_puts = 1 });
    int rc = newest_of_many(turn, &token);
    return rc ? rc : compare(turn, token, &line);
}

static int
look(struct turn *turn)
{
    struct answer answer;
    int rc = ask(turn, 1, &answer);
    if (!rc)
        rc = see_oldest(turn, &answer);
    dibs__etcd_answer_free(&answer);
    return rc;
}

int
dibs__etcd_observe(struct etcd *etcd, dibs_claim *claim, dibs_time deadline,
                   dibs_error *err)
{
    struct turn turn = { .etcd = etcd, .claim = claim, .deadline = deadline, .err = err };
    int rc = TURN_AGAIN;
    name_line(&turn);
    for (int i = 0; i < ROUNDS && rc == TURN_AGAIN; i++)
        rc = look(&turn);
    if (rc == TURN_AGAIN) {
        claim->hint_ms = 1;
        rc = DIBS_EBUSY;
    }
    if (rc != DIBS_EBUSY)
        dibs__etcd_unwait(etcd, claim);
    return rc;
}
