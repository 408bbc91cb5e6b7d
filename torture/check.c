/* SPDX-License-Identifier: MIT */
/*
 * The check of a history: turns are sorted by name, and each rule is asked about each name.
 * Everything is sorting and going through lists, so a million turns take seconds.
 *
 * In this order: what a rule says, turns, the largest of anybody else, when something is
 * over, the check.
 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a place in line is kept for at most this long without a word of its owner */
#define PLACE_MOST (10000 * MS)

static const char *const rules[RULE_COUNT + 1] = {
    "the check itself can be done",
    "no two believe to have what only one can have",
    "the resource takes no token after a larger one, and keeps what it took",
    "who comes later has the larger token",
    "a loss is told once, in time, and not after a release",
    "what was lost stays lost",
    "nobody's hold ends without a reason",
    "first come, first served",
    "who waits is served in time, whoever died before",
    "nothing is left at the end",
    "every call comes back in time",
    "what was refused is not held",
    "no text has a secret or a control byte in it",
    "some order of all answers makes sense",
    "nothing is silently weaker than promised",
};

/* ---- what a rule says ---- */

const char *
rule_text(int rule)
{
    return rule >= 0 && rule <= RULE_COUNT ? rules[rule] : "no such rule";
}

int
torture_is_clean(const struct verdict *verdict)
{
    for (int rule = 0; rule <= RULE_COUNT; rule++) {
        if (verdict->violated[rule])
            return 0;
    }
    return 1;
}

void
rule_looked(struct check *check, int rule)
{
    check->out->looked[rule]++;
}

void
rule_broken(struct check *check, int rule, const char *format, ...)
{
    struct verdict *out = check->out;
    if (out->violated[rule]++)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out->first[rule], sizeof out->first[rule], format, args);
    va_end(args);
}

void
rule_out_of_memory(struct check *check)
{
    rule_broken(check, 0, "out of memory");
}

struct words
words_of(const struct turn *turn)
{
    struct words words;
    (void)snprintf(words.text, sizeof words.text,
                   "client %u.%u thread %u (name %u, token %llu)", turn->client,
                   turn->life, turn->thread, turn->name, (unsigned long long)turn->token);
    return words;
}

double
ms_of(const struct check *check, int64_t at)
{
    return (double)(at - check->began) / MS;
}

/* ---- turns ---- */

static int
by_key(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->turn->invoked < b->turn->invoked ? -1 : a->turn->invoked > b->turn->invoked;
}

size_t
order_turns(struct check *check, int which, const struct lot *lot, turn_key *key)
{
    struct keyed *out = check->orders[which];
    size_t count = 0;
    for (size_t i = 0; i < lot->count; i++) {
        const struct turn *turn = lot->list[i].turn;
        uint64_t value = key(check, turn);
        if (value)
            out[count++] = (struct keyed){ value, turn };
    }
    qsort(out, count, sizeof *out, by_key);
    return count;
}

size_t
order_again(struct check *check, int which, size_t count, turn_key *key)
{
    struct lot lot = { .list = check->orders[ORDERS - 1], .count = count };
    memcpy(check->orders[ORDERS - 1], check->orders[which], count * sizeof *lot.list);
    return order_turns(check, which, &lot, key);
}

uint64_t
granted_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return was_granted(turn) ? (uint64_t)turn->returned : 0;
}

uint64_t
by_token(const struct check *check, const struct turn *turn)
{
    (void)check;
    return was_granted(turn) ? turn->token : 0;
}

uint64_t
by_process(const struct check *check, const struct turn *turn)
{
    (void)check;
    return (((uint64_t)turn->client << 32) | turn->life) + 1;
}

int
same_process(const struct turn *a, const struct turn *b)
{
    return a->client == b->client && a->life == b->life;
}

int
same_thread(const struct turn *a, const struct turn *b)
{
    return same_process(a, b) && a->thread == b->thread;
}

int
was_granted(const struct turn *turn)
{
    return turn->returned && turn->code == DIBS_OK;
}

int
was_refused(const struct turn *turn)
{
    return turn->returned && (turn->code == DIBS_EBUSY || turn->code == DIBS_ETIMEDOUT ||
                              turn->code == DIBS_ECANCELED);
}

/* ---- the largest of anybody else ---- */

void
top_add(struct top *top, const struct turn *turn, uint64_t value, turn_same *same)
{
    struct keyed new = { value, turn };
    if (top->one.turn && same(top->one.turn, turn)) {
        if (value > top->one.key)
            top->one = new;
    } else if (!top->one.turn || value > top->one.key) {
        top->two = top->one;
        top->one = new;
    } else if (!top->two.turn || value > top->two.key) {
        top->two = new;
    }
}

const struct keyed *
top_other(const struct top *top, const struct turn *turn, turn_same *same)
{
    if (!top->one.turn)
        return NULL;
    if (!same(top->one.turn, turn))
        return &top->one;
    return top->two.turn ? &top->two : NULL;
}

/* ---- when something is over ---- */

int64_t
gone_after(const struct check *check, const struct turn *turn)
{
    int64_t lease = check->caps & DIBS_CAP_LEASE ? turn->lease_ms * MS : 0;
    return lease + check->heal;
}

/* a place in line lasts as long as a lease, but not longer than 10 s; just before its end it
 * may become a grant */
int64_t
place_gone_after(const struct check *check, const struct turn *turn)
{
    int64_t gone = gone_after(check, turn);
    int64_t lease = gone - check->heal;
    return gone + (lease < PLACE_MOST ? lease : PLACE_MOST);
}

static int64_t
plus(int64_t at, int64_t more)
{
    return at > FOREVER - more ? FOREVER : at + more;
}

/* a hold that was given back is over; what was lost, let go or not confirmed runs out */
static int64_t
hold_over(const struct check *check, const struct turn *turn)
{
    if (!turn->released)
        return FOREVER;
    if (!turn->abandoned && turn->release_code == DIBS_OK)
        return turn->released;
    return plus(turn->released, gone_after(check, turn));
}

/* What is refused has been taken back, unless something came between: then the library goes
 * on with it in the background, or the store has to forget it. */
static int64_t
refusal_over(const struct check *check, const struct turn *turn)
{
    const int64_t near = 250 * MS * check->slow;
    const struct hurt *kill = kill_of(check, turn);
    if (was_refused(turn) && !(kill && kill->from < turn->returned + near) &&
        !is_disturbed(check, turn, turn->returned - near, turn->returned + near))
        return turn->returned;
    return plus(turn->returned, place_gone_after(check, turn));
}

int64_t
surely_over(const struct check *check, const struct turn *turn)
{
    const struct hurt *kill = kill_of(check, turn);
    int64_t over = FOREVER, dead = FOREVER;
    if (was_granted(turn))
        over = hold_over(check, turn);
    else if (turn->returned)
        over = refusal_over(check, turn);
    if (kill)
        dead = plus(kill->until, turn->returned ? gone_after(check, turn)
                                                : place_gone_after(check, turn));
    return over < dead ? over : dead;
}

/* ---- the check ---- */

static void
note_time(struct check *check, int64_t at)
{
    if (at > check->ended)
        check->ended = at;
}

/* a turn without `invoked` never began: its process died first */
static void
take_turns(struct check *check)
{
    size_t count = check->history->turn_count;
    for (size_t i = 0; i < count && i < HISTORY_TURNS; i++) {
        const struct turn *turn = &check->history->turns[i];
        if (!turn->invoked || turn->name >= HISTORY_NAMES ||
            turn->mode < DIBS_EXCLUSIVE || turn->mode > DIBS_PERMITS)
            continue;
        check->turns[check->turn_count++] = (struct keyed){ turn->name, turn };
        if (!check->began || turn->invoked < check->began)
            check->began = turn->invoked;
        note_time(check, turn->invoked);
        note_time(check, turn->returned);
        note_time(check, turn->not_held);
        note_time(check, turn->released);
    }
    qsort(check->turns, check->turn_count, sizeof *check->turns, by_key);
}

static int
prepare(struct check *check)
{
    size_t room = check->history->turn_count;
    room = room < HISTORY_TURNS ? room + 1 : HISTORY_TURNS + 1;
    check->turns = calloc(room, sizeof *check->turns);
    check->handovers = calloc(room, sizeof *check->handovers);
    int failed = !check->turns || !check->handovers;
    for (int i = 0; i < ORDERS; i++) {
        check->orders[i] = calloc(room, sizeof *check->orders[i]);
        failed |= !check->orders[i];
    }
    if (failed)
        return -1;
    take_turns(check);
    return hurts_index(check);
}

static void
count_turn(struct verdict *out, const struct turn *turn)
{
    out->acquired += (uint64_t)was_granted(turn);
    out->refused += turn->returned && turn->code != DIBS_OK;
    out->lost +=
        was_granted(turn) && (turn->lost_at || turn->not_held ||
                              (turn->released && turn->release_code == DIBS_ELOST));
}

static void
check_lot(struct check *check, const struct lot *lot)
{
    hurts_index_lot(check, lot);
    check_belief(check, lot);
    check_resource(check, lot, lot->list->turn->name);
    check_lost(check, lot);
    check_order(check, lot);
    check_handover(check, lot);
    check_time(check, lot);
    check_linear(check, lot);
}

static void
check_lots(struct check *check)
{
    size_t count;
    for (size_t at = 0; at < check->turn_count; at += count) {
        struct lot lot = { .list = &check->turns[at] };
        for (count = 0; at + count < check->turn_count; count++) {
            const struct turn *turn = check->turns[at + count].turn;
            if (turn->name != lot.list->turn->name)
                break;
            lot.has_shared |= turn->mode == DIBS_SHARED;
            lot.has_permits |= turn->mode == DIBS_PERMITS;
            count_turn(check->out, turn);
        }
        lot.count = count;
        check_lot(check, &lot);
    }
}

static void
clean_up(struct check *check)
{
    free(check->turns);
    free(check->handovers);
    for (int i = 0; i < ORDERS; i++)
        free(check->orders[i]);
    hurts_free(check);
}

void
torture_check(const struct torture_plan *plan, uint32_t caps,
              const struct history *history, struct verdict *out)
{
    struct check check = { .plan = plan, .history = history, .out = out, .caps = caps };
    memset(out, 0, sizeof *out);
    check.slow = plan->slow > 0 ? plan->slow : 1;
    out->busy = history->busy;
    check.heal = plan->fault ? plan->fault->heal_ms * MS : 0;
    out->slack_min_ns = FOREVER;
    if (history->dropped)
        rule_broken(&check, 0, "%zu entries had no room: this run proves nothing",
                    (size_t)history->dropped);
    if (prepare(&check) == 0)
        check_lots(&check);
    else
        rule_out_of_memory(&check);
    check_text(&check);
    check_handover_figures(&check);
    clean_up(&check);
}
