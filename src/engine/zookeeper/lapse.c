/* SPDX-License-Identifier: MIT */
/*
 * Leases that run out: the servers end nodes with their session only, so a hold that nobody
 * renews is ended by the pump's thread. The kit knows which; here is how.
 */
#include "link.h"
#include "claim.h"

#define END_LIMIT (50 * DIBS_MS)

/* Only the pump can connect a session, so it does not wait for that here. */
static int
is_connected(struct session *session)
{
    pthread_mutex_lock(&session->mutex);
    int connected = session->connected;
    pthread_mutex_unlock(&session->mutex);
    return connected;
}

/* whether nothing is left to do for it */
static int
end_it(void *state, dibs_claim *claim)
{
    struct zk *zk = state;
    struct mine mine = dibs__zk_mine(claim);
    struct session *session = dibs__zk_session_born(zk, mine.birth);
    if (!session && !(mine.flags & MINE_MOVING))
        return 1;
    if (session && !is_connected(session))
        return 0;
    int rc =
        zk->session->engine->release(zk, claim, 0, zk->host->now() + END_LIMIT, NULL);
    return rc != DIBS_EUNKNOWN && rc != DIBS_EUNAVAIL;
}

int
dibs__zk_lapses_open(struct zk *zk)
{
    zk->lapses = dibs__kit_lapses_new(zk->host, end_it, zk);
    return zk->lapses ? DIBS_OK : DIBS_ENOMEM;
}
