/* SPDX-License-Identifier: MIT */
/*
 * The alarm: the thread that tells of losses. It never waits for an engine, so it is on
 * time however long the keeper's calls take, and whatever lease the next hold has.
 *
 * It sleeps until the first of all kept grants would be over, and then looks at them all:
 * renewals move every end forward meanwhile, so with renewed leases that is one look per
 * two thirds of a lease.
 */
#include "core/keeper.h"

#include <string.h>

/* Loses what is over. Returns how many; 0 means that *next is when to look again. */
static uint32_t
lose_due_locked(dibs *client, dibs_time *next)
{
    dibs__keeper *keeper = &client->keeper;
    dibs_time now = dibs__now();
    uint32_t lost = 0;
    *next = DIBS_NEVER;
    for (uint32_t i = 0; i < keeper->count; i++) {
        dibs_time until = atomic_load(&keeper->heap[i]->until);
        if (until <= now) { /* DIBS__LOST is, too */
            dibs__keeper_lose_locked(client, keeper->heap[i]);
            lost++;
        } else if (until < *next) {
            *next = until;
        }
    }
    return lost;
}

static void *
alarm_main(void *arg)
{
    dibs *client = arg;
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_lock(&keeper->mutex);
    while (!keeper->stopping) {
        uint32_t seen = dibs_bell_seen(&keeper->alarm_bell);
        dibs_time next;
        /* losing moves others in the heap: what this look missed, the next one finds */
        if (lose_due_locked(client, &next))
            continue;
        keeper->alarm_at = next;
        dibs__mutex_unlock(&keeper->mutex);
        (void)dibs__bell_wait(&keeper->alarm_bell, seen, next);
        dibs__mutex_lock(&keeper->mutex);
        keeper->alarm_at = 0;
    }
    dibs__mutex_unlock(&keeper->mutex);
    return NULL;
}

int
dibs__alarm_start_locked(dibs *client, dibs_error *err)
{
    dibs__keeper *keeper = &client->keeper;
    if (keeper->alarm_running)
        return DIBS_OK;
    int rc = dibs__thread_start(&keeper->alarm, "dibs-alarm", alarm_main, client, 0);
    if (rc)
        return dibs__fail(err, DIBS_ENOMEM, "cannot start the alarm's thread: %s",
                          strerror(rc));
    keeper->alarm_running = 1;
    return DIBS_OK;
}

void
dibs__alarm_poke_locked(dibs *client, dibs_time when)
{
    dibs__keeper *keeper = &client->keeper;
    if (when >= keeper->alarm_at)
        return;
    keeper->alarm_at = when;
    dibs__bell_ring(&keeper->alarm_bell);
}

void
dibs__alarm_stop(dibs *client)
{
    /* `stopping` is set; the mutex keeps a sleeper from missing the ring */
    dibs__keeper *keeper = &client->keeper;
    dibs__mutex_lock(&keeper->mutex);
    int running = keeper->alarm_running;
    dibs__bell_ring(&keeper->alarm_bell);
    dibs__mutex_unlock(&keeper->mutex);
    if (running)
        dibs__thread_join(&keeper->alarm);
}
