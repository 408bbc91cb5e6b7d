/* SPDX-License-Identifier: MIT */
/*
 * What is remembered of lines: how the line of a name began when we last wrote it, or were told
 * that it is our turn. Who lets go of a lock that others wait for, and who comes back to it,
 * then needs one statement instead of two.
 *
 * A decision needs the database's clock as well. We know what it was when it last answered,
 * and that it went on as ours did: so it is at least that now. A lease that is written by this
 * may end a little early. Its owner reads from its end from when it counts (lease_take.c); so
 * locks are passed on to others by memory, and never taken by it.
 */
#include <string.h>

#include "sql/lease.h"

/* neither a line nor the clock is trusted for longer */
#define MEMORY_MOST (1000 * DIBS_MS)

struct memory {
    dibs_time since;
    struct sql_row row;
    size_t name_len, len;
    char text[]; /* the name, then the text */
};

static struct memory **
slot_of(struct sql_lease *lease, uint64_t name_hash)
{
    return &lease->memories[name_hash % RECALLED];
}

/* What was written first may be noted last: then it is not noted. */
static int
is_older(const struct memory *memory, const struct memory *old)
{
    return memory && old && memory->row.version < old->row.version &&
           memory->name_len == old->name_len &&
           memcmp(memory->text, old->text, old->name_len) == 0;
}

static void
replace(struct sql *sql, uint64_t name_hash, struct memory *memory)
{
    pthread_mutex_lock(&sql->lease->mutex);
    struct memory **slot = slot_of(sql->lease, name_hash), *old = *slot;
    if (is_older(memory, old))
        old = memory;
    else
        *slot = memory;
    pthread_mutex_unlock(&sql->lease->mutex);
    sql->host->free(old);
}

void
dibs__lease_note(struct sql *sql, const char *name, size_t name_len, uint64_t name_hash,
                 const struct sql_row *row, const char *text, size_t len)
{
    struct memory *memory = sql->host->alloc(sizeof *memory + name_len + len);
    if (memory) {
        *memory = (struct memory){ sql->host->now(), *row, name_len, len };
        memcpy(memory->text, name, name_len);
        memcpy(memory->text + name_len, text, len);
    }
    replace(sql, name_hash, memory);
}

void
dibs__lease_forget(struct sql *sql, uint64_t name_hash)
{
    replace(sql, name_hash, NULL);
}

/* at the end, when nobody else is there; in a fork's child the mutex may be in use */
void
dibs__lease_forget_all(struct sql *sql)
{
    for (size_t i = 0; i < RECALLED; i++)
        sql->host->free(sql->lease->memories[i]);
}

void
dibs__lease_clock(struct sql *sql, int64_t at, dibs_time before, dibs_time after)
{
    pthread_mutex_lock(&sql->lease->mutex);
    if (sql->lease->clock.after < after)
        sql->lease->clock = (struct sql_clock){ at, before, after };
    pthread_mutex_unlock(&sql->lease->mutex);
}

int64_t
dibs__lease_now(struct sql *sql, dibs_time at)
{
    pthread_mutex_lock(&sql->lease->mutex);
    const struct sql_clock clock = sql->lease->clock;
    pthread_mutex_unlock(&sql->lease->mutex);
    return clock.after < at - MEMORY_MOST ? 0 : clock.at + (at - clock.after) / 1000;
}

/* what is known, copied into the view: its columns, its clock, its text */
static int
copy_locked(struct sql *sql, struct view *view, const char *name, size_t name_len,
            uint64_t name_hash)
{
    const struct sql_clock *clock = &sql->lease->clock;
    const struct memory *memory = *slot_of(sql->lease, name_hash);
    dibs_time oldest = view->asked - MEMORY_MOST;
    if (!memory || memory->since < oldest || clock->after < oldest ||
        memory->name_len != name_len || memcmp(memory->text, name, name_len) != 0)
        return 0;
    view->line.now = clock->at + (view->asked - clock->after) / 1000;
    view->now_most = clock->at + (view->asked - clock->before) / 1000 + 1;
    view->line.version = memory->row.version;
    view->line.tick = memory->row.tick;
    view->line.until = memory->row.until;
    view->line.previous = memory->row.previous;
    view->line.known = memory->len;
    view->text = sql->host->alloc(memory->len + 1);
    if (!view->text)
        return 0;
    memcpy(view->text, memory->text + name_len, memory->len);
    return 1;
}

static int
parse(struct view *view)
{
    struct line *line = &view->line;
    line->room = dibs__line_count(view->text, line->known) + 1;
    line->parties = view->host->alloc(line->room * sizeof *line->parties);
    return line->parties ? dibs__line_parse(line, view->text, line->known) : -1;
}

int
dibs__lease_recall(struct sql *sql, struct view *view, const char *name, size_t name_len,
                   uint64_t name_hash)
{
    memset(view, 0, sizeof *view);
    view->host = sql->host;
    view->is_there = 1;
    view->asked = sql->host->now();
    dibs__sql_result_init(&view->result, sql->host);
    pthread_mutex_lock(&sql->lease->mutex);
    int is_known = copy_locked(sql, view, name, name_len, name_hash);
    pthread_mutex_unlock(&sql->lease->mutex);
    if (is_known && parse(view) == 0)
        return 1;
    dibs__lease_unsee(view);
    return 0;
}
