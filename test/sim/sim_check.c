/* SPDX-License-Identifier: MIT */
/*
 * The history of a run, and the rules on what the processes see: K1 to K5 and K9 to K10
 * of the list below. Those on the server's side are in sim_server.c. Rules are looked at
 * while the run goes on, at the moments when they could be broken, so that a trace ends
 * where the trouble is.
 *
 *  K1  no two processes or threads believe (dibs_held) to have what only one can have.
 *      Looked at whenever something is granted: belief begins only then.
 *  K2  the fence admits no token after a larger one, and refuses none without reason.
 *  K3  a later grant that excludes an earlier one has the larger token.
 *  K4  on_lost is called once, not after a release, and before anybody else is granted.
 *  K5  what was lost stays lost.
 *  K6  (server) a release or renewal touches nothing but its own entries.
 *  K7  first come, first served: (server) among processes, (here) among threads of one.
 *  K8  (server) who is next gets it in time, whoever died before.
 *  K9  nothing is left: (here) of a client that was closed, (server) of anybody.
 *  K10 every call comes back in time, and no wait is forgotten.
 *  K11 (server) nothing is held for long that nobody knows of.
 *
 * In this order: the history, violations, gens (what a request leads to), then the rules.
 * Not here: what needs several servers, restarts or a wall clock; K12 to K14.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"
#include "sim.h"

#define GENS_MAX 4096
#define HISTORY_MAX 65536
/* what a call may take beyond its own limit, and then some hiccups */
#define SLACK (62 * DIBS_MS)
/* ... and one for several locks: a call that ends late, one more, and giving all back */
#define ROLL_BACK (45 * DIBS_MS)
/* a cancel that comes as late as this before the grant may be too late */
#define CANCEL_RACE (5 * DIBS_MS)

struct record {
    dibs_time at;
    int op, process, name, gen;
    uint64_t value;
};

static struct record history[HISTORY_MAX];
static size_t history_count;
static uint64_t history_hash;

static struct sim_gen gens[GENS_MAX];
static size_t gen_count;
static int uses[SIM_PROCESSES][SIM_NAMES];
static dibs_time last_use[SIM_PROCESSES][SIM_NAMES];

static struct {
    uint64_t largest;   /* admitted, by a call that has returned */
    uint64_t attempted; /* by a call that has begun */
} fences[SIM_NAMES];

static int closing[SIM_PROCESSES];

static int violated;
static char violation[512];

static const char *const op_names[OP_COUNT] = {
    "open",  "close",     "closed",        "invoke",         "ok",
    "fail",  "seen lost", "on_lost",       "renew",          "downgrade",
    "fence", "release",   "released",      "abandon",        "cancel",
    "dead",  "paused",    "server queued", "server granted", "server ended",
};

/* ---- the history ---- */

static void
print_record(const struct record *r)
{
    printf("%12.3f ms  process %d  %-14s", (double)r->at / DIBS_MS, r->process,
           op_names[r->op]);
    if (r->name >= 0)
        printf("  name %d", r->name);
    if (r->gen >= 0)
        printf("  gen %d", r->gen);
    if (r->op == OP_FAIL || r->op == OP_RELEASED || r->op == OP_FENCE ||
        r->op == OP_RENEW || r->op == OP_DOWNGRADE)
        printf("  %s", dibs_errname((int)(int64_t)r->value));
    else if (r->value)
        printf("  %llu", (unsigned long long)r->value);
    printf("\n");
}

void
sim_record(enum sim_op op, int process, int name, int gen, uint64_t value)
{
    struct record r = { sim_now(), (int)op, process, name, gen, value };
    const uint64_t words[] = { (uint64_t)r.at, (uint64_t)op,  (uint64_t)process,
                               (uint64_t)name, (uint64_t)gen, value };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        history_hash = (history_hash ^ words[i]) * UINT64_C(0x100000001b3);
    history[history_count++ % HISTORY_MAX] = r;
    if (sim_run.trace)
        print_record(&r);
}

uint64_t
sim_history_hash(void)
{
    return history_hash;
}

size_t
sim_history_count(void)
{
    return history_count;
}

void
sim_history_print_tail(size_t count)
{
    size_t kept = history_count < HISTORY_MAX ? history_count : HISTORY_MAX;
    size_t from = history_count - (count < kept ? count : kept);

    for (size_t i = from; i < history_count; i++)
        print_record(&history[i % HISTORY_MAX]);
}

void
sim_check_reset(void)
{
    history_count = gen_count = 0;
    history_hash = UINT64_C(0xcbf29ce484222325);
    memset(uses, 0, sizeof(uses));
    memset(last_use, 0, sizeof(last_use));
    memset(fences, 0, sizeof(fences));
    memset(closing, 0, sizeof(closing));
    violated = 0;
    sim_server_reset();
}

/* ---- violations ---- */

void
sim_violation(enum sim_rule rule, const char *format, ...)
{
    va_list args;
    int used;

    /* a mutant breaks many rules; its own is the one that must notice */
    if (violated || (sim_run.mutant && sim_run.mutant != (int)rule))
        return;
    violated = rule;
    used = snprintf(violation, sizeof(violation), "K%d at %.3f ms: ", rule,
                    (double)sim_now() / DIBS_MS);
    va_start(args, format);
    (void)vsnprintf(violation + used, sizeof(violation) - (size_t)used, format, args);
    va_end(args);
}

int
sim_violated(void)
{
    return violated;
}

const char *
sim_violation_text(void)
{
    return violation;
}

/* ---- gens ---- */

struct sim_gen *
sim_check_begin(const dibs_request *request, int name)
{
    struct sim_gen *gen = &gens[gen_count];

    if (gen_count == GENS_MAX)
        abort();
    memset(gen, 0, sizeof(*gen));
    gen->id = (int)gen_count++;
    gen->process = sim_process();
    gen->name = name;
    /* an owner that is a text is the same for all threads of the process */
    gen->fiber = request->owner ? UINT64_MAX : dibs__thread_number();
    gen->request = *request;
    gen->mode = request->mode;
    gen->invoked = sim_now();
    sim_watch_sleep();
    uses[gen->process][name]++;
    sim_record(OP_INVOKE, gen->process, name, gen->id, (uint64_t)gen->mode);
    return gen;
}

static void
end_use(const struct sim_gen *gen)
{
    uses[gen->process][gen->name]--;
    last_use[gen->process][gen->name] = sim_now();
}

dibs_time
sim_check_last_use(int process, int name)
{
    return uses[process][name] && !sim_is_dead(process) ? DIBS_NEVER
                                                        : last_use[process][name];
}

void
sim_check_dead(int process)
{
    for (int name = 0; name < SIM_NAMES; name++)
        last_use[process][name] = sim_now();
    sim_record(OP_DEAD, process, -1, -1, 0);
}

/* the process cannot be blamed for time it did not have */
static int
was_hindered(const struct sim_gen *gen, dibs_time since)
{
    return sim_is_dead(gen->process) || sim_was_paused(gen->process, since);
}

/* ---- K10: in time ---- */

/* One call of the engine cannot be interrupted: it ends by this limit. */
static dibs_time
call_limit(const struct sim_gen *gen)
{
    dibs_time limit = gen->request.lease_ms * DIBS_MS / 6;

    return limit > 50 * DIBS_MS ? limit : 50 * DIBS_MS;
}

static void
check_returned_in_time(const struct sim_gen *gen)
{
    dibs_time wait_ms = gen->request.wait_ms;
    dibs_time limit = gen->invoked + SLACK + (gen->together ? ROLL_BACK : 0);

    if (was_hindered(gen, gen->invoked))
        return;
    if (wait_ms > 0)
        limit += wait_ms * DIBS_MS;
    else if (wait_ms == DIBS_WAIT_NONE)
        limit += call_limit(gen) * (gen->together ? SIM_NAMES : 1);
    else
        limit = DIBS_NEVER;
    if (gen->canceled && gen->canceled + call_limit(gen) + SLACK < limit)
        limit = gen->canceled + call_limit(gen) + SLACK;
    if (sim_now() > limit)
        sim_violation(K10, "gen %d came back %.3f ms too late", gen->id,
                      (double)(sim_now() - limit) / DIBS_MS);
    if (gen->hold && gen->canceled && sim_now() > gen->canceled + CANCEL_RACE)
        sim_violation(K10, "gen %d was granted %.3f ms after it was cancelled", gen->id,
                      (double)(sim_now() - gen->canceled) / DIBS_MS);
}

void
sim_check_failed(struct sim_gen *gen, int code)
{
    sim_record(OP_FAIL, gen->process, gen->name, gen->id, (uint64_t)code);
    check_returned_in_time(gen);
    gen->releasing = 1;
    end_use(gen);
}

void
sim_check_stuck(void)
{
    for (size_t i = 0; i < gen_count; i++)
        if (!gens[i].releasing && !sim_is_dead(gens[i].process))
            sim_violation(K10, "gen %d waits for ever", gens[i].id);
    sim_violation(K10, "some thread never ends");
}

/* ---- K5: lost stays lost ---- */

int
sim_check_held(struct sim_gen *gen)
{
    int held;

    sim_enter(gen->process);
    held = dibs_held(gen->hold);
    sim_leave();
    if (held && gen->seen_lost)
        sim_violation(K5, "gen %d is held again, having been lost", gen->id);
    if (!held && !gen->seen_lost) {
        gen->seen_lost = 1;
        gen->lost_at = sim_now();
        sim_record(OP_SEEN_LOST, gen->process, gen->name, gen->id, 0);
    }
    return held;
}

/* ---- K1, K3, K4: looked at with each grant ---- */

static int
is_same_owner(const struct sim_gen *a, const struct sim_gen *b)
{
    return a->process == b->process && a->fiber == b->fiber;
}

static int
excludes(const struct sim_gen *a, const struct sim_gen *b)
{
    return a->name == b->name && !is_same_owner(a, b) && a->mode != DIBS_PERMITS &&
           (a->mode == DIBS_EXCLUSIVE || b->mode == DIBS_EXCLUSIVE);
}

static void
check_belief(struct sim_gen *gen)
{
    uint32_t permits = gen->mode == DIBS_PERMITS ? gen->request.permits : 0;

    for (size_t i = 0; i < gen_count; i++) {
        struct sim_gen *other = &gens[i];

        if (other == gen || other->name != gen->name || !other->hold ||
            other->releasing || sim_is_dead(other->process) || !sim_check_held(other))
            continue;
        if (excludes(gen, other))
            sim_violation(K1, "gen %d and gen %d both believe to hold name %d", gen->id,
                          other->id, gen->name);
        if (gen->mode == DIBS_PERMITS)
            permits += other->request.permits;
    }
    if (permits > SIM_LIMIT)
        sim_violation(K1, "%u permits of name %d are out", permits, gen->name);
}

static void
check_token(const struct sim_gen *gen)
{
    if (!gen->token)
        sim_violation(K3, "gen %d has no token", gen->id);
    for (size_t i = 0; i < gen_count; i++) {
        const struct sim_gen *earlier = &gens[i];

        if (earlier != gen && earlier->token && excludes(gen, earlier) &&
            earlier->token >= gen->token)
            sim_violation(K3, "gen %d has token %llu, gen %d before it %llu", gen->id,
                          (unsigned long long)gen->token, earlier->id,
                          (unsigned long long)earlier->token);
    }
}

static void
check_others_were_told(const struct sim_gen *gen)
{
    for (size_t i = 0; i < gen_count; i++) {
        struct sim_gen *other = &gens[i];

        if (other->process == gen->process || !other->hold || other->releasing ||
            !other->request.on_lost || !excludes(gen, other) || other->lost_callbacks ||
            was_hindered(other, other->invoked))
            continue;
        if (!sim_check_held(other))
            sim_violation(K4, "gen %d is granted, and gen %d was not told of its loss",
                          gen->id, other->id);
    }
}

void
sim_check_lost_callback(struct sim_gen *gen)
{
    sim_record(OP_LOST_CALLBACK, gen->process, gen->name, gen->id, 0);
    if (++gen->lost_callbacks > 1)
        sim_violation(K4, "gen %d was told of its loss twice", gen->id);
    if (gen->released || gen->ended)
        sim_violation(K4, "gen %d was told of a loss after its release", gen->id);
    else if (gen->hold && !gen->releasing && sim_check_held(gen))
        sim_violation(K4, "gen %d was told of a loss and holds on", gen->id);
}

void
sim_check_lost_fd(struct sim_gen *gen, int readable)
{
    int held = sim_check_held(gen);

    if (held && readable)
        sim_violation(K4, "the lost fd of gen %d is readable, and it holds on", gen->id);
    if (!held && !readable && sim_now() - gen->lost_at > SLACK &&
        !was_hindered(gen, gen->invoked))
        sim_violation(K4, "gen %d is lost, and its fd is not readable", gen->id);
}

/* ---- K7 among threads of one process ---- */

/* Who queued before the other asked goes first. Those who fail in the end may be
 * passed, so it counts only when both were granted; and on a bad network somebody's
 * turn may pass before the grant arrives. */
static void
check_thread_order(const struct sim_gen *gen)
{
    if (sim_network.is_faulty || gen->request.owner || gen->reentry)
        return;
    if (gen->overtaken_by)
        sim_violation(K7, "gen %d overtook gen %d, a thread of the same process",
                      gen->overtaken_by - 1, gen->id);
    for (size_t i = 0; i < gen_count; i++) {
        struct sim_gen *other = &gens[i];

        if (other->process != gen->process || other->name != gen->name || other->hold ||
            other->releasing || other == gen || other->together || other->request.owner ||
            other->mode != DIBS_EXCLUSIVE || gen->mode != DIBS_EXCLUSIVE)
            continue;
        if (sim_first_slept(other->fiber) < gen->invoked)
            other->overtaken_by = gen->id + 1;
    }
}

void
sim_check_granted(struct sim_gen *gen)
{
    gen->token = dibs_token(gen->hold);
    for (size_t i = 0; i < gen_count; i++)
        if (&gens[i] != gen && gens[i].name == gen->name && gens[i].hold &&
            is_same_owner(gen, &gens[i]))
            gen->reentry = 1;
    sim_record(OP_OK, gen->process, gen->name, gen->id, gen->token);
    check_returned_in_time(gen);
    gen->releasing = closing[gen->process];
    if (!sim_check_held(gen))
        return; /* it took too long to get here; others may have it by now */
    check_belief(gen);
    check_others_were_told(gen);
    check_thread_order(gen);
    if (!gen->reentry)
        check_token(gen);
}

/* ---- K2: the fence ---- */

/* A call that began after a larger token's call had returned must be refused; and a
 * refusal needs a larger token's call to have begun. */
void
sim_check_fence(struct sim_gen *gen, int code, uint64_t largest_before)
{
    sim_record(OP_FENCE, gen->process, gen->name, gen->id, (uint64_t)code);
    if (code == DIBS_OK && gen->token < largest_before)
        sim_violation(K2, "the fence of name %d admits %llu after %llu", gen->name,
                      (unsigned long long)gen->token, (unsigned long long)largest_before);
    if (code == DIBS_ESTALE && gen->token >= fences[gen->name].attempted)
        sim_violation(K2, "the fence of name %d refuses %llu, the largest so far",
                      gen->name, (unsigned long long)gen->token);
    if (code == DIBS_OK && gen->token > fences[gen->name].largest)
        fences[gen->name].largest = gen->token;
}

uint64_t
sim_check_fence_begin(const struct sim_gen *gen)
{
    if (gen->token > fences[gen->name].attempted)
        fences[gen->name].attempted = gen->token;
    return fences[gen->name].largest;
}

/* ---- giving back ---- */

/* closing gives back whatever the process has, or is just getting */
void
sim_check_closing(int process)
{
    closing[process] = 1;
    for (size_t i = 0; i < gen_count; i++)
        if (gens[i].process == process && gens[i].hold)
            gens[i].releasing = 1;
    sim_record(OP_CLOSE, process, -1, -1, 0);
}

void
sim_check_release(struct sim_gen *gen)
{
    int held = sim_check_held(gen);

    /* two hiccups and a thread's start after the loss at the latest */
    if (!held && gen->request.on_lost && !gen->lost_callbacks &&
        sim_now() - gen->lost_at > SLACK && !was_hindered(gen, gen->invoked))
        sim_violation(K4, "gen %d was never told of its loss", gen->id);
    gen->releasing = 1;
    sim_record(OP_RELEASE, gen->process, gen->name, gen->id, (uint64_t)held);
}

void
sim_check_ended(struct sim_gen *gen, enum sim_op how, int code)
{
    gen->hold = NULL;
    gen->ended = 1;
    sim_record(how, gen->process, gen->name, gen->id, (uint64_t)code);
    end_use(gen);
}
