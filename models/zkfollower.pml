/* SPDX-License-Identifier: MIT */
/*
 * A client of a follower that was cut off from its leader, and goes on answering: until
 * when can the client be sure that its session lives?
 *
 * Of: src/engine/zookeeper/life.c (known_at, dibs__zk_life_sign), renew.c, pump.c.
 *
 * The follower hears of the client, and names it to the leader when that pings it, once in
 * a tick at least. A read or a ping it answers alone; a write only while it is with the
 * leader. The leader ends the session when it has not heard of it for TIMEOUT; then its
 * nodes go and others are granted. At some moment the two are cut apart. A client's
 * requests and their answers take any time.
 *
 * Left out: a new leader (it gives every session its full time again), moving to another
 * follower, clocks that run differently fast.
 *
 * Never:
 *   outlived     the client is sure of a session that the leader has ended
 *
 * Mutants, and what catches them:
 *   PING: outlived              any answer counts
 *   OWN_SIGN: outlived          a write counts for its own time, not for an earlier sign
 */
#include "common.inc"

#define TICK 2
#define TIMEOUT 5
#define SIGNS 2

bool outlived;

/* the follower and the leader */
bool together = true;
bool heard;               /* of the client, since the last ping of the leader */
byte pinged;              /* how long ago the leader did that */
byte ends_in = TIMEOUT;   /* then the leader ends the session, if it hears no more */

/* the client */
byte safe = TIMEOUT;      /* for so long yet; the session was made by a write just now */
byte age;                 /* how long ago the last request left */
byte sign_sent[SIGNS], sign_answered[SIGNS]; /* and how long ago those before did */

inline raise_by(how_old)
{
    if
    :: TIMEOUT - how_old > safe -> safe = TIMEOUT - how_old
    :: else
    fi
}

/* the newest sign that was answered a tick before the request left */
inline known_at()
{
    known = TIMEOUT;
    for (i : 0 .. SIGNS - 1) {
        if
        :: sign_answered[i] >= age + TICK && sign_sent[i] < known -> known = sign_sent[i]
        :: else
        fi
    }
    i = 0
}

/* newest first */
inline keep_sign()
{
    for (i : 1 .. SIGNS - 1) {
        sign_sent[SIGNS - i] = sign_sent[SIGNS - i - 1];
        sign_answered[SIGNS - i] = sign_answered[SIGNS - i - 1]
    }
    i = 0;
    sign_sent[0] = age;
    sign_answered[0] = 0
}

inline weigh()
{
#ifdef OWN_SIGN
    known = age;
#else
    known_at();
#endif
    raise_by(known);
    known = 0
}

active proctype Client()
{
    byte i, known;
    bool is_write, answered;

end:
    do
    :: atomic {
            safe > 0;
            age = 0;
            if
            :: is_write = true
            :: is_write = false
            fi
        }
        /* it is done at the follower */
        atomic {
            answered = !is_write || together;
            heard = true
        }
        if
        :: !answered -> break /* the follower never answers; the session ends */
        :: answered
        fi;
        atomic {
            if
#ifdef PING
            :: true -> raise_by(age)
#else
            :: is_write -> weigh()
#endif
            :: !is_write
            fi;
            keep_sign();
            is_write = false; answered = false; age = TIMEOUT
        }
    od
}

/* the leader's pings, and the follower's answers to them */
active proctype Leader()
{
end:
    do
    :: atomic {
            together && ends_in > 0 && pinged > 0;
            pinged = 0;
            if
            :: heard -> heard = false; ends_in = TIMEOUT
            :: else
            fi
        }
    od
}

active proctype Cut()
{
end:
    atomic { true -> together = false }
}

/* who is together has met within a tick */
active proctype Clock()
{
    byte i;

end:
    do
    :: d_step {
            (!together || pinged + 1 < TICK) ->
            COUNT_UP(pinged, TICK);
            COUNT_DOWN(ends_in);
            COUNT_DOWN(safe);
            COUNT_UP(age, TIMEOUT);
            for (i : 0 .. SIGNS - 1) {
                COUNT_UP(sign_sent[i], TIMEOUT);
                COUNT_UP(sign_answered[i], TIMEOUT + TICK)
            }
            i = 0
        }
    od
}

active proctype Monitor()
{
end:
    atomic { ends_in == 0 && safe > 0 -> violated(outlived) }
}
