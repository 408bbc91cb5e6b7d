/* SPDX-License-Identifier: MIT */
/* A holder that is killed keeps the other library out for its lease, and no longer. See
 * interop.h. */
#include "interop.h"

#include <stdio.h>

#define FIXED_MS 1500
#define EARLY_MS 100
#define LATE_MS 1000

/* a holder that renews: nobody gets in while it lives, although the lease has passed */
static void
kept(struct peer *holder, struct peer *waiter, const char *kind, const char *name,
     int64_t late_ms)
{
    peer_must(holder, 1, "ok", "lock %s %s 0 0", kind, name);
    peer_order(waiter, 1, "lock %s %s %d 30000", kind, name, LONG_MS);
    CHECK(!peer_has_answered(waiter, 1, KEPT_MS + KEPT_MS / 2));
    peer_kill(holder);
    int64_t killed = now_ms();
    (void)peer_granted(waiter, 1, KEPT_MS + late_ms);
    done("%s: %s killed, %s goes on after %lld ms", kind, holder->program->title,
         waiter->program->title, (long long)(now_ms() - killed));
}

/* a holder that does not: from the lock on it takes the lease */
static void
fixed(struct peer *holder, struct peer *waiter, const char *kind, const char *name)
{
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, FIXED_MS);
    int64_t locked = now_ms();
    peer_order(waiter, 1, "lock %s %s %d 30000", kind, name, LONG_MS);
    peer_kill(holder);
    (void)peer_granted(waiter, 1, FIXED_MS + slowly(LATE_MS));
    int64_t took = now_ms() - locked;
    CHECK_WITHIN(took, FIXED_MS - EARLY_MS, FIXED_MS + slowly(LATE_MS));
    done("%s: %s killed, %s goes on %lld ms after its lock of %d ms", kind,
         holder->program->title, waiter->program->title, (long long)took, FIXED_MS);
}

static void
dies(struct stage *stage, struct peer *holder, struct peer *waiter, const char *kind)
{
    char name[64];
    int64_t late_ms = slowly(LATE_MS) + stage->outlasts_ms;
    snprintf(name, sizeof(name), "death-%s-%s", kind, holder->program->name);
    if (holder->program->keeps) {
        kept(holder, waiter, kind, name, late_ms);
    } else {
        fixed(holder, waiter, kind, name);
    }
    peer_must(waiter, 1, "ok", "unlock %s %s", kind, name);
    peer_restart(holder);
}

void
check_death(struct stage *stage, const char *kind)
{
    dies(stage, &stage->ours[0], &stage->theirs[0], kind);
    dies(stage, &stage->theirs[0], &stage->ours[0], kind);
}
