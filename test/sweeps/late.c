/* SPDX-License-Identifier: MIT */
/* A thread that notices when the machine has no time for us, or for the servers: it takes and
 * gives back a lock of its own again and again, where nothing is spoiled. While that takes
 * long, what is late is not the doing of a fault. See sweep.h. */
#include "sweep.h"

#include <stdatomic.h>

#define NAP_MS 20
/* a third of what dibs allows one request */
#define LATE_MS (LEASE_MS / 18)

static dibs *client;
static _Atomic int64_t begun_at, late_at;
static _Atomic int is_over;
static gang *watcher;

static int
is_late(int64_t from)
{
    return now_ms() - from > NAP_MS + LATE_MS;
}

static void
watch(void *arg, int index)
{
    (void)arg;
    (void)index;
    while (!is_over) {
        dibs_hold *hold = NULL;
        dibs_request request = try_for("watch");
        begun_at = now_ms();
        sleep_ms(NAP_MS);
        if (dibs_acquire(&hold, client, &request, &oops) != DIBS_OK ||
            dibs_unlock(hold, &oops) != DIBS_OK || is_late(begun_at)) {
            late_at = now_ms();
        }
    }
}

void
late_watch(const char *url)
{
    client = open_url("%s", url);
    watcher = gang_start(1, watch, NULL);
}

void
late_watch_end(void)
{
    is_over = 1;
    gang_join(watcher);
    dibs_close(client);
}

int
was_late_since(int64_t when_ms)
{
    return late_at >= when_ms || is_late(begun_at);
}
