/* SPDX-License-Identifier: MIT */
/*
 * A grant: a claim on the engine and its lease, from before it is asked for until nobody
 * needs to know of it any more. `until` is the one word that says whether it stands: time
 * and breaks turn it into DIBS__LOST, from whatever thread notices first, and nothing turns
 * it back.
 */
#include "core/core.h"

#include <stddef.h>
#include <string.h>

/* a note that nobody gave; told from others by its address */
static const char no_note[] = "";

static int
copy_texts(dibs__grant *grant, const dibs_request *request)
{
    if (request->owner) {
        grant->owner.text = dibs__strdup(request->owner);
        if (!grant->owner.text)
            return -1;
    }
    if (request->note) {
        char *note = dibs__strdup(request->note);
        if (!note)
            return -1;
        grant->claim.note = note;
    }
    return 0;
}

static void
grant_free(dibs__grant *grant)
{
    if (grant->claim.note != no_note)
        dibs__free((char *)grant->claim.note);
    if (grant->own_seat.name != grant->short_name)
        dibs__free((char *)grant->own_seat.name);
    dibs__free(grant->owner.text);
    dibs__free(grant);
}

dibs__grant *
dibs__grant_new(dibs *client, const dibs_request *request)
{
    dibs__grant *grant = dibs__alloc(sizeof *grant);
    if (!grant)
        return NULL;
    grant->owner.thread = request->owner ? 0 : dibs__thread_number();
    grant->claim.note = no_note;
    if ((request->owner || request->note) && copy_texts(grant, request)) {
        grant_free(grant);
        return NULL;
    }
    atomic_init(&grant->refs, 1); /* the handle's */
    dibs__hold_init(&grant->hold, client, request);
    grant->claim.bell = &grant->claim.own_bell;
    return grant;
}

dibs__grant *
dibs__grant_of(dibs_hold *hold)
{
    return (dibs__grant *)(void *)((char *)hold - offsetof(dibs__grant, hold));
}

void
dibs__grant_ref(dibs__grant *grant)
{
    atomic_fetch_add_explicit(&grant->refs, 1, memory_order_relaxed);
}

static int
drop_one(dibs__grant *grant)
{
    /* the last one need not write: nobody else can get at it any more */
    return atomic_load_explicit(&grant->refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(&grant->refs, 1, memory_order_acq_rel) == 1;
}

void
dibs__grant_unref(dibs__grant *grant)
{
    if (!drop_one(grant))
        return;
    dibs__grant *home = grant->seat ? dibs__home_of(grant->seat) : grant;
    grant_free(grant);
    /* a home's own seat is in itself, so this goes no further */
    if (home != grant && drop_one(home))
        grant_free(home);
}

int
dibs__grant_stands(dibs__grant *grant)
{
    dibs_time until = atomic_load_explicit(&grant->until, memory_order_acquire);
    if (until == DIBS__LOST)
        return 0;
    const dibs_claim *claim = &grant->claim;
    int broken =
        claim->alive &&
        atomic_load_explicit(claim->alive, memory_order_acquire) != claim->alive_value;
    if (!broken && (until == DIBS_NEVER || dibs__now() < until))
        return 1;
    /* a renewal that lands between our look at the clock and here must not revive it: the
     * answer 0 has been given */
    while (until != DIBS__LOST &&
           !atomic_compare_exchange_weak(&grant->until, &until, DIBS__LOST))
        continue;
    return 0;
}
