/* SPDX-License-Identifier: MIT */
/* What is done to bytes on their way: what happens to all of them, and what happens once, at
 * one place. See wires_parts.h, and servers.h for what it means. */
#include <string.h>

#include "wires_parts.h"

#define MS_NS 1000000
#define MILLION 1000000

void
spoil_set(struct spoil *spoil, const wires_fault *fault)
{
    memset(spoil, 0, sizeof(*spoil));
    spoil->fault = *fault;
    spoil->random = fault->seed + 1;
}

/* a number below `below`, by a generator that is the same everywhere */
static uint64_t
random_below(struct spoil *spoil, uint64_t below)
{
    spoil->random = spoil->random * 6364136223846793005u + 1442695040888963407u;
    return (spoil->random >> 33) % below;
}

/* when what is read now goes on */
static int64_t
due_of(struct spoil *spoil)
{
    const wires_fault *fault = &spoil->fault;
    int64_t ms = fault->delay_ms + fault->merge_ms;
    if (fault->jitter_ms > 0) {
        ms += (int64_t)random_below(spoil, 2 * (uint64_t)fault->jitter_ms + 1) -
              fault->jitter_ms;
    }
    return ms > 0 ? now_ns() + ms * MS_NS : 0;
}

static void
flip_at(struct spoil *spoil, char *byte)
{
    *byte = (char)(*byte ^ 1 << random_below(spoil, 8));
}

static void
flip_some(struct spoil *spoil, char *bytes, size_t len)
{
    for (size_t i = 0; spoil->fault.flip_ppm > 0 && i < len; i++) {
        if (random_below(spoil, MILLION) < (uint64_t)spoil->fault.flip_ppm) {
            flip_at(spoil, &bytes[i]);
        }
    }
}

/* bytes that go one way after bytes that went the other way begin a message */
static void
count(struct spoil *spoil, struct pair *pair, int which)
{
    struct way *way = &pair->way[which];
    if (pair->talks != which) {
        pair->talks = which;
        way->message = ++spoil->messages;
        way->of_message = 0;
    }
}

/* Where in these bytes it happens; -1: not there. */
static int64_t
place_of(const struct spoil *spoil, const struct way *way, size_t len)
{
    const wires_fault *fault = &spoil->fault;
    if (fault->once == WIRES_NOTHING || spoil->is_done ||
        (fault->at != 0 && fault->at != way->message)) {
        return -1;
    }
    if (fault->bytes < 0) {
        return (int64_t)len;
    }
    int64_t place = fault->bytes - (fault->at != 0 ? way->of_message : spoil->bytes);
    /* to flip a byte it has to be there */
    int64_t most = (int64_t)len - (fault->once == WIRES_FLIP ? 1 : 0);
    return place >= 0 && place <= most ? place : -1;
}

static void
strike(struct spoil *spoil, struct way *way, char *bytes, size_t len, size_t place)
{
    int64_t due_ns = due_of(spoil);
    int merge = spoil->fault.merge_ms > 0;
    switch (spoil->fault.once) {
    case WIRES_FLIP:
        flip_at(spoil, &bytes[place]);
        break;
    case WIRES_REPEAT:
        way_add(way, bytes, len, due_ns, merge);
        break;
    case WIRES_LATE:
        due_ns = now_ns() + (int64_t)spoil->fault.late_ms * MS_NS;
        break;
    case WIRES_LOSE:
        way->is_lost = 1;
        len = place;
        break;
    default:
        way->last = spoil->fault.once;
        way->is_over = 1;
        len = place;
        break;
    }
    way_add(way, bytes, len, due_ns, merge);
}

void
spoil_pass(struct line *line, struct pair *pair, int which, char *bytes, size_t len)
{
    struct spoil *spoil = &line->spoil[which];
    struct way *way = &pair->way[which];
    count(spoil, pair, which);
    flip_some(spoil, bytes, len);
    int64_t place = place_of(spoil, way, len);
    if (place >= 0) {
        spoil->is_done = 1;
        line->struck++;
        strike(spoil, way, bytes, len, (size_t)place);
    } else if (!way->is_lost) {
        way_add(way, bytes, len, due_of(spoil), spoil->fault.merge_ms > 0);
    }
    spoil->bytes += (int64_t)len;
    way->of_message += (int64_t)len;
}
