/* SPDX-License-Identifier: MIT */
/*
 * A lease: who asks counts from before the request left, so it stops believing before the
 * server can give the lock to the next one. And a resource that compares tokens.
 *
 * Of: src/core/lease.c, accept_grant in acquire.c, apply_result_locked in keeper.c, and any
 * engine whose store ends what is not renewed.
 *
 * Two clients take the lock, renew it, write to a register and give it back, or go without
 * a word. Each step of a request (it leaves, is done at the server, its answer is heard) is
 * a step of its own, so each takes any time, as does a pause between a look at the clock
 * and the write that follows. Requests and answers are lost.
 *
 * Left out: clocks that run differently fast (the drift and margin of lease.c), more than
 * one request of a client under way (a connection keeps their order).
 *
 * Never:
 *   two_hold     both believe that they hold it
 *   old_write    the register takes a write of an earlier grant after one of a later grant
 *   not_own_end  a release ends the hold of somebody else
 *
 * Mutants, and what catches them:
 *   FROM_RECEIPT: two_hold      the lease counts from when the answer came
 *   NO_FENCE: old_write         the register takes every write
 *   OWN_TOKENS: old_write       tokens are made by the clients, not by the server
 *   BY_NAME: not_own_end        a release does not say whose hold it ends
 */
#include "common.inc"

#define LEASE 3
#define BELIEVES(i) (left[i] > 0)

bool two_hold, old_write, not_own_end;

/* the server: whose it is, by the number of the grant (0: nobody's), and for how long yet */
byte grants, owner, ends_in;

/* the register: the largest token, and the latest grant, that it took a write of */
byte fence, written;

/* the clients: how long ago a request left, and how long it is believed to be held yet */
byte age[2], left[2];

#ifdef FROM_RECEIPT
#define FULL LEASE
#else
#define FULL (LEASE - age[me])
#endif
#ifdef OWN_TOKENS
#define TOKEN(grant) (2 - me)
#else
#define TOKEN(grant) grant
#endif
#ifdef BY_NAME
#define MINE (owner != 0)
#else
#define MINE (owner == grant)
#endif
#ifdef NO_FENCE
#define ADMITS(token) true
#else
#define ADMITS(token) (token >= fence)
#endif

inline take()
{
    atomic {
        if
        :: owner == 0 || ends_in == 0 ->
            grants++;
            owner = grants;
            ends_in = LEASE;
            grant = grants
        :: else
        fi
    }
}

inline renew()
{
    atomic {
        if
        :: owner == grant && ends_in > 0 -> ends_in = LEASE; renewed = true
        :: else
        fi
    }
}

inline give_back()
{
    atomic {
        if
        :: MINE && owner != grant && ends_in > 0 -> violated(not_own_end)
        :: MINE && owner == grant -> owner = 0
        :: else
        fi
    }
}

inline write()
{
    atomic {
        if
        :: !ADMITS(TOKEN(grant))
        :: ADMITS(TOKEN(grant)) && grant < written -> violated(old_write)
        :: ADMITS(TOKEN(grant)) && grant >= written -> fence = TOKEN(grant); written = grant
        fi
    }
}

proctype Client(byte me)
{
    byte grant, tries;
    bool renewed, wrote;

    age[me] = 0;
    if
    :: take()
    :: true /* lost on the way */
    fi;
    if
    :: grant -> left[me] = FULL
    :: true -> goto done /* refused, or the answer was lost */
    fi;
    do
    :: BELIEVES(me) && tries < 1 ->
        atomic { tries++; age[me] = 0; renewed = false }
        renew();
        if
        :: renewed && BELIEVES(me) -> left[me] = FULL
        :: true
        fi
    :: BELIEVES(me) && !wrote ->
        wrote = true;
        write()
    :: true -> break
    od;
    left[me] = 0;
    give_back();
done:
    skip
}

active proctype Clock()
{
end:
    do
    :: d_step {
            COUNT_DOWN(ends_in);
            COUNT_DOWN(left[0]);
            COUNT_DOWN(left[1]);
            COUNT_UP(age[0], LEASE);
            COUNT_UP(age[1], LEASE)
        }
    od
}

active proctype Monitor()
{
end:
    atomic { BELIEVES(0) && BELIEVES(1) -> violated(two_hold) }
}

init
{
    atomic { run Client(0); run Client(1) }
}
