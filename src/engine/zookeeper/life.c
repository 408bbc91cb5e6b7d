/* SPDX-License-Identifier: MIT */
/*
 * Until when the servers cannot have ended a session.
 *
 * The leader ends a session that it has not heard of for the session's time-out. What the
 * leader hears: a server that is no leader answers pings and reads by itself, and tells the
 * leader which sessions it heard from only when the leader pings it, every half tick. It
 * may have been cut off and not know. A write, however, is answered only after the leader
 * and a quorum have seen it.
 *
 * So: a request was sent at s, and answered at a: then the server had heard of us, at s or
 * later. A write was sent at w >= a + tick on the same connection, and was answered: then
 * the server was still with a leader that has a quorum at w, so that in the tick before it
 * has answered a ping of that leader, and named our session. The leader counts from then,
 * which is not before s: the session lives until s + time-out at least. (Leaders round
 * expiry up, and a new leader gives every session its full time again.)
 *
 * A connect request makes the leader count at once: a new session, because making one is a
 * write; one that moves to another connection, as the leader is asked about it; but that
 * leader may be one of the past, until a write on the new connection is answered.
 */
#include "link.h"

#define MARGIN (20 * DIBS_MS)

static dibs_time
margin_of(dibs_time timeout)
{
    return MARGIN + timeout / 100; /* clocks that run at different speeds */
}

/* Beats come every tenth of the session, and answers may take a little. */
int64_t
dibs__zk_life_need_ms(int64_t lease_ms, int64_t tick_ms)
{
    return (lease_ms + tick_ms + MARGIN / DIBS_MS) * 100 / 87 + 1;
}

static void
raise_to(struct life *life, dibs_time since)
{
    dibs_time until = since + life->timeout - life->margin;
    if (until > atomic_load_explicit(&life->safe_until, memory_order_relaxed))
        atomic_store_explicit(&life->safe_until, until, memory_order_release);
}

void
dibs__zk_life_attach(struct life *life, dibs_time sent, int64_t timeout_ms,
                     int64_t tick_ms, int is_new)
{
    life->timeout = timeout_ms * DIBS_MS;
    life->tick = tick_ms * DIBS_MS;
    life->margin = margin_of(life->timeout);
    life->attached = sent;
    life->count = 0;
    life->weighed = 0;
    if (is_new)
        raise_to(life, sent);
}

void
dibs__zk_life_detach(struct life *life)
{
    life->attached = 0;
    life->count = 0;
}

/* The newest sign that the leader must know of, if the server was with it at `sent`. */
static dibs_time
known_at(const struct life *life, dibs_time sent)
{
    unsigned kept = life->count < LIFE_SIGNS ? life->count : LIFE_SIGNS;
    for (unsigned i = 1; i <= kept; i++) {
        unsigned at = (life->count - i) % LIFE_SIGNS;
        if (life->signs[at].answered <= sent - life->tick)
            return life->signs[at].sent;
    }
    return life->attached;
}

void
dibs__zk_life_sign(struct life *life, dibs_time sent, dibs_time answered, int by_quorum)
{
    dibs_time step = life->timeout / (LIFE_SIGNS / 2);
    if (!life->attached || sent < life->attached)
        return;
    if (by_quorum && (sent >= life->weighed + step / 8)) {
        raise_to(life, known_at(life, sent));
        life->weighed = sent;
    }
    unsigned last = (life->count - 1) % LIFE_SIGNS;
    if (life->count == 0 || sent >= life->signs[last].sent + step) {
        unsigned at = life->count++ % LIFE_SIGNS;
        life->signs[at].sent = sent;
        life->signs[at].answered = answered;
    }
}
