/* SPDX-License-Identifier: MIT */
/*
 * `dibs run`: a supervisor holds a lock while a command and what it starts run.
 *
 * Of: cli/run_supervise.c (look_at_locks, cmd_ended, group_is_gone, step, run_grace_ms,
 * lost_patience_ms) and the release that follows in cli/cmd_run.c.
 *
 * The command starts another process in its group, or does not. Each of the two ends at
 * any time, by itself or because of SIGTERM, or not before it is killed. The lock is renewed for a while, or not; it counts as lost a grace before
 * the lease ends at the server. The supervisor is awake when something is due: time passes
 * only when nothing is.
 *
 * Left out: a supervisor that is stopped or killed (PR_SET_PDEATHSIG ends the command then,
 * and nothing but the lease and tokens the rest of its group), what leaves the group by
 * setsid, terminals.
 *
 * Never:
 *   outlived     the lease is over at the server, and somebody of the group lives
 *   let_go       the lock is given back while somebody of the group lives
 *   stray        a signal goes to a group that is gone, whose number may be another's
 *
 * Mutants, and what catches them:
 *   NO_KILL: outlived           SIGTERM is all that is sent
 *   PATIENT: outlived           after a loss it waits for --kill-after, however long that is
 *   LEADER_ONLY: outlived       signals go to the command, not to its group
 *   AT_EXIT: let_go             the lock is given back when the command has ended
 *   REAP_FIRST: stray           the command is waited for before its group is sent SIGTERM
 */
#include "common.inc"

#define LEASE 6
#define GRACE 3      /* half of the lease: --kill-after is longer than that */
#define SLACK 1
#define KILL_AFTER 4
#define LAST 12
#define NEVER 255
#define CMD 0
#define OTHER 1

byte now;
bool outlived, let_go, stray;

/* the lock, as the server has it */
byte ends = LEASE;
byte renewals;
bool is_held = true;

/* the group: who lives, and whether the command was waited for */
bool lives[2], reaped;

#define SOMEBODY_LIVES (lives[CMD] || lives[OTHER])
/* the number stays taken while the command was not waited for, or another is left */
#define IS_GONE (reaped && !lives[OTHER])

/* the supervisor */
byte kill_at = NEVER;
bool lost, ended, over;
#define LOST_AT (ends - GRACE)
#ifdef PATIENT
#define PATIENCE KILL_AFTER
#else
#define PATIENCE (GRACE - SLACK)
#endif

/* SIGTERM forces nobody: who lives may end at any time anyway */
inline send_term()
{
    if
    :: IS_GONE -> violated(stray)
    :: else
    fi
}

inline send_kill()
{
    send_term();
#ifndef LEADER_ONLY
    lives[OTHER] = false;
#endif
    lives[CMD] = false
}

inline kill_by(when)
{
    if
    :: when < kill_at -> kill_at = when
    :: else
    fi
}

/* each step may be followed by anything that others do */
proctype Supervisor()
{
    do
    :: atomic { !ended && !lives[CMD] -> ended = true }
#ifdef REAP_FIRST
        reaped = true;
        send_term();
#else
        atomic { send_term() }
        reaped = true;
#endif
#ifdef AT_EXIT
        break;
#endif
        if
        :: !IS_GONE -> atomic { kill_by(now + KILL_AFTER) }
        :: else
        fi
    :: atomic { ended && IS_GONE -> break }
    :: atomic { !lost && now >= LOST_AT && !(ended && IS_GONE) -> lost = true; send_term();
            kill_by(now + PATIENCE) }
    :: atomic { now >= kill_at && !(ended && IS_GONE) -> kill_at = NEVER;
#ifndef NO_KILL
            send_kill()
#endif
        }
    od;
    atomic {
        if
        :: SOMEBODY_LIVES -> violated(let_go)
        :: else
        fi;
        is_held = false;
        over = true
    }
}

/* a process of the group: it ends at any time, or not by itself */
proctype Process(byte me)
{
end:
    if
    :: lives[me] -> lives[me] = false
    :: !lives[me]
    fi
}

/* the command starts the other one, or does not */
proctype Starter()
{
end:
    atomic { lives[CMD] -> lives[OTHER] = true; run Process(OTHER) }
}

/* renewed before it counts as lost */
proctype Keeper()
{
end:
    do
    :: atomic { is_held && !lost && renewals < 1 && now < LOST_AT ->
            renewals++; ends = now + LEASE }
    od
}

#define IS_DUE (!over && ((!ended && !lives[CMD]) || (ended && !reaped) ||               \
                          (ended && IS_GONE) || (!lost && now >= LOST_AT) || now >= kill_at))

proctype Clock()
{
end:
    do
    :: now < LAST && !IS_DUE -> now++
    od
}

proctype Monitor()
{
end:
    atomic { is_held && now >= ends && SOMEBODY_LIVES -> violated(outlived) }
}

init
{
    atomic {
        lives[CMD] = true;
        run Process(CMD);
        run Starter();
        run Supervisor();
        run Keeper();
        run Clock();
        run Monitor()
    }
}
