/* SPDX-License-Identifier: MIT */
/*
 * What the layouts have in common about claims. See claim.h.
 *
 * A claim's key is made by a transaction that also looks who is before it, so an uncontended
 * claim is one round trip. Whether it holds is only ever concluded from an answer that also
 * says that the key is there: a lease that ran out while its owner waited is noticed.
 *
 * A request whose answer was lost may be done much later, when the claim is long over, and
 * then its key would stay in everybody's way as long as the client lives. So requests to
 * make keys also compare the version of a key of the tenure's, its epoch. To withdraw a
 * claim after such a loss is to put that key, which changes its version: what is still
 * under way with the old one is refused. Others of ours that are refused so ask again.
 *
 * In this order: what is remembered, turns, making, ending, attempt, release.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* how often what is out of date is looked at again at once */
#define ROUNDS 8
#define LAPSE_LIMIT (50 * DIBS_MS)
#define BIRTH_BITS 40

/* ---- what is remembered ---- */

struct mine
dibs__etcd_mine(const dibs_claim *claim)
{
    uint64_t priv[3];
    dibs__kit_priv_read(priv, claim);
    return (struct mine){
        .birth = priv[0] & ((UINT64_C(1) << BIRTH_BITS) - 1),
        .place = (unsigned)(priv[0] >> BIRTH_BITS),
        .lease = (int64_t)priv[1],
        .create = (int64_t)(priv[2] >> MINE_BITS),
        .flags = (unsigned)priv[2] & MINE_FLAGS,
        .kind = (enum kind)(priv[2] >> MINE_KIND_SHIFT & 7),
    };
}

void
dibs__etcd_mine_store(dibs_claim *claim, const struct mine *mine)
{
    const uint64_t priv[3] = { mine->birth | (uint64_t)mine->place << BIRTH_BITS,
                               (uint64_t)mine->lease,
                               (uint64_t)mine->create << MINE_BITS |
                                   (uint64_t)mine->kind << MINE_KIND_SHIFT |
                                   mine->flags };
    dibs__kit_priv_write(claim, priv);
}

void
dibs__etcd_own_key(struct key *out, const struct etcd *etcd, const dibs_claim *claim,
                   const struct mine *mine)
{
    static const char *const folders[] = { [KIND_LOCK] = "",
                                           [KIND_READ] = "read/",
                                           [KIND_WRITE] = "write/",
                                           [KIND_PERMITS] = "permits/" };
    char rest[64];
    if (mine->kind == KIND_SINGLE) {
        dibs__etcd_single_key(out, etcd, claim->name, claim->name_len);
        return;
    }
    int len = snprintf(rest, sizeof rest, "%s%" PRIx64, folders[mine->kind],
                       (uint64_t)mine->lease);
    if (mine->place)
        len += snprintf(rest + len, sizeof rest - (size_t)len, ".%u", mine->place);
    dibs__etcd_line_key(out, etcd, claim->name, claim->name_len);
    dibs__etcd_key_add(out, rest, (size_t)len);
}

/* A claim's id: it tells an answer to this claim from those to others. */
static void
write_id(char out[KIT_ID_MAX], const struct etcd *etcd, const dibs_claim *claim)
{
    (void)snprintf(out, KIT_ID_MAX, "%s-%" PRIx64, etcd->session->id_hex, claim->serial);
}

/* In the layout single a value is 16 bytes that nobody else has. */
static size_t
single_value(char out[VALUE_MAX], const struct etcd *etcd, const dibs_claim *claim)
{
    memcpy(out, etcd->session->id, 16);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (char)(out[8 + i] ^ (char)(claim->serial >> 8 * i));
    return 16;
}

size_t
dibs__etcd_own_value(char out[VALUE_MAX], const struct etcd *etcd,
                     const dibs_claim *claim, const struct mine *mine)
{
    char id[KIT_ID_MAX];
    if (mine->kind == KIND_SINGLE)
        return single_value(out, etcd, claim);
    write_id(id, etcd, claim);
    return (size_t)dibs__kit_note_write(out, etcd->session, claim, id);
}

/* Did this claim write that? */
static int
is_ours(const struct turn *turn, const struct kv *kv)
{
    char value[VALUE_MAX], id[KIT_ID_MAX];
    struct kit_note note;
    if (turn->mine.kind == KIND_SINGLE)
        return kv->value_len == single_value(value, turn->etcd, turn->claim) &&
               memcmp(kv->value, value, kv->value_len) == 0;
    write_id(id, turn->etcd, turn->claim);
    dibs__kit_note_parse(&note, kv->value, kv->value_len);
    return strcmp(note.id, id) == 0;
}

int64_t
dibs__etcd_lease_of(const kit_tenure *tenure)
{
    return (int64_t)strtoull(dibs__kit_tenure_id(tenure), NULL, 16);
}

/* ---- turns ---- */

static void
store(struct turn *turn)
{
    dibs__etcd_mine_store(turn->claim, &turn->mine);
}

/* Nothing of the claim is left. The copy that a lapse has of it may have said so before. */
static void
give_up(struct etcd *etcd, const dibs_claim *claim, const struct mine *mine)
{
    if (mine->birth && dibs__kit_place_give(etcd->places, claim, (int)mine->place) == 1)
        dibs__kit_tenure_leave(etcd->tenures, mine->birth);
}

static void
forget(struct turn *turn)
{
    give_up(turn->etcd, turn->claim, &turn->mine);
    turn->mine = (struct mine){ .kind = turn->mine.kind };
    turn->tenure = NULL;
}

static void
name_things(struct turn *turn)
{
    dibs__etcd_own_key(&turn->own, turn->etcd, turn->claim, &turn->mine);
    if (turn->mine.kind == KIND_SINGLE)
        return;
    dibs__etcd_line_key(&turn->line, turn->etcd, turn->claim->name,
                        turn->claim->name_len);
    dibs__etcd_range_end(&turn->end, &turn->line);
}

static int
join(struct turn *turn)
{
    struct etcd *etcd = turn->etcd;
    int rc = dibs__kit_tenure_join(etcd->tenures, turn->claim->lease_ms, 0,
                                   turn->deadline, &turn->tenure, turn->err);
    if (rc)
        return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
    uint64_t birth = dibs__kit_tenure_birth(turn->tenure);
    int place = dibs__kit_place_take(etcd->places, turn->claim);
    if (place < 0) {
        dibs__kit_tenure_leave(etcd->tenures, birth);
        turn->tenure = NULL;
        return etcd->host->fail(turn->err, DIBS_ENOMEM, "out of memory");
    }
    turn->mine.birth = birth;
    turn->mine.place = (unsigned)place;
    turn->mine.lease = dibs__etcd_lease_of(turn->tenure);
    store(turn);
    name_things(turn);
    return DIBS_OK;
}

static void
begin(struct turn *turn, struct etcd *etcd, dibs_claim *claim, dibs_time deadline,
      dibs_error *err)
{
    turn->etcd = etcd;
    turn->claim = claim;
    turn->deadline = deadline;
    turn->err = err;
    turn->revision = 0;
    turn->mine = dibs__etcd_mine(claim);
    turn->tenure = dibs__kit_tenure_find(etcd->tenures, turn->mine.birth);
    if (turn->mine.birth)
        name_things(turn);
}

int
dibs__etcd_turn_ask(struct turn *turn, http_text *txn, unsigned flags,
                    struct answer *answer)
{
    int rc = dibs__etcd_ask(turn->etcd, "/kv/txn", txn, flags, answer, turn->deadline,
                            turn->err);
    if (rc == DIBS_ELOST) {
        dibs__kit_tenure_dead(turn->etcd->tenures, turn->mine.birth);
        forget(turn);
        return TURN_AGAIN;
    }
    if (!rc)
        turn->revision = dibs__etcd_revision(answer);
    return rc;
}

/* ---- the epoch ---- */

static void
epoch_key(struct key *out, const struct turn *turn)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIx64, (uint64_t)turn->mine.lease);
    dibs__etcd_epoch_key(out, turn->etcd, id);
}

static int64_t
known_epoch(const struct turn *turn)
{
    return (int64_t)atomic_load(dibs__kit_tenure_word(turn->tenure));
}

/* Takes note of the version that the epoch's key has, and of a change that came with the
 * answer, and returns it. */
static int64_t
see_epoch(struct turn *turn, struct answer *answer, int op, int has_changed)
{
    struct kv kv;
    _Atomic uint64_t *word = dibs__kit_tenure_word(turn->tenure);
    uint64_t known = atomic_load(word), version = (uint64_t)has_changed;
    if (dibs__etcd_kvs(answer, op) && dibs__etcd_kv(answer, op, 0, &kv) == 0)
        version += (uint64_t)kv.version;
    while (version > known && !atomic_compare_exchange_weak(word, &known, version))
        continue;
    return (int64_t)version;
}

/* ---- making the key ---- */

static http_text *
get(const struct key *key)
{
    return dibs__etcd_range(&(struct range){ .key = key });
}

static http_text *
make_txn(const struct turn *turn, const struct way *way, int64_t version)
{
    struct key epoch;
    char value[VALUE_MAX];
    size_t len = dibs__etcd_own_value(value, turn->etcd, turn->claim, &turn->mine);
    epoch_key(&epoch, turn);
    http_text *compares =
        dibs__etcd_list(dibs__etcd_compare(&turn->own, COMPARE_CREATE, 0),
                        dibs__etcd_compare(&epoch, COMPARE_VERSION, version), NULL);
    if (way->needs)
        compares = dibs__etcd_list_add(compares, way->needs(turn));
    http_text *made =
        dibs__etcd_list(dibs__etcd_put(&turn->own, value, len, turn->mine.lease), NULL);
    http_text *not_made = dibs__etcd_list(get(&turn->own), get(&epoch), NULL);
    made = way->look(turn, made);
    if (way->needs)
        not_made = way->look(turn, not_made);
    return dibs__etcd_txn(compares, made, not_made);
}

/* The key is there already, or the epoch is another, or something stands in the way. */
static int
not_made(struct turn *turn, const struct way *way, int64_t version, struct answer *answer)
{
    struct kv kv;
    int is_there = dibs__etcd_kvs(answer, 0) > 0;
    if (is_there && dibs__etcd_kv(answer, 0, 0, &kv))
        return turn->etcd->host->fail(turn->err, DIBS_ECORRUPT, "a key cannot be read");
    if (is_there && is_ours(turn, &kv)) {
        turn->mine.create = kv.create;
        return TURN_AGAIN;
    }
    if (see_epoch(turn, answer, 1, 0) != version)
        return TURN_AGAIN;
    if (way->refuse && (!is_there || way->kind == KIND_SINGLE))
        return way->refuse(turn, answer, is_there ? 0 : 2);
    return turn->etcd->host->fail(turn->err, DIBS_ECORRUPT,
                                  "its key was written by somebody else");
}

static int
make(struct turn *turn, const struct way *way)
{
    struct answer answer;
    unsigned before = turn->mine.flags;
    int64_t version = known_epoch(turn);
    turn->mine.flags |= MINE_STRAY;
    store(turn);
    int rc = dibs__etcd_turn_ask(turn, make_txn(turn, way, version), 0, &answer);
    if (rc == TURN_AGAIN)
        return rc; /* with its tenure */
    /* an answer, or that nothing was sent, leaves nothing of this request under way */
    if (rc != DIBS_EUNKNOWN)
        turn->mine.flags = before;
    if (!rc && dibs__etcd_succeeded(&answer)) {
        turn->mine.create = turn->revision;
        rc = way->judge(turn, &answer, 1);
    } else if (!rc) {
        rc = not_made(turn, way, version, &answer);
    }
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* ---- looking again ---- */

static int
check(struct turn *turn, const struct way *way)
{
    struct answer answer;
    http_text *compares = dibs__etcd_list(
        dibs__etcd_compare(&turn->own, COMPARE_CREATE, turn->mine.create), NULL);
    http_text *looks = way->look(turn, dibs__etcd_list(NULL));
    int rc = dibs__etcd_turn_ask(turn, dibs__etcd_txn(compares, looks, NO_OPS),
                                 HTTP_REPEATABLE, &answer);
    if (!rc && dibs__etcd_succeeded(&answer)) {
        rc = way->judge(turn, &answer, 0);
    } else if (!rc) {
        /* it has gone, with its lease or by somebody's hand: begin again */
        turn->mine.create = 0;
        rc = TURN_AGAIN;
    }
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* ---- ending ---- */

/* The marker goes in any case, also if somebody else has deleted the key. */
static http_text *
delete_txn(const struct turn *turn)
{
    struct key marker;
    http_text *is_it = dibs__etcd_compare(&turn->own, COMPARE_CREATE, turn->mine.create);
    http_text *deletes = dibs__etcd_list(dibs__etcd_delete(&turn->own), NULL);
    http_text *otherwise = NO_OPS;
    if (turn->mine.flags & MINE_MARKED) {
        dibs__etcd_marker_key(&marker, turn->etcd, &turn->own);
        deletes = dibs__etcd_list_add(deletes, dibs__etcd_delete(&marker));
        otherwise = dibs__etcd_list_add(otherwise, dibs__etcd_delete(&marker));
    }
    return dibs__etcd_txn(dibs__etcd_list(is_it, NULL), deletes, otherwise);
}

/* One that is done late, when others of ours have the same name, must do no harm either: so
 * it compares the epoch as well. */
static http_text *
recall_txn(const struct turn *turn)
{
    struct key epoch;
    epoch_key(&epoch, turn);
    return dibs__etcd_txn(
        dibs__etcd_list(dibs__etcd_compare(&epoch, COMPARE_VERSION, known_epoch(turn)),
                        NULL),
        dibs__etcd_list(get(&turn->own), get(&epoch),
                        dibs__etcd_put(&epoch, "", 0, turn->mine.lease), NULL),
        dibs__etcd_list(get(&turn->own), get(&epoch), NULL));
}

static int
delete_own(struct turn *turn, int *was_there)
{
    struct answer answer;
    int rc = dibs__etcd_ask(turn->etcd, "/kv/txn", delete_txn(turn), 0, &answer,
                            turn->deadline, turn->err);
    *was_there = !rc && dibs__etcd_succeeded(&answer);
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* After this nothing makes the key any more; create is 0 if nothing has made it. */
static int
recall(struct turn *turn)
{
    struct answer answer;
    struct kv kv;
    int rc = dibs__etcd_ask(turn->etcd, "/kv/txn", recall_txn(turn), 0, &answer,
                            turn->deadline, turn->err);
    if (rc)
        return rc;
    /* an epoch that we did not know yet began after what we sent in an older one */
    (void)see_epoch(turn, &answer, 1, dibs__etcd_succeeded(&answer));
    turn->mine.create = 0;
    if (dibs__etcd_kvs(&answer, 0) && dibs__etcd_kv(&answer, 0, 0, &kv) == 0 &&
        is_ours(turn, &kv))
        turn->mine.create = kv.create;
    dibs__etcd_answer_free(&answer);
    return DIBS_OK;
}

/* DIBS_OK: nothing of the claim is left. */
static int
end_it(struct turn *turn, int *was_there)
{
    int is_over = !turn->tenure && !(turn->mine.flags & MINE_MOVING);
    int rc = DIBS_OK;
    *was_there = 0;
    if (!turn->mine.birth || is_over)
        return DIBS_OK;
    if (turn->mine.flags & MINE_STRAY && turn->tenure)
        rc = recall(turn);
    /* with its lease goes what was made with it; but it may have moved */
    if (rc == DIBS_ELOST)
        rc = DIBS_OK;
    return !rc && turn->mine.create ? delete_own(turn, was_there) : rc;
}

static int
take_back(struct turn *turn)
{
    int was_there;
    int rc = end_it(turn, &was_there);
    if (!rc)
        forget(turn);
    return rc;
}

/* ---- what judges say ---- */

int
dibs__etcd_mismatch(const struct turn *turn, const char *how)
{
    return turn->etcd->host->fail(turn->err, DIBS_EMISMATCH, "the name is in use %s",
                                  how);
}

/* The lease counts from `sent`, and must end before the tenure can. */
int
dibs__etcd_granted(struct turn *turn)
{
    dibs_claim *claim = turn->claim;
    dibs_time latest =
        dibs__kit_tenure_safe_until(turn->tenure) - claim->lease_ms * DIBS_MS;
    if (latest < claim->sent)
        claim->sent = latest;
    claim->token = token_of(turn->mine.create);
    claim->token_room = TOKEN_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    turn->mine.flags |= MINE_GRANTED;
    return DIBS_OK;
}

int
dibs__etcd_busy(struct turn *turn, const struct spot *before, const struct spot *beside)
{
    const struct spot own = { .key = &turn->own };
    const struct spot *const spots[SPOTS] = { turn->mine.create ? &own : NULL, before,
                                              beside };
    if (turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return take_back(turn) ? DIBS_EUNKNOWN : DIBS_EBUSY;
    /* the bell knows the tenure by what is stored */
    store(turn);
    return dibs__etcd_wait(turn->etcd, turn->claim, spots, turn->revision, turn->deadline,
                           turn->err);
}

/* ---- attempt ---- */

static int
is_anywhere(const struct turn *turn)
{
    return turn->tenure && (turn->mine.create || turn->mine.flags & MINE_STRAY);
}

/* Out of date time and again: a waiter that has its place comes back soon. */
static int
give_up_for_now(struct turn *turn)
{
    if (!is_anywhere(turn) || turn->claim->flags & DIBS_CLAIM_NOQUEUE)
        return turn->etcd->host->fail(turn->err, DIBS_EUNAVAIL,
                                      "what is there changes too fast");
    turn->claim->hint_ms = 1;
    return DIBS_EBUSY;
}

/* Core withdraws a claim after EBUSY and EUNKNOWN only. */
static int
finish(struct turn *turn, int rc)
{
    if (rc == TURN_AGAIN)
        rc = give_up_for_now(turn);
    int waits = rc == DIBS_EBUSY && !(turn->claim->flags & DIBS_CLAIM_NOQUEUE);
    if (rc != DIBS_OK && rc != DIBS_EUNKNOWN && !waits) {
        if (is_anywhere(turn) && (rc == DIBS_EUNAVAIL || take_back(turn)))
            rc = DIBS_EUNKNOWN;
        else
            forget(turn);
    }
    if (!waits)
        dibs__etcd_unwait(turn->etcd, turn->claim);
    store(turn);
    return rc;
}

static int
one_round(struct turn *turn, const struct way *way)
{
    int rc = DIBS_OK;
    if (!turn->tenure) {
        forget(turn);
        turn->mine.kind = way->kind;
        rc = join(turn);
    }
    if (rc)
        return rc;
    return turn->mine.create ? check(turn, way) : make(turn, way);
}

/* A grant is worth nothing if its end cannot be seen to. */
static int
write_down(struct turn *turn)
{
    int rc = dibs__kit_lapse_add(turn->etcd->lapses, turn->claim);
    return rc ? finish(turn, rc) : DIBS_OK;
}

int
dibs__etcd_claim_attempt(struct etcd *etcd, dibs_claim *claim, const struct way *way,
                         dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    begin(&turn, etcd, claim, deadline, err);
    int rc = TURN_AGAIN;
    for (int i = 0; rc == TURN_AGAIN && i < ROUNDS; i++)
        rc = one_round(&turn, way);
    rc = finish(&turn, rc);
    return rc ? rc : write_down(&turn);
}

/* ---- release ---- */

static int
release(struct etcd *etcd, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct turn turn;
    int was_there;
    begin(&turn, etcd, claim, deadline, err);
    int rc = end_it(&turn, &was_there);
    if (rc)
        return rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
    give_up(etcd, claim, &turn.mine);
    return turn.mine.flags & MINE_GRANTED && was_there ? DIBS_OK : DIBS_ENOTHELD;
}

int
dibs__etcd_claim_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                         dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    (void)linger_ms; /* without DIBS_CAP_LINGER there is none */
    dibs__etcd_unwait(etcd, claim);
    return dibs__kit_lapse_released(etcd->lapses, claim,
                                    release(etcd, claim, deadline, err));
}

int
dibs__etcd_claim_end(void *state, dibs_claim *claim)
{
    struct etcd *etcd = state;
    int rc = release(etcd, claim, etcd->host->now() + LAPSE_LIMIT, NULL);
    return rc != DIBS_EUNKNOWN && rc != DIBS_EUNAVAIL;
}

/* ---- writing it again ---- */

int
dibs__etcd_rewrite(struct etcd *etcd, const dibs_claim *claim, const struct mine *mine,
                   const struct rewriting *what, dibs_time deadline, dibs_error *err)
{
    struct key own;
    struct answer answer;
    dibs__etcd_own_key(&own, etcd, claim, mine);
    http_text *put = dibs__etcd_put_again(&own, what->value, what->len, what->lease);
    http_text *txn = dibs__etcd_txn(
        dibs__etcd_list(dibs__etcd_compare(&own, COMPARE_CREATE, mine->create), NULL),
        dibs__etcd_list(put, NULL), NO_OPS);
    int rc = dibs__etcd_ask(etcd, "/kv/txn", txn, 0, &answer, deadline, err);
    if (!rc && !dibs__etcd_succeeded(&answer))
        rc = etcd->host->fail(err, DIBS_ELOST, "its key is gone");
    dibs__etcd_answer_free(&answer);
    return rc;
}
