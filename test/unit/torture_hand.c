/* SPDX-License-Identifier: MIT */
/* Histories made by hand; see torture_hand.h. */
#include "torture_hand.h"

#define ALL_CAPS                                                                         \
    (DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |               \
     DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_WAKE)

struct history *history;
struct torture_plan plan;
struct torture_fault fault;
struct verdict verdict;
uint32_t caps;

void
begin(void)
{
    history = history_new();
    assert_non_null(history);
    memset(&plan, 0, sizeof plan);
    memset(&fault, 0, sizeof fault);
    plan.url = "redis://nowhere";
    plan.slow = 1;
    plan.fault = &fault;
    caps = ALL_CAPS;
}

/* ---- making a history ---- */

struct turn *
asked(uint32_t client, double invoked)
{
    struct turn *turn = history_turn(history);
    turn->client = client;
    turn->mode = DIBS_EXCLUSIVE;
    turn->lease_ms = LEASE;
    turn->fence_code = 1;
    turn->invoked = AT(invoked);
    return turn;
}

struct turn *
refused(uint32_t client, double invoked, double returned, int code)
{
    struct turn *turn = asked(client, invoked);
    turn->wait_ms = code == DIBS_EBUSY ? DIBS_WAIT_NONE : (int64_t)(returned - invoked);
    turn->code = code;
    turn->returned = AT(returned);
    return turn;
}

struct turn *
granted(uint32_t client, double invoked, double returned, double believed, uint64_t token)
{
    struct turn *turn = asked(client, invoked);
    turn->token = token;
    turn->returned = AT(returned);
    turn->first_held = AT(returned + 0.1);
    turn->last_held = AT(believed);
    return turn;
}

struct turn *
let_go(struct turn *turn, double at, int code)
{
    turn->releasing = AT(at);
    turn->release_code = code;
    turn->released = AT(at + 1);
    return turn;
}

struct turn *
had(uint32_t client, double invoked, double from, double until, uint64_t token)
{
    return let_go(granted(client, invoked, from, until - 0.1, token), until, DIBS_OK);
}

struct turn *
shared(struct turn *turn)
{
    turn->mode = DIBS_SHARED;
    return turn;
}

struct turn *
permits(struct turn *turn, uint32_t count, uint32_t limit)
{
    turn->mode = DIBS_PERMITS;
    turn->permits = count;
    turn->limit = limit;
    return turn;
}

struct turn *
lost(struct turn *turn, double at)
{
    turn->not_held = AT(at);
    turn->lost_at = AT(at);
    turn->lost_calls = 1;
    return let_go(turn, at + 5, DIBS_ELOST);
}

void
happened(int kind, uint32_t client, double from, double until)
{
    struct incident *incident = history_incident(history, kind, "by hand");
    incident->client = client;
    incident->from = AT(from);
    incident->until = AT(until);
}

/* ---- what the check says ---- */

void
judge(void)
{
    torture_check(&plan, caps, history, &verdict);
}

void
end(void)
{
    history_free(history);
    begin();
}

static void
only_broken(int rule)
{
    for (int other = 0; other <= RULE_COUNT; other++) {
        if (other != rule && verdict.violated[other])
            fail_msg("K%d is broken too: %s", other, verdict.first[other]);
    }
}

void
is_clean(int rule)
{
    judge();
    only_broken(0);
    assert_true(torture_is_clean(&verdict));
    if (!verdict.looked[rule])
        fail_msg("K%d was not looked at", rule);
    end();
}

void
is_excused(int rule)
{
    judge();
    only_broken(0);
    assert_true(torture_is_clean(&verdict));
    if (verdict.violated[rule])
        fail_msg("K%d: %s", rule, verdict.first[rule]);
    end();
}

void
breaks(int rule)
{
    judge();
    only_broken(rule);
    if (!verdict.violated[rule])
        fail_msg("K%d is not broken: %s", rule, rule_text(rule));
    assert_true(verdict.looked[rule] > 0);
    assert_true(verdict.first[rule][0] != '\0');
    assert_false(torture_is_clean(&verdict));
    end();
}
