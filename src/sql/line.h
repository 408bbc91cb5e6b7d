/* SPDX-License-Identifier: MIT */
/*
 * The line of a lock: who has it, who wants it, and who is next. Pure functions on what was
 * read from the lock's row; nothing here speaks to a database or looks at a clock. line_text.c
 * is how a line is written down, line.c who is next.
 *
 * A row is (version, token, until, previous, state), and `state` has one record per line:
 *   H SINCE UNTIL TICK BODY   has the lock. A lone holder is written "H 0 0 0 BODY": its times
 *                             and its tick are in the columns, so that keeping and giving back
 *                             need not know them. A digit behind the H is how the hold before
 *                             it ended, if not cleanly; of a lone holder that is in the column
 *   F SINCE UNTIL TICK BODY   the lock is offered to it until then (see below)
 *   W JOINED UNTIL 0 BODY     waits; UNTIL is when its place in line ends
 *   O 0 UNTIL 0 BODY          observes
 * BODY is "ID MODE PERMITS LIMIT LEASE WAIT APP HOST PID NOTE"; LEASE and WAIT in ms. ID is 32
 * hex digits of the session, ':' and the claim's serial; '+' before it marks a hold that
 * lingers, which is nobody's any more. Holders come first, then who waits, in order. All other
 * times are microseconds of the database's clock. A tick is what tokens are made of; the
 * column `token` has the last one, and `previous` what the next holder is to be told.
 *
 * Who comes waits in line unless all before it are holders it can be together with; so
 * nobody is overtaken. Whoever changes something ends what has expired, and grants to those
 * who are next. A grant is final for one who is surely there, because it asked shortly before;
 * others get an offer, which ends with the place they had in line. So any number of dead
 * waiters cost the others one such time in all.
 */
#ifndef DIBS_SQL_LINE_H
#define DIBS_SQL_LINE_H

#include <stddef.h>
#include <stdint.h>

enum line_kind {
    LINE_HOLDER = 'H',
    LINE_OFFERED = 'F',
    LINE_WAITER = 'W',
    LINE_OBSERVER = 'O'
};

/* What its client is told when the change is made. */
enum line_say {
    LINE_SAY_NOTHING = 0,
    LINE_SAY_GRANTED = 'g',
    LINE_SAY_OFFERED = 'o',
    LINE_SAY_LOOK = 'w',
    LINE_SAY_ENDED = 'b'
};

#define LINE_SESSION 32 /* hex digits before the ':' of an id */
#define LINE_ID_MAX (LINE_SESSION + 1 + 20)
#define LINE_RECORD_MAX 2048
#define LINE_GIST_MAX 1536   /* bytes of a line that a message may have */
#define LINE_CHANNEL "dibs_" /* and the session: where its client is told */

/* One record. Texts point into what was read, or to the caller's. */
struct party {
    char kind;    /* enum line_kind */
    char say;     /* enum line_say */
    uint8_t told; /* a holder: how the hold before ended, enum dibs_previous_end */
    uint8_t lingers;
    uint8_t is_lone; /* as it was read: its times were in the columns */
    uint8_t is_gone; /* it is not written any more */
    uint32_t mode, permits, limit, lease_ms, wait_ms;
    int64_t since, until, tick;
    int64_t joined; /* when it joined, if it was granted just now */
    const char *id;
    size_t id_len;
    const char *rest; /* "APP HOST PID NOTE", as written */
    size_t rest_len;
};

/* How a change is written: not at all, by SQL_KEEP, SQL_EDIT, SQL_JOIN or SQL_SWAP. */
enum line_write { LINE_WRITES_NOTHING, LINE_KEEPS, LINE_EDITS, LINE_JOINS, LINE_SWAPS };

struct line {
    int64_t now, version;
    size_t known; /* bytes of state that were read */
    int64_t tick, until;
    unsigned previous; /* what the next holder is told */
    struct party *parties;
    size_t count, room;
    struct party *me;    /* whom SQL_KEEP, SQL_EDIT or SQL_JOIN is for */
    struct party before; /* it, as it was before its time became longer */
    int is_changed;      /* it must be written as a whole */
    int is_joined;       /* `me` was added at the end */
    int is_kept;    /* the time of `me` became longer: its lease, or its place in line */
    int has_turned; /* the holders are others than before */
};

/* ---- line_text.c ---- */

/* count: for how many parties parse needs room; one who comes needs one more. */
size_t dibs__line_count(const char *text, size_t len);
/* parse reads the columns, which are in the line already, and a state; there is a NUL behind
 * the text. 0, or -1: this is not what we write. */
int dibs__line_parse(struct line *line, const char *text, size_t len);

/* record writes one as it stands alone in line ("H 0 0 0 .." if is_lone), with its newline,
 * and returns the length. `out` has LINE_RECORD_MAX bytes. */
size_t dibs__line_record(char *out, const struct party *party);
/* mark writes how the record of a lone holder begins, up to the blank behind its id. */
size_t dibs__line_mark(char *out, const char *id, size_t id_len);

/* What SQL_SWAP writes. Who gets the lock alone is also told how the line begins (the version it
 * has then, and records with a tab between them), so that it need not ask when it gives the
 * lock back; unless there is an observer behind that beginning, who is to be told as well.
 * The caller gives the texts room: state_max and tells_max. */
struct line_text {
    int64_t version, until;
    unsigned previous;
    char *state, *tells;
    size_t state_len, tells_len;
};
size_t dibs__line_state_max(const struct line *line);
size_t dibs__line_tells_max(const struct line *line);
void dibs__line_print(const struct line *line, struct line_text *out);

/* A record ends with "APP HOST PID NOTE": self writes all but the note, with the blank behind
 * it, and note the note; at most LINE_REST_MAX bytes together. What is longer is cut. */
#define LINE_REST_MAX 1536
size_t dibs__line_self(char *out, const char *app, const char *host, int64_t pid);
size_t dibs__line_note(char *out, const char *note);
/* and back: NUL-terminated; 0, or -1 */
struct line_words {
    char app[129], host[65], note[257];
    int64_t pid;
};
int dibs__line_words(struct line_words *out, const struct party *party);

/* ---- line.c ---- */

/* find: who has this id, and is not gone; NULL: nobody. */
struct party *dibs__line_find(const struct line *line, const char *id, size_t id_len);

static inline int
line_holds(const struct party *party)
{
    return party->kind == LINE_HOLDER || party->kind == LINE_OFFERED;
}

/* expire ends what is over, but for the place in line of `me` (may be NULL), who is just
 * asking. */
void dibs__line_expire(struct line *line, const struct party *me);

/* take asks for the lock. `asks` is a waiter as it would join; it is copied. */
enum line_verdict { LINE_GRANTED, LINE_BUSY, LINE_MISMATCH };
struct line_answer {
    struct party *me; /* granted, or busy and in line */
    int was_granted;  /* in somebody else's turn, with its full lease; `base` is when */
    int64_t base;
    uint32_t position; /* busy: 1 is next */
    int64_t ends_in;   /* busy: when the next of the holders' leases ends, in us */
    uint32_t limit;    /* mismatch: what it is in use with */
};
enum line_verdict dibs__line_take(struct line *line, const struct party *asks, int queues,
                                  struct line_answer *answer);

/* observe tells the newest holder's tick, 0: nobody has it; if that is `seen`, `asks` stays
 * in line to be told. */
int64_t dibs__line_observe(struct line *line, const struct party *asks, int64_t seen);

/* give ends whatever has this id, or lets a hold linger. 1: it had the lock. */
int dibs__line_give(struct line *line, const char *id, size_t id_len, uint32_t linger_ms);
/* keep and share: 1, or 0: it does not have the lock. */
int dibs__line_keep(struct line *line, const char *id, size_t id_len, uint32_t lease_ms);
int dibs__line_share(struct line *line, const char *id, size_t id_len);
/* end_all breaks all holds, and tells how many there were. */
size_t dibs__line_end_all(struct line *line);

/* written: how to write what was decided. needs_all: only if nobody has joined meanwhile,
 * because one who did could have got the lock as well. */
enum line_write dibs__line_written(const struct line *line);
int dibs__line_needs_all(const struct line *line);

#endif /* DIBS_SQL_LINE_H */
