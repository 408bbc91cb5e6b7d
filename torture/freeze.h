/* SPDX-License-Identifier: MIT */
/*
 * Processes that stand still without a signal: by the freezer of cgroups. Unlike SIGSTOP it
 * takes whole trees of processes, no parent is told, and nothing in them can notice but by a
 * clock. It needs a cgroup of our own, which mostly root may make: where it cannot be had,
 * freezer_open says why.
 *
 * A freezer has groups, by number. They are made in the cgroup that we are in, so all limits
 * stay in force. A process of the freezer's own, the warden, outlives us if we are killed: it
 * lets everybody go on and removes the groups. It knows nothing of dibs; tests use it too.
 */
#ifndef TORTURE_FREEZE_H
#define TORTURE_FREEZE_H

#include <sys/types.h>

#define FREEZER_GROUPS 256

struct freezer {
    int version;    /* of cgroups: 1 or 2 */
    pid_t owner;    /* in the names of the groups */
    char home[512]; /* the folder of the cgroup that we are in */
    pid_t warden;
};

/* freezer_open finds one that works, by trying it on a process of its own: of that version of
 * cgroups, or with 0 of any. Returns 0, or -1 with `why` set. It belongs to the calling thread,
 * which must not end before freezer_close. That ends every freeze and leaves nothing behind. */
int freezer_open(struct freezer *out, int version, char why[160]);
void freezer_close(struct freezer *freezer);

/* freezer_take moves a process with all its threads into a group; what it starts from then on
 * is in there as well. freezer_freeze returns when all of the group stand still; where they
 * do not it undoes it. Both return 0, or -1 with errno. */
int freezer_take(const struct freezer *freezer, unsigned group, pid_t pid);
int freezer_freeze(const struct freezer *freezer, unsigned group);

/* freezer_thaw lets all of a group go on, and moves them back to where they were. With version
 * 1 who is sent SIGKILL in there dies by this, without another step of its own. */
void freezer_thaw(const struct freezer *freezer, unsigned group);

#endif /* TORTURE_FREEZE_H */
