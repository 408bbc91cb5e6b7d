/* SPDX-License-Identifier: MIT */
/*
 * K2: what the register and the engine's fence admitted.
 *
 * The register numbers its writes, so their order is known: tokens never fall. Every write
 * that was acknowledged is in it: no number is given twice or is beyond the count, and what
 * nobody acknowledged is of somebody who was killed while it wrote.
 *
 * dibs_fence is called between `sealed` and `releasing`. What is called after a larger token
 * was admitted must be refused; and a refusal needs a larger token that was tried before it
 * returned.
 */
#include "check.h"

/* ---- the register ---- */

static uint64_t
number_of_write(const struct check *check, const struct turn *turn)
{
    (void)check;
    return turn->wrote;
}

/* it may have written, and died before it could say so */
static int
may_have_written(const struct check *check, const struct turn *turn)
{
    return was_granted(turn) && !turn->wrote && !turn->releasing && kill_of(check, turn);
}

static void
check_write(struct check *check, const struct keyed *write, const struct keyed *before,
            uint64_t writes)
{
    const struct turn *turn = write->turn;
    rule_looked(check, 2);
    if (write->key > writes)
        rule_broken(check, 2, "write %llu of %s is gone: the register has %llu",
                    (unsigned long long)write->key, words_of(turn).text,
                    (unsigned long long)writes);
    if (before && before->key == write->key)
        rule_broken(check, 2, "write %llu is both of %s and of %s",
                    (unsigned long long)write->key, words_of(before->turn).text,
                    words_of(turn).text);
    else if (before && before->turn->token > turn->token)
        rule_broken(check, 2, "the register took write %llu of %s after that of %s",
                    (unsigned long long)write->key, words_of(turn).text,
                    words_of(before->turn).text);
}

static void
check_register(struct check *check, const struct lot *lot, uint32_t name)
{
    const struct fenced_register *reg = &check->history->registers[name];
    size_t count = order_turns(check, 0, lot, number_of_write);
    uint64_t sum = 0, unheard = 0;
    for (size_t i = 0; i < count; i++) {
        const struct keyed *write = &check->orders[0][i];
        check_write(check, write, i ? write - 1 : NULL, reg->writes);
        sum += write->turn->token;
    }
    for (size_t i = 0; i < lot->count; i++)
        unheard += (uint64_t)may_have_written(check, lot->list[i].turn);
    if (reg->writes > count + unheard)
        rule_broken(check, 2, "%llu writes of name %u, of which nobody knows %llu",
                    (unsigned long long)reg->writes, name,
                    (unsigned long long)(reg->writes - count));
    if (!unheard && reg->writes == count && reg->sum != sum)
        rule_broken(check, 2, "what was written to name %u is not what is there", name);
}

/* ---- the engine's fence ---- */

static int
asked_the_fence(const struct turn *turn)
{
    return was_granted(turn) && turn->sealed && turn->fence_code != 1;
}

static uint64_t
fence_begins(const struct check *check, const struct turn *turn)
{
    (void)check;
    return asked_the_fence(turn) ? (uint64_t)turn->sealed : 0;
}

static uint64_t
fence_admitted(const struct check *check, const struct turn *turn)
{
    (void)check;
    return asked_the_fence(turn) && turn->fence_code == DIBS_OK
               ? (uint64_t)turn->releasing
               : 0;
}

/* in the order in which it was asked, against what it had admitted by then */
static void
check_admissions(struct check *check, size_t asked, size_t admitted)
{
    const struct turn *largest = NULL;
    size_t done = 0;
    for (size_t i = 0; i < asked; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        for (; done < admitted && check->orders[1][done].key <= (uint64_t)turn->sealed;
             done++) {
            const struct turn *other = check->orders[1][done].turn;
            if (!largest || other->token > largest->token)
                largest = other;
        }
        if (!largest || turn->fence_code != DIBS_OK)
            continue;
        rule_looked(check, 2);
        if (largest->token > turn->token)
            rule_broken(check, 2, "the fence admitted %s at %.3f ms, after %s",
                        words_of(turn).text, ms_of(check, turn->sealed),
                        words_of(largest).text);
    }
}

static uint64_t
fence_refused(const struct check *check, const struct turn *turn)
{
    (void)check;
    return asked_the_fence(turn) && turn->fence_code == DIBS_ESTALE
               ? (uint64_t)turn->releasing
               : 0;
}

static uint64_t
may_have_asked(const struct check *check, const struct turn *turn)
{
    return asked_the_fence(turn) || kill_of(check, turn) ? (uint64_t)turn->sealed : 0;
}

static void
check_refusals(struct check *check, const struct lot *lot)
{
    size_t refused = order_turns(check, 0, lot, fence_refused);
    size_t asked = order_turns(check, 1, lot, may_have_asked);
    size_t begun = 0;
    uint64_t largest = 0;
    for (size_t i = 0; i < refused; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        for (; begun < asked && check->orders[1][begun].key <= check->orders[0][i].key;
             begun++) {
            uint64_t token = check->orders[1][begun].turn->token;
            largest = token > largest ? token : largest;
        }
        rule_looked(check, 2);
        if (largest <= turn->token)
            rule_broken(check, 2, "the fence refused %s by %.3f ms without a reason",
                        words_of(turn).text, ms_of(check, turn->releasing));
    }
}

void
check_resource(struct check *check, const struct lot *lot, uint32_t name)
{
    check_register(check, lot, name);
    size_t asked = order_turns(check, 0, lot, fence_begins);
    check_admissions(check, asked, order_turns(check, 1, lot, fence_admitted));
    check_refusals(check, lot);
}
