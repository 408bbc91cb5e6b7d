/* SPDX-License-Identifier: MIT */
/*
 * The rules on what happens at the server (K6 to K9 and K11, see sim_check.c): each step
 * of the server is compared with a picture taken before it.
 */
#include <string.h>

#include "engine/mock/mock.h"
#include "sim.h"

#define PICTURE_MAX 256
#define ARRIVALS_MAX 8192
#define NOBODY (-2) /* whose entry has gone */

struct seen {
    int name, process, state, mode;
    uint8_t session[16];
    uint64_t serial, token;
    dibs_time expires;
};

struct picture {
    struct seen entries[PICTURE_MAX]; /* name by name, in the server's order */
    size_t count;
};

static struct picture before, after;

static struct arrival {
    int process;
    uint64_t serial;
    dibs_time at;
} arrivals[ARRIVALS_MAX]; /* in the order of arrival */
static size_t arrival_count;

static dibs_time last_end[SIM_NAMES]; /* when a hold of that name last ended */

void
sim_server_reset(void)
{
    arrival_count = 0;
    memset(last_end, 0, sizeof(last_end));
}

static void
take_picture(struct picture *picture)
{
    struct lock *lock = NULL;

    picture->count = 0;
    if (!sim_service())
        return;
    while ((lock = dibs__mock_next_lock(sim_service(), lock)))
        for (const struct entry *e = lock->entries; e; e = e->next) {
            struct seen *seen = &picture->entries[picture->count];

            if (picture->count == PICTURE_MAX)
                return;
            picture->count++;
            *seen = (struct seen){ .name = lock->name[lock->name_len - 1] - '0',
                                   .process = sim_process_of(e->session),
                                   .state = e->state,
                                   .mode = e->mode,
                                   .serial = e->serial,
                                   .token = e->token,
                                   .expires = e->expires };
            memcpy(seen->session, e->session, sizeof(seen->session));
        }
}

static const struct seen *
find_in(const struct picture *picture, const struct seen *like)
{
    for (size_t i = 0; i < picture->count; i++)
        if (picture->entries[i].serial == like->serial &&
            picture->entries[i].process == like->process &&
            picture->entries[i].name == like->name)
            return &picture->entries[i];
    return NULL;
}

static const struct arrival *
arrival_of(const struct seen *seen)
{
    for (size_t i = arrival_count; i-- > 0;)
        if (arrivals[i].serial == seen->serial && arrivals[i].process == seen->process)
            return &arrivals[i];
    if (arrival_count == ARRIVALS_MAX)
        return NULL;
    arrivals[arrival_count] = (struct arrival){ seen->process, seen->serial, sim_now() };
    sim_record(OP_SERVER_QUEUED, seen->process, seen->name, -1, seen->serial);
    return &arrivals[arrival_count++];
}

/* An entry that expired and came back stands at the end again. */
static void
forget_arrival(const struct seen *seen)
{
    for (size_t i = 0; i < arrival_count; i++)
        if (arrivals[i].serial == seen->serial && arrivals[i].process == seen->process)
            arrivals[i].process = NOBODY;
}

void
sim_server_before(void)
{
    take_picture(&before);
}

/* ---- K6 ---- */

static int
is_own(const struct seen *seen, int process, const uint64_t *serials, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seen->process == process && seen->serial == serials[i])
            return 1;
    return 0;
}

static void
check_untouched(const char *verb, int process, const uint64_t *serials, size_t count)
{
    for (size_t i = 0; i < before.count; i++) {
        const struct seen *was = &before.entries[i], *is = find_in(&after, was);

        if (is_own(was, process, serials, count) || was->state == LINGERING)
            continue;
        if (!is && was->expires > sim_now())
            sim_violation(K6, "the %s of process %d ended a claim of process %d", verb,
                          process, was->process);
        if (is && is->expires != was->expires)
            sim_violation(K6, "the %s of process %d changed a lease of process %d", verb,
                          process, was->process);
    }
}

/* ---- K7 ---- */

static int
is_admitted(const struct seen *seen)
{
    return seen && seen->state != WAITING;
}

static void
check_order(const struct seen *admitted)
{
    const struct arrival *mine = arrival_of(admitted);

    for (size_t i = 0; i < after.count; i++) {
        const struct seen *other = &after.entries[i];
        const struct arrival *its;

        if (other->name != admitted->name || other->state != WAITING ||
            other->mode == DIBS_OBSERVE)
            continue;
        its = arrival_of(other);
        if (its && mine && its < mine)
            sim_violation(K7, "process %d overtook process %d in the queue of name %d",
                          admitted->process, other->process, admitted->name);
    }
}

/* ---- K8 ---- */

/* Measured for exclusive claims, and without faults but deaths: a client that cannot be
 * reached is as good as dead for a while, any number of times. From the end of the last
 * hold (or the arrival, if later) on, each death may cost one lease of a waiter, and
 * there is the time by which a waiter looks again by itself. */
static void
check_hand_off(const struct seen *next)
{
    const struct arrival *arrival = arrival_of(next);
    dibs_time limit =
        LEASE_MAX_MS * DIBS_MS / 3 + 8 * sim_network.delay_max + 50 * DIBS_MS;
    dibs_time since = last_end[next->name];

    if (!arrival || next->mode != DIBS_EXCLUSIVE || sim_network.is_faulty)
        return;
    if (arrival->at > since)
        since = arrival->at;
    for (size_t i = 0; i < after.count; i++)
        if (after.entries[i].name == next->name && after.entries[i].state >= HELD &&
            after.entries[i].expires > since && after.entries[i].expires <= sim_now())
            since = after.entries[i].expires; /* over, though nobody has looked */
    for (int i = 1; i < SIM_PROCESSES; i++)
        if (sim_is_dead(i))
            limit += LEASE_MAX_MS * DIBS_MS;
    if (sim_now() - since > limit)
        sim_violation(K8, "name %d is free since %.3f ms, and process %d waits",
                      next->name, (double)(sim_now() - since) / DIBS_MS, next->process);
}

static int
somebody_holds(int name)
{
    for (size_t i = 0; i < after.count; i++)
        if (after.entries[i].name == name && after.entries[i].state >= HELD &&
            after.entries[i].expires > sim_now())
            return 1;
    return 0;
}

/* Did what was there survive this step? A call may find its own entry expired, and get a
 * new one at the end of the queue. */
static int
survived(const struct seen *was, const struct seen *is)
{
    return is && (was->expires > sim_now() || is->expires == was->expires);
}

static void
check_transitions(void)
{
    for (size_t i = 0; i < before.count; i++) {
        struct seen *was = &before.entries[i];

        if (survived(was, find_in(&after, was)))
            continue;
        if (was->state >= HELD) {
            sim_record(OP_SERVER_ENDED, was->process, was->name, -1, was->token);
            last_end[was->name] = was->expires < sim_now() ? was->expires : sim_now();
        }
        forget_arrival(was);
        was->process = NOBODY;
    }
    for (size_t i = 0; i < after.count; i++) {
        const struct seen *is = &after.entries[i], *was = find_in(&before, is);

        if (is->state == LINGERING) /* what a hold has become, and not a claim */
            continue;
        (void)arrival_of(is);
        if (is_admitted(is) && !is_admitted(was))
            check_order(is);
        if (is->state == HELD && (!was || was->state != HELD)) {
            sim_record(OP_SERVER_GRANTED, is->process, is->name, -1, is->token);
            check_hand_off(is);
        }
        if (is->state == WAITING && !sim_is_dead(is->process) &&
            !somebody_holds(is->name))
            check_hand_off(is);
    }
}

/* ---- K11 ---- */

/* What nobody in the process knows of is gone a lease after they gave it up; a lost
 * request that arrives late may begin that lease later. */
static void
check_known(void)
{
    dibs_time limit = LEASE_MAX_MS * DIBS_MS + LATE_MAX + 100 * DIBS_MS;

    for (size_t i = 0; i < after.count; i++) {
        const struct seen *is = &after.entries[i];
        dibs_time last;

        if (is->state != HELD || is->expires <= sim_now() || is->process < 0)
            continue;
        last = sim_check_last_use(is->process, is->name);
        if (last != DIBS_NEVER && sim_now() - last > limit)
            sim_violation(K11, "name %d is granted to process %d, and nobody there knows",
                          is->name, is->process);
    }
}

void
sim_server_after(const char *verb, int process, const uint64_t *serials, size_t count)
{
    take_picture(&after);
    check_untouched(verb, process, serials, count);
    check_transitions();
    check_known();
}

/* ---- K9 ---- */

/* sim_server_closed looks after a client that could reach the server all the time and
 * gave nothing up to run out: it leaves nothing behind. */
void
sim_server_closed(int process, dibs_time invoked)
{
    if (sim_link_had_faults(process, invoked - LEASE_MAX_MS * DIBS_MS - LATE_MAX))
        return;
    take_picture(&after);
    for (size_t i = 0; i < after.count; i++)
        if (after.entries[i].process == process && after.entries[i].state != LINGERING)
            sim_violation(K9, "process %d has closed and left a claim on name %d",
                          process, after.entries[i].name);
}

/* sim_server_nothing_left looks a lease and more after everybody has gone. */
void
sim_server_nothing_left(void)
{
    take_picture(&after);
    for (size_t i = 0; i < after.count; i++)
        if (after.entries[i].expires > sim_now())
            sim_violation(K9, "process %d is gone and left a claim on name %d",
                          after.entries[i].process, after.entries[i].name);
}
