/* SPDX-License-Identifier: MIT */
/* What any two libraries that share a lock must get right: one at a time, counted, and
 * nobody frees what is not theirs. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_LIMIT_MS 90000
#define SHORT_MS 400

static void
excludes(struct peer *holder, struct peer *other, const char *kind)
{
    char name[64];
    snprintf(name, sizeof(name), "once-%s-%s", kind, holder->program->name);
    peer_must(holder, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(other, 1, "busy", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(other, 1, "busy", "lock %s %s %d 300", kind, name, LONG_MS);
    peer_must(holder, 1, "yes", "held %s %s", kind, name);
    peer_must(holder, 1, "ok", "unlock %s %s", kind, name);
    peer_must(other, 1, "ok", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(holder, 1, "busy", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(other, 1, "ok", "unlock %s %s", kind, name);
}

void
check_exclusion(struct stage *stage, const char *kind)
{
    excludes(&stage->ours[0], &stage->theirs[0], kind);
    excludes(&stage->theirs[0], &stage->ours[0], kind);
    done("%s: one at a time", kind);
}

static void
write_zero(const char *path)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs("0\n", file) >= 0 && fclose(file) == 0);
}

static long
read_number(const char *path)
{
    long number = -1;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%ld", &number) == 1 && fclose(file) == 0);
    return number;
}

void
check_count(struct stage *stage, const char *kind, int rounds)
{
    struct peer *all[] = { &stage->ours[0], &stage->theirs[0], &stage->ours[1],
                           &stage->theirs[1] };
    char folder[64], path[80], answer[ANSWER_MAX], want[32];
    temp_dir(folder, sizeof(folder), "/dev/shm");
    snprintf(path, sizeof(path), "%s/number", folder);
    snprintf(want, sizeof(want), "done %d", rounds);
    write_zero(path);
    /* all of them wait before the first begins */
    peer_must(all[1], 4, "ok", "lock %s count-%s %d 0", kind, kind, LONG_MS);
    for (int i = 0; i < 4; i++) {
        peer_order(all[i], 1, "count %s count-%s %d %s", kind, kind, rounds, path);
    }
    CHECK(!peer_has_answered(all[0], 1, 300));
    CHECK_SAME(read_number(path), 0);
    int64_t began = now_ms();
    peer_must(all[1], 4, "ok", "unlock %s count-%s", kind, kind);
    for (int i = 0; i < 4; i++) {
        peer_answer(all[i], 1, COUNT_LIMIT_MS, answer);
        if (strcmp(answer, want) != 0) {
            FAIL("%s counted: %s", all[i]->program->title, answer);
        }
    }
    CHECK_SAME(read_number(path), 4 * rounds);
    remove_tree(folder);
    done("%s: four processes counted to %d in %lld ms", kind, 4 * rounds,
         (long long)(now_ms() - began));
}

static void
shapes_same(struct stage *stage, char **before)
{
    for (int i = 0; i < stage->servers.count; i++) {
        char *after = shape_of(&stage->servers.servers[i]);
        if (strcmp(before[i], after) != 0) {
            FAIL("a late release changed\n%s\ninto\n%s", before[i], after);
        }
        free(before[i]);
        free(after);
    }
}

static void
late(struct stage *stage, struct peer *sleeper, struct peer *other, const char *kind)
{
    char name[64], *before[SET_MAX];
    snprintf(name, sizeof(name), "late-%s-%s", kind, sleeper->program->name);
    peer_must(sleeper, 1, "ok", "lock %s %s %d 0", kind, name, SHORT_MS);
    sleep_ms(SHORT_MS + 200);
    peer_must(other, 1, "ok", "lock %s %s %d 1000", kind, name, LONG_MS);
    for (int i = 0; i < stage->servers.count; i++) {
        before[i] = shape_of(&stage->servers.servers[i]);
    }
    peer_must(sleeper, 1, "lost", "unlock %s %s", kind, name);
    shapes_same(stage, before);
    peer_must(other, 1, "yes", "held %s %s", kind, name);
    peer_must(other, 1, "ok", "unlock %s %s", kind, name);
}

void
check_late_release(struct stage *stage, const char *kind)
{
    late(stage, &stage->ours[0], &stage->theirs[0], kind);
    if (stage->theirs[0].program->compares) {
        late(stage, &stage->theirs[0], &stage->ours[0], kind);
    }
    done("%s: a late release frees nobody else's", kind);
}

void
check_minority_down(struct stage *stage)
{
    server *victim = &stage->servers.servers[stage->servers.count - 1];
    server_kill(victim);
    excludes(&stage->ours[1], &stage->theirs[1], "plain");
    excludes(&stage->theirs[1], &stage->ours[1], "plain");
    server_restart(victim);
    excludes(&stage->ours[1], &stage->theirs[1], "plain");
    done("plain: one at a time with a server down, and up again");
}
