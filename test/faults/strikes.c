/* SPDX-License-Identifier: MIT */
/* What is done to all servers of a stage, or on the way to them. See lab.h. */
#include "lab.h"

/* those that keep locks: Sentinels come last */
static int
keepers(void)
{
    return lab.set.count - lab.set.sentinels;
}

/* clients are hurt by the run itself */
int
strike_nothing(uint64_t random, int64_t ms)
{
    (void)random, (void)ms;
    return -1;
}

static int
end_all(void (*end)(server *), int64_t ms)
{
    for (int i = 0; i < keepers(); i++) {
        end(&lab.set.servers[i]);
    }
    sleep_ms(ms);
    for (int i = 0; i < keepers(); i++) {
        server_respawn(&lab.set.servers[i]);
    }
    set_await(&lab.set);
    lab_settle();
    return 0;
}

int
strike_restart(uint64_t random, int64_t ms)
{
    (void)random;
    return end_all(lab_kill, ms);
}

int
strike_power(uint64_t random, int64_t ms)
{
    (void)random;
    return end_all(server_lose_power, ms);
}

int
strike_stop(uint64_t random, int64_t ms)
{
    (void)random;
    for (int i = 0; i < keepers(); i++) {
        server_pause(&lab.set.servers[i]);
    }
    sleep_ms(lab_still_ms(ms));
    set_resume(&lab.set);
    lab_settle();
    return 0;
}

int
strike_cut(uint64_t random, int64_t ms)
{
    (void)random, (void)ms;
    if (lab.lines.count > 0) {
        wires_cut(&lab.lines, WIRES_ALL);
    } else {
        set_cut(&lab.set);
    }
    return 0;
}

/* All of them; or, where others know who is the master, at times that of a master alone, so that
 * they still name it. */
static int
which_wire(uint64_t random)
{
    int alone = (lab.stage->family->can & CAN_FAIL_OVER) != 0 && (random >> 16 & 1) != 0;
    return alone ? lab.stage->family->leader(&lab.set) : WIRES_ALL;
}

int
strike_hold(uint64_t random, int64_t ms)
{
    wires_hold(&lab.lines, which_wire(random));
    sleep_ms(ms);
    wires_flow(&lab.lines, WIRES_ALL);
    return 0;
}

/* what was thrown away would be missed in the middle of a connection, so they end */
int
strike_mute(uint64_t random, int64_t ms)
{
    int which = which_wire(random);
    wires_mute(&lab.lines, which);
    sleep_ms(ms);
    wires_cut(&lab.lines, which);
    wires_flow(&lab.lines, WIRES_ALL);
    return 0;
}

int
strike_flap(uint64_t random, int64_t ms)
{
    int64_t until = now_ms() + ms, most_ms = lab.lease_ms / 10 + 1;
    while (now_ms() < until) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        wires_hold(&lab.lines, WIRES_ALL);
        sleep_ms((int64_t)(random >> 33) % most_ms);
        wires_flow(&lab.lines, WIRES_ALL);
        if ((random >> 32 & 1) != 0) {
            wires_cut(&lab.lines, WIRES_ALL);
        }
        sleep_ms((int64_t)(random >> 45) % most_ms);
    }
    return 0;
}

int
strike_scripts(uint64_t random, int64_t ms)
{
    (void)random, (void)ms;
    for (int i = 0; i < keepers(); i++) {
        server_do(&lab.set.servers[i], "SCRIPT", "FLUSH");
    }
    return 0;
}

int
strike_forget(uint64_t random, int64_t ms)
{
    (void)random, (void)ms;
    set_flush(&lab.set);
    return 0;
}

/* Forward, by more than a lease. Set back, the clock of the only server makes the locks of
 * the dead last for as long: nobody would be granted anything in this run. */
static int64_t
clock_forward(uint64_t random)
{
    static int64_t off_ms;
    off_ms += 2 * lab.lease_ms + (int64_t)(random >> 8) % (8 * lab.lease_ms);
    return off_ms;
}

/* forward and back, but the keys of the dead must be gone when they are counted */
static int64_t
clock_anywhere(uint64_t random)
{
    return (int64_t)(random >> 8) % (4 * lab.lease_ms);
}

/* of servers that vote by their clocks it is always the same one's */
static server *
whose_clock(uint64_t random)
{
    static int first = -1;
    int index = (int)((random >> 40) % (uint64_t)lab.set.count);
    first = first < 0 ? index : first;
    return &lab.set.servers[lab.stage->family->leader != NULL ? index : first];
}

int
strike_clock(uint64_t random, int64_t ms)
{
    int goes_back = (lab.stage->family->can & CAN_CLOCK_BACK) != 0;
    (void)ms;
    server_set_clock(whose_clock(random),
                     goes_back ? clock_anywhere(random) : clock_forward(random));
    return 0;
}

int
strike_failover(uint64_t random, int64_t ms)
{
    return lab.stage->family->fail_over(random, ms);
}
