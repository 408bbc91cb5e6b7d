/* SPDX-License-Identifier: MIT */
/* Byte for byte: what dibs leaves on the server is what the incumbent leaves, while it is
 * held, while somebody waits, and after. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a lock is in its life when it is looked at. */
enum { HELD, AWAITED, PASSED_ON, DOWNGRADED, RELEASED, STEPS };
static const char *const step_names[STEPS] = { "held", "awaited", "passed on",
                                               "downgraded", "released" };

static void
settle(const server *on, const char *pattern)
{
    /* the waiter has asked and listens, or has nothing to listen to */
    for (int i = 0; i < 50 && !server_answers(on, "n", "PUBSUB", "CHANNELS", pattern);
         i++) {
        sleep_ms(10);
    }
    sleep_ms(100);
}

/* a life of a lock, lived by two processes of one library */
static void
live(struct stage *stage, struct peer *peers, const char *kind, char *shapes[STEPS])
{
    const server *on = &stage->servers.servers[0];
    int woken = peers[0].program->woken && stage->theirs[0].program->woken;
    server_do(on, "FLUSHALL");
    peer_must(&peers[0], 1, "ok", "lock %s n %d 0", kind, LONG_MS);
    shapes[HELD] = shape_of(on);
    struct peer *waiter = &peers[1];
    if (strcmp(kind, "read") == 0) {
        peer_must(waiter, 1, "ok", "lock %s n %d 0", kind, LONG_MS);
        shapes[AWAITED] = shape_of(on);
        peer_must(&peers[0], 1, "ok", "unlock %s n", kind);
    } else {
        peer_order(waiter, 1, "lock %s n %d %d", kind, LONG_MS,
                   woken ? WAIT_FOREVER : 10000);
        settle(on, "*n*");
        shapes[AWAITED] = woken ? shape_of(on) : calloc(1, 1);
        peer_must(&peers[0], 1, "ok", "unlock %s n", kind);
        (void)peer_granted(waiter, 1, slowly(5000));
        sleep_ms(100);
    }
    shapes[PASSED_ON] = shape_of(on);
    if (strcmp(kind, "write") == 0) {
        peer_must(waiter, 1, "ok", "downgrade n %d", LONG_MS);
        kind = "read";
    }
    shapes[DOWNGRADED] = shape_of(on);
    peer_must(waiter, 1, "ok", "unlock %s n", kind);
    sleep_ms(100);
    shapes[RELEASED] = shape_of(on);
    CHECK(!server_answers(on, "dibs", "KEYS", "dibs:turn*"));
}

void
check_shape(struct stage *stage, const char *kind)
{
    char *ours[STEPS], *theirs[STEPS];
    live(stage, stage->theirs, kind, theirs);
    live(stage, stage->ours, kind, ours);
    for (int i = 0; i < STEPS; i++) {
        if (strcmp(ours[i], theirs[i]) != 0) {
            FAIL("%s, %s: dibs has\n%s\nwhere %s has\n%s", kind, step_names[i], ours[i],
                 stage->theirs[0].program->title, theirs[i]);
        }
        free(ours[i]);
        free(theirs[i]);
    }
    done("%s: written down in the same way", kind);
}
