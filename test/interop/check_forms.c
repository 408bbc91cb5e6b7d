/* SPDX-License-Identifier: MIT */
/* What forms of a lock add: order, sharing and tokens, across both libraries. See
 * interop.h. */
#include "interop.h"

#include <stdio.h>
#include <string.h>

#define QUEUED 4

/* One who waits in line. */
struct place {
    struct peer *peer;
    int actor;
};

static void
in_order(struct stage *stage, struct peer *holder, const struct place *line,
         const char *kind, int number)
{
    char name[64];
    snprintf(name, sizeof(name), "order-%s-%d", kind, number);
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    for (int i = 0; i < QUEUED; i++) {
        peer_order(line[i].peer, line[i].actor, "lock %s %s %d %d", kind, name, LONG_MS,
                   30000);
        wait_for_length(stage, kind, name, i + 1);
    }
    peer_must(holder, 1, "ok", "unlock %s %s", kind, name);
    for (int i = 0; i < QUEUED; i++) {
        (void)peer_granted(line[i].peer, line[i].actor, slowly(2000));
        for (int j = i + 1; j < QUEUED; j++) {
            CHECK(!peer_has_answered(line[j].peer, line[j].actor, 20));
        }
        peer_must(line[i].peer, line[i].actor, "ok", "unlock %s %s", kind, name);
    }
}

void
check_order(struct stage *stage, const char *kind)
{
    struct place line[QUEUED] = { { &stage->ours[0], 2 },
                                  { &stage->theirs[0], 2 },
                                  { &stage->ours[1], 2 },
                                  { &stage->theirs[1], 2 } };
    in_order(stage, &stage->theirs[0], line, kind, 1);
    /* in one process of dibs, others of it wait there and not at the server */
    struct place other[QUEUED] = { { &stage->theirs[1], 2 },
                                   { &stage->theirs[0], 2 },
                                   { &stage->ours[1], 2 },
                                   { &stage->theirs[1], 3 } };
    in_order(stage, &stage->ours[0], other, kind, 2);
    done("%s: first come, first served, across both", kind);
}

static void
busy_for_all(struct stage *stage, const char *kind, const char *name)
{
    peer_must(&stage->ours[1], 3, "busy", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(&stage->theirs[1], 3, "busy", "lock %s %s %d 0", kind, name, LONG_MS);
}

/* readers of both; the first leaves, then the second lets the writer in */
static void
readers_then(struct stage *stage, struct peer *first, struct peer *second,
             struct peer *writer, const char *name)
{
    peer_must(first, 1, "ok", "lock read %s %d 0", name, LONG_MS);
    peer_must(second, 1, "ok", "lock read %s %d 0", name, LONG_MS);
    busy_for_all(stage, "write", name);
    peer_must(first, 1, "ok", "unlock read %s", name);
    busy_for_all(stage, "write", name);
    peer_must(second, 1, "yes", "held read %s", name);
    peer_order(writer, 1, "lock write %s %d 15000", name, LONG_MS);
    CHECK(!peer_has_answered(writer, 1, 300));
    peer_must(second, 1, "ok", "unlock read %s", name);
    (void)peer_granted(writer, 1, slowly(WAKE_MS));
    busy_for_all(stage, "read", name);
    busy_for_all(stage, "write", name);
}

/* The writer becomes a reader, with no writer in between; then it leaves. */
static void
downgraded(struct stage *stage, struct peer *writer, struct peer *reader,
           const char *name)
{
    int tells = writer->program->tells;
    peer_must(writer, 1, "ok", "lock write %s %d 0", name, LONG_MS);
    peer_order(reader, 2, "lock read %s %d %d", name, LONG_MS, LONG_MS);
    CHECK(!peer_has_answered(reader, 2, 300));
    peer_must(writer, 1, "ok", "downgrade %s %d", name, LONG_MS);
    if (tells) {
        (void)peer_granted(reader, 2, slowly(WAKE_MS));
    }
    busy_for_all(stage, "write", name);
    peer_must(&stage->ours[1], 2, "ok", "lock read %s %d 0", name, LONG_MS);
    peer_must(&stage->ours[1], 2, "ok", "unlock read %s", name);
    peer_must(writer, 1, "ok", "unlock read %s", name);
    if (!tells) {
        (void)peer_granted(reader, 2, slowly(WAKE_MS));
    }
    peer_must(reader, 2, "ok", "unlock read %s", name);
}

void
check_sharing(struct stage *stage)
{
    struct peer *dibs = &stage->ours[0], *other = &stage->theirs[0];
    readers_then(stage, dibs, other, &stage->ours[1], "share-1");
    peer_must(&stage->ours[1], 1, "ok", "unlock write share-1");
    readers_then(stage, other, dibs, &stage->theirs[1], "share-2");
    peer_must(&stage->theirs[1], 1, "ok", "unlock write share-2");
    done("read, write: sharers of both, no writer among them");
    if (!other->program->downgrades) {
        return;
    }
    downgraded(stage, dibs, other, "share-3");
    downgraded(stage, other, dibs, "share-4");
    done("read, write: downgraded without a gap");
}

/* a string where Redisson has a hash cannot be taken, and it is said why */
void
check_dialect(struct stage *stage)
{
    peer_must(&stage->theirs[0], 1, "ok", "lock lock dialect %d 0", LONG_MS);
    peer_must(&stage->ours[0], 1, "error EMISMATCH", "lock plain dialect %d 0", LONG_MS);
    peer_must(&stage->theirs[0], 1, "ok", "unlock lock dialect");
    done("plain: not where Redisson has a lock");
}

void
check_tokens(struct stage *stage, const char *kind)
{
    struct peer *order[] = { &stage->ours[0], &stage->theirs[0], &stage->theirs[1],
                             &stage->ours[1], &stage->ours[0],   &stage->theirs[0] };
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        peer_order(order[i], 1, "lock %s token %d 0", kind, LONG_MS);
        uint64_t token = peer_granted(order[i], 1, slowly(5000));
        CHECK(token > last);
        last = token;
        peer_must(order[i], 1, "ok", "unlock %s token", kind);
    }
    done("%s: tokens of both rise together", kind);
}
