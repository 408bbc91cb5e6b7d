/* SPDX-License-Identifier: MIT */
/*
 * Histories made by hand, for the tests of torture/check*.c. Times are in milliseconds since
 * the beginning. A case says begin(), then makes a history and says what becomes of it, as
 * often as it likes: is_clean, is_excused and breaks judge it and begin a new one.
 */
#ifndef UNIT_TORTURE_HAND_H
#define UNIT_TORTURE_HAND_H

#include "unit.h"

#include "torture.h"

#define HAND_BEGIN (INT64_C(1000000) * 1000 * 1000)
#define AT(ms) (HAND_BEGIN + (int64_t)((ms)*1e6))
#define LEASE 1000

extern struct history *history;
extern struct torture_plan plan;
extern struct torture_fault fault; /* of the plan */
extern struct verdict verdict;
extern uint32_t caps; /* all but DIRECT */

void begin(void);

/* ---- turns ---- */

/* asked for, and not answered; refused; granted and believed in until then */
struct turn *asked(uint32_t client, double invoked);
struct turn *refused(uint32_t client, double invoked, double returned, int code);
struct turn *granted(uint32_t client, double invoked, double returned, double believed,
                     uint64_t token);
/* released from `at` on, for a millisecond */
struct turn *let_go(struct turn *turn, double at, int code);
/* asked for, had, and given back at `until` */
struct turn *had(uint32_t client, double invoked, double from, double until,
                 uint64_t token);
struct turn *shared(struct turn *turn);
struct turn *permits(struct turn *turn, uint32_t count, uint32_t limit);
/* a loss that was seen at `at`, told then, and released a little later */
struct turn *lost(struct turn *turn, double at);

/* of enum incident_kind */
void happened(int kind, uint32_t client, double from, double until);

/* ---- what the check says ---- */

void judge(void);
/* judge has spoken: on with an empty history */
void end(void);
/* nothing is broken, and the rule had something to look at */
void is_clean(int rule);
/* nothing is broken: it cannot be told */
void is_excused(int rule);
/* this rule is broken, and no other */
void breaks(int rule);

#endif
