/* SPDX-License-Identifier: MIT */
/* Pairs of contestants that take turns: see pairs.h. */
#include <stdio.h>

#include "pairs.h"

enum { WARM_UP_STEP = 50, WARM_UP_MS = 6000, ROUND_MS = 200, LEAST = 5 };

double
pairs_of_dibs(void *client, int count)
{
    series took = { NULL, 0, 0 };
    double median;
    dibs_error err;
    dibs_hold *hold;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        bench_check(dibs_lock(&hold, client, "bench/pair", &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

double
pairs_of_peer(void *peer_of_ours, int count)
{
    peer *p = peer_of_ours;
    double median = peer_pairs(p, count);

    if (median <= 0)
        bench_die("%s does not answer any more", p->label);
    return median;
}

double
pairs_of_hand(void *hand, int count)
{
    const pair_hand *h = hand;
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        h->lock(h->state);
        h->unlock(h->state);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

int
pairs_add_peers(pair_contestant *list, int count, peer *peers, int peer_count)
{
    for (int i = 0; i < peer_count && count < TURNS_MAX; i++)
        list[count++] =
            (pair_contestant){ peers[i].id, peers[i].label, 0, pairs_of_peer, &peers[i] };
    return count;
}

/* warm_up returns the median of the last pairs. A slow disk makes an end of it earlier. */
static double
warm_up(const pair_contestant *one, int count)
{
    double start = bench_now_ns(), median;

    do {
        int some = count < WARM_UP_STEP ? count : WARM_UP_STEP;

        median = one->pairs(one->arg, some);
        count -= some;
    } while (count > 0 && bench_now_ns() - start < WARM_UP_MS * 1e6);
    return median;
}

void
pairs_run(turns *t, const pair_contestant *list, int count, const pair_counts *n)
{
    double slowest = 1;
    int a_round = n->a_round;

    t->rounds = n->rounds;
    for (int who = 0; who < count; who++) {
        double median = warm_up(&list[who], n->warm_up);

        slowest = median > slowest ? median : slowest;
    }
    if (a_round * slowest > ROUND_MS * 1e6)
        a_round =
            ROUND_MS * 1e6 > LEAST * slowest ? (int)(ROUND_MS * 1e6 / slowest) : LEAST;
    /* each round begins with another one, so that nobody always comes behind the same */
    for (int round = 0; round < bench.runs * n->rounds; round++)
        for (int i = 0; i < count; i++) {
            int who = (round + i) % count;

            turns_add(t, who, list[who].pairs(list[who].arg, a_round));
        }
}

void
pairs_report(const turns *t, const pair_contestant *list, int count, int floor,
             const char *id, const char *words)
{
    char full[64], label[96];

    for (int who = 0; who < count; who++) {
        snprintf(full, sizeof full, "%s.%s", id, list[who].id);
        snprintf(label, sizeof label, "%s, %s", words, list[who].label);
        turns_figure(t, who, full, label, "ns", BAR_AT_MOST, 0);
        if (who == floor)
            continue;
        snprintf(full, sizeof full, "%s.%s.ratio", id, list[who].id);
        snprintf(label, sizeof label, "%s, %s / %s", words, list[who].label,
                 list[floor].label);
        turns_ratio(t, who, floor, full, label, BAR_AT_MOST, list[who].bar);
    }
}
