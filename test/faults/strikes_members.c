/* SPDX-License-Identifier: MIT */
/* What is done to a minority of several servers, or to the one that leads. See lab.h. */
#include "lab.h"

/* some of the servers, which stand side by side in the set */
struct some {
    int first, count;
};

static server *
member(const struct some *some, int index)
{
    return &lab.set.servers[(some->first + index) % lab.set.count];
}

static struct some
minority(uint64_t random)
{
    int most = (lab.set.count - 1) / 2;
    return (struct some){ (int)((random >> 8) % (uint64_t)lab.set.count),
                          1 + (int)((random >> 16) % (uint64_t)most) };
}

static struct some
leader(void)
{
    return (struct some){ lab.stage->family->leader(&lab.set), 1 };
}

static struct some
other(uint64_t random)
{
    int index = lab.stage->family->leader(&lab.set) + 1 + (int)((random >> 8) % 2);
    return (struct some){ index % lab.set.count, 1 };
}

static int
kill_some(struct some some, int64_t ms)
{
    for (int i = 0; i < some.count; i++) {
        lab_kill(member(&some, i));
    }
    sleep_ms(ms);
    for (int i = 0; i < some.count; i++) {
        server_respawn(member(&some, i));
    }
    set_await(&lab.set);
    lab_settle();
    return 0;
}

static int
stop_some(struct some some, int64_t ms)
{
    for (int i = 0; i < some.count; i++) {
        server_pause(member(&some, i));
    }
    sleep_ms(lab_still_ms(ms));
    set_resume(&lab.set);
    set_await(&lab.set);
    lab_settle();
    return 0;
}

/* clients still reach it */
static int
part_one(struct some some, int64_t ms)
{
    lab.stage->family->cut_off(&lab.set, &lab.between, some.first);
    sleep_ms(ms);
    wires_flow(&lab.between, WIRES_ALL);
    set_await(&lab.set);
    return 0;
}

int
strike_member_kill(uint64_t random, int64_t ms)
{
    return kill_some(minority(random), ms);
}

int
strike_member_stop(uint64_t random, int64_t ms)
{
    return stop_some(minority(random), ms);
}

int
strike_member_part(uint64_t random, int64_t ms)
{
    return part_one(other(random), ms);
}

int
strike_leader_kill(uint64_t random, int64_t ms)
{
    (void)random;
    return kill_some(leader(), ms);
}

int
strike_leader_stop(uint64_t random, int64_t ms)
{
    (void)random;
    return stop_some(leader(), ms);
}

int
strike_leader_part(uint64_t random, int64_t ms)
{
    (void)random;
    return part_one(leader(), ms);
}
