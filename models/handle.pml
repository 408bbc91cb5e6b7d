/* SPDX-License-Identifier: MIT */
/*
 * A hold in a client: the thread of its user, the keeper that renews and reaps, and the
 * alarm that tells of losses, all at work on the same grant.
 *
 * Of: src/core/acquire.c (ask_engine, accept_grant, withdraw), hold.c (mark_released,
 * give_back, hold_lose, wait_until_told), grant.c, keeper.c, alarm.c; and what
 * docs/internals/threading.md says of the words `state`, `until`, `releasing` and `refs`.
 *
 * The user asks, until it is granted, cancels or its time is up; asks whether it is held;
 * gives it back and frees the handle. Every request may be done or not, and its answer may
 * be lost; that happens twice at most. Renewals are
 * sent while the hold is kept. What a mutex guards is one step; what is not, is not.
 *
 * Left out: re-entry, hand-over and the queue of threads in the process, batches of more
 * than one, renewals by the user, closing and forking.
 *
 * Never:
 *   told_twice   the loss is told more than once
 *   told_and_ok  the loss is told, and the release says that all was well
 *   not_told     the lease has ended, and the user that still has the hold was not told
 *   revived      it is held again after it was not
 *   renewed_on   a renewal is sent after the release has returned
 *   told_freed   the loss is told after the handle was freed
 *   used_freed   memory is used after it was freed
 *   left_behind  all is over, and the server still has the claim, or memory is left
 *
 * Mutants, and what catches them:
 *   TELLS_ALL: told_and_ok      who finds it over tells, also when it was given back
 *   TELLS_TWICE: told_twice     and does not take it out of the heap
 *   NO_ALARM: not_told          only the keeper tells, and it waits for the server
 *   REVIVES: revived            a renewal sets `until`, whatever it is by now
 *   KEPT_ON: renewed_on         the answer to a renewal puts the grant back, kept or not
 *   NO_REAPER: left_behind      what could not be released is forgotten
 *   NO_WITHDRAWAL: left_behind  a request of unknown outcome is not taken back
 *   NOT_KEPT: left_behind       an answer counts though the grant was taken out of the heap
 *   NO_BATCH_REF: used_freed    a renewal under way does not count as a user of the grant
 *   NOT_WAITING: told_freed     the handle is freed while its loss is being told
 */
#include "common.inc"

#define LEASE 3
#define USABLE 2   /* of it: the grace is what is left */
#define MAX_HOLD 3 /* where there is one */
#define NO_LIMIT 9
#define TROUBLE 2

bool told_twice, told_and_ok, not_told, revived;
bool renewed_on, told_freed, used_freed, left_behind;

/* the server */
bool claimed;
byte ends_in;
byte trouble; /* so many answers were lost */

/* the grant and its hold */
#define HELD 0
#define LOST 1
#define RELEASED 2
byte state;
bool is_over = true; /* `until` is DIBS__LOST */
byte left;           /* else: how long it is to come yet */
byte hold_left = NO_LIMIT;
bool kept, attached, renewing, releasing, orphan;
byte refs = 2; /* the handle's, and the list's of its seat */

/* how long ago the last request of the user, and the last renewal, left */
byte age, renewal_age;

/* telling */
bool losing; /* taken out by the keeper or the alarm, which is about to tell */
bool telling, notifies, freed_handle;
byte told;
byte busy; /* so many of the keeper and the alarm are at work */

/* what the user saw */
bool granted, said_not_held, release_ok, released, has_ended;

#define STANDS (!is_over && left > 0)
#define USABLE_OF(age) (age < USABLE -> USABLE - age : 0)
#define UNTIL(age) (USABLE_OF(age) < hold_left -> USABLE_OF(age) : hold_left)

inline use()
{
    if
    :: refs == 0 -> violated(used_freed)
    :: else
    fi
}

/* whether an answer is lost; not for ever */
inline answer()
{
    if
    :: heard = true
    :: trouble < TROUBLE -> trouble++; heard = false
    fi
}

/* a request that ends the claim at the server: done or not, heard or not */
inline release_at_server()
{
    if
    :: was_held = claimed && ends_in > 0; claimed = false; ends_in = 0; answer()
    :: trouble < TROUBLE -> trouble++; heard = false; was_held = false
    fi
}

inline adopt()
{
#ifndef NO_REAPER
    refs++;
    orphan = true
#else
    skip
#endif
}

/* ---- the user ---- */

inline attempt()
{
    age = 0;
    atomic {
        if
        :: claimed = true; ends_in = LEASE; answer()
        :: trouble < TROUBLE -> trouble++; heard = false
        fi;
        maybe_there = true
    }
}

inline accept()
{
    atomic {
        if
        :: UNTIL(age) > 0 ->
            left = UNTIL(age);
            is_over = false;
            granted = true;
            attached = true;
            kept = true;
            refs++
        :: else
        fi
    }
}

inline withdraw()
{
    atomic {
        if
#ifdef NO_WITHDRAWAL
        :: true
#else
        :: maybe_there ->
            release_at_server();
            if
            :: !heard -> releasing = true; adopt()
            :: else
            fi
        :: else
#endif
        fi;
        heard = false; was_held = false; maybe_there = false
    }
}

/* a look at `until` and the clock, and then what was seen is made final */
inline is_held()
{
    stood = STANDS;
    atomic {
        if
        :: stood && state == HELD && said_not_held -> violated(revived)
        :: !stood && state == HELD -> is_over = true; left = 0; said_not_held = true
        :: else
        fi;
        stood = false
    }
}

inline mark_released()
{
    atomic { lost = (state == LOST); state = RELEASED }
    atomic { lost = lost || !STANDS; is_over = is_over || !STANDS }
}

inline keeper_remove()
{
    atomic {
        if
        :: kept -> kept = false; refs--
        :: else
        fi
    }
}

inline end_grant()
{
    keeper_remove();
    atomic {
        if
        :: releasing -> ok = false
        :: !releasing && lost -> releasing = true; ok = false; adopt()
        :: !releasing && !lost ->
            releasing = true;
            release_at_server();
            ok = heard && was_held;
            if
            :: !heard -> adopt()
            :: else
            fi
        fi;
        heard = false; was_held = false
    }
}

inline free_handle()
{
    atomic {
#ifndef NOT_WAITING
        !telling;
#endif
        freed_handle = true;
        refs--
    }
}

active proctype User()
{
    byte tries;
    bool heard, was_held, lost, ok, maybe_there, stood;

    if
    :: hold_left = MAX_HOLD
    :: true
    fi;
    do
    :: tries < 2 && !granted && !heard ->
        tries++;
        attempt();
        if
        :: heard -> accept()
        :: else
        fi
    :: true -> break /* granted or too old when it came; cancelled, or its time is up */
    od;
    atomic { heard = false; tries = 0 }
    if
    :: !granted -> withdraw(); refs--
    :: granted ->
        maybe_there = false;
        do
        :: tries < 2 -> tries++; is_held()
        :: true -> break
        od;
        tries = 0;
        mark_released();
        attached = false; /* arbiter_leave, under the shard's mutex */
        end_grant();
        atomic {
            release_ok = ok;
            released = true;
            if
            :: ok && told -> violated(told_and_ok)
            :: else
            fi;
            refs--;
            ok = false; lost = false
        }
    fi;
    free_handle();
    has_ended = true
}

/* ---- losing: by the keeper, or by the alarm ---- */

/* under the shard's mutex, which whoever gives back takes as well */
inline lose()
{
    atomic {
        if
#if defined(TELLS_ALL) || defined(TELLS_TWICE)
        :: attached ->
#else
        :: attached && state == HELD ->
#endif
            telling = true;
            state = LOST;
            notifies = true;
            refs++;
            told++;
            if
            :: told > 1 -> violated(told_twice)
            :: else
            fi
        :: else
        fi;
        losing = false
    }
    /* held for too long: the server would let it, so it is ended there */
    atomic {
        if
        :: hold_left == 0 && !releasing -> releasing = true; adopt()
        :: else
        fi;
        use();
        refs-- /* the heap's */
    }
}

active proctype Notifier()
{
end:
    do
    :: atomic { notifies ->
            use();
            if
            :: freed_handle -> violated(told_freed)
            :: else
            fi;
            notifies = false }
        atomic { telling = false; refs-- }
    od
}

#ifdef TELLS_TWICE
#define TAKE_OUT refs++
#else
#define TAKE_OUT kept = false
#endif
#ifdef NO_ALARM
#define ALARM_IS_DUE false
#else
#define ALARM_IS_DUE (kept && !STANDS)
#endif

active proctype Alarm()
{
end:
    do
    :: atomic { ALARM_IS_DUE -> TAKE_OUT; is_over = true; left = 0; losing = true; busy++ }
        lose();
        busy--
    od
}

/* ---- the keeper ---- */

#ifdef NOT_KEPT
#define IS_KEPT true
#else
#define IS_KEPT kept
#endif

inline renew()
{
    atomic {
        kept && !renewing ->
        renewing = true;
        busy++;
        renewal_age = 0;
#ifndef NO_BATCH_REF
        refs++;
#endif
        if
        :: released -> violated(renewed_on)
        :: else
        fi
    }
    atomic {
        if
        :: result = claimed && ends_in > 0;
            ends_in = (result -> LEASE : ends_in);
            answer()
        :: trouble < TROUBLE -> trouble++; heard = false
        fi
    }
    /* the answer is there */
    atomic {
        use();
        renewing = false;
#ifdef KEPT_ON
        if
        :: !kept -> kept = true; refs++
        :: else
        fi;
#endif
        if
        :: IS_KEPT && ((heard && !result) || !STANDS) ->
            kept = false;
            is_over = true;
            left = 0;
            losing = true;
            heard = false;
            is_lost = true
        :: else -> heard = heard && IS_KEPT
        fi
    }
    if
    :: is_lost -> lose()
    :: else
    fi;
    /* a compare-and-exchange: somebody may have been told "not held" since */
    atomic {
        if
#ifdef REVIVES
        :: heard -> left = UNTIL(renewal_age); is_over = false
#else
        :: heard && !is_over -> left = UNTIL(renewal_age)
#endif
        :: else
        fi;
#ifndef NO_BATCH_REF
        use();
        refs--;
#endif
        heard = false; result = false; is_lost = false; busy--
    }
}

inline reap()
{
    atomic {
        orphan ->
        use();
        release_at_server();
        if
        :: heard -> orphan = false; refs--
        :: else
        fi;
        heard = false; was_held = false
    }
}

active proctype Keeper()
{
    bool heard, was_held, result, is_lost;

end:
    do
    :: renew()
    :: reap()
    od
}

/* the alarm waits for nobody, so time does not pass before it has told */
active proctype Clock()
{
end:
    do
    :: d_step {
            !ALARM_IS_DUE && !losing ->
            COUNT_DOWN(ends_in);
            COUNT_DOWN(left);
            COUNT_UP(age, LEASE);
            COUNT_UP(renewal_age, LEASE);
            hold_left = (granted && hold_left != NO_LIMIT && hold_left > 0 -> hold_left - 1
                                                                           : hold_left)
        }
    od
}

#define ALL_IS_OVER (has_ended && !busy && !notifies && !telling && !orphan)

active proctype Monitor()
{
end:
    if
    :: atomic { attached && state == HELD && ends_in == 0 -> violated(not_told) }
    :: atomic { ALL_IS_OVER && (claimed || refs != 0) -> violated(left_behind) }
    fi
}
