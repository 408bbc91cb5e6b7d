/* SPDX-License-Identifier: MIT */
/* Memory that the processes of a run write into, each entry by one of them; see history.h. */
#include "history.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t
history_now(void)
{
    struct timespec now;
    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct history *
history_new(void)
{
    void *map = mmap(NULL, sizeof(struct history), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

void
history_free(struct history *history)
{
    if (history)
        (void)munmap(history, sizeof *history);
}

/* the index of a new entry; `limit` if there is no room, and then the count stays */
static size_t
next_index(_Atomic size_t *count, size_t limit)
{
    size_t at = atomic_load(count);
    while (at < limit && !atomic_compare_exchange_weak(count, &at, at + 1))
        ;
    return at;
}

struct turn *
history_turn(struct history *history)
{
    size_t at = next_index(&history->turn_count, HISTORY_TURNS);
    if (at < HISTORY_TURNS)
        return &history->turns[at];
    atomic_fetch_add(&history->dropped, 1);
    return NULL;
}

struct incident *
history_incident(struct history *history, int kind, const char *what)
{
    size_t at = next_index(&history->incident_count, HISTORY_INCIDENTS);
    if (at == HISTORY_INCIDENTS) {
        atomic_fetch_add(&history->dropped, 1);
        return NULL;
    }
    struct incident *incident = &history->incidents[at];
    incident->kind = kind;
    (void)snprintf(incident->what, sizeof incident->what, "%s", what);
    atomic_store(&incident->from, history_now());
    return incident;
}

/* texts are samples: one for which there is no room takes nothing from a run */
void
history_say(struct history *history, uint32_t client, const char *text)
{
    size_t at = next_index(&history->said_count, HISTORY_SAID);
    if (at == HISTORY_SAID)
        return;
    (void)snprintf(history->said[at].text, HISTORY_TEXT, "%s", text);
    atomic_store(&history->said[at].client, client + 1);
}
