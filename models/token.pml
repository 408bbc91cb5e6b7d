/* SPDX-License-Identifier: MIT */
/*
 * Tokens of Redlock: strictly rising from servers that know nothing of each other, also
 * when one of them loses all it knows.
 *
 * Of: src/engine/redlock/token.c, the rounds of take.c, and `last` in script.c.
 *
 * Every server has the largest tick it was told of. Who asks proposes a tick with the key;
 * if a majority knew a smaller one, that is its token, else it asks all again with one more
 * than the largest it heard of. A server that forgot begins with its clock, and ticks trail
 * behind the clocks by LAG. What a client thinks that the clocks say may be out of date.
 *
 * Leases are not counted here but taken from redlock.pml: a key goes away only when its
 * owner neither asks nor believes any more; and a server that forgot grants nothing while somebody holds or
 * asks who did before (the guard). Left out: hand-overs within a token's room, the buckets,
 * a second server that forgets.
 *
 * Never:
 *   not_larger   a grant has no larger token than the one before
 *
 * Mutants, and what catches them:
 *   ONE_ROUND: not_larger       the tick is taken though servers knew a larger one
 *   FROM_ZERO: not_larger       a server that forgot begins with nothing, not its clock
 *   NOT_STRICT: not_larger      a server that knew the same tick counts, too
 */
#include "common.inc"

#define SERVERS 3
#define MAJORITY 2
#define CLOCK 3         /* what the clocks say, less LAG: it may be proposed */
#define LAG 20
#define ROUNDS 3

bool not_larger;

byte key[SERVERS], last[SERVERS]; /* 0: nobody's; it knows none */
byte newest;                      /* the last token that was granted */

/* of the clients */
bool asks[2], believes[2], from_before[2];
byte seen[2];

#define CLOSED (k == 0 && (from_before[0] || from_before[1]))
#ifdef ONE_ROUND
#define DECIDED ours
#else
#define DECIDED fresh
#endif
#ifdef NOT_STRICT
#define IS_FRESH (last[k] <= tick)
#else
#define IS_FRESH (last[k] < tick)
#endif

inline ask_one(server)
{
    atomic {
        !(asked & (1 << server)) && DECIDED < MAJORITY;
        k = server;
        asked = asked | (1 << k);
        if
#ifndef FROM_ZERO
        :: last[k] == 0 -> last[k] = CLOCK + LAG
#endif
        :: else
        fi;
        if
        :: last[k] > seen[me] -> seen[me] = last[k]
        :: else
        fi;
        if
        :: key[k] == me + 1 || (key[k] == 0 && !CLOSED) ->
            key[k] = me + 1;
            ours++;
            if
            :: IS_FRESH -> fresh++
            :: else
            fi;
            if
            :: tick > last[k] -> last[k] = tick
            :: else
            fi
        :: else
        fi;
        k = 0
    }
}

inline propose()
{
    tick = seen[me] + 1;
    if
    :: CLOCK > tick -> tick = CLOCK
    :: true /* it knows no clock, or that one is behind */
    fi;
    seen[me] = tick
}

inline granted()
{
    if
    :: tick <= newest -> violated(not_larger)
    :: else -> newest = tick; believes[me] = true
    fi
}

proctype Client(byte me)
{
    byte rounds, tick, asked, ours, fresh, k;

    asks[me] = true;
    do
    :: rounds < ROUNDS ->
        atomic { rounds++; asked = 0; ours = 0; fresh = 0; propose() }
        do
        :: ask_one(0)
        :: ask_one(1)
        :: ask_one(2)
        :: true -> break
        od;
        atomic {
            if
            :: DECIDED >= MAJORITY -> granted(); break
            :: ours < MAJORITY -> break
            :: else
            fi
        }
    :: rounds == ROUNDS -> break
    od;
    atomic { asks[me] = false; rounds = 0; tick = 0; asked = 0; ours = 0; fresh = 0 }
    /* holds it, if it was granted */
    atomic { believes[me] = false; from_before[me] = false }
}

/* what nobody believes in goes: given back, or its lease is over */
#define IS_OVER(k) (key[k] && !believes[key[k] - 1] && !asks[key[k] - 1])

active proctype Expiry()
{
end:
    do
    :: d_step { IS_OVER(0) -> key[0] = 0 }
    :: d_step { IS_OVER(1) -> key[1] = 0 }
    :: d_step { IS_OVER(2) -> key[2] = 0 }
    od
}

proctype Amnesia()
{
end:
    atomic {
        true;
        key[0] = 0;
        last[0] = 0;
        from_before[0] = asks[0] || believes[0];
        from_before[1] = asks[1] || believes[1]
    }
}

/* what was before: a majority knows the last token, the third server less or more */
init
{
    byte k, more;

    atomic {
        newest = CLOCK + 1;
        select(k : 0 .. SERVERS - 1);
        select(more : 0 .. 2);
        last[0] = newest;
        last[1] = newest;
        last[2] = newest;
        last[k] = newest - 1 + more;
        k = 0;
        more = 0;
        if
        :: seen[0] = newest
        :: true
        fi;
        run Client(0);
        run Client(1);
        run Amnesia()
    }
}
