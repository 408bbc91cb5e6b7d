/* SPDX-License-Identifier: MIT */
/*
 * The table file of the `local:` engine, byte by byte: one header page, the shards, their
 * hash buckets, then records of 128 bytes that are appended and never move.
 *
 * A record's first word says what it is, and is always written last, so that a process
 * killed between any two instructions leaves either the old fact or the new one. Facts
 * are: the word, and the fields that are not called derived below. Everything derived
 * (queues, hash chains, free lists, counts) is rebuilt from the facts by shard.c after a
 * process has died inside a shard's lock.
 *
 * Read next: local.h (how a process sees the table), then queue.c.
 */
#ifndef DIBS_LOCAL_LAYOUT_H
#define DIBS_LOCAL_LAYOUT_H

#include <pthread.h>
#include <stddef.h>

#include <dibs/engine.h>

#define LOCAL_MAGIC UINT64_C(0x6c62742d73626964)      /* "dibs-tbl" */
#define LOCAL_MAGIC_INIT UINT64_C(0x74696e6973626964) /* being made: "dibsinit" */
#define LOCAL_VERSION 2

enum {
    SHARDS = 64,       /* locks and cells are spread over these by their name's hash */
    MEMBER_SHARD = 64, /* holds the members */
    GROW_SHARD = 65,   /* only its mutex is used: it guards `records` and `cursor` */
    ALL_SHARDS = 66,
    BUCKETS = 1024, /* of one shard */
    CHUNK = 32,     /* records are given to shards by the chunk */
    FIRST_RECORDS = 1024,
    INLINE_NAME = 56,
    INLINE_NOTE = 40,
    TEXT_DATA = 108,
    APP_MAX = 63
};

/* What a record is: bits 2 to 4 of its word. */
enum kind {
    KIND_FREE = 0,
    KIND_LOCK = 1 << 2,
    KIND_CLAIM = 2 << 2,
    KIND_TEXT = 3 << 2,
    KIND_CELL = 4 << 2,
    KIND_MEMBER = 5 << 2,
    KIND_MASK = 7 << 2
};

/* How far a claim has got: bits 0 and 1. The bits above count how often it was freed. */
enum phase {
    PHASE_WAITING = 0,
    PHASE_GRANTED = 1,
    PHASE_LINGERING = 2, /* granted, without an owner, until `expiry` */
    PHASE_OBSERVING = 3,
    PHASE_MASK = 3
};
#define WORD_GENERATION (1u << 5)

typedef struct header {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t layout; /* a digest of all sizes and of the byte order */
    char boot_id[40];
    uint64_t checksum; /* of the fields above, but for magic */

    _Atomic uint64_t pid_namespace;        /* of all live members; MEMBER_SHARD's mutex */
    _Atomic uint32_t records;              /* the file has room for so many */
    _Atomic uint32_t cursor;               /* so many were given to shards */
    _Alignas(64) _Atomic uint64_t counter; /* the last token or version given out */
} header;

typedef struct local_shard {
    pthread_mutex_t mutex; /* robust, shared between processes */
    uint64_t ticket;       /* of the last claim that queued */
    uint32_t free;         /* derived: list of free records */
    uint32_t members;      /* derived: list of members (MEMBER_SHARD) */
    _Alignas(64) char pad[64];
} local_shard;

typedef struct name_part {
    uint64_t hash;
    uint32_t text; /* the whole name, if it is longer than INLINE_NAME */
    uint16_t len;
    uint8_t space;
    char bytes[INLINE_NAME];
} name_part;

/* A name in use. `mode` says as what: DIBS_PERMITS, or anything else for readers and
 * writers. `previous` is how a hold ended badly that nobody has been told of and cleaned
 * up after yet. All but name and limit is derived. */
typedef struct lock_part {
    name_part name;
    uint32_t limit;
    uint32_t holders;    /* newest first */
    uint32_t head, tail; /* the queue */
    uint32_t observers;
    uint32_t holder_count, waiter_count, linger_count;
    uint32_t permits_out; /* the last one: LOCK_END */
} lock_part;
#define LOCK_END (offsetof(lock_part, permits_out) + sizeof(uint32_t))

typedef struct cell_part {
    name_part name; /* where lock_part has it */
    uint32_t value; /* a text: the version, then the bytes */
} cell_part;

typedef struct claim_part {
    uint32_t lock;
    uint32_t member, member_word; /* whose it is; the word tells a reused record */
    uint32_t permits;
    uint32_t text; /* the note, if longer than INLINE_NOTE */
    uint64_t serial;
    uint64_t ticket; /* order in the queue */
    uint64_t token;
    int64_t since_ms;
    dibs_time expiry; /* PHASE_LINGERING */
    uint16_t note_len;
    char note[INLINE_NOTE];
    /* Rung after the shard was unlocked, so perhaps when the claim has gone and the record is
     * something else: a late ring must do no harm. So it is never reset, and stands where the
     * other kinds in a shard of names have nothing. */
    dibs_bell bell;
} claim_part;

/* One open client of one process. */
typedef struct member_part {
    dibs_bell bell; /* its keeper sleeps here */
    _Atomic int32_t pid;
    _Atomic uint64_t start;   /* of the process, from /proc: tells a reused pid */
    _Atomic uint64_t touched; /* bit n: it has had a claim in shard n */
    char app[APP_MAX + 1];
} member_part;

/* `next` links the list the record is in: free, bucket, queue, holders, text. */
typedef struct record {
    _Atomic uint32_t word;
    uint8_t shard; /* whose it is, for ever */
    uint8_t mode;
    uint8_t previous;
    uint8_t mark; /* scratch of a rebuild */
    uint32_t next, prev;
    union {
        lock_part lock;
        cell_part cell;
        claim_part claim;
        member_part member;
        char text[TEXT_DATA];
    };
} record;

_Static_assert(sizeof(record) == 128, "a record is two cache lines");
_Static_assert(offsetof(claim_part, bell) >= LOCK_END &&
                   offsetof(claim_part, bell) >= sizeof(cell_part) &&
                   offsetof(claim_part, bell) >= TEXT_DATA,
               "a claim's bell is nobody else's");
_Static_assert(sizeof(local_shard) == 128, "a shard is two cache lines");
_Static_assert(sizeof(header) <= 4096, "the header is one page");

#define SHARDS_OFFSET 4096u
#define BUCKETS_OFFSET (SHARDS_OFFSET + 12288u)
#define RECORDS_OFFSET (BUCKETS_OFFSET + SHARDS * BUCKETS * 4u)
_Static_assert(ALL_SHARDS * sizeof(local_shard) <= 12288, "the shards fit");

/* A member's life byte: it is write-locked in the file as long as the process lives. */
#define LIFE_OFFSET (INT64_C(1) << 40)
/* Write-locked while the file is made. */
#define SETUP_OFFSET (LIFE_OFFSET - 1)

#endif /* DIBS_LOCAL_LAYOUT_H */
