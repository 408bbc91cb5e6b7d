/* SPDX-License-Identifier: MIT */
/*
 * Sharers, writers and permits at a server that counts them, with leases that run out and
 * releases that come twice.
 *
 * Of: src/engine/redis/queue_lua.c (`used`, fits and promote, uncount, expire, give); what
 * src/engine/local/queue.c does by permits_out and holder_count follows the same rules.
 *
 * Three clients. Either the lock is one for readers and writers, with two readers and a
 * writer, or a semaphore of two permits, of which they want one, one and two. A client
 * holds until it lets go, or its lease ends. A release is done once, twice (it was repeated
 * because its answer was lost), or not at all.
 *
 * Left out: round trips, messages and places in line that end (fairqueue.pml).
 *
 * Never:
 *   together     some believe to hold it that must not be together
 *   miscounted   what the server counts is not what its holders have
 *   overtaken    somebody is granted before one that came earlier
 *   stuck        somebody waits, and nobody holds it
 *
 * Mutants, and what catches them:
 *   TWICE: miscounted           a release counts though the hold has ended before
 *   NOT_UNCOUNTED: stuck        what a dead holder had is not given back
 *   READERS_FIRST: overtaken    who fits comes in, though others wait
 *   NO_LIMIT: together          permits are given while there is one left at least
 */
#include "common.inc"

#define N 3
#define LEASE 2
#define WRITER 2

bool together, miscounted, overtaken, stuck;

bool is_semaphore;
#define LIMIT 2
#define WANTS(i) ((i) == WRITER && is_semaphore -> 2 : 1)
#define EXCLUDES(i) (!is_semaphore && (i) == WRITER)

/* the server */
byte used;          /* permits that are out, or readers */
bool is_written;    /* a writer has it */
bool holds[N];
byte ends_in[N];
byte tickets, ticket[N]; /* 0: not in line */

/* the clients */
bool waits[N];
byte left[N]; /* for how long yet it believes to hold it */
#define BELIEVES(i) (left[i] > 0)

#ifdef NO_LIMIT
#define HAS_ROOM(i) (used < LIMIT)
#else
#define HAS_ROOM(i) (used + WANTS(i) <= LIMIT)
#endif
#define FITS(i)                                                                          \
    (!is_written && ((is_semaphore && HAS_ROOM(i)) ||                                    \
                     (!is_semaphore && (i) == WRITER && used == 0) ||                    \
                     (!is_semaphore && (i) != WRITER)))

/* ---- at the server, in one step ---- */

inline uncount(i)
{
    if
    :: EXCLUDES(i) -> is_written = false
    :: else -> used = used - WANTS(i)
    fi;
    holds[i] = false
}

inline expire()
{
    for (k : 0 .. N - 1) {
        if
        :: holds[k] && ends_in[k] == 0 ->
#ifdef NOT_UNCOUNTED
            holds[k] = false
#else
            uncount(k)
#endif
        :: else
        fi
    }
    k = 0
}

inline count(i)
{
    for (j : 0 .. N - 1) {
        if
        :: ticket[j] && ticket[j] < ticket[i] -> violated(overtaken)
        :: else
        fi
    }
    j = 0;
    if
    :: EXCLUDES(i) -> is_written = true
    :: else -> used = used + WANTS(i)
    fi;
    holds[i] = true;
    ends_in[i] = LEASE;
    ticket[i] = 0
}

inline promote_next()
{
    head = N;
    for (j : 0 .. N - 1) {
        if
#ifdef READERS_FIRST
        :: ticket[j] && FITS(j) && (head == N || ticket[j] > ticket[head]) -> head = j
#else
        :: ticket[j] && (head == N || ticket[j] < ticket[head]) -> head = j
#endif
        :: else
        fi
    }
    j = 0;
    if
    :: head < N && FITS(head) -> count(head)
    :: else -> head = N
    fi
}

inline promote()
{
    do
    :: promote_next();
        if
        :: head == N -> break
        :: else
        fi
    od
}

inline check_count()
{
    sum = 0;
    for (j : 0 .. N - 1) {
        if
        :: holds[j] && !EXCLUDES(j) -> sum = sum + WANTS(j)
        :: else
        fi
    }
    j = 0;
    if
    :: sum != used -> violated(miscounted)
    :: else
    fi;
    sum = 0
}

inline done()
{
#ifndef NOT_UNCOUNTED
    check_count();
#endif
    head = 0
}

/* ---- the clients ---- */

#define COME 0
#define LOOK 1      /* somebody's lease has ended, or a ring came */
#define GIVE_BACK 2

inline act(what)
{
    atomic {
        expire();
        if
        :: what == COME -> waits[me] = true; tickets++; ticket[me] = tickets
        :: what == GIVE_BACK && holds[me] -> uncount(me)
#ifdef TWICE
        :: what == GIVE_BACK && !holds[me] && !EXCLUDES(me) && used >= WANTS(me) ->
            used = used - WANTS(me)
#endif
        :: else
        fi;
        promote();
        done();
        if
        :: what == LOOK && holds[me] -> left[me] = ends_in[me]; waits[me] = false
        :: else
        fi
    }
}

#define SOMETHING_ENDS                                                                   \
    ((holds[0] && ends_in[0] == 0) || (holds[1] && ends_in[1] == 0) ||                   \
     (holds[2] && ends_in[2] == 0))

/* who waits looks at once when there is something to see */
#define IS_DUE(i) (waits[i] && (holds[i] || SOMETHING_ENDS))

proctype Client(byte me)
{
    byte j, k, head, sum, what, times;

    do
    :: what == COME || (what == LOOK && IS_DUE(me)) || (what == GIVE_BACK && times < 2) ->
        act(what);
        if
        :: what == COME -> what = LOOK
        :: what == GIVE_BACK -> times++
        :: else
        fi
    :: what == LOOK && !waits[me] -> left[me] = 0; what = GIVE_BACK
    :: what == GIVE_BACK -> break /* also if it was never done: it dies */
    od
}

proctype Clock()
{
    byte i;

end:
    do
    :: atomic {
            !IS_DUE(0) && !IS_DUE(1) && !IS_DUE(2) ->
            if
            :: (waits[0] || waits[1] || waits[2]) && !holds[0] && !holds[1] && !holds[2] ->
                violated(stuck)
            :: else
            fi;
            for (i : 0 .. N - 1) {
                COUNT_DOWN(ends_in[i]);
                COUNT_DOWN(left[i])
            }
            i = 0
        }
    od
}

active proctype Monitor()
{
end:
    if
    :: atomic { !is_semaphore && BELIEVES(WRITER) && (BELIEVES(0) || BELIEVES(1)) ->
            violated(together) }
    :: atomic { is_semaphore && BELIEVES(WRITER) && (BELIEVES(0) || BELIEVES(1)) ->
            violated(together) }
    fi
}

init
{
    atomic {
        if
        :: is_semaphore = true
        :: is_semaphore = false
        fi;
        run Client(0);
        run Client(1);
        run Client(2);
        run Clock()
    }
}
