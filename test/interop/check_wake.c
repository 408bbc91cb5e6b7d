/* SPDX-License-Identifier: MIT */
/* Waiters are woken soon after the other library's unlock, and ask for nothing until
 * then. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 5
#define QUIET_MS 1000
/* dibs looks again every second or so, whatever it has heard */
#define LOOKS_MAX 2
/* on etcd it makes sure of its leases by a read, for each length and process */
#define PROOFS_MAX 4

static int
by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* from the order to unlock until the waiter's answer */
static int64_t
hand_over(struct peer *holder, struct peer *waiter, const char *kind, const char *name,
          int64_t settle_ms)
{
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_order(waiter, 1, "lock %s %s %d 15000", kind, name, LONG_MS);
    CHECK(!peer_has_answered(waiter, 1, settle_ms));
    int64_t began = now_ms();
    peer_order(holder, 1, "unlock %s %s", kind, name);
    (void)peer_granted(waiter, 1, slowly(5000));
    int64_t took = now_ms() - began;
    char answer[ANSWER_MAX];
    peer_answer(holder, 1, slowly(5000), answer);
    peer_must(waiter, 1, "ok", "unlock %s %s", kind, name);
    return took;
}

static void
quiet(struct stage *stage, struct peer *holder, struct peer *waiter, const char *kind,
      const char *name)
{
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_order(waiter, 1, "lock %s %s %d 15000", kind, name, LONG_MS);
    CHECK(!peer_has_answered(waiter, 1, 500));
    int64_t before = asked(stage);
    sleep_ms(QUIET_MS);
    CHECK_WITHIN(asked(stage) - before, 0,
                 LOOKS_MAX + (stage->store == ETCD ? PROOFS_MAX : 0));
    peer_must(holder, 1, "ok", "unlock %s %s", kind, name);
    (void)peer_granted(waiter, 1, slowly(WAKE_MS));
    peer_must(waiter, 1, "ok", "unlock %s %s", kind, name);
}

static void
wakes(struct stage *stage, struct peer *holder, struct peer *waiter, const char *kind)
{
    /* braces choose other names for what goes with the lock */
    char name[64];
    snprintf(name, sizeof(name), "wake-%s{%s}", kind, holder->program->name);
    int woken = stage->theirs[0].program->woken;
    if (woken) {
        quiet(stage, holder, waiter, kind, name);
    }
    int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        took[i] = hand_over(holder, waiter, kind, name, 200 + 37 * i);
    }
    qsort(took, ROUNDS, sizeof(took[0]), by_size);
    int64_t limit = !woken && waiter->program == &program_dibs ? POLL_MS : WAKE_MS;
    CHECK_WITHIN(took[ROUNDS / 2], 0, limit);
    CHECK_WITHIN(took[ROUNDS - 1], 0, slowly(limit));
    done("%s: %s lets %s go on within %lld ms (median), %lld ms (worst)%s", kind,
         holder->program->title, waiter->program->title, (long long)took[ROUNDS / 2],
         (long long)took[ROUNDS - 1], woken ? ", without polling" : "");
}

void
check_wake(struct stage *stage, const char *kind)
{
    wakes(stage, &stage->ours[0], &stage->theirs[0], kind);
    wakes(stage, &stage->theirs[0], &stage->ours[0], kind);
}
