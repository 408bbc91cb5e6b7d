/* SPDX-License-Identifier: MIT */
/*
 * Redlock: a majority of three servers that know nothing of each other. One of them loses
 * all its data at some moment; the guard keeps it from granting for a longest lease, from
 * when it is first asked again.
 *
 * Of: src/engine/redlock/take.c, renew.c, end.c and the scripts in script.c.
 *
 * Two clients ask the servers in any order and at any time, stop when they have a majority
 * or give up. One of them renews (which also gives the lock back to servers that forgot it, without
 * regard to the guard). They give it back. Answers are lost.
 *
 * Left out: tokens (token.pml), clocks of servers that jump, which Redlock does not stand.
 *
 * Never:
 *   two_hold     both believe that they hold it
 *
 * Mutants, and what catches them:
 *   NO_GUARD: two_hold          the server that forgot grants at once
 *   LATE_GRANT: two_hold        the lease counts from when a majority had answered
 *   MINORITY: two_hold          one server is enough to renew
 */
#include "common.inc"

#define SERVERS 3
#define MAJORITY 2
#define LEASE 2
#define BELIEVES(i) (left[i] > 0)

bool two_hold;

/* the servers: whose key is there (0: nobody's), for how long yet, and for how long yet
 * nothing is granted */
byte key[SERVERS], ends_in[SERVERS], closed[SERVERS];
bool forgot[SERVERS]; /* and was not asked since */

/* the clients: how long ago a request left, and how long it is believed to be held yet */
byte age[2], left[2];

#define IS_FREE(k) (ends_in[k] == 0)
#define IS_OURS(k) (key[k] == me + 1 && ends_in[k] > 0)
#ifdef NO_GUARD
#define GUARD 0
#else
#define GUARD LEASE
#endif
#ifdef MINORITY
#define ENOUGH 1
#else
#define ENOUGH MAJORITY
#endif
#ifdef LATE_GRANT
#define FULL LEASE
#else
#define FULL (LEASE - age[me])
#endif

inline set_key(k)
{
    key[k] = me + 1;
    ends_in[k] = LEASE
}

/* one answer may be lost: then it was done, and does not count */
inline counted()
{
    if
    :: ours++
    :: true
    fi
}

inline take(k)
{
    atomic {
        !(asked & (1 << k)) && ours < MAJORITY;
        asked = asked | (1 << k);
        closed[k] = (IS_FREE(k) && forgot[k] -> GUARD : closed[k]);
        forgot[k] = forgot[k] && !IS_FREE(k);
        if
        :: IS_OURS(k) || (IS_FREE(k) && closed[k] == 0) -> set_key(k); counted()
        :: else
        fi
    }
}

inline renew(k)
{
    atomic {
        !(asked & (1 << k));
        asked = asked | (1 << k);
        if
        :: IS_OURS(k) -> ends_in[k] = LEASE; counted()
        :: else
        fi
    }
}

/* a lock that a majority has renewed is given to those who do not have it */
inline heal(k)
{
    atomic { IS_FREE(k) -> set_key(k) }
}

inline give_back()
{
    d_step {
        for (asked : 0 .. SERVERS - 1) {
            if
            :: key[asked] == me + 1 -> key[asked] = 0; ends_in[asked] = 0
            :: else
            fi
        }
        asked = 0
    }
}

proctype Client(byte me)
{
    byte asked, ours, renewals;

    age[me] = 0;
    do
    :: take(0)
    :: take(1)
    :: take(2)
    :: ours >= MAJORITY -> break
    :: true -> goto over /* refused, or it gives up */
    od;
    left[me] = FULL;
    do
    :: BELIEVES(me) && renewals + me < 1 ->
        atomic { renewals++; age[me] = 0; asked = 0; ours = 0 }
        do
        :: renew(0)
        :: renew(1)
        :: renew(2)
        :: true -> break
        od;
        if
        :: ours >= ENOUGH ->
            if
            :: heal(0)
            :: heal(1)
            :: heal(2)
            :: true
            fi;
            if
            :: BELIEVES(me) -> left[me] = LEASE - age[me]
            :: else
            fi
        :: else
        fi
    :: true -> break
    od;
over:
    atomic { left[me] = 0; asked = 0; ours = 0; renewals = 0 }
    give_back()
}

active proctype Amnesia()
{
end:
    atomic { true -> key[0] = 0; ends_in[0] = 0; forgot[0] = true }
}

active proctype Clock()
{
    byte k;

end:
    do
    :: d_step {
            for (k : 0 .. SERVERS - 1) {
                COUNT_DOWN(ends_in[k]);
                COUNT_DOWN(closed[k]);
                key[k] = (ends_in[k] > 0 -> key[k] : 0)
            }
            k = 0;
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
