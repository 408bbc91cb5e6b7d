/* SPDX-License-Identifier: MIT */
/*
 * Failover: a replica that was sent the locks late, or not at all, becomes the master,
 * while the old master goes on for a while. The quarantine: the new one grants nothing for
 * a longest lease and that while, from when it is first asked.
 *
 * Of: the gate in src/engine/redis/gate.c, as the scripts of queue_lua.c ask it.
 *
 * The old master sends what it does to the replica, sooner or later or not before the
 * promotion. For LAG after that it still grants and renews (min-replicas-max-lag, cluster-node-timeout). Two
 * clients ask either of them, at any time. Renewals of what survived do not ask the gate, but
 * a client renews nothing at the new master before it has known it for LAG: the old one, which
 * hears nothing of the renewal, would end that lease and grant to somebody else while it still
 * goes on.
 *
 * Left out: a second failover, servers' clocks that differ, giving back (it is as if the
 * lease had ended).
 *
 * Never:
 *   two_hold     both believe that they hold it
 *
 * Mutants, and what catches them:
 *   NO_QUARANTINE: two_hold     the new master grants at once
 *   NO_LAG: two_hold            it waits for a longest lease only
 *   RENEWS_AT_ONCE: two_hold    it is renewed at the new master while the old one goes on
 */
#include "common.inc"

#define LEASE 2
#define LAG 2
#define OLD 0
#define NEW 1
#define BELIEVES(i) (left[i] > 0)

#if defined(NO_QUARANTINE)
#define QUARANTINE 0
#elif defined(NO_LAG)
#define QUARANTINE LEASE
#else
#define QUARANTINE (LEASE + LAG)
#endif

bool two_hold;

byte owner[2], ends_in[2]; /* of the lock, at either server; 0: nobody's */
bool promoted, was_asked;
byte goes_on = LAG; /* so long yet the old master writes */
byte closed;        /* so long yet the new one does not grant */

/* the clients: how long ago a request left, and how long it is believed to be held yet */
byte age[2], left[2];

/* whether they have seen the new master, and for how long */
bool knows[2];
byte known_for[2];

#define WRITES(server) (server == OLD -> goes_on > 0 : promoted)
#define IS_FREE(server) (owner[server] == 0)
#define IS_OPEN(server) (server == OLD || closed == 0)

#ifdef RENEWS_AT_ONCE
#define MAY_RENEW(server) true
#else
#define MAY_RENEW(server) (server == OLD || known_for[me] == LAG)
#endif

/* what the old master does is sent to the replica, with all before it, or not in time */
inline replicate()
{
    if
    :: !promoted -> owner[NEW] = owner[OLD]; ends_in[NEW] = ends_in[OLD]
    :: true
    fi
}

inline pick_server()
{
    if
    :: server = OLD
    :: server = NEW
    fi
}

inline take()
{
    atomic {
        pick_server();
        if
        :: server == NEW && promoted && !was_asked ->
            was_asked = true;
            closed = QUARANTINE
        :: else
        fi;
        if
        :: WRITES(server) && IS_OPEN(server) && IS_FREE(server) ->
            owner[server] = me + 1;
            ends_in[server] = LEASE;
            done = true
        :: else
        fi;
        replicate();
        server = 0
    }
}

inline renew()
{
    atomic {
        pick_server();
        knows[me] = knows[me] || (server == NEW && promoted);
        if
        :: WRITES(server) && MAY_RENEW(server) && owner[server] == me + 1 &&
           ends_in[server] > 0 ->
            ends_in[server] = LEASE;
            done = true
        :: else
        fi;
        replicate();
        server = 0
    }
}

proctype Client(byte me)
{
    byte tries, server;
    bool done;

    do
    :: tries < 2 && !done -> tries++; age[me] = 0; take()
    :: true -> break
    od;
    tries = 0;
    if
    :: done -> left[me] = LEASE - age[me]
    :: true /* refused, or the answer was lost */
    fi;
    do
    :: BELIEVES(me) && tries < 2 ->
        atomic { tries++; age[me] = 0; done = false }
        renew();
        if
        :: done && BELIEVES(me) -> left[me] = LEASE - age[me]
        :: true
        fi
    :: true -> break
    od;
    atomic { tries = 0; done = false }
}

active proctype Promotion()
{
end:
    atomic { true -> promoted = true }
}

active proctype Clock()
{
    byte i;

end:
    do
    :: d_step {
            for (i : 0 .. 1) {
                COUNT_DOWN(ends_in[i]);
                COUNT_DOWN(left[i]);
                COUNT_UP(age[i], LEASE);
                known_for[i] = (knows[i] && known_for[i] < LAG -> known_for[i] + 1 : known_for[i]);
                owner[i] = (ends_in[i] > 0 -> owner[i] : 0)
            }
            i = 0;
            goes_on = (promoted && goes_on > 0 -> goes_on - 1 : goes_on);
            COUNT_DOWN(closed)
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
