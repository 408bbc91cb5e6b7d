/* SPDX-License-Identifier: MIT */
/*
 * How a process sees the table of layout.h, and what the files of this folder offer each
 * other. In reading order: folder.c (where the file is), table.c (the file and its
 * mapping), shard.c (locks, records, rebuild), text.c (names and other bytes), queue.c (who
 * is granted what), life.c (who is alive), watch.c (noticing deaths), claim.c, cell.c,
 * look.c (the slots of the engine), local.c (the engine's table).
 *
 * Lock order: a shard, then MEMBER_SHARD, then GROW_SHARD, then the watcher's mutex (never
 * together with a shard's); the list of tables (table.c) before all of them.
 */
#ifndef DIBS_LOCAL_H
#define DIBS_LOCAL_H

#include <string.h>
#include <sys/types.h>

#include "engine/local/layout.h"

enum { WATCH_MAX = 256 };

typedef struct watch_entry {
    uint32_t member, word; /* who is watched */
    int fd;                /* a pidfd */
    dibs_time used;        /* when somebody last asked for it */
} watch_entry;

/* The listener: one thread per table, started at the first wait. `mutex` guards all. */
typedef struct watcher {
    pthread_mutex_t mutex;
    pthread_t thread;
    int started, stopping;
    int epoll_fd, stop_fd;
    uint32_t count;
    watch_entry entries[WATCH_MAX];
} watcher;

/* A table as this process has it: shared by all its clients. */
typedef struct table {
    struct table *next; /* the list, refs and forked: table.c's mutex */
    uint32_t refs;
    int forked;
    int fd;
    dev_t device;
    ino_t inode;
    char path[128]; /* for messages; cut if longer */

    char *base;
    size_t mapped;
    header *head;
    local_shard *shards;
    uint32_t *buckets;
    record *records;
    uint32_t room;            /* as many records fit into the mapping */
    _Atomic uint32_t known;   /* as many are known to be in the file */
    _Atomic uint32_t damaged; /* something in the file made no sense */

    const dibs_host *host;
    int32_t pid; /* this process */
    uint64_t start;
    watcher watch;
} table;

/* The engine's state: one client. */
typedef struct local_state {
    table *table;
    uint32_t member, member_word;
} local_state;

/* Bells to be rung after a shard's lock was given back. The first one waits for that, the
 * others are rung at once: then whoever outlives us is either woken or finds the shard's
 * lock orphaned, and its rebuild wakes all. */
typedef struct local_wake {
    dibs_bell *first;
} local_wake;

/* folder.c: opens the folder that path names ("": the default one) and fills in `text`. */
int dibs__local_folder(int *out, char *text, size_t size, const char *path,
                       const dibs_host *host, dibs_error *err);

/* table.c: opens the table of a folder, or shares the one that is open. */
int dibs__local_open(table **out, int folder, const char *path, const dibs_host *host,
                     dibs_time deadline, dibs_error *err);
void dibs__local_close(table *t, int forked);
/* extend is at() for what the process has not seen yet; grow makes room in the file. */
record *dibs__local_extend(table *t, uint32_t index);
int dibs__local_grow(table *t, dibs_error *err);
/* unlinked says that the file has been removed behind our back. */
int dibs__local_unlinked(const table *t, dibs_error *err);
int dibs__local_damage(const table *t, dibs_error *err);

/* at returns a record whatever the index is: one that the file cannot have turns into a
 * record nobody looks at, and marks the table as damaged. */
__attribute__((always_inline)) static inline record *
at(table *t, uint32_t index)
{
    if (index < atomic_load_explicit(&t->known, memory_order_relaxed))
        return &t->records[index];
    return dibs__local_extend(t, index);
}

/* get is at() for a record that must be of this kind. */
record *dibs__local_wrong(table *t);
static inline record *
get(table *t, uint32_t index, uint32_t kind)
{
    record *r = at(t, index);
    if ((atomic_load_explicit(&r->word, memory_order_relaxed) & KIND_MASK) == kind)
        return r;
    return dibs__local_wrong(t);
}

static inline uint32_t
word_of(const record *r)
{
    return atomic_load_explicit(&r->word, memory_order_acquire);
}

static inline void
set_word(record *r, uint32_t kind_and_phase)
{
    uint32_t generation = word_of(r) & ~(WORD_GENERATION - 1);
    atomic_store_explicit(&r->word, generation | kind_and_phase, memory_order_release);
}

/* in_order keeps the compiler from moving stores: enough for a process that is killed. */
static inline void
in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

static inline uint32_t
shard_of(uint64_t hash)
{
    return (uint32_t)hash % SHARDS;
}

static inline uint32_t *
bucket_of(table *t, uint64_t hash)
{
    return &t->buckets[shard_of(hash) * BUCKETS + (uint32_t)(hash >> 8) % BUCKETS];
}

/* shard.c. lock repairs the shard if its last owner died; DIBS_EUNAVAIL if it is stuck. */
int dibs__local_lock(table *t, uint32_t shard, dibs_error *err);
void dibs__local_unlock(table *t, uint32_t shard);
uint32_t dibs__local_take_slowly(table *t, uint32_t shard, dibs_error *err);
/* next walks all records of a shard: the one after `index` (0: the first), 0 at the end. */
uint32_t dibs__local_next(table *t, uint32_t index, uint32_t shard);

static inline void
push_free(table *t, uint32_t index)
{
    record *r = at(t, index);
    local_shard *sh = &t->shards[r->shard < ALL_SHARDS ? r->shard : GROW_SHARD];
    r->next = sh->free;
    sh->free = index;
}

/* pop_free returns 0 if there is none, or if the list is damaged. */
static inline uint32_t
pop_free(table *t, uint32_t shard)
{
    uint32_t index = t->shards[shard].free;
    record *r = at(t, index);
    if (r->shard != shard || (word_of(r) & KIND_MASK) != KIND_FREE)
        return 0;
    t->shards[shard].free = r->next;
    return index;
}

/* take returns a free record, which becomes something when its word is set; 0 and an
 * error if there is none. give makes a record free. Both: the shard is locked. */
static inline uint32_t
take(table *t, uint32_t shard, dibs_error *err)
{
    uint32_t index = pop_free(t, shard);
    return index ? index : dibs__local_take_slowly(t, shard, err);
}

static inline void
give(table *t, uint32_t index)
{
    record *r = at(t, index);
    uint32_t generation = word_of(r) & ~(WORD_GENERATION - 1);
    atomic_store_explicit(&r->word, (generation + WORD_GENERATION) | KIND_FREE,
                          memory_order_release);
    push_free(t, index);
}

/* text.c: bytes in chains of records. The shard is locked. */
int dibs__local_text_new(uint32_t *out, table *t, uint32_t shard, const void *first,
                         size_t first_len, const void *second, size_t second_len,
                         dibs_error *err);
void dibs__local_text_read(table *t, uint32_t text, size_t skip, void *out, size_t len);
void dibs__local_text_free(table *t, uint32_t text);
/* A name as it is looked for: a lock (KIND_LOCK, space 0) or a cell. */
typedef struct local_key {
    uint32_t kind;
    uint8_t space;
    uint64_t hash;
    const char *name;
    size_t len;
} local_key;
uint32_t dibs__local_find(table *t, const local_key *key);
uint32_t dibs__local_name_new(table *t, const local_key *key, dibs_error *err);
void dibs__local_name_free(table *t, uint32_t index);
void dibs__local_name_read(table *t, const record *r, char *out);

/* queue.c: who is granted what. `lock` is a lock's index; its shard is locked. */
int dibs__local_fits(table *t, const record *lock, uint32_t mode, uint32_t permits);
void dibs__local_enter(table *t, uint32_t lock, uint32_t claim, uint32_t phase);
void dibs__local_grant(table *t, uint32_t lock, uint32_t claim, local_wake *wake);
void dibs__local_settle(table *t, uint32_t lock, local_wake *wake);
void dibs__local_end(table *t, uint32_t lock, uint32_t claim, int how, local_wake *wake);
void dibs__local_linger(table *t, uint32_t lock, uint32_t claim, dibs_time expiry,
                        local_wake *wake);
void dibs__local_end_only(table *t, uint32_t lock, uint32_t claim);
void dibs__local_drop_idle(table *t, uint32_t lock);
void dibs__local_relink(table *t, uint32_t claim);
void dibs__local_wake(table *t, local_wake *wake, dibs_bell *bell);
void dibs__local_wake_done(table *t, local_wake *wake);
void dibs__local_alarm(table *t, dibs_bell *bell);
int64_t dibs__local_wall_ms(void);

/* life.c: who is alive. `word` is the member's word at the time it was met. */
int dibs__local_self(int32_t *pid, uint64_t *start);
int dibs__local_join(local_state *s, const char *app, dibs_error *err);
void dibs__local_leave(local_state *s);
int dibs__local_alive(table *t, uint32_t member, uint32_t word);
int dibs__local_process_lives(int32_t pid, uint64_t start);
/* reap ends what is over of one lock: holds of the dead (found by asking the system, too,
 * if `thoroughly`) and lingering holds past their time. The shard is locked. */
void dibs__local_reap(table *t, uint32_t lock, int thoroughly, local_wake *wake);
/* bury ends everything a dead member has left, and wakes our own waiters beside it. No
 * shard is locked. */
void dibs__local_bury(table *t, uint32_t member, uint32_t word);

/* watch.c. watch returns 0, or 1 if the caller had better poll. */
int dibs__local_watch(table *t, uint32_t member, uint32_t word);
void dibs__local_watch_init(watcher *w);
void dibs__local_watch_stop(watcher *w);
void dibs__local_watch_forked(watcher *w);

/* claim.c, cell.c, look.c: the slots. */
int dibs__local_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err);
int dibs__local_watch_claim(void *state, dibs_claim *claim, dibs_time deadline,
                            dibs_error *err);
void dibs__local_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                       dibs_time deadline, dibs_error *err);
int dibs__local_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                        dibs_time deadline, dibs_error *err);
int dibs__local_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err);
int dibs__local_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__local_inspect(void *state, const char *name, size_t name_len,
                        uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                        dibs_error *err);
int dibs__local_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                      size_t *broken, dibs_time deadline, dibs_error *err);
int dibs__local_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out,
                          dibs_time deadline, dibs_error *err);
int dibs__local_cell_swap(void *state, const dibs_cell_key *key, uint64_t version,
                          const void *value, size_t len, uint64_t *new_version,
                          dibs_time deadline, dibs_error *err);

#endif /* DIBS_LOCAL_H */
