/* SPDX-License-Identifier: MIT */
/*
 * Tokens that only rise, from servers that know nothing of each other.
 *
 * How it works. Every server keeps, for each bucket of names, the largest tick that it was
 * told of (`last`, in the hash dibs:token). Who takes a lock proposes a tick p together
 * with it. The script that sets the lock's key also stores p if it is larger than `last`,
 * and returns what `last` was. If a majority has set the key and its `last` was smaller
 * than p, the token is p, after one round. Else all is asked for again with one more than
 * the largest `last` that was returned.
 *
 * Why it is right. Two grants of one name have a server in common that counted for both.
 * There the key was set for one grant A, went away, and was set for the other, B; each
 * time in one step with its tick. So B's `last` was at least A's tick, and B's tick is
 * larger than that. The key went away because A ended, or because its lease ran out there,
 * and in both cases A's hold was over when B's began; so the order of the ticks is the
 * order of the holds. No tick is used twice, for "smaller" is strict on each server of a
 * majority. What other names of the bucket do in between only makes `last` larger.
 *
 * Servers that forget. A server that lost its data has no `last`, and takes its own clock
 * (microseconds since 1970) for it. That is more than any tick it can have forgotten,
 * because ticks trail behind the clocks: nobody proposes more than the median of the
 * servers' clocks as it knows them, less LAG, or one more than the largest it has seen. So
 * a restart with nothing left does no harm as long as the servers' clocks differ by less
 * than LAG. The limit: after it the bucket stands at that server's clock. If a second server
 * forgets everything sooner after the first than the clocks of the two differ, it can
 * come out below.
 *
 * Why not a counter per name: it could never be deleted. Why buckets: with one number for
 * all names, clients whose picture of the clocks is a little behind would nearly always
 * need the second round on busy servers.
 */
#include "redlock.h"

#define LAG_US INT64_C(10000000)

void
dibs__redlock_saw(struct redlock *redlock, unsigned bucket, int64_t tick)
{
    _Atomic int64_t *seen = &redlock->seen[bucket];
    int64_t most = atomic_load(seen);
    while (most < tick && !atomic_compare_exchange_weak(seen, &most, tick))
        continue;
}

void
dibs__redlock_saw_clock(struct redlock *redlock, int node, int64_t server_us)
{
    atomic_store(&redlock->nodes[node].clock_us, server_us - redlock->host->now() / 1000);
}

/* The median of the servers' clocks as they are now, of those that are known; 0 if none
 * is. A single clock that is wrong cannot pull it away. */
static int64_t
median_clock(struct redlock *redlock)
{
    int64_t sorted[NODES_MAX];
    int n = 0;
    for (int i = 0; i < redlock->count; i++) {
        int64_t clock = atomic_load(&redlock->nodes[i].clock_us);
        int at = n;
        if (!clock)
            continue;
        for (; at > 0 && sorted[at - 1] > clock; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = clock;
        n++;
    }
    return n ? sorted[(n - 1) / 2] + redlock->host->now() / 1000 : 0;
}

int64_t
dibs__redlock_propose(struct redlock *redlock, unsigned bucket)
{
    int64_t by_clock = median_clock(redlock) - LAG_US;
    int64_t by_sight = atomic_load(&redlock->seen[bucket]) + 1;
    int64_t tick = by_clock > by_sight ? by_clock : by_sight;
    dibs__redlock_saw(redlock, bucket, tick);
    return tick;
}
