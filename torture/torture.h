/* SPDX-License-Identifier: MIT */
/*
 * Torture: many processes use a few locks of an engine while they are killed and stopped,
 * and while servers are too; then what each of them saw is checked against what dibs
 * promises. `dibs torture` and test/faults are the same run: the first hurts its own
 * processes only, the second knows the servers and hurts them as well.
 *
 *   history.[ch]  what a run leaves behind (read it first)
 *   plan.c        from a seed, what is done and when
 *   turn.c        one turn of a thread: asks, holds, writes, gives back
 *   client.c      a process of the run and its threads
 *   register.c    the resource that is written to
 *   crew.c        the process that has the clients: kills, pauses, replaces them
 *   freeze.[ch]   pauses without a signal
 *   scene.c       what all processes of a run share, and how they are made
 *   run.c         a run from beginning to end; look.c what it asks before and after
 *   pressure.c    how busy the machine was meanwhile
 *   check.[ch]    the rules K1 to K13, each in check_*.c (K14 is for who has the servers)
 *   mutant.c      clients that break a rule on purpose, for each rule
 *
 * It uses dibs by dibs.h only. Whoever calls torture_run must have one thread and no open
 * client: processes are made by fork.
 */
#ifndef TORTURE_TORTURE_H
#define TORTURE_TORTURE_H

#include <stddef.h>
#include <stdint.h>

#include "history.h"

/* What is done to servers, by whoever runs them. `strike` is called now and then in the
 * process that called torture_run: it does one thing, for about `for_ms`, and undoes it
 * before it returns; what it did is in `what`. It returns 0, or -1 if nothing was done.
 * `random` is from the plan's seed. */
struct torture_fault {
    int (*strike)(void *arg, uint64_t random, int64_t for_ms, char what[40]);
    void *arg;
    /* How long after the end of a strike holds may still be lost by it, and nobody be
     * granted: an election, a reconnect, a quarantine. */
    int64_t heal_ms;
    int64_t every_ms; /* about; 0: five times the lease */
};

/* as many as a run can have; of names, HISTORY_NAMES */
#define TORTURE_CLIENTS 256
#define TORTURE_THREADS 64

struct torture_plan {
    const char *url;
    uint64_t seed;
    int64_t run_ms;
    uint32_t clients, threads; /* processes, and threads in each of them */
    uint32_t names;
    uint32_t lease_ms;
    uint32_t modes;        /* a bit for each enum dibs_mode that is used, 1 << mode */
    int64_t kill_every_ms; /* about; 0: never */
    int64_t pause_every_ms;
    const struct torture_fault *fault; /* NULL: servers are left alone */
    const char *secret;                /* must be in no text; NULL: there is none */
    int slow;   /* by how much this machine may be late: 1, more under a sanitizer */
    int mutant; /* the number of a rule to break on purpose; 0: none */
    /* called about ten times a second; may be NULL. What it returns, if not 0, ends the
     * run early: what was done till then is checked. */
    int (*progress)(void *arg, int64_t done_ms, const struct history *history);
    void *progress_arg;
};

#define RULE_COUNT 14 /* K1 to K14 are 1 to 14 */

struct verdict {
    uint64_t acquired, refused, lost, kills, pauses, strikes; /* what happened */
    uint64_t freezes;     /* so many of the pauses were by the freezer, not by SIGSTOP */
    char no_freezer[160]; /* why none can be; "": they can */
    uint64_t looked[RULE_COUNT + 1];   /* how often a rule could have been broken */
    uint64_t violated[RULE_COUNT + 1]; /* how often it was */
    char first[RULE_COUNT + 1][400];   /* the first time, for people */
    int64_t handover_p50_ns, handover_p99_ns, handover_max_ns;
    int64_t slack_min_ns; /* least time between being told of a loss and the next grant */
    int busy;             /* so much of the time, in percent, processors were lacking */
    char engine[16], url[256]; /* where; without the password */
};

/* torture_plan_init sets what a plan has unless somebody says otherwise. */
void torture_plan_init(struct torture_plan *plan, const char *url);

/* torture_run does it all and fills in the verdict. Returns 0, or a code of dibs.h with `why`
 * set if it could not be done (the engine cannot be opened, no memory) or a process of it
 * crashed. A run in which a rule was broken returns 0 too: torture_is_clean says whether none
 * was. */
int torture_run(const struct torture_plan *plan, struct verdict *out, char why[256]);
int torture_is_clean(const struct verdict *verdict);

/* rule_text says what a rule asks for: "no two believe to have what only one can have". */
const char *rule_text(int rule);

/* torture_check is the end of torture_run, by itself: it reads a history. `caps` are those
 * of the client. */
void torture_check(const struct torture_plan *plan, uint32_t caps,
                   const struct history *history, struct verdict *out);

#endif /* TORTURE_TORTURE_H */
