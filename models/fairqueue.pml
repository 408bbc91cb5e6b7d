/* SPDX-License-Identifier: MIT */
/*
 * The line of a lock at a server that does nothing by itself: who waits has a short lease
 * of its own, and asks again to stay in line. Who lets go grants to the next, by a message
 * that may be late or lost; the grant is final only for one who is surely there, others get
 * an offer that ends with their place in line.
 *
 * Of: src/engine/redis/queue_lua.c (expire, offer, promote, take, give) and queue_take.c.
 * src/sql/line.c follows the same rules.
 *
 * Somebody has the lock. Three clients come, wait, hold for any time up to a lease and let go. One may die at any
 * moment, and another; one may be paused for any time. Those that live and are not paused
 * do at once what is due, so time passes only when nothing is.
 *
 * Left out: round trips (lease.pml has them), renewals of holders, sharing (rwpermits.pml),
 * a machine that dies without its connections being closed (then a grant counts as final
 * for a lease).
 *
 * Never:
 *   two_hold     two believe that they hold it
 *   overtaken    somebody is granted before one that came earlier and was always there
 *   too_late     somebody is there and waits, nobody holds, and that for longer than a
 *                waiter's lease and one look after the last death or pause: however many
 *                dead are before it
 *
 * Mutants, and what catches them:
 *   DEAD_HEAD_KEPT: too_late    who does not take up an offer keeps its place, for ever
 *   LEASE_TO_ALL: too_late      everybody is granted for a full lease, dead ones as well
 *   OLD_GRANT: two_hold         a message counts whatever request it answers
 *   NO_LOOK: too_late           who waits does not look again unless it is rung
 *   LAST_FIRST: overtaken       the newest in line is next
 */
#include "common.inc"

#define N 3
#define NOBODY 255
#define BEFORE 3 /* one who has it at the start */
#define WAIT 3 /* a waiter's lease */
#define LOOK 1 /* a waiter asks again after so long, the first when the hold ends */
#define LEASE WAIT /* a waiter waits by no longer lease than it asks for */
#define BELIEVES(i) (alive[i] && left[i] > 0)

bool two_hold, overtaken, too_late;

/* the server */
byte sole = BEFORE, sole_left = LEASE;
byte tickets, ticket[N]; /* 0: not in line */
byte stays[N];          /* for how long yet it has its place */

/* the clients */
bool alive[N], waits[N], steady[N]; /* steady: never paused */
bool paused[N], must_ask[N];
bool holds[N], asked_now[N]; /* in this tick */
byte left[N], look_in[N];
byte own_ticket[N];                 /* as the last answer said */
byte flying[N], mail[N];            /* a grant's ticket: sent, and heard; OFFER */
#define OFFER 200

/* for how long nobody holds it though somebody waits, and no death or pause excuses it */
byte idle;
byte deaths, pauses;
bool came[N]; /* in this order: they are all alike */

#ifdef OLD_GRANT
#define ANSWERS true
#else
#define ANSWERS (mail[me] == own_ticket[me] && asked_now[me])
#endif
#ifdef NO_LOOK
#define LOOKS(i) must_ask[i]
#else
#define LOOKS(i) (must_ask[i] || look_in[i] == 0)
#endif
/* who lives does what is due: hears, looks again, lets go */
#define IS_DUE(i)                                                                        \
    (alive[i] && ((waits[i] && !paused[i] && (mail[i] || LOOKS(i))) ||                   \
                  (holds[i] && left[i] == 0)))

inline forget_client(who)
{
    mail[who] = 0;
    flying[who] = 0;
    look_in[who] = 0;
    own_ticket[who] = 0;
    asked_now[who] = false
}

/* ---- at the server, in one step ---- */

inline first_in_line()
{
    head = NOBODY;
    for (k : 0 .. N - 1) {
        if
#ifdef LAST_FIRST
        :: ticket[k] && (head == NOBODY || ticket[k] > ticket[head]) -> head = k
#else
        :: ticket[k] && (head == NOBODY || ticket[k] < ticket[head]) -> head = k
#endif
        :: else
        fi
    }
    k = 0
}

inline expire()
{
    if
    :: sole != NOBODY && sole_left == 0 -> sole = NOBODY
    :: else
    fi;
#ifndef DEAD_HEAD_KEPT
    for (k : 0 .. N - 1) {
        if
        :: ticket[k] && stays[k] == 0 -> ticket[k] = 0
        :: else
        fi
    }
    k = 0
#endif
}

/* a final grant if it asked just now and listens; else an offer */
inline offer()
{
    sole = head;
    if
#ifdef LEASE_TO_ALL
    :: true ->
#else
    :: asked_now[head] && alive[head] ->
#endif
        sole_left = LEASE;
        flying[head] = ticket[head]
    :: else ->
        sole_left = (stays[head] < LEASE -> stays[head] : LEASE);
        flying[head] = OFFER
    fi
#ifndef DEAD_HEAD_KEPT
    ;
    ticket[head] = 0
#endif
}

/* `who` is there and asks; NOBODY: nobody does */
inline promote(who)
{
    if
    :: sole == NOBODY ->
        first_in_line();
        if
        :: head == NOBODY
        :: head != NOBODY && head == who ->
            sole = who;
            sole_left = LEASE;
            ticket[who] = 0
        :: else -> offer()
        fi
    :: else
    fi
}

/* ---- what is checked ---- */

/* requests take no time here, and a message counts only in the tick of the request */
inline begins()
{
    left[me] = LEASE;
    holds[me] = true;
    waits[me] = false;
    for (k : 0 .. N - 1) {
        if
        :: k != me && BELIEVES(me) && BELIEVES(k) -> violated(two_hold)
        :: k != me && waits[k] && alive[k] && steady[k] && k < me ->
            violated(overtaken)
        :: else
        fi
    }
    k = 0
}

/* ---- the clients ---- */

inline ask()
{
    d_step {
        if
        :: !came[me] -> came[me] = true; waits[me] = true
        :: else
        fi;
        mail[me] = 0;
        must_ask[me] = false;
        expire();
        if
        :: sole == me ->
            ticket[me] = 0;
            sole_left = LEASE
        :: sole != me && ticket[me] -> stays[me] = WAIT
        :: else ->
            tickets++;
            ticket[me] = tickets;
            stays[me] = WAIT
        fi;
        asked_now[me] = true;
        promote(me);
        own_ticket[me] = ticket[me];
        first_in_line();
        look_in[me] = (head == me && sole_left < LOOK -> sole_left : LOOK);
        head = NOBODY;
        if
        :: sole == me -> begins()
        :: else
        fi
    }
}

inline hear()
{
    d_step {
        if
        :: mail[me] != OFFER && ANSWERS ->
            mail[me] = 0;
            begins()
        :: else -> mail[me] = 0; must_ask[me] = true
        fi
    }
}

inline let_go()
{
    d_step {
        left[me] = 0;
        holds[me] = false;
        forget_client(me);
        expire();
        if
        :: sole == me -> sole = NOBODY
        :: else
        fi;
        promote(NOBODY);
        head = NOBODY;
        idle = 0
    }
}

proctype Client(byte me)
{
    byte head = NOBODY, k;

    {
        do
        :: (!came[me] && (me == 0 || came[me - 1])) ||
           (waits[me] && !paused[me] && !mail[me] && LOOKS(me)) -> ask()
        :: waits[me] && !paused[me] && mail[me] -> hear()
        :: holds[me] -> break
        od;
        let_go()
    } unless {
        !alive[me]
    }
}

proctype Before()
{
    byte head = NOBODY, k;

end:
    d_step {
        sole == BEFORE ->
        sole = NOBODY;
        promote(NOBODY);
        head = NOBODY;
        idle = 0
    }
}

/* messages are heard at any time, or never */
#define DELIVER(i)                                                                       \
    :: d_step { flying[i] && waits[i] && alive[i] -> mail[i] = flying[i]; flying[i] = 0 }

active proctype Wire()
{
end:
    do
    DELIVER(0)
    DELIVER(1)
    DELIVER(2)
    od
}

#define SUFFER(i)                                                                        \
    :: d_step { deaths + pauses < 2 && alive[i] && (waits[i] || holds[i]) ->             \
            alive[i] = false; deaths++; idle = 0; forget_client(i) }                     \
    :: d_step { deaths + pauses < 2 && pauses == 0 && alive[i] && waits[i] ->            \
            steady[i] = false; paused[i] = true; pauses++ }                              \
    :: d_step { paused[i] -> paused[i] = false; idle = 0 }

proctype Fate()
{
end:
    do
    SUFFER(0)
    SUFFER(1)
    SUFFER(2)
    od
}

#define SOMEBODY_HOLDS (sole == BEFORE || BELIEVES(0) || BELIEVES(1) || BELIEVES(2))
#define IS_THERE(i) (alive[i] && steady[i] && waits[i])
#define SOMEBODY_WAITS (IS_THERE(0) || IS_THERE(1) || IS_THERE(2))
/* a pause, and the lease of a holder that died, are excuses for as long as they last */
#define EXCUSED (paused[0] || paused[1] || paused[2] || SOMEBODY_HOLDS || dead_holds)
#define dead_holds (sole != NOBODY && sole != BEFORE && !alive[sole] && left[sole] > 0 && sole_left > 0)

proctype Clock()
{
    byte i;

end:
    do
    :: d_step {
            !IS_DUE(0) && !IS_DUE(1) && !IS_DUE(2) ->
            idle = (SOMEBODY_WAITS && !EXCUSED -> idle + 1 : 0);
            if
            :: idle > WAIT + LOOK -> violated(too_late)
            :: else
            fi;
            for (i : 0 .. N - 1) {
                COUNT_DOWN(stays[i]);
                COUNT_DOWN(left[i]);
                COUNT_DOWN(look_in[i]);
                asked_now[i] = false
            }
            i = 0;
            COUNT_DOWN(sole_left)
        }
    od
}

init
{
    byte i;

    atomic {
        for (i : 0 .. N - 1) {
            alive[i] = true;
            steady[i] = true;
            run Client(i)
        }
        i = 0;
        run Before();
        run Fate();
        run Clock()
    }
}
