/* SPDX-License-Identifier: MIT */
/* What is special to ZooKeeper: nodes, byte for byte; who dies while it waits; permits and
 * leaders; and that the nodes above go when nobody needs them. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is written down ---- */

/* Where a lock is in its life when it is looked at. */
enum { HELD, AWAITED, PASSED_ON, DOWNGRADED, RELEASED, STEPS };
static const char *const step_names[STEPS] = { "held", "awaited", "passed on",
                                               "downgraded", "released" };

static const server *
only_server(const struct stage *stage)
{
    return &stage->servers.servers[0];
}

/* waits until the nodes of a lock have changed, and gives the shape they have then */
static char *
changed_shape(const struct stage *stage, const char *name, int with_data,
              const char *before)
{
    char *after = NULL;
    for (int i = 0; i < 500; i++) {
        after = nodes_shape(only_server(stage), name, with_data);
        if (strcmp(before, after) != 0) {
            break;
        }
        free(after);
        after = NULL;
        sleep_ms(10);
    }
    if (after == NULL) {
        FAIL("'%s' stays as it is:\n%s", name, before);
    }
    /* there may be more than one change */
    sleep_ms(100);
    free(after);
    return nodes_shape(only_server(stage), name, with_data);
}

/* a life of a lock, lived by two processes of one library */
static void
live(struct stage *stage, struct peer *peers, const char *kind, char *shapes[STEPS])
{
    char name[64];
    const server *on = only_server(stage);
    /* where others read it */
    int data = strcmp(kind, "latch") == 0 || !stage->theirs[0].program->downgrades;
    int is_read = strcmp(kind, "read") == 0;
    snprintf(name, sizeof(name), "nodes-%s-%s", kind, peers[0].program->name);
    peer_must(&peers[0], 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    shapes[HELD] = nodes_shape(on, name, data);
    peer_order(&peers[1], 1, "lock %s %s %d %d", kind, name, LONG_MS, WAIT_FOREVER);
    shapes[AWAITED] = changed_shape(stage, name, data, shapes[HELD]);
    CHECK_SAME(peer_has_answered(&peers[1], 1, is_read ? slowly(2000) : 0), is_read);
    peer_must(&peers[0], 1, "ok", "unlock %s %s", kind, name);
    (void)peer_granted(&peers[1], 1, slowly(5000));
    shapes[PASSED_ON] = nodes_shape(on, name, data);
    if (strcmp(kind, "write") == 0 && stage->theirs[0].program->downgrades) {
        peer_must(&peers[1], 1, "ok", "downgrade %s %d", name, LONG_MS);
        kind = "read";
    }
    shapes[DOWNGRADED] = nodes_shape(on, name, data);
    peer_must(&peers[1], 1, "ok", "unlock %s %s", kind, name);
    shapes[RELEASED] = nodes_shape(on, name, data);
}

void
check_nodes(struct stage *stage, const char *kind)
{
    char *ours[STEPS], *theirs[STEPS];
    live(stage, stage->theirs, kind, theirs);
    live(stage, stage->ours, kind, ours);
    for (int i = 0; i < STEPS; i++) {
        if (strcmp(ours[i], theirs[i]) != 0) {
            FAIL("%s, %s: dibs has\n%s\nwhere %s has\n%s", kind, step_names[i], ours[i],
                 stage->theirs[0].program->title, theirs[i]);
        }
        CHECK_SAME(ours[i][0] == '\0', i == RELEASED);
        free(ours[i]);
        free(theirs[i]);
    }
    done("%s: the same nodes", kind);
}

/* ---- who dies while it waits ---- */

/* the one in the middle is killed; the last one goes on when it and the holder are gone */
static void
dies_waiting(struct stage *stage, struct peer *holder, struct peer *middle,
             struct peer *last, const char *kind)
{
    char name[64];
    snprintf(name, sizeof(name), "middle-%s-%s", kind, middle->program->name);
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_order(middle, 1, "lock %s %s 0 30000", kind, name);
    wait_for_length(stage, kind, name, 1);
    peer_order(last, 1, "lock %s %s %d 30000", kind, name, LONG_MS);
    wait_for_length(stage, kind, name, 2);
    peer_kill(middle);
    wait_for_length(stage, kind, name, 1);
    CHECK(!peer_has_answered(last, 1, 300));
    peer_must(holder, 1, "ok", "unlock %s %s", kind, name);
    (void)peer_granted(last, 1, slowly(WAKE_MS));
    peer_must(last, 1, "ok", "unlock %s %s", kind, name);
    peer_restart(middle);
}

void
check_dead_waiter(struct stage *stage, const char *kind)
{
    dies_waiting(stage, &stage->theirs[0], &stage->ours[0], &stage->theirs[1], kind);
    dies_waiting(stage, &stage->ours[0], &stage->theirs[0], &stage->ours[1], kind);
    done("%s: killed while it waits, either of them, and the next has its turn", kind);
}

/* ---- readers, permits, leaders ---- */

/* Curator's writer reads as well: others are out until it has ended both */
void
check_read_in_write(struct stage *stage)
{
    struct peer *writer = &stage->theirs[0], *dibs = &stage->ours[0];
    peer_must(writer, 1, "ok", "lock write both %d 0", LONG_MS);
    peer_order(dibs, 1, "lock write both %d 30000", LONG_MS);
    wait_for_length(stage, "write", "both", 1);
    /* behind a writer that waits, and yet at once */
    peer_must(writer, 1, "ok", "lock read both %d 0", LONG_MS);
    peer_must(&stage->ours[1], 1, "busy", "lock read both %d 0", LONG_MS);
    peer_must(writer, 1, "ok", "unlock write both");
    CHECK(!peer_has_answered(dibs, 1, 300));
    peer_must(writer, 1, "ok", "unlock read both");
    (void)peer_granted(dibs, 1, slowly(WAKE_MS));
    peer_must(dibs, 1, "ok", "unlock write both");
    done("read inside write: %s's reader counts from where its writer stood",
         writer->program->title);
}

static void
two_of_two(struct peer *first, struct peer *second, struct peer *third)
{
    peer_must(first, 1, "ok", "lock sem2 permits %d 0", LONG_MS);
    peer_must(second, 1, "ok", "lock sem2 permits %d 0", LONG_MS);
    peer_must(third, 2, "busy", "lock sem2 permits %d 0", LONG_MS);
    peer_must(second, 2, "busy", "lock sem2 permits %d 300", LONG_MS);
    peer_order(third, 2, "lock sem2 permits %d 15000", LONG_MS);
    CHECK(!peer_has_answered(third, 2, 300));
    peer_must(first, 1, "ok", "unlock sem2 permits");
    (void)peer_granted(third, 2, slowly(WAKE_MS));
    peer_must(second, 1, "yes", "held sem2 permits");
    peer_must(second, 1, "ok", "unlock sem2 permits");
    peer_must(third, 2, "ok", "unlock sem2 permits");
}

void
check_permits(struct stage *stage)
{
    two_of_two(&stage->ours[0], &stage->theirs[0], &stage->ours[1]);
    two_of_two(&stage->theirs[0], &stage->ours[0], &stage->theirs[1]);
    done("sem2: two at a time, of both");
}

/* one who watches is told of the first leader, and of the next when it comes */
static void
observed(struct peer *first, struct peer *next, struct peer *watcher)
{
    char answer[ANSWER_MAX], name[64];
    snprintf(name, sizeof(name), "seen-%s", first->program->name);
    peer_must(first, 3, "ok", "lock latch %s %d 0", name, LONG_MS);
    peer_order(watcher, 1, "observe %s actor4", name);
    peer_order(next, 4, "lock latch %s %d 15000", name, LONG_MS);
    CHECK(!peer_has_answered(watcher, 1, 500));
    peer_must(first, 3, "ok", "unlock latch %s", name);
    (void)peer_granted(next, 4, slowly(WAKE_MS));
    peer_answer(watcher, 1, slowly(WAKE_MS), answer);
    if (strcmp(answer, "saw actor3 actor4") != 0) {
        FAIL("dibs observed: %s", answer);
    }
    peer_must(next, 4, "ok", "unlock latch %s", name);
    done("latch: dibs observes how %s follows %s", next->program->title,
         first->program->title);
}

void
check_leader(struct stage *stage)
{
    struct peer *dibs = &stage->ours[0], *other = &stage->theirs[0];
    peer_must(dibs, 3, "ok", "lock latch lead %d 0", LONG_MS);
    peer_must(other, 1, "leader actor3", "leader lead");
    peer_order(other, 4, "lock latch lead 0 30000");
    CHECK(!peer_has_answered(other, 4, 300));
    peer_must(other, 1, "leader actor3", "leader lead");
    peer_must(dibs, 3, "ok", "unlock latch lead");
    (void)peer_granted(other, 4, slowly(WAKE_MS));
    peer_must(dibs, 1, "leader actor4", "leader lead");
    peer_must(other, 4, "ok", "unlock latch lead");
    done("latch: each knows who leads");
    observed(dibs, other, &stage->ours[1]);
    observed(other, dibs, &stage->ours[1]);
}

/* ---- the nodes above ---- */

/* A server that looks for empty containers all the time. */
static void
restart_reaping(server *on)
{
    static const char *const often[] = { "-Dznode.container.checkIntervalMs=200", NULL };
    server_kill(on);
    on->options.more = often;
    server_restart(on);
}

/* what dibs leaves for others is what they would leave: it goes by itself, or it stays */
void
check_parents(struct stage *stage, int are_containers)
{
    static const char *const kinds[] = { "mutex", "write", "sem1" };
    server *on = &stage->servers.servers[0];
    int kind_count = are_containers ? 3 : 2;
    restart_reaping(on);
    for (int i = 0; i < kind_count; i++) {
        struct peer *by[] = { &stage->ours[0], &stage->theirs[0] };
        for (int j = 0; j < 2; j++) {
            char name[64];
            snprintf(name, sizeof(name), "parent-%s-%s", kinds[i], by[j]->program->name);
            peer_must(by[j], 1, "ok", "lock %s %s %d 5000", kinds[i], name, LONG_MS);
            CHECK(nodes_there(on, name));
            peer_must(by[j], 1, "ok", "unlock %s %s", kinds[i], name);
            for (int k = 0; k < (are_containers ? 1000 : 100); k++) {
                if (!nodes_there(on, name)) {
                    break;
                }
                sleep_ms(10);
            }
            CHECK_SAME(nodes_there(on, name), !are_containers);
            /* and it can be had again */
            peer_must(by[1 - j], 1, "ok", "lock %s %s %d 5000", kinds[i], name, LONG_MS);
            peer_must(by[1 - j], 1, "ok", "unlock %s %s", kinds[i], name);
        }
    }
    done("the nodes above %s, whoever made them",
         are_containers ? "are containers" : "stay");
}
