/* SPDX-License-Identifier: MIT */
/* What is special to etcd and Consul: entries, byte for byte; leases and sessions that are
 * ended by somebody; names that are used in two ways; and what `consul lock` takes its time
 * for. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is written down ---- */

/* Where a lock is in its life when it is looked at. */
enum { HELD, AWAITED, PASSED_ON, STEPS };
static const char *const step_names[STEPS] = { "held", "awaited", "passed on" };

/* who waits is written down where there is a line */
static int
has_line(const struct stage *stage, const char *kind)
{
    return stage->store == ETCD && strcmp(kind, "single") != 0;
}

/* What was released goes in two steps, with some. */
static char *
settled_shape(const struct stage *stage, const char *kind, const char *name)
{
    sleep_ms(200);
    return entries_shape(stage, kind, name);
}

/* a life of a lock, lived by two processes of one library */
static void
live(struct stage *stage, struct peer *peers, const char *kind, char *shapes[STEPS])
{
    char name[64];
    int is_shared = strcmp(kind, "read") == 0 || strcmp(kind, "sem2") == 0;
    snprintf(name, sizeof(name), "entries-%s-%s", kind, peers[0].program->name);
    peer_must(&peers[0], 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    shapes[HELD] = entries_shape(stage, kind, name);
    peer_order(&peers[1], 1, "lock %s %s %d 15000", kind, name, LONG_MS);
    CHECK_SAME(peer_has_answered(&peers[1], 1, is_shared ? slowly(5000) : 700),
               is_shared);
    shapes[AWAITED] = is_shared || has_line(stage, kind)
                          ? entries_shape(stage, kind, name)
                          : calloc(1, 1);
    peer_must(&peers[0], 1, "ok", "unlock %s %s", kind, name);
    (void)peer_granted(&peers[1], 1, slowly(5000));
    shapes[PASSED_ON] = settled_shape(stage, kind, name);
    peer_must(&peers[1], 1, "ok", "unlock %s %s", kind, name);
}

void
check_entries(struct stage *stage, const char *kind)
{
    char *ours[STEPS], *theirs[STEPS];
    live(stage, stage->theirs, kind, theirs);
    live(stage, stage->ours, kind, ours);
    for (int i = 0; i < STEPS; i++) {
        if (strcmp(ours[i], theirs[i]) != 0) {
            FAIL("%s, %s: dibs has\n%s\nwhere %s has\n%s", kind, step_names[i], ours[i],
                 stage->theirs[0].program->title, theirs[i]);
        }
        CHECK(i == AWAITED || ours[i][0] != '\0');
        free(ours[i]);
        free(theirs[i]);
    }
    char name[64];
    snprintf(name, sizeof(name), "entries-%s-dibs", kind);
    CHECK_SAME(entries_count(stage, name), 0);
    done("%s: the same entries", kind);
}

/* where the incumbent leaves nothing, neither does dibs */
void
check_nothing_left(struct stage *stage)
{
    for (int i = 0; i < 300 && entries_left(stage) > 0; i++) {
        sleep_ms(10);
    }
    if (entries_left(stage) > 0) {
        (stage->store == ETCD ? etcd_show : consul_show)(&stage->servers.servers[0]);
        FAIL("%d entries are left", entries_left(stage));
    }
    done("nothing is left behind");
}

/* ---- what somebody else ends ---- */

/* The lease or session of a holder is ended, and the other one is next; then the first one
 * releases what it no longer has. */
static void
ended(struct stage *stage, struct peer *sleeper, struct peer *other, const char *kind)
{
    char name[64];
    snprintf(name, sizeof(name), "ended-%s-%s", kind, sleeper->program->name);
    peer_must(sleeper, 1, "ok", "lock %s %s 0 0", kind, name);
    peer_order(other, 1, "lock %s %s %d 30000", kind, name, LONG_MS);
    CHECK(!peer_has_answered(other, 1, 500));
    entries_end(stage, name);
    (void)peer_granted(other, 1, slowly(5000) + stage->outlasts_ms);
    char *before = entries_shape(stage, kind, name), answer[ANSWER_MAX];
    peer_order(sleeper, 1, "unlock %s %s", kind, name);
    peer_answer(sleeper, 1, slowly(10000), answer);
    /* dibs knows that; of the others, those do that have heard of it by then */
    CHECK(sleeper->program != &program_dibs || strcmp(answer, "lost") == 0);
    char *after = entries_shape(stage, kind, name);
    if (strcmp(before, after) != 0) {
        FAIL("a late release changed\n%s\ninto\n%s", before, after);
    }
    free(before);
    free(after);
    peer_must(other, 1, "yes", "held %s %s", kind, name);
    peer_must(other, 1, "ok", "unlock %s %s", kind, name);
}

void
check_ended(struct stage *stage, const char *kind)
{
    ended(stage, &stage->ours[0], &stage->theirs[0], kind);
    ended(stage, &stage->theirs[0], &stage->ours[0], kind);
    done(
        "%s: ended by somebody, the other has it, and a late release frees nobody else's",
        kind);
}

/* ---- downgraded ---- */

/* Go's recipes go by when a key was last written; what was a writer has its old place in
 * the line nevertheless. */
void
check_downgraded_order(struct stage *stage)
{
    struct peer *first = &stage->ours[0], *reader = &stage->ours[1],
                *writer = &stage->theirs[0];
    peer_must(first, 1, "ok", "lock write down %d 0", LONG_MS);
    peer_order(reader, 1, "lock read down %d 15000", LONG_MS);
    wait_for_length(stage, "read", "down", 1);
    peer_order(writer, 1, "lock write down %d 15000", LONG_MS);
    wait_for_length(stage, "write", "down", 2);
    peer_must(first, 1, "ok", "downgrade down %d", LONG_MS);
    (void)peer_granted(reader, 1, slowly(WAKE_MS));
    peer_must(reader, 1, "ok", "unlock read down");
    CHECK(!peer_has_answered(writer, 1, 500));
    peer_must(first, 1, "ok", "unlock read down");
    (void)peer_granted(writer, 1, slowly(WAKE_MS));
    peer_must(writer, 1, "ok", "unlock write down");
    done("write: downgraded, and no writer of %s comes in", writer->program->title);
}

/* ---- names that are used in two ways ---- */

static void
refused(struct peer *peer, const char *text, const char *kind, const char *name)
{
    char answer[ANSWER_MAX];
    peer_order(peer, 1, "lock %s %s %d 0", kind, name, LONG_MS);
    peer_answer(peer, 1, slowly(10000), answer);
    if (strncmp(answer, "error", 5) != 0 || strstr(answer, text) == NULL) {
        FAIL("%s, %s of '%s': '%s' instead of '%s'", peer->program->title, kind, name,
             answer, text);
    }
}

static void
refused_both_ways(struct peer *holder, struct peer *other, const char *held,
                  const char *kind, const char *text)
{
    char name[64];
    snprintf(name, sizeof(name), "twice-%s-%s", held, holder->program->name);
    peer_must(holder, 1, "ok", "lock %s %s %d 0", held, name, LONG_MS);
    refused(other, text, kind, name);
    peer_must(holder, 1, "yes", "held %s %s", held, name);
    peer_must(holder, 1, "ok", "unlock %s %s", held, name);
}

void
check_refusals(struct stage *stage)
{
    struct peer *dibs = &stage->ours[0], *other = &stage->theirs[0];
    refused_both_ways(dibs, other, "share", "mutex", "does not match lock use");
    refused_both_ways(dibs, other, "sem2", "mutex", "does not match lock use");
    refused_both_ways(dibs, other, "mutex", "sem2", "does not match semaphore use");
    refused_both_ways(other, dibs, "sem2", "mutex", "EMISMATCH");
    refused_both_ways(other, dibs, "sem2", "share", "EMISMATCH");
    refused_both_ways(other, dibs, "mutex", "sem2", "EMISMATCH");
    refused_both_ways(dibs, other, "sem2", "sem3", "conflict");
    refused_both_ways(other, dibs, "sem3", "sem2", "EMISMATCH");
    /* readers and a writer are no such thing: one waits for the other */
    peer_must(other, 1, "ok", "lock mutex twice %d 0", LONG_MS);
    peer_must(dibs, 1, "busy", "lock share twice %d 0", LONG_MS);
    peer_must(other, 1, "ok", "unlock mutex twice");
    peer_must(dibs, 1, "ok", "lock share twice %d 1000", LONG_MS);
    peer_must(dibs, 1, "ok", "unlock share twice");
    done("mutex, semaphore, shared: refused where the name is used in another way");
}

/* ---- what takes its time ---- */

/* of `consul lock`; the first cannot be told, and may be twice as long */
#define SESSION_MS 15000
#define LOCK_DELAY_MS 15000
#define SLOW_MS 100000
/* during the lock-delay one who waits can only ask again; it takes its time for that */
#define ASKED_MAX 60

/* sessions of dibs are as short as its leases */
static void
dibs_dies(struct stage *stage)
{
    struct peer *dibs = &stage->ours[0], *other = &stage->theirs[1];
    peer_must(dibs, 3, "ok", "lock mutex slow-dibs 0 0");
    peer_order(other, 3, "lock mutex slow-dibs %d %d", LONG_MS, SLOW_MS);
    CHECK(!peer_has_answered(other, 3, KEPT_MS + KEPT_MS / 2));
    peer_kill(dibs);
    int64_t killed = now_ms();
    (void)peer_granted(other, 3, KEPT_MS + stage->outlasts_ms + slowly(1000));
    peer_must(other, 3, "ok", "unlock mutex slow-dibs");
    done("mutex: dibs killed, consul lock goes on after %lld ms",
         (long long)(now_ms() - killed));
    peer_restart(dibs);
}

/* Both at once: the holder of a lock and that of a permit. */
void
check_slow_death(struct stage *stage)
{
    struct peer *victim = &stage->theirs[0], *other = &stage->theirs[1];
    struct peer *locks = &stage->ours[0], *permits = &stage->ours[1];
    dibs_dies(stage);
    peer_must(victim, 1, "ok", "lock mutex slow %d 0", LONG_MS);
    peer_must(victim, 2, "ok", "lock sem2 slow-sem %d 0", LONG_MS);
    peer_must(other, 2, "ok", "lock sem2 slow-sem %d 0", LONG_MS);
    peer_order(locks, 1, "lock mutex slow %d %d", LONG_MS, SLOW_MS);
    peer_order(permits, 2, "lock sem2 slow-sem %d %d", LONG_MS, SLOW_MS);
    CHECK(!peer_has_answered(locks, 1, 500) && !peer_has_answered(permits, 2, 0));
    int64_t before = asked(stage);
    peer_kill(victim);
    int64_t killed = now_ms();
    (void)peer_granted(permits, 2, 2 * SESSION_MS + slowly(2000));
    int64_t permit_took = now_ms() - killed;
    (void)peer_granted(locks, 1, SESSION_MS + LOCK_DELAY_MS + slowly(2000));
    int64_t lock_took = now_ms() - killed;
    CHECK_WITHIN(asked(stage) - before, 1, ASKED_MAX);
    CHECK(lock_took >= LOCK_DELAY_MS && lock_took >= permit_took);
    peer_must(other, 2, "yes", "held sem2 slow-sem");
    peer_must(other, 2, "ok", "unlock sem2 slow-sem");
    peer_must(permits, 2, "ok", "unlock sem2 slow-sem");
    peer_must(locks, 1, "ok", "unlock mutex slow");
    done("consul lock killed: dibs has its permit after %lld ms, its lock after %lld ms",
         (long long)permit_took, (long long)lock_took);
    peer_restart(victim);
    check_nothing_left(stage);
}
