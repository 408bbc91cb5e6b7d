/* SPDX-License-Identifier: MIT */
/*
 * What the files of a run share. In this order: numbers from a seed and what is drawn from
 * them (plan.c), what all processes of a run see (scene.c), a thread of a client and its turns
 * (turn.c, client.c), the register (register.c), the processes (crew.c), what is asked
 * before and after (look.c).
 */
#ifndef TORTURE_PARTS_H
#define TORTURE_PARTS_H

#include <dibs.h>
#include <sys/types.h>

#include "torture.h"

#define MS_NS INT64_C(1000000)

/* ---- from a seed (plan.c) ---- */

/* random_from mixes a state of its own from a seed and three numbers; random_below is less
 * than `limit`, which is not 0; random_between includes both ends. */
uint64_t random_from(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit);
int64_t random_between(uint64_t *state, int64_t low, int64_t high);

/* What a thread does in one turn. */
struct errand {
    uint32_t name;
    int mode;
    uint32_t permits, limit, flags;
    int64_t wait_ms;
    int64_t hold_ms;
    int64_t
        write_ms; /* when it writes to the register, counted from the grant; -1: never */
    int fences, renews, downgrades, abandons;
    int64_t rest_ms; /* before the next turn */
};
void errand_draw(struct errand *out, const struct torture_plan *plan, uint32_t caps,
                 uint32_t thread, uint64_t *state);

/* outlives_ms says for how long after the lease an engine may keep what a dead process had:
 * docs/guarantees.md, "holder killed". */
int64_t outlives_ms(const char *engine, uint32_t lease_ms);

/* ---- what all processes of a run see (scene.c) ---- */

/* What changes; shared by all of them. */
struct stage {
    _Atomic int is_over; /* end what you do, and go */
    _Atomic uint64_t kills, pauses, freezes;
    char no_freezer[160]; /* why no pause is a freeze; "": some are */
    uint32_t caps;
    char engine[16], url[256]; /* the URL without its password */
    _Atomic uint64_t stuck;    /* clients that did not end when the run was over */
    _Atomic int code;          /* what made the run impossible, or DIBS_OK */
    char why[256];
    int has_looked; /* whether anything was left was asked */
    uint64_t left;  /* so many names were still in use at the end */
    char left_name[160];
};

/* What stays; each has it from before the fork. */
struct scene {
    const struct torture_plan *plan;
    struct history *history;
    struct stage *stage;
    char prefix[40]; /* of all names of this run */
    char names[HISTORY_NAMES][64];
    uint64_t strikes; /* of the process that strikes */
};

/* scene_open makes an empty one; scene_close frees it. Returns 0, or -1. */
int scene_open(struct scene *out, const struct torture_plan *plan);
void scene_close(struct scene *scene);
int scene_is_over(const struct scene *scene);

/* stage_fail says why the run is impossible, unless something was said before. */
void stage_fail(struct stage *stage, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* nap sleeps for that many microseconds, or until a signal comes. */
void nap(int64_t us);

/* scene_fork starts a process that dies with this one and ends with what `live` returns; its
 * pid, or -1. process_await reaps one that should end by itself within that time; returns its
 * status, or -1 if it had to be killed. */
pid_t scene_fork(const struct scene *scene, int (*live)(const struct scene *, void *arg),
                 void *arg);
int process_await(pid_t pid, int64_t limit_ms);

/* ---- a thread of a client ---- */

struct worker;

/* What a turn is made of: the honest way is in turn.c, mutant.c replaces one or two. */
struct moves {
    void (*shape)(struct worker *worker); /* changes what was drawn; NULL: nothing does */
    int (*acquire)(struct worker *worker, const dibs_request *request, dibs_error *err);
    int (*held)(struct worker *worker);
    uint64_t (*token)(struct worker *worker);
    void (*on_lost)(dibs_hold *hold, void *turn);
    int (*admits)(uint64_t largest, uint64_t token); /* of the register */
    int (*release)(struct worker *worker, dibs_error *err);
    void (*leave)(struct worker *worker); /* after the last turn; NULL: just go */
};
extern const struct moves honest_moves;
struct moves mutant_moves(int rule);

struct worker {
    const struct scene *scene;
    dibs *client;
    dibs_canceller *cancel;
    uint32_t place, life, number;
    struct moves moves;
    uint64_t random;
    uint32_t said; /* a bit for each code whose text was written down */
    struct errand errand;
    struct turn *turn;
    dibs_hold *hold;
    int is_downgraded;
    dibs_hold *secret; /* a mutant has it and does not say so */
    int64_t secret_until;
};

/* turn_take does one errand, from the request to the end of the hold. */
void turn_take(struct worker *worker);

/* worker_say writes down the text of an error. */
void worker_say(struct worker *worker, const dibs_error *err);

/* client_live is what a process of the run does; returns its exit status. */
int client_live(const struct scene *scene, uint32_t place, uint32_t life);

/* ---- the register ---- */

/* register_seal refuses a token that is older than one it has seen; register_write does too,
 * and sets `wrote` of the turn if not. Both return DIBS_OK, DIBS_ESTALE, or DIBS_EUNAVAIL if
 * whoever uses it now does not come to an end. */
int register_seal(struct worker *worker);
int register_write(struct worker *worker);

/* ---- processes, and what is asked before and after ---- */

/* pressure_us says for how long, since the machine is up, somebody waited for a processor; -1:
 * the kernel does not tell. */
int64_t pressure_us(void);

/* crew_live keeps the clients of a run going, kills and pauses them; a process of its own. */
int crew_live(const struct scene *scene, void *unused);

/* look_before asks what the engine can do, look_after what is left; processes too. */
int look_before(const struct scene *scene, void *unused);
int look_after(const struct scene *scene, void *unused);

#endif /* TORTURE_PARTS_H */
