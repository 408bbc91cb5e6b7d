/* SPDX-License-Identifier: MIT */
/*
 * The play: one opens, tries, renews; another opens and waits; the first gives the lock back
 * and the second is handed it, changes a cell, gives it back; both close. Then a judge, who
 * saw nothing of the fault, takes the lock.
 *
 * Every call must come back in time, with DIBS_OK or a code that fits and a text; no two may
 * believe to have the lock; tokens rise; and what was said to be done is done. See sweep.h.
 * Parts: what must be true, the steps, the second, cells and listings, all of it.
 */
#include "sweep.h"

#include <stdarg.h>

/* what a call may take by itself, beside the time that dibs allows it */
#define SLACK_MS slowly(500)
#define OPEN_MS ((uint32_t)slowly(1500))
/* what dibs allows a request about a lease, a release, cells, listings, and the end */
#define ASK_MS (LEASE_MS / 6)
#define RELEASE_MS 1000
#define CELL_MS 5000
#define LOOK_MS 10000
#define CLOSE_MS 3000

/* the codes with which a call may fail, as bits */
#define BIT(code) (1u << -(code))
#define TROUBLE (BIT(DIBS_EUNAVAIL) | BIT(DIBS_EUNKNOWN) | BIT(DIBS_ETIMEDOUT))

/* ---- what must be true ---- */

static _Noreturn void __attribute__((format(printf, 2, 3)))
wrong(const play *in, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    FAIL("%s: %s", in->fault, text);
}

/* not as it was said: the fault's doing, if what is heard may be wrong */
static void __attribute__((format(printf, 2, 3)))
lie(const play *in, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (!in->may_lie) {
        wrong(in, "%s", text);
    }
    in->tally->lies++;
    printf("%s: %s\n", in->fault, text);
}

/* One call: when it began, and for how long it may take. */
struct call {
    const char *what;
    int64_t began, limit_ms;
};

static struct call
begin(const char *what, int64_t limit_ms)
{
    oops = (dibs_error){ 0 };
    return (struct call){ what, now_ms(), limit_ms };
}

/* the machine had no time for us since the play began: nobody can be held to a time */
static int
is_excused(const play *in)
{
    int is = was_late_since(in->began);
    in->tally->late += is;
    return is;
}

static void
check_time(const play *in, const struct call *call)
{
    int64_t took = now_ms() - call->began;
    if (took > call->limit_ms + SLACK_MS && !is_excused(in)) {
        wrong(in, "%s took %lld ms, not %lld", call->what, (long long)took,
              (long long)call->limit_ms);
    }
}

/* nor does a text that only says what the code means; what is garbled cannot be explained */
static int
says_nothing(const play *in, int code)
{
    const char *meaning = dibs_strerror(code);
    const char *found = strstr(oops.text, meaning);
    return oops.text[0] == '\0' || (!in->may_lie && dibs_retryable(code) &&
                                    found != NULL && strcmp(found, meaning) == 0);
}

/* it came back in time, and if it failed, with one of those codes and a text */
static int
came_back(const play *in, const struct call *call, int code, unsigned may)
{
    check_time(in, call);
    in->tally->codes[-code]++;
    if (code == DIBS_OK) {
        return code;
    }
    if (says_nothing(in, code) || oops.code != code) {
        wrong(in, "%s gives %s, but says %s: '%s'", call->what, dibs_errname(code),
              dibs_errname(oops.code), oops.text);
    }
    int fits = in->may_lie || (in->may_fail && (BIT(code) & may) != 0) ||
               ((BIT(code) & (TROUBLE | BIT(DIBS_ELOST))) != 0 && is_excused(in));
    if (!fits) {
        wrong(in, "%s gives %s: %s", call->what, dibs_errname(code), oops.text);
    }
    return code;
}

/* how long it may be until what a dead or unlucky client had is free */
static int64_t
free_ms(const play *in)
{
    return LEASE_MS + slowly(in->at->remains_ms) +
           (in->is_silent ? in->at->silent_ms : 0);
}

/* ---- the steps ---- */

/* what happens once cannot happen to the second try too */
static dibs *
open_client(const play *in)
{
    dibs *client = NULL;
    for (int i = 0; client == NULL && (i < 2 || (i < 8 && is_excused(in))); i++) {
        struct call call = begin("open", OPEN_MS);
        (void)came_back(in, &call, try_open(&client, in->through, OPEN_MS), TROUBLE);
    }
    if (client == NULL) {
        wrong(in, "it cannot be opened any more: %s", oops.text);
    }
    return client;
}

/* takes the lock, which nobody else has, for sure */
static dibs_hold *
take_surely(const play *in, dibs *client)
{
    dibs_hold *hold = NULL;
    dibs_request request = want(in->name, LEASE_MS);
    request.wait_ms = free_ms(in) + SLACK_MS;
    struct call call = begin("lock", request.wait_ms);
    (void)came_back(in, &call, dibs_acquire(&hold, client, &request, &oops), 0);
    return hold;
}

static dibs_hold *
take_first(const play *in, dibs *client)
{
    dibs_hold *hold = NULL;
    dibs_request request = try_for(in->name);
    struct call call = begin("trylock", ASK_MS);
    (void)came_back(in, &call, dibs_acquire(&hold, client, &request, &oops), TROUBLE);
    return hold != NULL ? hold : take_surely(in, client);
}

static void
release(const play *in, dibs_hold *hold)
{
    struct call call = begin("unlock", RELEASE_MS);
    (void)came_back(in, &call, dibs_release(hold, &oops), TROUBLE | BIT(DIBS_ELOST));
    if (dibs_held(hold)) {
        wrong(in, "it is held after unlock");
    }
}

/* renews, and if it is lost, takes it again */
static dibs_hold *
renew(const play *in, dibs *client, dibs_hold *hold)
{
    struct call call = begin("renew", ASK_MS);
    int code =
        came_back(in, &call, dibs_renew(hold, 0, &oops), TROUBLE | BIT(DIBS_ELOST));
    if (code == DIBS_ELOST && dibs_held(hold)) {
        lie(in, "it is held after renew gave ELOST");
    }
    if (dibs_held(hold)) {
        return hold;
    }
    release(in, hold);
    dibs_hold_free(hold);
    return take_surely(in, client);
}

/* nobody has it twice at the time of the second look */
static void
check_belief(const play *in, dibs_hold *one, dibs_hold *other)
{
    int before = dibs_held(one), both = dibs_held(other), after = dibs_held(one);
    if (before && both && after) {
        lie(in, "two believe to have it, with tokens %llu and %llu",
            (unsigned long long)dibs_token(one), (unsigned long long)dibs_token(other));
    }
}

static void
check_tokens(const play *in, dibs *client, uint64_t before, const dibs_hold *after)
{
    if ((dibs_caps(client) & DIBS_CAP_TOKEN) != 0 && dibs_token(after) <= before) {
        lie(in, "the token %llu comes after %llu", (unsigned long long)dibs_token(after),
            (unsigned long long)before);
    }
}

/* ---- the second ---- */

static dibs_op *
wait_in_line(const play *in, dibs *client)
{
    dibs_request request = want(in->name, LEASE_MS);
    dibs_op *op = NULL;
    /* the first may have been unlucky, and then its lease has to end first */
    request.wait_ms = 2 * free_ms(in) + SLACK_MS;
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    return op;
}

/* until it waits, or for a while */
static void
let_it_wait(dibs *client, dibs_op *op)
{
    dibs_stats stats = { 0 };
    int64_t until = now_ms() + slowly(150);
    while (stats.waited == 0 && now_ms() < until && !has_ended(op, 5)) {
        dibs_stats_read(&stats, client);
    }
}

/* what it got; a wait is long enough for every fault, so that is the lock */
static dibs_hold *
end_of_wait(const play *in, dibs_op *op, dibs_hold *first)
{
    dibs_hold *hold = NULL;
    struct call call = begin("wait", 2 * free_ms(in) + SLACK_MS);
    while (!has_ended(op, 100)) {
        check_time(in, &call);
    }
    int code = came_back(in, &call, dibs_op_finish(&hold, op, &oops), 0);
    if (code == DIBS_OK && first != NULL) {
        check_belief(in, hold, first);
    }
    return hold;
}

/* The first gives it back, the second gets it: or it gets it before, because the first has
 * lost it. */
static dibs_hold *
hand_over(const play *in, dibs *client, dibs_hold *first)
{
    dibs_op *op = wait_in_line(in, client);
    let_it_wait(client, op);
    int is_early = has_ended(op, 0);
    dibs_hold *second = is_early ? end_of_wait(in, op, first) : NULL;
    release(in, first);
    second = is_early ? second : end_of_wait(in, op, first);
    if (second != NULL) {
        check_tokens(in, client, dibs_token(first), second);
    }
    return second;
}

/* ---- cells and listings ---- */

struct found {
    const char *name;
    int holders;
};

static int
look_at(const dibs_report *report, void *arg)
{
    struct found *found = arg;
    if (strlen(found->name) == report->name_len &&
        memcmp(found->name, report->name, report->name_len) == 0) {
        found->holders += (int)report->holder_count;
    }
    return 0;
}

static void
look(const play *in, dibs *client, dibs_hold *held)
{
    struct found found = { in->name, 0 };
    if ((dibs_caps(client) & DIBS_CAP_INSPECT) == 0) {
        return;
    }
    int before = held != NULL && dibs_held(held);
    struct call call = begin("list", LOOK_MS);
    int code = came_back(in, &call, dibs_list(client, in->name, look_at, &found, &oops),
                         TROUBLE);
    int after = held != NULL && dibs_held(held);
    if (code == DIBS_OK && before && after && found.holders != 1) {
        lie(in, "list finds %d holders", found.holders);
    }
}

static int
read_cell(const play *in, dibs *client, dibs_cell *out)
{
    struct call call = begin("cell read", CELL_MS);
    return came_back(in, &call, dibs_cell_read(out, client, in->name, &oops),
                     TROUBLE | BIT(DIBS_ENOTFOUND));
}

static void
check_cell(const play *in, const dibs_cell *cell, uint64_t version)
{
    if (cell->version != version || cell->len != 4 ||
        memcmp(cell->value, "said", 4) != 0) {
        lie(in, "the cell is at version %llu, not %llu",
            (unsigned long long)cell->version, (unsigned long long)version);
    }
}

/* nobody else changes it: what was swapped stays, and what failed may be there or not */
static void
swap_cell(const play *in, dibs *client)
{
    dibs_cell cell = { 0 };
    uint64_t version = 0;
    if ((dibs_caps(client) & DIBS_CAP_CELL) == 0) {
        return;
    }
    struct call call = begin("cell swap", CELL_MS);
    int code = came_back(in, &call,
                         dibs_cell_swap(&version, client, in->name, 0, "said", 4, &oops),
                         TROUBLE);
    int seen = read_cell(in, client, &cell);
    if (code == DIBS_OK && seen == DIBS_ENOTFOUND) {
        lie(in, "the cell that was swapped is not there");
    }
    if (code == DIBS_OK && seen == DIBS_OK) {
        check_cell(in, &cell, version);
    }
}

/* ---- all of it ---- */

static void
close_client(const play *in, dibs *client)
{
    struct call call = begin("close", CLOSE_MS);
    dibs_close(client);
    check_time(in, &call);
}

/* the largest token of the play, for the judge */
static uint64_t
act(const play *in, dibs *first, dibs *second)
{
    uint64_t token = 0;
    dibs_hold *hold = take_first(in, first), *next = NULL;
    hold = hold != NULL ? renew(in, first, hold) : NULL;
    if (hold != NULL) {
        token = dibs_token(hold);
        next = hand_over(in, second, hold);
    }
    look(in, first, next);
    swap_cell(in, second);
    if (next != NULL) {
        token = dibs_token(next);
        release(in, next);
    }
    dibs_hold_free(hold);
    dibs_hold_free(next);
    return token;
}

/* it finds nothing in its way */
static void
judge(play *in, uint64_t token)
{
    dibs_hold *hold = take_surely(in, in->judge);
    if (hold == NULL && !is_excused(in)) {
        wrong(in, "the lock cannot be had: %s", oops.text);
    }
    if (hold != NULL) {
        check_tokens(in, in->judge, token, hold);
        release(in, hold);
        dibs_hold_free(hold);
    }
}

void
play_run(play *in)
{
    in->began = now_ms();
    dibs *first = open_client(in), *second = open_client(in);
    uint64_t token = act(in, first, second);
    close_client(in, first);
    close_client(in, second);
    judge(in, token);
}
