/* SPDX-License-Identifier: MIT */
/*
 * From a seed, what is done. The same seed gives each thread the same errands in the same
 * order, and the same times to kill and to pause; who meets whom is left to the machine.
 */
#include <string.h>

#include "parts.h"

#define PERMIT_LIMIT 3
#define HURRY_MS 5

void
torture_plan_init(struct torture_plan *plan, const char *url)
{
    memset(plan, 0, sizeof *plan);
    plan->url = url;
    plan->seed = 1;
    plan->run_ms = 20000;
    plan->clients = 4;
    plan->threads = 6;
    plan->names = 9;
    plan->lease_ms = 2000;
    plan->modes = 1u << DIBS_EXCLUSIVE | 1u << DIBS_SHARED | 1u << DIBS_PERMITS;
    plan->kill_every_ms = 1500;
    plan->pause_every_ms = 2000;
    plan->slow = 1;
}

/* ZooKeeper's ticks are taken for 2 s, as is usual; Consul's TTL is 10 s at least, it waits for
 * two of them, and for a lock-delay then. */
int64_t
outlives_ms(const char *engine, uint32_t lease_ms)
{
    int64_t lease = lease_ms, ttl = 2 * lease < 10000 ? 10000 : 2 * lease;
    if (strcmp(engine, "zookeeper") == 0)
        return (lease + 2000) * 7 / 4 + 2000 - lease;
    if (strcmp(engine, "etcd") == 0)
        return lease + 3000;
    if (strcmp(engine, "consul") == 0)
        return 2 * ttl + (lease < 60000 ? lease : 60000) + 1000 - lease;
    return 0;
}

/* ---- numbers ---- */

/* splitmix64: one multiplication after the other until no bit looks like its neighbour */
uint64_t
random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t
random_from(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t parts[] = { a, b, c };
    uint64_t state = seed;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        state = random_next(&state) ^ parts[i];
    }
    return random_next(&state);
}

uint64_t
random_below(uint64_t *state, uint64_t limit)
{
    return random_next(state) % limit;
}

int64_t
random_between(uint64_t *state, int64_t low, int64_t high)
{
    return high <= low ? low
                       : low + (int64_t)random_below(state, (uint64_t)(high - low) + 1);
}

static int
one_in(uint64_t *state, uint64_t n)
{
    return random_below(state, n) == 0;
}

/* ---- errands ---- */

static int
may_use(const struct torture_plan *plan, uint32_t caps, int mode)
{
    uint32_t cap = mode == DIBS_SHARED    ? DIBS_CAP_SHARED
                   : mode == DIBS_PERMITS ? DIBS_CAP_PERMITS
                                          : 0;
    return (plan->modes & 1u << mode) != 0 && (caps & cap) == cap;
}

/* A name is a lock, a lock that is also shared, or a semaphore, for the whole run: engines
 * refuse to mix the last with the others. */
static void
draw_mode(struct errand *out, const struct torture_plan *plan, uint32_t caps,
          uint64_t *state)
{
    uint32_t kind = out->name % 3;
    if (kind == 1 && may_use(plan, caps, DIBS_SHARED)) {
        out->mode = one_in(state, 2) || !may_use(plan, caps, DIBS_EXCLUSIVE)
                        ? DIBS_SHARED
                        : DIBS_EXCLUSIVE;
        out->downgrades = out->mode == DIBS_EXCLUSIVE && one_in(state, 4);
    }
    if (kind == 2 && may_use(plan, caps, DIBS_PERMITS)) {
        out->mode = DIBS_PERMITS;
        out->limit = PERMIT_LIMIT;
        out->permits = 1 + one_in(state, 3);
    }
}

static int64_t
draw_wait(uint32_t lease_ms, uint64_t *state)
{
    switch (random_below(state, 8)) {
    case 0:
    case 1:
        return DIBS_WAIT_NONE;
    case 2:
    case 3:
        return random_between(state, 1, lease_ms / 2);
    case 4:
        return DIBS_WAIT_FOREVER;
    default:
        return random_between(state, 2 * (int64_t)lease_ms, 6 * (int64_t)lease_ms);
    }
}

/* Most are short, but some must be renewed to last: as many as it takes for there to be such a
 * one most of the time, because only these can outlast what servers forget. */
static int64_t
draw_hold(uint32_t lease_ms, uint64_t *state)
{
    if (one_in(state, lease_ms / 100 + 1))
        return random_between(state, lease_ms, 2 * (int64_t)lease_ms);
    return random_between(state, 0, one_in(state, 4) ? 100 : 10);
}

/* About so long a thread rests that hurries: as briefly as leaves time for the others, and long
 * enough that the turns of all of them, over the whole run, fill a quarter of the history. */
static int64_t
hurry_ms(const struct torture_plan *plan)
{
    uint64_t threads = (uint64_t)plan->clients * (plan->threads / 3);
    int64_t least = (int64_t)(threads * (uint64_t)plan->run_ms / (HISTORY_TURNS / 4));
    return least > HURRY_MS ? least : HURRY_MS;
}

/* Every third thread hurries: the last third of the names is for these, and a turn there is as
 * short as can be. Who is patient has names of its own, where locks are had for long and many
 * wait; else each would wait for the others most of the time. */
static void
draw_pace(struct errand *out, const struct torture_plan *plan, uint32_t thread,
          uint64_t *state)
{
    uint32_t slow = plan->names - plan->names / 3;
    if (thread % 3 == 2 && slow < plan->names) {
        out->name = slow + (uint32_t)random_below(state, plan->names - slow);
        out->rest_ms = random_between(state, 0, 2 * hurry_ms(plan));
        out->abandons = one_in(state, plan->lease_ms);
    } else {
        out->name = (uint32_t)random_below(state, slow);
        out->hold_ms = draw_hold(plan->lease_ms, state);
        out->rest_ms = one_in(state, 2) ? 0 : random_between(state, 0, 20);
        out->abandons = one_in(state, 40);
    }
}

void
errand_draw(struct errand *out, const struct torture_plan *plan, uint32_t caps,
            uint32_t thread, uint64_t *state)
{
    memset(out, 0, sizeof *out);
    out->mode = DIBS_EXCLUSIVE;
    draw_pace(out, plan, thread, state);
    draw_mode(out, plan, caps, state);
    out->wait_ms = draw_wait(plan->lease_ms, state);
    out->write_ms =
        out->mode == DIBS_EXCLUSIVE ? random_between(state, 0, out->hold_ms) : -1;
    out->fences = (caps & DIBS_CAP_CELL) != 0 && out->write_ms >= 0 && one_in(state, 3);
    out->renews = one_in(state, 8);
    out->abandons = out->abandons && (caps & DIBS_CAP_LEASE) != 0;
}
