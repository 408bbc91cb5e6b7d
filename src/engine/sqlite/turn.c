/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is to write. One at a time may, of all processes; who finds the file locked
 * can only try again, for SQLite has no line. So the threads of one client make a line of
 * their own, first come, first served, and only the first of it tries: fewer are at the file,
 * and none is forgotten.
 *
 * Between processes there is no line. So that none starves: who has waited for long tries
 * more often than who has just come; and a client whose threads follow each other without a
 * gap leaves one from time to time, long enough to be found by the others.
 */
#include "sqlite.h"

#include "util/wait.h"

#define PAUSE_FIRST (DIBS_MS / 10)
#define PAUSE_MOST (3 * DIBS_MS)
#define LONG_WAIT (20 * DIBS_MS)
#define STREAK_MOST (5 * DIBS_MS)
#define GAP (3 * DIBS_MS / 10)

/* a thread in line */
struct lite_place {
    struct lite_place *next;
    pthread_cond_t cond;
    int is_called;
};

void
dibs__sqlite_turns_init(struct lite_turns *turns)
{
    pthread_mutex_init(&turns->mutex, NULL);
}

void
dibs__sqlite_turns_end(struct lite_turns *turns, int forked)
{
    if (!forked) /* else a thread of the parent may have it */
        pthread_mutex_destroy(&turns->mutex);
}

/* ---- the line ---- */

static void
join_locked(struct lite_turns *turns, struct lite_place *place)
{
    struct lite_place **at = &turns->line;
    while (*at)
        at = &(*at)->next;
    *at = place;
}

static void
leave_locked(struct lite_turns *turns, const struct lite_place *place)
{
    struct lite_place **at = &turns->line;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
}

/* 0: it is our turn, -1: the deadline has passed */
static int
queue_locked(struct lite_turns *turns, const dibs_host *host, dibs_time deadline)
{
    struct lite_place place = { .next = NULL };
    int is_late = 0;
    cond_init(&place.cond);
    join_locked(turns, &place);
    while (!place.is_called && !is_late)
        is_late = wait_for(&place.cond, &turns->mutex, deadline - host->now()) != 0;
    if (!place.is_called)
        leave_locked(turns, &place);
    pthread_cond_destroy(&place.cond);
    return place.is_called ? 0 : -1;
}

int
dibs__sqlite_turn_begin(struct lite_turns *turns, const dibs_host *host,
                        dibs_time deadline)
{
    int rc = 0;
    pthread_mutex_lock(&turns->mutex);
    if (turns->is_taken)
        rc = queue_locked(turns, host, deadline);
    turns->is_taken = 1;
    dibs_time gap_until = turns->gap_until;
    pthread_mutex_unlock(&turns->mutex);
    if (!rc && gap_until > host->now())
        host->sleep_until(gap_until);
    return rc;
}

static void
call_next_locked(struct lite_turns *turns, dibs_time now)
{
    struct lite_place *next = turns->line;
    turns->line = next->next;
    next->is_called = 1;
    pthread_cond_signal(&next->cond);
    if (!turns->streak_from)
        turns->streak_from = now;
    if (now - turns->streak_from <= STREAK_MOST)
        return;
    turns->gap_until = now + GAP;
    turns->streak_from = 0;
}

void
dibs__sqlite_turn_end(struct lite_turns *turns, const dibs_host *host)
{
    pthread_mutex_lock(&turns->mutex);
    if (turns->line) {
        call_next_locked(turns, host->now());
    } else {
        turns->is_taken = 0;
        turns->streak_from = 0;
    }
    pthread_mutex_unlock(&turns->mutex);
}

/* ---- at the file ---- */

static dibs_time
pause_after(dibs_time waited)
{
    dibs_time pause = PAUSE_FIRST + waited / 2;
    if (waited > LONG_WAIT)
        pause = PAUSE_MOST * LONG_WAIT / waited;
    if (pause > PAUSE_MOST)
        pause = PAUSE_MOST;
    return pause > PAUSE_FIRST ? pause : PAUSE_FIRST;
}

int
dibs__sqlite_turn_wait(const dibs_host *host, dibs_time began, dibs_time deadline)
{
    dibs_time now = host->now(), pause = pause_after(now - began);
    dibs_time until = now + pause + (dibs_time)(host->random() % (uint64_t)pause);
    if (until >= deadline)
        return -1;
    host->sleep_until(until);
    return 0;
}
