/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine: what its files share.
 *
 * etcd.c has the tables of the layouts, and what they do to open and close. claim.c is what
 * they have in common about claims (claim.h): how a key is made, found again, and ended.
 * concurrency.c writes locks down as etcd's own clients do (exclusive, shared, elections),
 * permits.c semaphores in the same line, single.c one key per lock. line.c reads a line: who
 * comes before whom; observe.c tells who leads. renew.c keeps holds. lease.c has the
 * tenures: what a lease is at etcd, and until when it surely lives. watch.c knows which
 * claims wait for which keys, wire.c and grpc.c speak to the server's watches. look.c and
 * look_single.c are list, inspect and break; cell.c has the cells, the same for every
 * layout. ask.c asks, over HTTP and JSON, with all that may go wrong; json.c makes what is
 * asked and reads what is answered; key.c names keys; version.c knows servers to warn of.
 */
#ifndef DIBS_ETCD_H
#define DIBS_ETCD_H

#include <jansson.h>

#include <dibs/engine.h>

#include "http/http.h"
#include "kit/kit.h"

/* ---- tokens ---- */

/* the create revision of the key that holds, with room for hand-overs behind it */
#define TOKEN_ROOM 256
static inline uint64_t
token_of(int64_t create_revision)
{
    return (uint64_t)create_revision * TOKEN_ROOM;
}

/* ---- keys ---- */

#define PREFIX_MAX 512
#define KEY_MAX (PREFIX_MAX + 3 * DIBS_NAME_MAX + 128)

struct key {
    size_t len;
    char text[KEY_MAX]; /* any bytes */
};

struct etcd;

/* line_key is PREFIX NAME "/": all contenders of a lock begin with it. In the name '/' and
 * '%' are written %2F and %25, so no lock lies inside another. What we keep beside the locks
 * begins with '%' and a small letter: PREFIX "%cells/", "%fences/", "%epoch/",
 * "%shared/". */
void dibs__etcd_line_key(struct key *out, const struct etcd *etcd, const char *name,
                         size_t name_len);
/* single_key is PREFIX NAME, as it is: the one key of a lock of the layout single */
void dibs__etcd_single_key(struct key *out, const struct etcd *etcd, const char *name,
                           size_t name_len);
void dibs__etcd_cell_key(struct key *out, const struct etcd *etcd,
                         const dibs_cell_key *cell);
void dibs__etcd_epoch_key(struct key *out, const struct etcd *etcd, const char *lease_id);
/* marker_key is beside the locks as well: PREFIX "%shared/", and what `key` has behind the
 * prefix. With ?form=rw it says, by the create revision of `key`, that this one is shared
 * now: the key itself cannot, for etcd's recipes order keys by when they were put last. */
void dibs__etcd_marker_key(struct key *out, const struct etcd *etcd,
                           const struct key *key);
void dibs__etcd_key_add(struct key *key, const void *bytes, size_t len);
/* range_end is the end of the range of all that begin with `prefix`. */
void dibs__etcd_range_end(struct key *out, const struct key *prefix);
int dibs__etcd_key_is(const struct key *a, const struct key *b);
/* name_of: the lock that a contender's key belongs to, and how long its line_key is. 0, or
 * -1: it is none of a lock. */
int dibs__etcd_name_of(const struct etcd *etcd, const char *key, size_t len,
                       char name[DIBS_NAME_MAX], size_t *name_len, size_t *line_len);

/* ---- what is asked: json.c; texts (http.h) that may lack something, and take those they
 * are given: ask, which takes them in the end, says ENOMEM then ---- */

enum compare_target { COMPARE_CREATE, COMPARE_MOD, COMPARE_VERSION };
http_text *dibs__etcd_compare(const struct key *key, enum compare_target target,
                              int64_t value);
/* ... that there is no key in that range */
http_text *dibs__etcd_compare_none(const struct key *key, const struct key *end);
http_text *dibs__etcd_put(const struct key *key, const void *value, size_t len,
                          int64_t lease);
/* ... to a key that is there: a value that is NULL and a lease that is 0 stay as they are */
http_text *dibs__etcd_put_again(const struct key *key, const void *value, size_t len,
                                int64_t lease);
http_text *dibs__etcd_delete(const struct key *key);

enum range_flag {
    RANGE_NEWEST = 1u << 0, /* by create revision, from the newest; else the oldest */
    RANGE_KEYS_ONLY = 1u << 1,
    RANGE_BY_KEY = 1u << 2, /* in the order of the keys */
    RANGE_COUNT_ONLY = 1u << 3
};
struct range {
    const struct key *key, *end; /* end NULL: that key only */
    int64_t limit;               /* 0: all */
    int64_t max_create;          /* 0: any */
    int64_t revision;            /* as it was then; 0: now */
    unsigned flags;              /* enum range_flag */
};
http_text *dibs__etcd_range(const struct range *range);
/* ... as a request of its own, for "/kv/range" */
http_text *dibs__etcd_range_alone(const struct range *range);
/* each of the three is a list, NO_OPS if nothing is in it */
http_text *dibs__etcd_txn(http_text *compares, http_text *success, http_text *failure);
/* ... as an op of another one */
http_text *dibs__etcd_inner_txn(http_text *txn);
/* a list of the ops; the last is NULL */
#define dibs__etcd_list(...)                                                             \
    dibs__etcd_list_of(                                                                  \
        (http_text *const[]){ __VA_ARGS__ },                                             \
        sizeof((http_text *const[]){ __VA_ARGS__ }) / sizeof(http_text *) - 1)
http_text *dibs__etcd_list_of(http_text *const *ops, size_t count);
http_text *dibs__etcd_list_add(http_text *list, http_text *op);
#define NO_OPS dibs__etcd_list(NULL)
/* for "/lease/..."; 0: no such field */
http_text *dibs__etcd_lease_alone(int64_t lease, int64_t ttl_s);

/* ---- what is answered ---- */

struct kv {
    struct key key;
    char *value; /* decoded; NUL-terminated; points into the answer's memory */
    size_t value_len;
    int64_t create, mod, version, lease;
};

/* An answer, and the memory of what was decoded from it. */
struct answer {
    json_t *json;
    const dibs_host *host;
    void *decoded;
};
void dibs__etcd_answer_free(struct answer *answer);
int dibs__etcd_succeeded(const struct answer *answer);
int64_t dibs__etcd_revision(const struct answer *answer);
int64_t dibs__etcd_term(const struct answer *answer);
/* a field that is a number; 0: it is not there */
int64_t dibs__etcd_number(const json_t *object, const char *name);
/* kvs counts those of the n-th op of a txn (-1: the answer is that of a range itself), kv
 * reads one of them: 0, or -1. */
size_t dibs__etcd_kvs(const struct answer *answer, int op);
int dibs__etcd_kv(struct answer *answer, int op, size_t index, struct kv *out);
int64_t dibs__etcd_deleted(const struct answer *answer, int op);

/* ---- asking ---- */

/* ask posts `body` (taken) to "/v3" `path`, signs in when it must, and makes codes of
 * refusals:
 *   DIBS_OK; EUNAVAIL (nothing was changed: no server, no leader, too many requests);
 *   EUNKNOWN (it may have been); ELOST (there is no such lease); EDENIED; ENOMEM; ECORRUPT.
 * Flags are those of http.h. */
int dibs__etcd_ask(struct etcd *etcd, const char *path, http_text *body, unsigned flags,
                   struct answer *answer, dibs_time deadline, dibs_error *err);

/* open signs in, if there is a user. */
int dibs__etcd_access_open(struct etcd *etcd, dibs_time deadline, dibs_error *err);
void dibs__etcd_access_close(struct etcd *etcd, int forked);

/* ---- cells ---- */

int dibs__etcd_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                         dibs_time deadline, dibs_error *err);
int dibs__etcd_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                         const void *value, size_t len, uint64_t *new_version,
                         dibs_time deadline, dibs_error *err);

/* ---- looking ---- */

int dibs__etcd_list_locks(void *state, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err);
int dibs__etcd_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                       dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__etcd_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                     size_t *broken, dibs_time deadline, dibs_error *err);
int dibs__etcd_single_list(void *state, dibs_sink *sink, dibs_time deadline,
                           dibs_error *err);
int dibs__etcd_single_inspect(void *state, const char *name, size_t name_len,
                              uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                              dibs_error *err);
int dibs__etcd_single_evict(void *state, const char *name, size_t name_len,
                            uint64_t name_hash, size_t *broken, dibs_time deadline,
                            dibs_error *err);

/* ---- the client ---- */

#define STRAY_LEASES 16

struct etcd {
    dibs_session *session;
    const dibs_host *host;
    http *http;
    char prefix[PREFIX_MAX];
    size_t prefix_len;
    int is_rw; /* ?form=rw: exclusive claims are NAME/write/... */
    const char *user, *password;
    kit_tenure_ops tenure_ops;
    kit_tenures *tenures;
    kit_lapses *lapses;
    kit_places *places;
    void *watches;                              /* watch.c */
    void *access;                               /* ask.c */
    _Atomic int64_t stray_leases[STRAY_LEASES]; /* lease.c; 0: none */
};

extern const dibs_engine dibs__etcd_single;

#endif /* DIBS_ETCD_H */
