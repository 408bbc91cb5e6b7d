/* SPDX-License-Identifier: MIT */
/*
 * The engine contract, for people who write engines. docs/internals/engine-howto.md walks
 * through it; src/engine/mock is the shortest engine there is.
 *
 * An engine is one const table, `dibs_engine`: first data, then at most fourteen functions.
 * It does one thing at a time to its backend, synchronously, and comes back by a deadline.
 * It knows nothing of threads' re-entry, keepers, retries, hand-over or the command: core
 * does that once for all engines, and calls an engine through src/core/dispatch.c only.
 *
 * Rules that hold for every slot:
 *  - Slots are called from many threads at once, but for one claim only one of attempt,
 *    watch and downgrade runs at a time. renew and release of one claim may overlap, so
 *    they only read it.
 *  - No slot outlasts its deadline (boot time, nanoseconds) by more than a scheduler's
 *    whim. A deadline in the past means: do what needs no waiting.
 *  - Every change is idempotent by (session id, claim serial): core repeats a call whose
 *    reply was lost, with the same claim, and the repetition must not count twice.
 *  - On failure a slot returns a code and writes, with host->fail, only what the backend
 *    said. Core adds what was tried, on which name and where.
 *  - An engine calls up in one way only: host->ring.
 *  - No thread is cancelled (pthread_cancel) in a slot: core sees to that. With
 *    DIBS_CAP_DIRECT, attempt and release do it themselves around what could be a place to be
 *    cancelled at, because they are called too often for it.
 */
#ifndef DIBS_ENGINE_H
#define DIBS_ENGINE_H

#include <dibs.h>

#ifdef __cplusplus
#error "engines are written in C"
#endif

#include <stdatomic.h>

#define DIBS_ENGINE_ABI 3

/* Boot time (it counts suspend) in nanoseconds. Never mixed with a wall clock. */
typedef int64_t dibs_time;
#define DIBS_NEVER INT64_MAX
#define DIBS_MS ((dibs_time)1000000)

/* A fourth mode, besides enum dibs_mode: the claim takes nothing, see `attempt`. */
#define DIBS_OBSERVE 3

/* A bell is an event counter that threads sleep on, of this process or, in shared memory,
 * of any. It says "look again", never what happened. Bit 0 says that somebody sleeps, so
 * that ringing costs a system call only then; the rest counts the rings. Ring with
 * host->ring only. dibs_bell_seen returns what to put into `seen` before looking. */
typedef _Atomic uint32_t dibs_bell;

static inline uint32_t
dibs_bell_seen(dibs_bell *bell)
{
    return atomic_load_explicit(bell, memory_order_acquire) & ~1u;
}

enum dibs_claim_flag {
    DIBS_CLAIM_NOQUEUE = 1u << 0, /* do not queue: the caller will not wait */
    DIBS_CLAIM_ELECTION = 1u << 1 /* a leadership, for layouts that tell them apart */
};

/* A claim: what is asked for, and after a grant what was got. Core allocates it, before
 * anything is sent, and keeps it until `release` has been called or the grant has run out.
 * After `attempt` has granted or failed, or `release` has returned, the engine keeps no
 * pointer to it other than in its own `priv`. */
typedef struct dibs_claim {
    /* set by core, constant for the claim's life (mode changes by downgrade only) */
    const char *name;
    uint16_t name_len;
    uint8_t mode;       /* enum dibs_mode, or DIBS_OBSERVE */
    uint32_t flags;     /* enum dibs_claim_flag */
    uint32_t permits;   /* DIBS_PERMITS: wanted, else 1 */
    uint32_t limit;     /* DIBS_PERMITS: of how many, else 0 */
    uint32_t lease_ms;  /* not 0 */
    uint64_t name_hash; /* dibs__hash of the name, the same in all processes */
    uint64_t serial;    /* with the session's id: unique for all time */
    const char *note;   /* never NULL */

    /* Set by the engine. With DIBS_EBUSY: hint_ms, try again after this long even if no
     * bell rings (0: no need; core adds jitter, and looks every second or so anyway);
     * position, 1 is next in line, 0 unknown. With a grant: token, larger than all before
     * (DIBS_OBSERVE: see attempt); token_room, token+1 .. token+token_room are ours too, for
     * handing over inside the process; previous, enum dibs_previous_end. */
    uint32_t hint_ms;
    uint32_t position;
    uint32_t token_room;
    uint8_t previous;
    uint64_t token;

    /* Set by core to the time just before this attempt: the lease of a grant counts from
     * here. An engine that granted earlier (in another's release, or in a call whose reply
     * was lost) must renew it with this call, or set `sent` back to before its grant. */
    dibs_time sent;

    /* Where the caller sleeps. Core points `bell` at `own_bell` and reads `seen` from it
     * before each attempt; an engine with a better place (shared memory) changes `bell` and
     * then sets `seen` itself, from before it looked, with every DIBS_EBUSY. */
    dibs_bell *bell;
    uint32_t seen;
    dibs_bell own_bell;

    /* Optional, with a grant: the claim stands as long as *alive == alive_value. Lets
     * dibs_held() see a break at once, without a call. NULL: there is no such word. */
    const _Atomic uint32_t *alive;
    uint32_t alive_value;

    uint64_t priv[3]; /* the engine's own, zero at first */
} dibs_claim;

/* What an engine reads a URL by. Strings are decoded and live as long as the client. */
typedef struct dibs_url_parts {
    const char *scheme;
    const char *user, *password; /* NULL if absent; a password is never to be printed */
    const char *hosts;           /* "h1:1,h2:2", as written; "" if absent */
    const char *path;            /* with its leading '/', "" if absent */
    size_t param_count;
    const char *const *param_names;
    const char *const *param_values;
} dibs_url_parts;

/* What core lends an engine; engines link to nothing of core's. */
typedef struct dibs_host {
    dibs_time (*now)(void);
    /* ring wakes whoever sleeps on the bell. Safe under the engine's own locks. */
    void (*ring)(dibs_bell *bell);
    /* sleep_until sleeps; for engines that simulate delays, and for back-off. */
    void (*sleep_until)(dibs_time when);
    /* fail sets *err (if not NULL) to the code and a text, and returns the code. */
    int (*fail)(dibs_error *err, int code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    void *(*alloc)(size_t size); /* zeroed; NULL when out of memory */
    void (*free)(void *memory);
    uint64_t (*random)(void);
    /* param returns a parameter of the URL, or NULL. param_ms parses a duration ("3s",
     * "250ms") into *ms, leaves it alone if absent, or fails with DIBS_ECONFIG. */
    const char *(*param)(const dibs_url_parts *url, const char *name);
    int (*param_ms)(int64_t *ms, const dibs_url_parts *url, const char *name,
                    dibs_error *err);
    /* param_number wants a whole number within bounds, param_choice one of `choices`
     * (NULL-terminated) and tells its index, param_yes "yes" or "no". All leave *out alone
     * if the parameter is absent, or fail with DIBS_ECONFIG and say what may stand there. */
    int (*param_number)(unsigned *out, const dibs_url_parts *url, const char *name,
                        unsigned least, unsigned most, dibs_error *err);
    int (*param_choice)(int *out, const dibs_url_parts *url, const char *name,
                        const char *const *choices, dibs_error *err);
    int (*param_yes)(int *out, const dibs_url_parts *url, const char *name,
                     dibs_error *err);
    /* advance_clock moves `now` forward for the whole process; for mock: only. */
    void (*advance_clock)(int64_t ms);
} dibs_host;

/* The client, as its engine sees it. */
typedef struct dibs_session {
    const dibs_host *host;
    const struct dibs_engine *engine; /* the table that serves it: that of its layout */
    uint8_t id[16];                   /* random, one per client */
    char id_hex[33];                  /* the same, for stores that keep text */
    /* what people see in listings: the program, the machine, the process */
    const char *app;
    char machine[65];
    int64_t pid;
    /* caps starts as the table's; open may take bits away that this URL does not have. */
    uint32_t caps;
    /* The keeper sleeps here. An engine that learns of a loss by itself rings it, or points
     * it at a bell of its own; the keeper then renews all holds at once to see which. */
    dibs_bell *keeper_bell;
    dibs_bell own_keeper_bell;
    /* Where this client is connected, for messages, in the form of a URL ("etcd://10.0.0.2:
     * 2379"); "" until open sets it: then messages name the URL. No password. */
    char endpoint[128];
    /* What the users of this store should know, for dibs_notice; "": nothing. */
    char notice[256];
} dibs_session;

/* What list and inspect report into. Safe to be called under the engine's own locks; keeps
 * copies. Returns 0, or a code at which the engine stops and returns it. */
typedef struct dibs_sink {
    int (*lock)(struct dibs_sink *sink, const char *name, size_t name_len, int mode,
                uint32_t limit);
    /* a party of the lock last named; waiters in the order in which they will be served */
    int (*party)(struct dibs_sink *sink, int waiting, const dibs_party *party);
} dibs_sink;

/* Cells of users and cells of the library never meet, whatever their names. */
enum dibs_space { DIBS_SPACE_CELL = 0, DIBS_SPACE_FENCE = 1 };

typedef struct dibs_cell_key {
    int space; /* enum dibs_space */
    const char *name;
    size_t name_len;
    uint64_t name_hash;
} dibs_cell_key;

typedef struct dibs_engine {
    uint32_t abi;               /* DIBS_ENGINE_ABI */
    const char *name;           /* "local"; also the module's file name */
    const char *const *schemes; /* NULL-terminated: "local" */
    /* A layout is a way to write locks down in the same store: a table of its own, with the
     * same name and schemes. `layouts` lists them all (NULL-terminated); the exported table
     * is the first, and the default. `?layout=` chooses another. NULL: there is one way. */
    const char *layout;
    const struct dibs_engine *const *layouts;
    const char *const *params; /* NULL-terminated: what may stand behind '?' */
    uint32_t caps;             /* enum dibs_cap: the most that it can do */
    uint32_t min_lease_ms;     /* shorter leases are refused; 0: any */
    size_t state_size;         /* core allocates the state, zeroed */

    /* open connects. Must. May block. Core calls nothing after a failure: clean up.
     * DIBS_OK, ECONFIG, EUNAVAIL, ETIMEDOUT, EDENIED, ECORRUPT, EUNSUPPORTED, ENOMEM. */
    int (*open)(void *state, dibs_session *session, const dibs_url_parts *url,
                dibs_time deadline, dibs_error *err);

    /* close ends what open began. Must. No other call is under way. After a fork in which
     * the child calls it, `forked` is 1: close descriptors, tell the backend nothing. */
    void (*close)(void *state, int forked);

    /* attempt asks for the claim. Must. May block for the backend's answer, not for the
     * lock. Called again with the same claim after each wake-up, until it grants or
     * `release` gives up.
     *   DIBS_OK: granted; token, token_room, previous and maybe alive are set.
     *   DIBS_EBUSY: not now; queued, unless DIBS_CLAIM_NOQUEUE; hint_ms, position and
     *     maybe bell and seen are set.
     *   DIBS_EUNKNOWN: the reply was lost; core asks again, or releases.
     *   DIBS_EUNAVAIL: surely not sent; core retries until the caller's time is up.
     *   Final: EMISMATCH, EDENIED, EUNSUPPORTED, ENOMEM, ECORRUPT, EINVAL.
     * A DIBS_OBSERVE claim (DIBS_CAP_OBSERVE) takes nothing: it is "granted" as soon as the
     * newest holder's token (0: nobody holds) is not claim->token, and then claim->token is
     * set to it; after that the same claim is used again. */
    int (*attempt)(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err);

    /* watch sees to it that claim->bell rings when another attempt is worth while. May
     * (without it, hint_ms and the 1 s bound drive the wait). Called after DIBS_EBUSY; core
     * attempts once more before it sleeps, so nothing is missed in between. One call is
     * good for one ring, or for more. DIBS_OK, or a code of attempt. */
    int (*watch)(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err);

    /* renew keeps n granted claims for another claims[i]->lease_ms, in as few round trips
     * as it can. Must. results[i]: DIBS_OK, DIBS_ELOST (it is surely not ours any more), or
     * DIBS_EUNKNOWN / DIBS_EUNAVAIL (core retries until the deadline of the hold). */
    void (*renew)(void *state, dibs_claim *const *claims, int *results, size_t n,
                  dibs_time deadline, dibs_error *err);

    /* release ends a claim, whatever it was: queued, granted, observing, or of unknown
     * outcome; and wakes who is next. Must. Compares session id and serial, never the name
     * alone. With linger_ms > 0 (DIBS_CAP_LINGER) a granted claim instead stays on its own
     * for that long, also if this process ends.
     *   DIBS_OK: it was granted and has ended. DIBS_ENOTHELD: it was not (any more)
     *   granted; nothing of it is left. DIBS_EUNKNOWN, DIBS_EUNAVAIL: core tries again. */
    int (*release)(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
                   dibs_error *err);

    /* downgrade turns a granted exclusive claim into a shared one, and lets waiting
     * sharers in. Must with DIBS_CAP_SHARED. DIBS_OK (then it sets claim->mode),
     * DIBS_ELOST, EUNKNOWN, EUNAVAIL. */
    int (*downgrade)(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err);

    /* list reports every lock in use; inspect one, and nothing if it is not in use. Must
     * with DIBS_CAP_INSPECT. Without DIBS_CAP_DETAIL they say what the backend shows, and
     * leave unknown fields 0, -1 or "". DIBS_OK, EUNAVAIL, EDENIED, ECORRUPT, or what the
     * sink said. */
    int (*list)(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
    int (*inspect)(void *state, const char *name, size_t name_len, uint64_t name_hash,
                   dibs_sink *sink, dibs_time deadline, dibs_error *err);

    /* evict ends all holds of a name, so that the next grant says "broken" with a larger
     * token. Must with DIBS_CAP_BREAK. *broken counts them. DIBS_OK, EUNAVAIL, ... */
    int (*evict)(void *state, const char *name, size_t name_len, uint64_t name_hash,
                 size_t *broken, dibs_time deadline, dibs_error *err);

    /* cell_read and cell_swap. Must with DIBS_CAP_CELL. Codes and meaning as
     * dibs_cell_read and dibs_cell_swap; EUNKNOWN if the reply of a swap was lost. A
     * version is never used twice for one cell, even if the cell was deleted between. */
    int (*cell_read)(void *state, const dibs_cell_key *key, dibs_cell *out,
                     dibs_time deadline, dibs_error *err);
    int (*cell_swap)(void *state, const dibs_cell_key *key, uint64_t version,
                     const void *value, size_t len, uint64_t *new_version,
                     dibs_time deadline, dibs_error *err);
    /* The statements that make the tables this layout needs, NULL-terminated, for people who
     * review them first (dibs_schema). May. NULL: the store needs none. */
    const char *const *schema;

    /* sleep is for engines in which the caller can wait for the store's word itself, instead
     * of a thread that rings it: it saves a switch of threads in every hand-over. May. It
     * returns when claim->bell is not claim->seen any more, when rouse is called, at the
     * deadline, or as early as it likes: core then sleeps on the bell. rouse is called by
     * any thread, after it rang the bell, while the caller may be in sleep; it must not
     * wait. Must with sleep. */
    void (*sleep)(void *state, dibs_claim *claim, dibs_time deadline);
    void (*rouse)(void *state, dibs_claim *claim);
    /* abi 3 ends here; the table grows at its end only */
} dibs_engine;

/* A module `dibs-engine-NAME.so` exports its table under this one name. */
#define DIBS_ENGINE_SYMBOL "dibs_engine_table"

#endif /* DIBS_ENGINE_H */
