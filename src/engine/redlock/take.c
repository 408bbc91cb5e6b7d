/* SPDX-License-Identifier: MIT */
/*
 * Taking a lock: one round to all servers, and a second one only if a server knows a
 * larger token than we proposed (token.c). What a failed round may have left is taken
 * back at once.
 *
 * Several who try at the same moment can split the votes so that nobody has a majority.
 * Who tries again therefore asks one server first, the same for all, and goes on to the
 * others only if that one agrees: the first there wins the rest, and the others have taken
 * nothing that would be in its way. It is a courtesy only. What counts is the majority.
 */
#include <string.h>

#include "redlock.h"

#define ROUNDS_MAX 6
/* Of a lease, this much is not counted on: clocks of servers run differently fast. */
#define DRIFT(lease) ((lease) / 100 + 2 * DIBS_MS)
#define RIVAL_MAX 80

/* What the servers said in one round, or in its two halves. */
struct tally {
    int64_t tick;               /* proposed */
    int ours, ours_fresh;       /* they knew no tick as large as that */
    int theirs, wrong, closed;  /* servers that said no */
    int denied, unknown;        /* servers that said nothing of use */
    uint32_t ours_maybe;        /* where our key may be now */
    int64_t top;                /* the largest tick they know */
    int64_t free_in[NODES_MAX]; /* of those that said "theirs", in ms; ascending */
    int64_t opens_in;           /* when the last that is closed opens, in ms */
    char rival[RIVAL_MAX + 1];  /* somebody who has it somewhere */
    int rival_has, rivals_differ;
    dibs_error said;
};

/* ---- counting ---- */

static int
answered(const struct tally *tally)
{
    return tally->ours + tally->theirs + tally->wrong + tally->closed;
}

static void
count_rival(struct tally *tally, const redisReply *reply)
{
    const redisReply *left = dibs__resp_element(reply, 3);
    const redisReply *value = dibs__resp_element(reply, 4);
    int64_t ms = dibs__resp_integer(left, -1);
    int at = tally->theirs++;
    if (ms < 0)
        ms = INT64_MAX; /* no expiry */
    for (; at > 0 && tally->free_in[at - 1] > ms; at--)
        tally->free_in[at] = tally->free_in[at - 1];
    tally->free_in[at] = ms;
    if (!value || !value->str || value->len > RIVAL_MAX)
        return;
    if (tally->rival_has && (strlen(tally->rival) != (size_t)value->len ||
                             memcmp(tally->rival, value->str, (size_t)value->len) != 0)) {
        tally->rivals_differ = 1;
        return;
    }
    memcpy(tally->rival, value->str, (size_t)value->len);
    tally->rival[value->len] = '\0';
    tally->rival_has++;
}

static void
count_answer(struct tally *tally, struct redlock *redlock, int node,
             const redisReply *reply)
{
    int64_t last = dibs__resp_integer(dibs__resp_element(reply, 1), 0);
    int64_t us = dibs__resp_integer(dibs__resp_element(reply, 2), 0);
    if (us)
        dibs__redlock_saw_clock(redlock, node, us);
    if (last > tally->top)
        tally->top = last;
    switch (dibs__resp_integer(dibs__resp_element(reply, 0), 0)) {
    case TAKE_OURS:
        tally->ours++;
        tally->ours_fresh += last < tally->tick;
        tally->ours_maybe |= UINT32_C(1) << node;
        break;
    case TAKE_THEIRS:
        count_rival(tally, reply);
        break;
    case TAKE_CLOSED:
        us = dibs__resp_integer(dibs__resp_element(reply, 3), 0);
        tally->opens_in = us > tally->opens_in ? us : tally->opens_in;
        tally->closed++;
        break;
    default:
        tally->wrong++;
    }
}

static void
count(struct tally *tally, const struct round *round, int node)
{
    switch (round->codes[node]) {
    case DIBS_OK:
        count_answer(tally, round->redlock, node, reply_of(round, node, 0));
        return;
    case DIBS_EUNKNOWN:
        tally->unknown++;
        tally->ours_maybe |= UINT32_C(1) << node;
        break;
    case DIBS_EDENIED:
        tally->denied++;
        break;
    default:
        break;
    }
    tally->said = round->said;
}

/* ---- asking ---- */

struct taking {
    struct redlock *redlock;
    dibs_claim *claim;
    dibs_time deadline; /* for asking; there must be time left to take it back */
    char value[VALUE_MAX];
};

/* Is more of the round worth waiting for? */
static int
is_decided(const struct tally *tally, const struct redlock *redlock, int open)
{
    if (tally->ours_fresh >= redlock->majority)
        return 1;
    /* it is not ours; but is it theirs, or can nobody tell? */
    return tally->ours + open < redlock->majority &&
           (answered(tally) >= redlock->majority ||
            answered(tally) + open < redlock->majority);
}

static int
ask(const struct taking *taking, struct tally *tally, uint32_t nodes, dibs_error *err)
{
    struct redlock *redlock = taking->redlock;
    resp_command command;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_TAKE,
                           .commands = &command,
                           .count = 1,
                           .nodes = nodes };
    dibs__redlock_take_command(redlock, &command, taking->claim, taking->value,
                               tally->tick, redlock->guard_ms);
    round.deadline =
        dibs__redlock_deadline(redlock, taking->claim->lease_ms, taking->deadline);
    int rc = dibs__redlock_begin(&round, err);
    if (rc)
        return rc;
    add_asked_nodes(taking->claim, round.waiting);
    for (int i = 0; i < redlock->count; i++) {
        /* who could not be asked has had its say */
        if (nodes & ~round.waiting & UINT32_C(1) << i)
            count(tally, &round, i);
    }
    for (;;) {
        int i = dibs__redlock_next(&round);
        if (i < 0)
            break;
        count(tally, &round, i);
        if (is_decided(tally, redlock, __builtin_popcount(round.waiting)))
            break;
    }
    /* the rest was asked too */
    tally->ours_maybe |= round.waiting;
    dibs__redlock_end_round(&round);
    dibs__redlock_saw(redlock, bucket_of(taking->claim), tally->top);
    return DIBS_OK;
}

/* The server at which we hear of releases: what is said there has been done there. */
static int
referee(struct redlock *redlock)
{
    int node = atomic_load(&redlock->listens_at);
    if (node < 0)
        return -1;
    if (!dibs__resp_is_stalled(redlock->nodes[node].server, 0) &&
        !atomic_load(&redlock->nodes[node].down_until))
        return node;
    dibs__redlock_listener_check(redlock);
    return -1;
}

/* One round: everybody, or the referee and then the others. */
static int
ask_everybody(const struct taking *taking, struct tally *tally, int modest,
              dibs_error *err)
{
    uint32_t nodes = dibs__redlock_all(taking->redlock);
    int first = modest ? referee(taking->redlock) : -1;
    if (first >= 0) {
        int rc = ask(taking, tally, UINT32_C(1) << first, err);
        if (rc || tally->theirs)
            return rc;
        nodes &= ~(UINT32_C(1) << first);
    }
    return ask(taking, tally, nodes, err);
}

/* ---- what it comes to ---- */

static int
granted(const struct taking *taking, int64_t tick)
{
    dibs_claim *claim = taking->claim;
    dibs_time lease = claim->lease_ms * DIBS_MS;
    if (taking->redlock->host->now() >= claim->sent + lease - DRIFT(lease))
        return 0; /* it took so long that nothing is left of it */
    claim->token = (uint64_t)tick * TICK_ROOM;
    claim->token_room = TICK_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    return 1;
}

/* For how many ms others keep us from a majority; INT64_MAX: until they are done. */
static int64_t
free_in(const struct tally *tally, const struct redlock *redlock)
{
    int spare = redlock->count - redlock->majority;
    int blocking = tally->theirs - spare;
    if (answered(tally) < redlock->majority)
        blocking = 1; /* the referee's word */
    int64_t ms = blocking > 0 ? tally->free_in[blocking - 1] : 0;
    return tally->opens_in > ms ? tally->opens_in : ms;
}

/* Is it a value of ours, 32 hex digits and ':' and a number? Others have other values. */
static int
is_value(const char *text)
{
    return strspn(text, "0123456789abcdef") == 32 && text[32] == ':';
}

static int
busy(const struct taking *taking, const struct tally *tally, struct look *look)
{
    struct redlock *redlock = taking->redlock;
    look->collided = tally->theirs > 0 && tally->closed == 0 &&
                     (tally->ours > 0 || tally->rivals_differ) &&
                     tally->rival_has < redlock->majority;
    look->foreign = tally->rival_has && !is_value(tally->rival);
    taking->claim->hint_ms =
        dibs__redlock_hint(redlock, waiter_of(taking->claim), look,
                           look->collided ? 0 : free_in(tally, redlock));
    return DIBS_EBUSY;
}

static int
refused(const struct taking *taking, const struct tally *tally, struct look *look,
        int clean, dibs_error *err)
{
    const struct redlock *redlock = taking->redlock;
    if (tally->wrong && answered(tally) - tally->wrong < redlock->majority)
        return redlock->host->fail(err, DIBS_EMISMATCH,
                                   "there is something else under this name than a lock "
                                   "of the Redlock kind");
    if (answered(tally) >= redlock->majority || (look->modest && tally->theirs))
        return busy(taking, tally, look);
    if (tally->denied)
        return dibs__redlock_few(redlock, DIBS_EDENIED, answered(tally), &tally->said,
                                 err);
    return dibs__redlock_few(redlock, clean ? DIBS_EUNAVAIL : DIBS_EUNKNOWN,
                             answered(tally), &tally->said, err);
}

/* Returns whether nothing of ours is left, for sure. */
static int
take_back(const struct taking *taking, uint32_t nodes, dibs_time deadline)
{
    if (!nodes)
        return 1;
    int rc = dibs__redlock_end_claim(taking->redlock, taking->claim, nodes, 0, 0,
                                     deadline, NULL);
    return rc != DIBS_EUNKNOWN && rc != DIBS_EUNAVAIL;
}

int
dibs__redlock_take(struct redlock *redlock, dibs_claim *claim, struct look *look,
                   dibs_time deadline, dibs_error *err)
{
    dibs_time now = redlock->host->now();
    struct taking taking = { .redlock = redlock, .claim = claim };
    unsigned bucket = bucket_of(claim);
    uint32_t maybe = 0;
    struct tally tally;
    taking.deadline = deadline > now ? deadline - (deadline - now) / 4 : deadline;
    (void)dibs__redlock_value(redlock, claim, taking.value);
    for (int rounds = 0; rounds < ROUNDS_MAX; rounds++) {
        memset(&tally, 0, sizeof tally);
        tally.tick = dibs__redlock_propose(redlock, bucket);
        if (tally.tick > TICK_MAX)
            break;
        int rc = ask_everybody(&taking, &tally, look->modest && rounds == 0, err);
        maybe |= tally.ours_maybe;
        if (rc)
            return rc;
        if (tally.ours_fresh >= redlock->majority && granted(&taking, tally.tick))
            return DIBS_OK;
        if (tally.ours < redlock->majority || tally.ours_fresh >= redlock->majority)
            break;
    }
    int clean = take_back(&taking, maybe, deadline);
    if (tally.tick > TICK_MAX)
        return redlock->host->fail(
            err, DIBS_ECORRUPT, "%s is at its end: there is no larger token", TOKEN_KEY);
    return refused(&taking, &tally, look, clean, err);
}
