/* SPDX-License-Identifier: MIT */
/*
 * dibs: agree on who may use a named thing, across threads, processes and machines.
 *
 * This header is all a user needs. It reads in this order: outcomes, the client, taking
 * a lock, waiting asynchronously, while it is held, giving it back, the fencing check,
 * cells, elections, looking at locks.
 *
 * Read these first, they are what every lock of this kind is subject to:
 *
 *  - A lock with a lease is a promise about time. A process that sleeps past its lease is
 *    no longer the holder, and only dibs_held(), the lost fd or the token can tell it.
 *    Check dibs_held() before each step that matters, or better: hand dibs_token() to the
 *    resource and let the resource refuse older tokens (dibs_fence() is such a check).
 *  - A client opened before fork() is dead in the child: its holds report DIBS_ELOST there
 *    and stay valid in the parent. Open a new client in the child.
 *  - Callbacks run on a thread of the library, with no lock of the library held. They may
 *    call any function on any hold, but for dibs_close().
 *  - A `dibs` may be used by any number of threads. A `dibs_hold` may be queried and
 *    released by any thread; freeing it is the last thing done to it.
 *  - No function is a place to be cancelled at: pthread_cancel waits until it returns.
 *
 * Conventions. A function that can fail returns 0 (DIBS_OK) or a negative code, and takes
 * an optional, caller-owned dibs_error as its last argument. Outputs come first and are
 * untouched on failure. Option structs are valid when zeroed: DIBS_REQUEST_INIT and
 * DIBS_OPTIONS_INIT set the size and leave every default. Times are milliseconds.
 */
#ifndef DIBS_H
#define DIBS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIBS_VERSION_MAJOR 0
#define DIBS_VERSION_MINOR 1
#define DIBS_VERSION_PATCH 0
#define DIBS_VERSION "0.1.0"

#if defined(__GNUC__)
#define DIBS_API __attribute__((visibility("default")))
#define DIBS_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define DIBS_API
#define DIBS_CHECK_RESULT
#endif

/* A name is 1 to DIBS_NAME_MAX bytes, of any value but NUL. Two names are the same if and
 * only if all their bytes are. */
#define DIBS_NAME_MAX 512
/* A note for people (who holds this, and why) has at most this many bytes. */
#define DIBS_NOTE_MAX 256
/* An owner given in a request has at most this many bytes. */
#define DIBS_OWNER_MAX 64
/* A cell's value has at most this many bytes. */
#define DIBS_CELL_MAX 4096

/* ------------------------------------------------------------------ outcomes ---- */

/* The one list of outcomes: name, number, what it says, exit code of the command, and
 * whether the same call may succeed later without anything being changed. Numbers are
 * never reused. */
#define DIBS_ERR_MAP(X)                                                                  \
    X(EBUSY, -1, "somebody else has it", 75, 1)                                          \
    X(ETIMEDOUT, -2, "timed out", 75, 1)                                                 \
    X(ECANCELED, -3, "cancelled", 75, 1)                                                 \
    X(ELOST, -4, "the hold was lost", 79, 0)                                             \
    X(ENOTHELD, -5, "not held", 70, 0)                                                   \
    X(EUNAVAIL, -6, "the engine cannot be reached", 69, 1)                               \
    X(EDENIED, -7, "permission denied", 77, 0)                                           \
    X(EUNSUPPORTED, -8, "not supported by this engine", 78, 0)                           \
    X(EINVAL, -9, "invalid argument", 64, 0)                                             \
    X(EDEADLOCK, -10, "would deadlock", 70, 0)                                           \
    X(EUNKNOWN, -11, "outcome unknown: the reply was lost", 69, 1)                       \
    X(ENOMEM, -12, "out of memory or another resource", 71, 1)                           \
    X(ECONFLICT, -13, "somebody changed it meanwhile", 75, 1)                            \
    X(ESTALE, -14, "the token is older than one already seen", 79, 0)                    \
    X(ENOTFOUND, -15, "there is nothing of that name", 66, 0)                            \
    X(EMISMATCH, -16, "the name is in use in a way that does not fit", 78, 0)            \
    X(ECORRUPT, -17, "the engine's data is damaged", 70, 0)                              \
    X(ECONFIG, -18, "configuration error", 78, 0)

enum dibs_code {
    DIBS_OK = 0,
#define DIBS_ERR_ENUM(name, number, text, exit_code, retryable) DIBS_##name = (number),
    DIBS_ERR_MAP(DIBS_ERR_ENUM)
#undef DIBS_ERR_ENUM
};

/* dibs_error says what failed: `text` is one line that names what was tried, on which name
 * and where, and what the engine answered. It never contains a password. The caller owns
 * it; a call that succeeds leaves it alone. */
typedef struct dibs_error {
    int code;        /* what the call returned */
    int engine_code; /* the engine's own number (errno, a server's code), or 0 */
    char engine[16]; /* "local", "redis", ...; empty if no engine was involved */
    char text[488];
} dibs_error;

/* dibs_strerror returns what a code means in general ("timed out"); dibs_errname its name
 * ("ETIMEDOUT"); dibs_exit_code what the command exits with; dibs_retryable whether the
 * same call may succeed later. All accept any number. Since 0.1. */
DIBS_API const char *dibs_strerror(int code);
DIBS_API const char *dibs_errname(int code);
DIBS_API int dibs_exit_code(int code);
DIBS_API int dibs_retryable(int code);

/* dibs_version returns DIBS_VERSION of the library in use. Since 0.1. */
DIBS_API const char *dibs_version(void);

/* ---------------------------------------------------------------- the client ---- */

/* dibs is a client: one open engine, shared by all threads of the process. */
typedef struct dibs dibs;
/* dibs_hold is a lock that was granted to the caller. */
typedef struct dibs_hold dibs_hold;
/* dibs_canceller ends waits from another thread; dibs_op is a wait in the background. */
typedef struct dibs_canceller dibs_canceller;
typedef struct dibs_op dibs_op;

/* What a trace callback is told: one call of the engine. Strings live for the call. */
typedef struct dibs_trace_event {
    const char *verb; /* "attempt", "renew", ... */
    const char *name; /* the lock or cell, escaped for print; "" if none */
    int64_t took_us;  /* how long the engine took */
    int code;         /* what it returned */
    const char *text; /* the error text, or "" */
} dibs_trace_event;

typedef struct dibs_options {
    size_t size;           /* sizeof(dibs_options), or 0 */
    uint32_t lease_ms;     /* lease of requests that name none; 0: 30 000 */
    uint32_t open_wait_ms; /* how long opening may take, connecting included; 0: 10 000 */
    uint32_t handover_max; /* grants passed on inside the process before the engine is
                            * asked again; 0: 256, or for how many the engine's tokens
                            * have room. 1 = every grant comes from the engine */
    uint32_t handover_ms;  /* ... and for how long at most; 0: 10 */
    uint32_t drift_ppm;    /* clock rate error to be safe against; 0: 1000 */
    const char *app;       /* what people see in listings; NULL: the program's name */
    void (*trace)(const dibs_trace_event *event, void *arg); /* NULL: none */
    void *trace_arg;
} dibs_options;

/* clang-format off */
#define DIBS_OPTIONS_INIT { sizeof(dibs_options), 0, 0, 0, 0, 0, NULL, NULL, NULL }
/* clang-format on */

/* dibs_open opens the engine that `url` names by its scheme. A NULL url means $DIBS_URL,
 * and if that is unset or empty, "local:". `options` may be NULL.
 * Returns DIBS_OK; DIBS_ECONFIG for a URL that cannot be used or an engine that is not
 * installed; DIBS_EUNAVAIL, DIBS_ETIMEDOUT, DIBS_EDENIED, DIBS_ECORRUPT, DIBS_ENOMEM,
 * DIBS_EUNSUPPORTED. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_open(dibs **out, const char *url,
                                         const dibs_options *options, dibs_error *err);

/* dibs_close releases what the client still holds, as well as it can, ends its threads and
 * frees it. Waits still running in other threads end with DIBS_ECANCELED; holds that were
 * not freed stay valid as handles, report "not held", and must still be freed. NULL is
 * fine. Must not be called from a callback. Since 0.1. */
DIBS_API void dibs_close(dibs *client);

/* dibs_url returns the client's URL without its password, lent until dibs_close.
 * dibs_engine_name the engine's ("local"), dibs_notice what was found when it was opened
 * that its users should know (a version of the server that breaks a promise), or "".
 * Since 0.1. */
DIBS_API const char *dibs_url(const dibs *client);
DIBS_API const char *dibs_engine_name(const dibs *client);
DIBS_API const char *dibs_notice(const dibs *client);

/* dibs_schema tells which statements an engine would run to make the tables it needs, in the
 * layout that `url` names: *out is NULL-terminated, and lent for ever. It opens nothing.
 * Engines make their tables by themselves; this is for databases where somebody else does.
 * Returns DIBS_OK; DIBS_EUNSUPPORTED if the engine has no tables; DIBS_ECONFIG,
 * DIBS_ENOMEM. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_schema(const char *const **out, const char *url,
                                           dibs_error *err);

/* What an engine can do; dibs_caps returns the bits of an open client. Since 0.1. */
enum dibs_cap {
    DIBS_CAP_LEASE = 1u << 0,    /* a hold ends if it is not renewed in time; without this
                                  * bit it lasts exactly as long as its process */
    DIBS_CAP_FAIR = 1u << 1,     /* first come, first served */
    DIBS_CAP_SHARED = 1u << 2,   /* readers and writers */
    DIBS_CAP_PERMITS = 1u << 3,  /* semaphores */
    DIBS_CAP_TOKEN = 1u << 4,    /* fencing tokens that only rise */
    DIBS_CAP_PREVIOUS = 1u << 5, /* tells how the hold before ended */
    DIBS_CAP_CELL = 1u << 6,     /* cells, and with them dibs_fence */
    DIBS_CAP_INSPECT = 1u << 7,  /* list and inspect: what is held, for how long yet */
    DIBS_CAP_BREAK = 1u << 8,    /* break */
    DIBS_CAP_LINGER = 1u << 9,   /* release after a delay */
    DIBS_CAP_WAKE = 1u << 10,    /* waits without polling */
    DIBS_CAP_DIRECT = 1u << 11,  /* as cheap as memory: threads queue at the engine */
    DIBS_CAP_DETAIL = 1u << 12, /* inspect also tells who waits, in order, and of each its
                                  * host, pid, note and token */
    DIBS_CAP_OBSERVE = 1u << 13 /* dibs_observe: who leads */
};
DIBS_API uint32_t dibs_caps(const dibs *client);

/* ------------------------------------------------------------- taking a lock ---- */

enum dibs_mode {
    DIBS_EXCLUSIVE = 0, /* one holder */
    DIBS_SHARED = 1,    /* any number of sharers, or one exclusive holder */
    DIBS_PERMITS = 2    /* at most `limit` permits are out at any time */
};

/* How long to wait, in dibs_request.wait_ms. */
#define DIBS_WAIT_FOREVER ((int64_t)0)
#define DIBS_WAIT_NONE ((int64_t)-1)

enum dibs_request_flag {
    DIBS_NO_RENEW = 1u << 0,   /* let the lease run out instead of renewing it */
    DIBS_NO_REENTRY = 1u << 1, /* wait even if the same owner has the lock */
    DIBS_ELECTION = 1u << 2    /* the hold is a leadership (set by dibs_campaign) */
};

typedef struct dibs_request {
    size_t size;          /* sizeof(dibs_request), or 0 */
    const char *name;     /* what to lock */
    size_t name_len;      /* 0: name is a C string */
    int mode;             /* enum dibs_mode */
    uint32_t permits;     /* DIBS_PERMITS: how many; 0: 1 */
    uint32_t limit;       /* DIBS_PERMITS: of how many; all users of a name must agree */
    int64_t wait_ms;      /* > 0, DIBS_WAIT_FOREVER or DIBS_WAIT_NONE */
    uint32_t lease_ms;    /* 0: the client's */
    uint32_t max_hold_ms; /* given up as lost after this long, however alive, and free for
                           * others one grace later; 0: never */
    uint32_t grace_ms;    /* be told of a loss this long before the lease ends; 0: a tenth
                           * of the lease, 10 ms at least and 1 s at most */
    uint32_t flags;       /* enum dibs_request_flag */
    const char *owner;    /* who re-enters; NULL: the calling thread */
    const char *note;     /* for people; NULL: none */
    dibs_canceller *cancel; /* ends the wait; NULL: nothing does */
    /* Called once if the hold is lost, on a thread of the library, before anybody else can
     * be granted the lock. Not called after a release. */
    void (*on_lost)(dibs_hold *hold, void *arg);
    void *on_lost_arg;
} dibs_request;

/* clang-format off */
#define DIBS_REQUEST_INIT \
    { sizeof(dibs_request), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL }
/* clang-format on */

/* dibs_acquire takes a lock as the request says and stores the hold. The same owner taking
 * a name again re-enters without asking the engine (DIBS_EXCLUSIVE and DIBS_SHARED; a
 * semaphore counts every acquire); each hold is released on its own, and the lock is free
 * after the last one. Taking DIBS_SHARED while holding DIBS_EXCLUSIVE is re-entry too.
 * The wait limit covers everything, connecting included.
 * Returns DIBS_OK; DIBS_EBUSY (with DIBS_WAIT_NONE); DIBS_ETIMEDOUT; DIBS_ECANCELED;
 * DIBS_EDEADLOCK if the owner has it shared and asks for exclusive; DIBS_EMISMATCH if the
 * name is in use as another kind or with another limit; DIBS_EUNAVAIL, DIBS_EDENIED,
 * DIBS_EUNSUPPORTED, DIBS_EINVAL, DIBS_ENOMEM, DIBS_ECORRUPT. Whatever it returns but
 * DIBS_OK, the caller holds nothing more than before. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_acquire(dibs_hold **out, dibs *client,
                                            const dibs_request *request, dibs_error *err);

/* Short forms of dibs_acquire; the same codes. dibs_lock and dibs_wrlock wait for ever for
 * exclusive use, dibs_rdlock for shared use, dibs_permit for one of `limit` permits.
 * dibs_trylock does not wait; dibs_timedlock waits at most wait_ms. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_lock(dibs_hold **out, dibs *client, const char *name,
                                         dibs_error *err);
DIBS_CHECK_RESULT DIBS_API int dibs_trylock(dibs_hold **out, dibs *client,
                                            const char *name, dibs_error *err);
DIBS_CHECK_RESULT DIBS_API int dibs_timedlock(dibs_hold **out, dibs *client,
                                              const char *name, int64_t wait_ms,
                                              dibs_error *err);
DIBS_CHECK_RESULT DIBS_API int dibs_rdlock(dibs_hold **out, dibs *client,
                                           const char *name, dibs_error *err);
DIBS_CHECK_RESULT DIBS_API int dibs_wrlock(dibs_hold **out, dibs *client,
                                           const char *name, dibs_error *err);
DIBS_CHECK_RESULT DIBS_API int dibs_permit(dibs_hold **out, dibs *client,
                                           const char *name, uint32_t limit,
                                           dibs_error *err);

/* One lock of several taken together: of which client, and how. */
typedef struct dibs_wanted {
    dibs *client;
    dibs_request request; /* its wait_ms is not looked at */
} dibs_wanted;

/* dibs_acquire_all takes all of `wanted` or nothing; holds[i] belongs to wanted[i]. They
 * are taken in one order that all callers share (by the clients' URLs, then by name), so
 * two callers cannot deadlock, also not across engines. `wait_ms` limits the whole, as in
 * a request. Returns what dibs_acquire returns, with the text naming the lock that could
 * not be had. At most 1024 at once. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_acquire_all(dibs_hold **holds,
                                                const dibs_wanted *wanted, size_t count,
                                                int64_t wait_ms, dibs_error *err);

/* A canceller ends waits: put it into a request, call dibs_cancel from any thread. All
 * waits that use it, and every later one, end with DIBS_ECANCELED at once; a grant that
 * was on its way is undone. Free it when no wait uses it any more.
 * dibs_canceller_new returns DIBS_OK or DIBS_ENOMEM. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_canceller_new(dibs_canceller **out, dibs_error *err);
DIBS_API void dibs_cancel(dibs_canceller *canceller);
DIBS_API void dibs_canceller_free(dibs_canceller *canceller);

/* ----------------------------------------------------- waiting asynchronously ---- */

/* dibs_acquire_async starts an acquire and returns at once. When it has ended, `done` (if
 * not NULL) is called on a thread of the library and dibs_op_fd becomes readable; then
 * dibs_op_finish yields the result and frees the op. Without an owner in the request the
 * hold belongs to the op: no thread re-enters it. What the request points to is copied,
 * but for its canceller.
 * Returns DIBS_OK, DIBS_EINVAL, DIBS_ENOMEM; everything else comes through the op.
 * Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_acquire_async(dibs_op **out, dibs *client,
                                                  const dibs_request *request,
                                                  void (*done)(dibs_op *op, void *arg),
                                                  void *arg, dibs_error *err);

/* dibs_op_fd returns a descriptor that polls readable once the op has ended, owned by the
 * op. dibs_op_cancel ends the wait at once (from any thread, also after it has ended).
 * dibs_op_finish waits until the op has ended, frees it, and returns what dibs_acquire
 * would have; it may be called from the op's own `done`. Since 0.1. */
DIBS_API int dibs_op_fd(const dibs_op *op);
DIBS_API void dibs_op_cancel(dibs_op *op);
DIBS_CHECK_RESULT DIBS_API int dibs_op_finish(dibs_hold **out, dibs_op *op,
                                              dibs_error *err);

/* ---------------------------------------------------------------- while held ---- */

/* dibs_held returns 1 while the lock is surely ours, else 0. No network; may be called
 * from a signal handler. Once 0, it stays 0. Since 0.1. */
DIBS_API int dibs_held(const dibs_hold *hold);

/* dibs_token returns the fencing token: larger than that of every earlier hold of the same
 * name that excludes this one. It never changes and is never 0. Signal-safe. Since 0.1. */
DIBS_API uint64_t dibs_token(const dibs_hold *hold);

/* dibs_remaining returns for how many milliseconds dibs_held will stay 1 if nothing is
 * renewed: 0 if not held, INT64_MAX where there is no lease. Signal-safe. Since 0.1. */
DIBS_API int64_t dibs_remaining(const dibs_hold *hold);

/* How the hold before this one ended. */
enum dibs_previous_end {
    DIBS_PREVIOUS_CLEAN = 0,   /* it was released, or there was none */
    DIBS_PREVIOUS_EXPIRED = 1, /* its owner died or lost its lease: check its work */
    DIBS_PREVIOUS_BROKEN = 2,  /* somebody forced it */
    DIBS_PREVIOUS_UNKNOWN = 3  /* this engine cannot tell */
};

/* dibs_previous returns how the hold before ended; dibs_previous_name a word for it
 * ("expired"). Since 0.1. */
DIBS_API int dibs_previous(const dibs_hold *hold);
DIBS_API const char *dibs_previous_name(int previous);

/* dibs_hold_name returns the name, lent until the hold is freed. Since 0.1. */
DIBS_API const char *dibs_hold_name(const dibs_hold *hold, size_t *len);

/* dibs_lost_fd returns a descriptor that polls readable once the hold is lost, owned by
 * the hold; or DIBS_ENOTHELD, DIBS_ENOMEM. Since 0.1. */
DIBS_API int dibs_lost_fd(dibs_hold *hold, dibs_error *err);

/* dibs_renew renews the lease now, for lease_ms from now on (0: as before). Needed only by
 * those who asked for DIBS_NO_RENEW or want to lengthen it.
 * Returns DIBS_OK, DIBS_ELOST, DIBS_ENOTHELD, DIBS_EUNAVAIL, DIBS_EUNKNOWN, DIBS_EINVAL if
 * the engine's leases are longer. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_renew(dibs_hold *hold, uint32_t lease_ms,
                                          dibs_error *err);

/* dibs_downgrade turns exclusive into shared without letting a writer in between. The
 * token stays. (There is no upgrade: two sharers who both upgrade wait for each other.)
 * Returns DIBS_OK, DIBS_ELOST, DIBS_ENOTHELD, DIBS_EINVAL if not exclusive, DIBS_EDEADLOCK
 * if the owner has re-entered, DIBS_EUNSUPPORTED, DIBS_EUNAVAIL. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_downgrade(dibs_hold *hold, dibs_error *err);

/* -------------------------------------------------------------- giving it back ---- */

/* dibs_unlock releases and frees the hold: what most programs want. From any thread.
 * Returns what dibs_release returns; the hold is gone whatever it returns. Since 0.1. */
DIBS_API int dibs_unlock(dibs_hold *hold, dibs_error *err);

/* dibs_release gives the lock back and keeps the handle, so that it may be repeated. It
 * never frees somebody else's lock, and after it nothing renews this hold again.
 * Returns DIBS_OK; DIBS_ELOST if it was no longer ours; DIBS_ENOTHELD if it was released
 * before; DIBS_EUNKNOWN if the engine could not be asked: the library goes on trying in
 * the background until the lease is over. Since 0.1. */
DIBS_API int dibs_release(dibs_hold *hold, dibs_error *err);

/* dibs_release_after gives the lock back but keeps others out for delay_ms more, also
 * after this process has ended. Codes of dibs_release, and DIBS_EUNSUPPORTED (then it is
 * still held). Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_release_after(dibs_hold *hold, uint32_t delay_ms,
                                                  dibs_error *err);

/* dibs_hold_free releases the hold if that has not been done, as well as it can, and frees
 * the handle. dibs_abandon frees the handle and leaves the lock to run out (or, without a
 * lease, to end with the process). NULL is fine for both. Since 0.1. */
DIBS_API void dibs_hold_free(dibs_hold *hold);
DIBS_API void dibs_abandon(dibs_hold *hold);

/* ------------------------------------------------------------ the fencing check ---- */

/* dibs_fence admits `token` to `resource` unless a larger one was admitted before, and
 * remembers the largest. Seal first, then read, then write: an old holder can slip in only
 * before the new holder's first call.
 * Returns DIBS_OK, DIBS_ESTALE, DIBS_EINVAL, DIBS_EUNSUPPORTED, DIBS_EUNAVAIL. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_fence(dibs *client, const char *resource,
                                          uint64_t token, dibs_error *err);

/* -------------------------------------------------------------------- cells ---- */

/* A cell is a small value with a version: whoever read the latest version may change it. */
typedef struct dibs_cell {
    uint64_t version; /* never 0 for a cell that exists; rises with every change */
    size_t len;
    unsigned char value[DIBS_CELL_MAX];
} dibs_cell;

/* dibs_cell_read reads a cell. Returns DIBS_OK, DIBS_ENOTFOUND (then out->version is 0 and
 * out->len is 0), DIBS_EINVAL, DIBS_EUNSUPPORTED, DIBS_EUNAVAIL. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_cell_read(dibs_cell *out, dibs *client,
                                              const char *name, dibs_error *err);

/* dibs_cell_swap stores a value if the cell is still at `version` (0: if it does not
 * exist) and stores the new version in *new_version (which may be NULL).
 * Returns DIBS_OK, DIBS_ECONFLICT if it is at another version, DIBS_EUNKNOWN if the reply
 * was lost, DIBS_EINVAL, DIBS_EUNSUPPORTED, DIBS_EUNAVAIL, DIBS_ENOMEM. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_cell_swap(uint64_t *new_version, dibs *client,
                                              const char *name, uint64_t version,
                                              const void *value, size_t len,
                                              dibs_error *err);

/* ----------------------------------------------------------- looking at locks ---- */

/* Who has, or wants, a lock. Strings are escaped for print and never NULL. */
typedef struct dibs_party {
    int mode;              /* enum dibs_mode */
    uint32_t permits;      /* 1 unless DIBS_PERMITS */
    uint64_t token;        /* 0 for those who wait */
    int64_t pid;           /* 0 if unknown */
    int64_t since_ms;      /* wall clock, milliseconds since 1970; 0 if unknown */
    int64_t lease_left_ms; /* -1: no lease, or unknown */
    const char *host;
    const char *app;
    const char *note;
} dibs_party;

typedef struct dibs_report {
    const char *name; /* the bytes of the name */
    size_t name_len;
    int mode;       /* of the lock; enum dibs_mode */
    uint32_t limit; /* DIBS_PERMITS: how many there are */
    size_t holder_count, waiter_count;
    const dibs_party *holders;
    const dibs_party *waiters; /* first come first */
} dibs_report;

/* dibs_inspect reports who holds a lock and who waits for it. A lock nobody uses gives a
 * report with no holders and no waiters. Free with dibs_report_free.
 * Returns DIBS_OK, DIBS_EINVAL, DIBS_EUNSUPPORTED, DIBS_EUNAVAIL, DIBS_ENOMEM. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_inspect(dibs_report **out, dibs *client,
                                            const char *name, dibs_error *err);
DIBS_API void dibs_report_free(dibs_report *report);

/* dibs_list calls `each` for every lock in use whose name matches the glob (as fnmatch(3);
 * NULL: all), until it returns non-zero: dibs_list then returns that number if it is
 * positive, else DIBS_OK. The
 * report lives for the call. Codes of dibs_inspect. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int
dibs_list(dibs *client, const char *glob,
          int (*each)(const dibs_report *report, void *arg), void *arg, dibs_error *err);

/* dibs_break takes a lock away from all its holders; the next grant says "broken" and has
 * a larger token. The reason (may be NULL) is for the trace. *broken (may be NULL) says
 * how many holds were ended.
 * Returns DIBS_OK, DIBS_ENOTHELD if nobody had it, and the codes of dibs_inspect.
 * Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_break(size_t *broken, dibs *client, const char *name,
                                          const char *reason, dibs_error *err);

/* Counters of one client since it was opened. */
typedef struct dibs_stats {
    uint64_t acquired; /* holds granted, re-entries not counted */
    uint64_t reentered;
    uint64_t handed_over; /* of `acquired`: passed on inside the process */
    uint64_t waited;      /* acquires that had to sleep */
    uint64_t timed_out, canceled, lost, released;
    uint64_t renewals, renewals_failed;
    uint64_t reaped; /* requests of unknown outcome that were cleaned up */
    uint64_t engine_calls;
    uint64_t held_now;
    int64_t renewal_lateness_max_ms;
} dibs_stats;
DIBS_API void dibs_stats_read(dibs_stats *out, const dibs *client);

/* dibs_name_print writes a name, escaped for people, into `out` (always terminated) and
 * returns how many bytes the whole would need, as snprintf. Since 0.1. */
DIBS_API size_t dibs_name_print(char *out, size_t size, const char *name, size_t len);

/* dibs_stripe writes "PREFIX#i" with i in 0..stripes-1 chosen by the key's bytes: a
 * million keys on a few names, the same on every machine.
 * Returns DIBS_OK or DIBS_EINVAL (no stripes, or it does not fit). Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_stripe(char *out, size_t size, const char *prefix,
                                           const void *key, size_t key_len,
                                           uint32_t stripes, dibs_error *err);

/* ---------------------------------------------------------------- elections ---- */

/* dibs_campaign waits until the caller leads `name`; `value` (may be NULL) is what
 * observers are told. Resign with dibs_unlock. A leader is a holder: it can be lost, and
 * it has a token. Codes of dibs_acquire. Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int dibs_campaign(dibs_hold **out, dibs *client,
                                             const char *name, const char *value,
                                             int64_t wait_ms, dibs_error *err);

/* dibs_observe calls `changed` with the present state of `name` and again after each
 * change of its holders (NULL leader: nobody leads; the party lives for the call), until
 * `changed` returns non-zero (which is returned if positive), `wait_ms` is over
 * (DIBS_ETIMEDOUT) or `cancel` is used (DIBS_ECANCELED). Quick changes may be seen as one.
 * Also returns the codes of dibs_inspect. To know the leader once, return 1.
 * Since 0.1. */
DIBS_CHECK_RESULT DIBS_API int
dibs_observe(dibs *client, const char *name,
             int (*changed)(const dibs_party *leader, void *arg), void *arg,
             int64_t wait_ms, dibs_canceller *cancel, dibs_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DIBS_H */
