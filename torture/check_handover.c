/* SPDX-License-Identifier: MIT */
/*
 * K8: who waits is served in time. In no stretch in which the name is free (check_free.c: all
 * that was killed, let go or hurt has had its time) does anybody alive wait for longer than
 * it takes to wake up.
 *
 * And how long a hand-over takes: from the call that releases to the return of the call that
 * is granted next, where its caller was waiting by then and nothing came between.
 */
#include "check.h"

#include <stdlib.h>

#define SERVED_BY (250 * MS)
/* engines that cannot wake anybody are asked again once a second or so */
#define LOOKS_AGAIN (1250 * MS)

static int64_t
served_by(const struct check *check)
{
    int64_t looks = check->caps & DIBS_CAP_WAKE ? 0 : LOOKS_AGAIN;
    return SERVED_BY * check->slow + looks;
}

/* ---- who waits in vain ---- */

static uint64_t
asks_from(const struct check *check, const struct turn *turn)
{
    (void)check;
    return turn->wait_ms != DIBS_WAIT_NONE ? (uint64_t)turn->invoked : 0;
}

static int64_t
asks_until(const struct check *check, const struct turn *turn)
{
    const struct hurt *kill = kill_of(check, turn);
    if (turn->returned)
        return turn->returned;
    return kill ? kill->from : check->ended;
}

/* for how long somebody waits in a stretch, and who */
struct vain {
    int64_t longest;
    const struct turn *turn;
};

static void
vain_add(struct vain *vain, const struct check *check, const struct span *span,
         const struct turn *turn)
{
    int64_t from = turn->invoked > span->from ? turn->invoked : span->from;
    int64_t until = asks_until(check, turn);
    until = until < span->until ? until : span->until;
    if (until - from > vain->longest)
        *vain = (struct vain){ until - from, turn };
}

static void
check_stretch(struct check *check, const struct span *span, const struct vain *vain)
{
    if (!vain->turn)
        return;
    rule_looked(check, 8);
    if (vain->longest > served_by(check))
        rule_broken(check, 8, "free from %.3f ms on, %s waited for it for %.3f ms",
                    ms_of(check, span->from), words_of(vain->turn).text,
                    (double)vain->longest / MS);
}

/* Of those who asked before a stretch begins, the one who waits longest is enough to know. */
static void
check_waits(struct check *check, const struct lot *lot, const struct spans *gaps)
{
    size_t count = order_turns(check, 0, lot, asks_from);
    const struct turn *patient = NULL;
    size_t at = 0;
    for (size_t i = 0; i < gaps->count; i++) {
        const struct span *span = &gaps->list[i];
        struct vain vain = { 0, NULL };
        if (patient)
            vain_add(&vain, check, span, patient);
        for (; at < count && check->orders[0][at].key < (uint64_t)span->until; at++) {
            const struct turn *turn = check->orders[0][at].turn;
            vain_add(&vain, check, span, turn);
            if (!patient || asks_until(check, turn) > asks_until(check, patient))
                patient = turn;
        }
        check_stretch(check, span, &vain);
    }
}

/* ---- figures ---- */

static int
compare_span(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->until < b->until ? -1 : a->until > b->until;
}

/* is this just a stretch in which it was free, from the end of one to the next? */
static int
is_gap(const struct spans *gaps, int64_t from, int64_t until)
{
    const struct span span = { from, until };
    return gaps->count &&
           bsearch(&span, gaps->list, gaps->count, sizeof span, compare_span) != NULL;
}

static int
is_clean(const struct turn *before, const struct turn *next, const struct spans *gaps)
{
    if (before->mode != DIBS_EXCLUSIVE || next->mode != DIBS_EXCLUSIVE ||
        !before->released || before->abandoned || before->release_code != DIBS_OK ||
        next->invoked >= before->releasing || next->returned <= before->releasing)
        return 0;
    return next->returned <= before->released ||
           is_gap(gaps, before->released, next->returned);
}

static void
note_handovers(struct check *check, const struct lot *lot, const struct spans *gaps)
{
    size_t count = lot->has_permits ? 0 : order_turns(check, 0, lot, by_token);
    for (size_t i = 1; i < count; i++) {
        const struct turn *before = check->orders[0][i - 1].turn;
        const struct turn *next = check->orders[0][i].turn;
        if (is_clean(before, next, gaps))
            check->handovers[check->handover_count++] =
                next->returned - before->releasing;
    }
}

void
check_handover(struct check *check, const struct lot *lot)
{
    struct spans gaps;
    if (free_times(&gaps, check, lot, FREE_TILL_RETURN) != 0)
        return;
    check_waits(check, lot, &gaps);
    note_handovers(check, lot, &gaps);
    free(gaps.list);
}

static int
by_length(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

void
check_handover_figures(struct check *check)
{
    struct verdict *out = check->out;
    size_t count = check->handover_count;
    if (!count)
        return;
    qsort(check->handovers, count, sizeof *check->handovers, by_length);
    out->handover_p50_ns = check->handovers[count / 2];
    out->handover_p99_ns = check->handovers[count - 1 - count / 100];
    out->handover_max_ns = check->handovers[count - 1];
}
