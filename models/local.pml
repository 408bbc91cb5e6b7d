/* SPDX-License-Identifier: MIT */
/*
 * The table of `local:`: processes that share memory, any of which may be killed between
 * any two steps.
 *
 * Of: src/engine/local/claim.c (ask, watch, look_again, release), queue.c (enter, leave,
 * settle, end, the bells), shard.c (lock, rebuild), life.c (bury, reap), watch.c (the thread
 * that listens for deaths), and the bells of src/core/sys.c.
 *
 * Three processes take one lock. The first one has it; the others come in any order and
 * wait, one of them until it gives up; all let go. One is killed. A shard is under a robust
 * mutex; who gets it after a death makes all that is derived (here: who is in line, who
 * holds) anew from the facts (here: word and ticket), and wakes everybody. A ring counts
 * first and wakes then, and the first ring comes after the mutex is free, so a death in
 * between loses it: then the listener of the one that sleeps must notice.
 *
 * Left out: looks that need no ring, which core makes once a second. Only one thing depends
 * on them: who is killed between counting a ring and waking, and is not watched by the one
 * that sleeps (it gave up waiting, and that one has found another to watch since), makes
 * that one wait for its next look (STRAY_RING). Breaking of locks, which can do the same,
 * records that are used again, sharing, free lists and hash chains.
 *
 * Never:
 *   two_hold     two that live are inside
 *   untrue       somebody finds what is derived to be other than the facts say
 * And nobody sleeps for ever: each run ends with all that live served.
 *
 * Mutants, and what catches them:
 *   NO_REBUILD: untrue                     the dead one's mutex is taken over, and no more
 *   NO_ALARM: invalid end state            the listener ends what the dead one had, only
 *   ASKING_ALARM: invalid end state        it rings only bells that say somebody sleeps
 *   SEEN_LATE: invalid end state           the bell is read after the word, not before
 *   NOT_BEHIND: invalid end state          who leaves the line does not wake the one behind
 *   UNWATCHED: invalid end state           nobody watches the process it waits for
 *   STRAY_RING: invalid end state          see above: a limit, not a mutant
 */
#include "common.inc"

#define N 3
#define NOBODY 255
#define FREE 0
#define WAITING 1
#define GRANTED 2
#define DEATHS 1
#define IMPATIENT 1        /* who may give up waiting */
#define IS_MORTAL(i) (i != 2)

bool two_hold, untrue;

bool alive[N];
byte deaths;

/* facts */
byte word[N], ticket[N];
/* derived from them */
bool in_line[N], is_holder[N];

/* the mutex of the shard: threads are numbered, N more for a listener */
byte mutex = NOBODY;

/* bells: rung since the owner last looked, a bit that says somebody sleeps, and who does
 * by the kernel */
bool rung[N], says_asleep[N], asleep[N];

bool watches[N * N]; /* watches[me * N + k]: my listener waits for the death of k */
bool inside[N];
bool has_come; /* the first one, before the others */

#define IS_DEAD(thread) (!alive[thread % N])
#define SOMEBODY_HOLDS (is_holder[0] || is_holder[1] || is_holder[2])

/* The process may be killed here. What a mutex guards is one step but for that: nobody else
 * could do more in between than read a word. */
inline may_die()
{
    if
    :: deaths < DEATHS && IS_MORTAL(me) -> deaths++; alive[me] = false
    :: true
    fi
}

/* ---- bells ---- */

#ifdef STRAY_RING
#define IS_WATCHED_BY(b) true
#else
#define IS_WATCHED_BY(b) watches[b * N + me]
#endif

/* a ring counts, and then wakes who sleeps */
inline ring(b)
{
    atomic { rung[b] = true; sleeps = says_asleep[b]; says_asleep[b] = false;
        if
        :: IS_WATCHED_BY(b) -> may_die()
        :: else
        fi }
    atomic {
        if
        :: sleeps -> asleep[b] = false
        :: else
        fi;
        sleeps = false
    }
}

/* beside a dead process the bit may be wrong: this wakes whatever it says */
inline alarm(b)
{
#ifdef ASKING_ALARM
    ring(b)
#else
    atomic { rung[b] = true; says_asleep[b] = false; asleep[b] = false; may_die() }
#endif
}

/* the first one is rung when the mutex is free, the others at once */
inline wake(b)
{
    if
    :: first == NOBODY -> first = b
    :: first != NOBODY && first != b -> ring(b)
    :: else
    fi
}

inline wake_done()
{
    if
    :: first != NOBODY -> ring(first); first = NOBODY
    :: else
    fi
}

/* ---- the line; the mutex is held ---- */

inline find_head()
{
    head = NOBODY;
    for (k : 0 .. N - 1) {
        if
        :: in_line[k] && (head == NOBODY || ticket[k] < ticket[head]) -> head = k
        :: else
        fi
    }
    k = 0
}

inline find_behind(claim)
{
    behind = NOBODY;
    for (k : 0 .. N - 1) {
        if
        :: in_line[claim] && in_line[k] && ticket[k] > ticket[claim] &&
           (behind == NOBODY || ticket[k] < ticket[behind]) -> behind = k
        :: else
        fi
    }
    k = 0
}

/* grants to the head, if nobody holds */
inline settle()
{
    find_head();
    if
    :: head != NOBODY && !SOMEBODY_HOLDS ->
        in_line[head] = false;
        may_die();
        word[head] = GRANTED;
        may_die();
        is_holder[head] = true;
        wake(head)
    :: else
    fi;
    head = NOBODY
}

/* ends a claim, whatever it was, and lets in who can come in now */
inline end_claim(claim)
{
    find_behind(claim);
    in_line[claim] = false;
    is_holder[claim] = false;
    may_die();
    word[claim] = FREE;
    may_die();
    settle();
#ifndef NOT_BEHIND
    if
    :: behind != NOBODY -> wake(behind)
    :: else
    fi;
#endif
    behind = NOBODY
}

inline check_truth()
{
    for (k : 0 .. N - 1) {
        if
        :: in_line[k] != (word[k] == WAITING) || is_holder[k] != (word[k] == GRANTED) ->
            violated(untrue)
        :: else
        fi
    }
    k = 0
}

inline rebuild()
{
    for (k : 0 .. N - 1) {
        in_line[k] = (word[k] == WAITING);
        is_holder[k] = (word[k] == GRANTED)
    }
    k = 0;
    settle();
    wake_done();
    do
    :: i < N && word[i] != FREE -> alarm(i); i++
    :: i < N && word[i] == FREE -> i++
    :: i == N -> break
    od;
    i = 0
}

inline lock(thread)
{
    mutex == NOBODY || IS_DEAD(mutex);
    orphaned = (mutex != NOBODY);
    mutex = thread;
    if
#ifndef NO_REBUILD
    :: orphaned -> rebuild()
#endif
    :: else
    fi;
    orphaned = false;
    check_truth()
}

/* ---- deaths ---- */

/* ends everything a dead one has left, and wakes our own beside it */
inline bury(thread, dead)
{
    atomic {
        lock(thread);
        do
        :: i < N && i == dead && word[i] != FREE -> end_claim(i); i++
        :: i < N && i == me && word[i] != FREE ->
#ifndef NO_ALARM
            alarm(i);
#endif
            i++
        :: i < N && !((i == dead || i == me) && word[i] != FREE) -> i++
        :: i == N -> break
        od;
        i = 0;
        mutex = NOBODY;
        may_die()
    }
    wake_done()
}

#define DIES(k) atomic { watches[me * N + k] && !alive[k] -> watches[me * N + k] = false; dead = k }

proctype Listener(byte me)
{
    byte first = NOBODY, head = NOBODY, behind = NOBODY, i, k, dead;
    bool sleeps, orphaned;

    {
        do
        :: true ->
end:
            if
            :: DIES(0)
            :: DIES(1)
            fi;
            bury(N + me, dead);
            dead = 0
        od
    } unless {
        !alive[me]
    }
}

/* ---- the way of a claim ---- */

inline queue_up()
{
    for (k : 0 .. N - 1) {
        if
        :: word[k] == WAITING && ticket[k] >= ticket[me] -> ticket[me] = ticket[k] + 1
        :: else
        fi
    }
    k = 0
}

inline ask()
{
    atomic {
        lock(me);
        find_head();
        if
        :: head == NOBODY && !SOMEBODY_HOLDS -> word[me] = GRANTED
        :: else -> queue_up(); word[me] = WAITING
        fi;
        head = NOBODY;
        has_come = true;
        may_die();
        is_holder[me] = (word[me] == GRANTED);
        in_line[me] = (word[me] == WAITING);
        mutex = NOBODY;
        may_die()
    }
}

/* whom to watch: the one before us in line, or who holds it */
inline find_blocker()
{
    blocker = NOBODY;
    for (k : 0 .. N - 1) {
        if
        :: in_line[k] && in_line[me] && ticket[k] < ticket[me] &&
           (blocker == NOBODY || ticket[k] > ticket[blocker]) -> blocker = k
        :: else
        fi
    }
    for (k : 0 .. N - 1) {
        if
        :: in_line[me] && blocker == NOBODY && is_holder[k] -> blocker = k
        :: else
        fi
    }
    k = 0
}

inline watch()
{
    atomic { lock(me); rung[me] = false; find_blocker(); mutex = NOBODY }
#ifndef UNWATCHED
    if
    :: blocker == NOBODY
    :: blocker != NOBODY && alive[blocker] -> watches[me * N + blocker] = true
    :: blocker != NOBODY && !alive[blocker] -> bury(me, blocker)
    fi;
#endif
    blocker = NOBODY
}

/* sleeps until the bell has been rung since we looked */
inline sleep()
{
    do
    :: rung[me] -> break
    :: atomic { !rung[me] -> says_asleep[me] = true }
        atomic { asleep[me] = (!rung[me] && says_asleep[me]); may_die() }
        !asleep[me]
    od
}

/* the first in line also looks whether those before it are dead */
inline look_again()
{
    atomic {
        lock(me);
        find_head();
        is_first = (head == me);
        head = NOBODY;
        do
        :: i < N && is_first && is_holder[i] && !alive[i] -> end_claim(i); i++
        :: i < N && !(is_first && is_holder[i] && !alive[i]) -> i++
        :: i == N -> break
        od;
        i = 0;
        is_first = false;
        mutex = NOBODY;
        may_die()
    }
    wake_done()
}

inline give_back()
{
    atomic { lock(me); end_claim(me); mutex = NOBODY; may_die() }
    wake_done()
}

proctype Process(byte me)
{
    byte first = NOBODY, head = NOBODY, behind = NOBODY, blocker = NOBODY, i, k;
    bool sleeps, orphaned, is_first;

    {
        me == 0 || has_come;
        ask();
        do
        :: word[me] == GRANTED ->
            atomic { inside[me] = true; may_die() }
            inside[me] = false;
            break
        :: word[me] == WAITING && me == IMPATIENT -> break /* its time is up */
        :: word[me] == WAITING ->
            watch();
            if
            :: word[me] == WAITING ->
#ifdef SEEN_LATE
                rung[me] = false;
#endif
                sleep();
                look_again()
            :: else
            fi
        od;
        give_back();
        /* nothing may depend on one who has gone */
        d_step {
            for (k : 0 .. N - 1) {
                watches[me * N + k] = false
            }
            k = 0;
            rung[me] = false
        }
    } unless {
        !alive[me]
    }
}

#define LIVES_INSIDE(i) (alive[i] && inside[i])

active proctype Monitor()
{
end:
    if
    :: atomic { LIVES_INSIDE(0) && (LIVES_INSIDE(1) || LIVES_INSIDE(2)) ->
            violated(two_hold) }
    :: atomic { LIVES_INSIDE(1) && LIVES_INSIDE(2) -> violated(two_hold) }
    fi
}

init
{
    byte i;

    atomic {
        for (i : 0 .. N - 1) {
            alive[i] = true;
            run Process(i);
            run Listener(i)
        }
        i = 0
    }
}
