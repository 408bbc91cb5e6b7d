/* SPDX-License-Identifier: MIT */
/*
 * The layout `lease`: what its files share. lease.c changes a line in the database, lease_take.c
 * asks and waits, lease_keep.c keeps and gives back, waiters.c is who waits here, look.c looks
 * and breaks, sweep.c takes away old rows; line.h has the rules.
 *
 * Most locks are free when they are taken, and nobody waits when they are given back: that is
 * one statement each (SQL_TAKE or SQL_RETAKE, SQL_GIVE, SQL_KEEP). Who finds others there gets
 * in line and sees the line by one statement (SQL_ENTER). Everything else reads the row,
 * decides, and writes if the row is still at that version; if not, it does so again. No
 * transaction is open between two round trips, so a client that is paused in between blocks
 * nobody.
 */
#ifndef DIBS_SQL_LEASE_H
#define DIBS_SQL_LEASE_H

#include <stdatomic.h>

#include "sql/line.h"
#include "sql/sql.h"

#define CROWDED 4096
#define WAITERS 1024
#define TICK_ROOM 256 /* tokens of one tick */
#define MESSAGE_MAX (LINE_GIST_MAX + 256)
#define RECALLED 256

struct sql_lease {
    char self[LINE_REST_MAX]; /* "APP HOST PID ": of all our records */
    size_t self_len;
    /* by name: it was not free, or not ours alone, when we last looked. Says whether the
     * short ways are worth a try; a wrong guess costs a round trip. */
    _Atomic uint8_t crowded[CROWDED];
    /* by name: the mark of one whose row was there when we last used it. If it is gone, or
     * the name was another one with the same mark, that costs a round trip. */
    _Atomic uint8_t rows[CROWDED];
    /* 0: nobody tells us anything; else how often messages may have been missed, plus 1 */
    _Atomic uint64_t epoch;
    _Atomic dibs_time sweep_at;
    pthread_mutex_t mutex; /* for all below */
    struct waiter *waiters[WAITERS];
    struct memory *memories[RECALLED];
    struct sql_clock {
        int64_t at;              /* of the database, when it answered */
        dibs_time before, after; /* by our clock: it was asked, the answer was there */
    } clock;
};

static inline int
is_crowded(const struct sql *sql, uint64_t name_hash)
{
    return atomic_load_explicit(&sql->lease->crowded[name_hash % CROWDED],
                                memory_order_relaxed);
}

static inline void
set_crowded(struct sql *sql, uint64_t name_hash, int crowded)
{
    atomic_store_explicit(&sql->lease->crowded[name_hash % CROWDED], (uint8_t)crowded,
                          memory_order_relaxed);
}

/* never 0 */
static inline uint8_t
row_mark(uint64_t name_hash)
{
    return (uint8_t)(name_hash >> 32 | 1);
}

static inline int
has_row(const struct sql *sql, uint64_t name_hash)
{
    return atomic_load_explicit(&sql->lease->rows[name_hash % CROWDED],
                                memory_order_relaxed) == row_mark(name_hash);
}

static inline void
set_row(struct sql *sql, uint64_t name_hash)
{
    atomic_store_explicit(&sql->lease->rows[name_hash % CROWDED], row_mark(name_hash),
                          memory_order_relaxed);
}

static inline uint64_t
token_of_tick(int64_t tick)
{
    return (uint64_t)tick * TICK_ROOM;
}

/* claim->priv: the waiter, and whether an answer was lost, so that more may be there, or may
 * still come, than was said */
#define PRIV_WAITER 0
#define PRIV_DOUBT 1

/* ---- lease.c ---- */

/* party fills in who asks: a waiter whose times are not set. `rest` is where its words go. */
void dibs__lease_party(const struct sql *sql, const dibs_claim *claim,
                       struct party *party, char id[LINE_ID_MAX],
                       char rest[LINE_REST_MAX]);
size_t dibs__lease_id(const struct sql *sql, const dibs_claim *claim,
                      char id[LINE_ID_MAX]);

/* A row as it was read, or as it is remembered: then line.now is no later than the database's
 * clock is now, and now_most no earlier. */
struct view {
    struct line line;
    int is_there;
    dibs_time asked;  /* just before */
    int64_t now_most; /* by the database's clock, what `asked` is */
    unsigned tries;   /* this is the n-th */
    int is_doubtful;  /* `decide` says that this must not be done by memory */
    struct sql_result result;
    char *text; /* what is remembered */
    const dibs_host *host;
};

/* see reads a row into a view. DIBS_OK (also if there is none), ECORRUPT, or what run says.
 * see_row is the same for a row that was read already: columns from `first` on. */
int dibs__lease_see(struct sql *sql, struct view *view, const char *name, size_t name_len,
                    int makes, dibs_time deadline, dibs_error *err);
int dibs__lease_see_row(struct sql *sql, struct view *view,
                        const struct sql_result *result, size_t row, size_t first,
                        dibs_error *err);
void dibs__lease_unsee(struct view *view);

/* So often a join is tried at the version that was read. Then it is done at any: one far from
 * the database must not be starved by others who take turns faster than it can ask. What it
 * joined it does not know; so it has to look again at once. */
#define JOIN_TRIES 2

/* A change: `decide` looks at a view, changes its line by the functions of line.h, and notes
 * in `arg` what comes of it; it is called again if the row has changed meanwhile. With
 * `makes`, tables and rows that are not there are made. */
struct change {
    const char *name;
    size_t name_len;
    uint64_t name_hash;
    int makes;
    int recalls; /* it may be tried first on what is remembered of the line */
    /* not NULL: it begins by getting in line, with the record that this writes; `now` is what
     * the database's clock is at least */
    size_t (*enter)(char *record, int64_t now, void *arg);
    int is_hasty; /* then SQL_AGAIN if it is free, instead of taking it by a longer way */
    void (*decide)(struct view *view, void *arg);
    void *arg;
};
int dibs__lease_change(struct sql *sql, const struct change *change, dibs_time deadline,
                       dibs_error *err);

/* run makes tables that are not there, if it may; what only a drive says becomes a code. */
int dibs__lease_run(struct sql *sql, int makes, enum sql_statement which,
                    const struct sql_value *params, size_t n, struct sql_result *out,
                    dibs_time deadline, dibs_error *err);

/* ---- recall.c ---- */

/* note remembers a line as it begins at a version; text is copied, and ends with a newline.
 * recall makes a view of it: 1; or 0: nothing is known, or it is long ago. forget: it is not
 * so any more. */
struct sql_row {
    int64_t version, tick, until;
    unsigned previous;
};
void dibs__lease_note(struct sql *sql, const char *name, size_t name_len,
                      uint64_t name_hash, const struct sql_row *row, const char *text,
                      size_t len);
int dibs__lease_recall(struct sql *sql, struct view *view, const char *name,
                       size_t name_len, uint64_t name_hash);
void dibs__lease_forget(struct sql *sql, uint64_t name_hash);
void dibs__lease_forget_all(struct sql *sql);
/* clock: the database's was `at` between these two times of ours */
void dibs__lease_clock(struct sql *sql, int64_t at, dibs_time before, dibs_time after);
/* now: what it is at least at that time of ours; 0: not known, or what is known is old */
int64_t dibs__lease_now(struct sql *sql, dibs_time at);

/* ---- waiters.c ---- */

/* A claim in line. The bell and the message are told by others, under the mutex; the rest is
 * the claim's own. */
struct waiter {
    struct waiter *next;
    uint64_t serial;
    dibs_bell *bell;
    size_t message_len;
    char message[MESSAGE_MAX];
    int is_there;    /* the database may know of it */
    int64_t ticket;  /* when it joined, which messages name */
    dibs_time since; /* it waits */
    /* It was surely not granted at `asked`, just before the database was asked last; by the
     * database's clock that was at `asked_at` or earlier. */
    dibs_time asked;
    int64_t asked_at;
    /* what was said then is good until here, unless a message was missed */
    dibs_time good_until;
    uint64_t epoch;
    uint32_t position;
    char
        before[LINE_ID_MAX + 1]; /* the id of the one before it in line, as it was then */
};

static inline struct waiter *
waiter_of(const dibs_claim *claim)
{
    return (struct waiter *)(uintptr_t)claim->priv[PRIV_WAITER];
}

/* waiter: there already, or new; NULL: out of memory. */
struct waiter *dibs__lease_waiter(struct sql *sql, dibs_claim *claim);
void dibs__lease_waiter_done(struct sql *sql, dibs_claim *claim);
/* take_message moves the last message into `out`, with a NUL; 0: there was none. */
size_t dibs__lease_take_message(struct sql *sql, struct waiter *waiter,
                                char out[MESSAGE_MAX + 1]);

/* ---- sweep.c ---- */

/* sweep takes away old rows, if it is time to. */
void dibs__lease_sweep(struct sql *sql, dibs_time deadline);
void dibs__lease_sweep_init(struct sql *sql);

#endif /* DIBS_SQL_LEASE_H */
