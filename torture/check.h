/* SPDX-License-Identifier: MIT */
/*
 * What the rules share: the turns of a name in any order, what was done to whom and when,
 * and from when on a hold is surely over. Read check.c next, then any rule:
 *
 *   check_hurt.c                 what was done to whom, and when
 *   check_free.c                 when nobody can have had a name
 *   check_belief.c    K1 K3 K5   what holders believe
 *   check_resource.c  K2         what the register and the engine's fence admitted
 *   check_lost.c      K4 K6      losses: told in time, and not without a reason
 *   check_order.c     K7         first come, first served
 *   check_handover.c  K8         who waits is served in time
 *   check_time.c      K10 K11    calls come back; what was refused is not held
 *   check_text.c      K12        no secrets
 *   check_linear.c    K13        some order of all that was answered makes sense
 *   check_search.c               the search for it
 *
 * (K9 is looked at by run.c, K14 by those who know the servers.)
 *
 * First no false alarms: a process that was paused or killed, a machine that stood still and
 * servers that were hurt explain things, and each rule says which of them it takes for an
 * excuse. `looked` counts only what had none.
 */
#ifndef TORTURE_CHECK_H
#define TORTURE_CHECK_H

#include <dibs.h>

#include "torture.h"

#define MS INT64_C(1000000)
#define FOREVER INT64_MAX

/* One turn, and the number by which a list of turns is sorted. */
struct keyed {
    uint64_t key;
    const struct turn *turn;
};

/* All turns of one name, by `invoked`. */
struct lot {
    const struct keyed *list;
    size_t count;
    int has_shared, has_permits;
};

/* Something that was done, to a process or (0, 0) to all. `latest` is the largest `until` of
 * this and all entries before it of the same process. */
struct hurt {
    uint32_t client, life;
    int64_t from, until, latest;
};

struct hurts {
    struct hurt *list;
    size_t count;
};

#define ORDERS 4
struct check {
    const struct torture_plan *plan;
    const struct history *history;
    struct verdict *out;
    uint32_t caps;
    int64_t slow, heal; /* of the plan; heal in ns */
    int64_t began, ended;
    struct keyed *turns; /* by name and `invoked` */
    size_t turn_count;
    struct keyed *orders[ORDERS]; /* room for order_turns, as much as for `turns` */
    int64_t *handovers;
    size_t handover_count;
    struct hurts kills, pauses, strikes;
    struct hurts lates, standstills; /* of the machine; of all who use the lot's name */
    struct hurts slow_answers;
};

/* ---- what a rule says ---- */

void rule_looked(struct check *check, int rule);
void rule_broken(struct check *check, int rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rule_out_of_memory(struct check *check); /* the check is not complete */

/* "client 3.1 thread 0 (token 17)", and a time in ms since the beginning */
struct words {
    char text[96];
};
struct words words_of(const struct turn *turn);
double ms_of(const struct check *check, int64_t at);

/* ---- turns ---- */

/* order_turns fills orders[which] with those turns of a lot for which `key` is not 0, sorted
 * by it; returns how many. */
typedef uint64_t turn_key(const struct check *check, const struct turn *turn);
size_t order_turns(struct check *check, int which, const struct lot *lot, turn_key *key);
/* order_again does it with the first `count` of orders[which] itself; it uses the last of the
 * orders for that. */
size_t order_again(struct check *check, int which, size_t count, turn_key *key);

/* Keys: when it was granted, its token if it was, and which process (never 0). */
turn_key granted_at;
turn_key by_token;
turn_key by_process;

int same_thread(const struct turn *a, const struct turn *b);
int same_process(const struct turn *a, const struct turn *b);
int was_granted(const struct turn *turn);
/* refused for sure: somebody else had it, or the time was up */
int was_refused(const struct turn *turn);

/* The two turns with the largest values, of different threads (or processes), so that one
 * can ask for the largest of anybody else. */
struct top {
    struct keyed one, two;
};
typedef int turn_same(const struct turn *a, const struct turn *b);
void top_add(struct top *top, const struct turn *turn, uint64_t value, turn_same *same);
const struct keyed *top_other(const struct top *top, const struct turn *turn,
                              turn_same *same);

/* ---- what was done to whom (check_hurt.c) ---- */

/* hurts_index sorts what the history has of incidents, hurts_index_lot finds out when those
 * who use one name stood still. The first returns 0, or -1 if there is no memory. */
int hurts_index(struct check *check);
void hurts_index_lot(struct check *check, const struct lot *lot);
void hurts_free(struct check *check);

/* is_hurt says whether something of `hurts` overlaps [from, until]; time_hurt how much of it
 * does. hurts_last and hurts_before go backwards through those that do; NULL: no more. */
int is_hurt(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t from,
            int64_t until);
int64_t time_hurt(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t from,
                  int64_t until);
const struct hurt *hurts_last(const struct hurts *hurts, uint32_t client, uint32_t life,
                              int64_t from, int64_t until);
const struct hurt *hurts_before(const struct hurts *hurts, const struct hurt *hurt,
                                int64_t from);

/* the kill of the turn's process, or NULL */
const struct hurt *kill_of(const struct check *check, const struct turn *turn);
/* its process was paused or starved, or the whole machine stood still */
int stood_still(const struct check *check, const struct turn *turn, int64_t from,
                int64_t until);
/* The store took `least` at least for an answer that needs no waiting. What took too long is
 * K10's business; but it may be the reason for something else. */
int was_slow(const struct check *check, int64_t from, int64_t until, int64_t least);
/* servers were hurt, or had not yet healed */
int servers_hurt(const struct check *check, int64_t from, int64_t until);
int is_disturbed(const struct check *check, const struct turn *turn, int64_t from,
                 int64_t until);

/* ---- when is it over? ---- */

/* how long the store may keep what its owner does not end; and a place in line */
int64_t gone_after(const struct check *check, const struct turn *turn);
int64_t place_gone_after(const struct check *check, const struct turn *turn);
/* from when on nothing of this turn can be left at the store; FOREVER if one cannot say */
int64_t surely_over(const struct check *check, const struct turn *turn);

/* ---- when nobody can have had a name (check_free.c) ---- */

struct span {
    int64_t from, until;
};
struct spans {
    struct span *list;
    size_t count;
};

/* free_times finds the stretches in which no turn of the lot can have had the name (or, of a
 * semaphore, so little of it that there was enough for anybody), between its first grant and
 * the end of the run, and nothing was wrong with servers or with somebody who asked. Such a
 * stretch ends when somebody's request has been granted and returned, or already when a
 * request is made that is granted.
 * Returns 0, or -1 if there is no memory; free out->list. */
enum free_kind { FREE_TILL_RETURN, FREE_TILL_INVOKED };
int free_times(struct spans *out, struct check *check, const struct lot *lot,
               enum free_kind kind);

/* ---- the rules ---- */

void check_belief(struct check *check, const struct lot *lot);
void check_resource(struct check *check, const struct lot *lot, uint32_t name);
void check_lost(struct check *check, const struct lot *lot);
void check_order(struct check *check, const struct lot *lot);
void check_handover(struct check *check, const struct lot *lot);
void check_handover_figures(struct check *check);
void check_time(struct check *check, const struct lot *lot);
void check_text(struct check *check);
void check_linear(struct check *check, const struct lot *lot);

#endif /* TORTURE_CHECK_H */
