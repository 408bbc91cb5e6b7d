/* SPDX-License-Identifier: MIT */
/*
 * The consul engine: what its files share.
 *
 * consul.c is the engine's table: open, close, and which file a claim goes to by its mode.
 * lock.c writes exclusive locks as `consul lock` and the Go API do, semaphore.c permits as
 * they do, share.c sharers in a way of our own; observe.c takes nothing, move.c gives a hold
 * a longer session. turn.c is what they have
 * in common (claim.h), stake.c what is remembered of a claim, epoch.c what keeps requests
 * that come late from doing harm. session.c has the tenures: Consul's sessions. renew.c keeps
 * holds. watch.c waits by blocking queries. look.c is list, inspect and break; cell.c has the
 * cells. view.c says who has a name. ask.c asks, over HTTP and JSON, with all that may go
 * wrong; txn.c makes transactions; entry.c reads entries of the store; key.c names keys.
 */
#ifndef DIBS_CONSUL_H
#define DIBS_CONSUL_H

#include <jansson.h>

#include <dibs/engine.h>

#include "http/http.h"
#include "kit/kit.h"

/* What an entry is used for, as `consul lock` and the Go API mark it: they refuse what has
 * another mark. Sharers have one of ours, and so have those who wait for them to end. */
#define FLAGS_LOCK UINT64_C(0x2ddccbc058a50c18)
#define FLAGS_SEMAPHORE UINT64_C(0xe0f69a2baa414de0)
#define FLAGS_SHARED UINT64_C(0x64696273b5ec1a9d)
#define FLAGS_WRITER UINT64_C(0x64696273b5ec1aa7)
#define FLAGS_CELL UINT64_C(0x64696273b5ec1ace)

/* ---- tokens ---- */

/* the ModifyIndex of the entry that the grant wrote, with room for hand-overs behind it */
#define TOKEN_ROOM 256
static inline uint64_t
token_of(uint64_t modify_index)
{
    return modify_index * TOKEN_ROOM;
}

/* ---- keys ---- */

#define PREFIX_MAX 512
#define KEY_MAX (PREFIX_MAX + 3 * DIBS_NAME_MAX + 128)

/* Printable ASCII, NUL-terminated. */
struct key {
    size_t len;
    char text[KEY_MAX];
};

struct consul;
struct txn;

/* folder_key is PREFIX NAME, lock_key that plus "/.lock" (or itself, with ?form=key). In the
 * name '/', '%', control characters and bytes above 0x7e are written %XX, so no lock lies
 * inside another. What we keep beside the locks begins with '%' and a small letter: PREFIX
 * "%cells/", "%fences/", "%epoch/". */
void dibs__consul_folder_key(struct key *out, const struct consul *consul,
                             const char *name, size_t name_len);
void dibs__consul_lock_key(struct key *out, const struct consul *consul, const char *name,
                           size_t name_len);
/* all_key is what all entries of a name begin with (those of others may as well) */
void dibs__consul_all_key(struct key *out, const struct consul *consul, const char *name,
                          size_t name_len);
/* gate_key is the entry that every sharer writes */
void dibs__consul_gate_key(struct key *out, const struct consul *consul, const char *name,
                           size_t name_len);
void dibs__consul_cell_key(struct key *out, const struct consul *consul,
                           const dibs_cell_key *cell);
void dibs__consul_epoch_key(struct key *out, const struct consul *consul,
                            const char *session_id);
void dibs__consul_key_add(struct key *key, const char *text);
/* name_of: the lock that a lock_key belongs to; 0, or -1: it is none. */
int dibs__consul_name_of(const struct consul *consul, const char *key,
                         char name[DIBS_NAME_MAX], size_t *name_len);

/* ---- entries ---- */

struct entry {
    const char *key;     /* points into the answer */
    const char *session; /* "": nobody has locked it */
    uint64_t flags, create_index, modify_index, lock_index;
    char *value; /* decoded, NUL-terminated; points into the answer's memory */
    size_t value_len;
};

/* ---- asking ---- */

struct answer {
    int status;
    json_t *json;   /* NULL: none */
    uint64_t index; /* X-Consul-Index */
    const dibs_host *host;
    void *decoded; /* memory of decoded values */
};
void dibs__consul_answer_free(struct answer *answer);

/* ask adds ?dc= and the like, and makes codes of refusals:
 *   DIBS_OK (200, 404 of a key, and 409 of a txn: see status); EUNAVAIL (nothing was
 *   changed: no server, no leader, 429); EUNKNOWN (it may have been); EDENIED; ENOMEM;
 *   ECORRUPT. Flags are those of http.h, and one of ours; `body` is taken, NULL: none. */
#define ASK_TELLS_400 (1u << 16) /* 400 is an answer: what it said is a string */
int dibs__consul_ask(struct consul *consul, const char *method, const char *path,
                     http_text *body, unsigned flags, struct answer *answer,
                     dibs_time deadline, dibs_error *err);

/* kv_path is the path of the request for a key, with that query behind it. */
#define PATH_ROOM (3 * KEY_MAX + 512)
void dibs__consul_kv_path(char out[PATH_ROOM], const struct key *key, const char *query);

/* get reads one entry (count 0 or 1) or all that begin with a key (recurse), consistently. */
int dibs__consul_get(struct consul *consul, const struct key *key, int recurse,
                     struct answer *answer, dibs_time deadline, dibs_error *err);
size_t dibs__consul_entries(const struct answer *answer);
const json_t *dibs__consul_kv(const struct answer *answer, size_t index);
int dibs__consul_entry(struct answer *answer, size_t index, struct entry *out);
/* entry_of: the last one with that key; -1: there is none */
int dibs__consul_entry_of(struct answer *answer, const struct key *key,
                          struct entry *out);

/* A transaction: all or nothing. Ops return DIBS_OK or ENOMEM; run takes it, and wants
 * HTTP_REPEATABLE for one that only checks and gets. After status 200 entry_of reads what
 * it left (lock, unlock, cas) or found (get, check_index, check_session) at a key; writes
 * tell no values. After 409 refused says which op failed first (-1: none of them) and what
 * the server said; said, what it said of one of them (NULL: that did not fail). */
struct txn *dibs__consul_txn(void);
void dibs__consul_txn_free(struct txn *txn);
/* how many ops it has; part takes some of them out, from *at on: NULL when out of memory */
size_t dibs__consul_txn_count(const struct txn *txn);
struct txn *dibs__consul_txn_part(struct txn *txn, size_t *at, size_t most);
int dibs__consul_txn_lock(struct txn *txn, const struct key *key, const char *session,
                          uint64_t flags, const void *value, size_t len);
int dibs__consul_txn_unlock(struct txn *txn, const struct key *key, const char *session,
                            uint64_t flags, const void *value, size_t len);
/* index 0: the key must not exist */
int dibs__consul_txn_cas(struct txn *txn, const struct key *key, uint64_t index,
                         uint64_t flags, const void *value, size_t len);
int dibs__consul_txn_delete_cas(struct txn *txn, const struct key *key, uint64_t index);
/* index 0: the key must not exist */
int dibs__consul_txn_check_index(struct txn *txn, const struct key *key, uint64_t index);
int dibs__consul_txn_delete(struct txn *txn, const struct key *key);
int dibs__consul_txn_check_session(struct txn *txn, const struct key *key,
                                   const char *session);
int dibs__consul_txn_get(struct txn *txn, const struct key *key);
int dibs__consul_txn_set(struct txn *txn, const struct key *key, uint64_t flags,
                         const void *value, size_t len);
/* tree: all that begin with it, as the ops before have left them */
int dibs__consul_txn_tree(struct txn *txn, const struct key *key);
int dibs__consul_txn_run(struct consul *consul, struct txn *txn, unsigned flags,
                         struct answer *answer, dibs_time deadline, dibs_error *err);
int dibs__consul_txn_refused(const struct answer *answer, const char **said);
const char *dibs__consul_txn_said(const struct answer *answer, int op);
/* lacks: it was refused because there is no such session */
int dibs__consul_txn_lacks(const struct answer *answer, const char *session);

/* ---- cells and looking ---- */

int dibs__consul_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                           dibs_time deadline, dibs_error *err);
int dibs__consul_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                           const void *value, size_t len, uint64_t *new_version,
                           dibs_time deadline, dibs_error *err);
int dibs__consul_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__consul_inspect(void *state, const char *name, size_t name_len,
                         uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                         dibs_error *err);
int dibs__consul_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                       size_t *broken, dibs_time deadline, dibs_error *err);

/* ---- who has it: view.c ---- */

enum view_kind {
    VIEW_FREE,    /* there is no entry, or it is nobody's */
    VIEW_HELD,    /* by the session of the entry, exclusively */
    VIEW_SHARERS, /* by the sessions that have an entry below it; there may be none */
    VIEW_PERMITS, /* by those of them that are listed in it, for permits of a semaphore */
    VIEW_OTHER    /* it is no lock at all */
};

struct view {
    struct answer *answer;
    json_t *sessions; /* {"<session>":n,...}: the n-th entry is locked by it */
    enum view_kind kind;
    uint64_t index; /* the ModifyIndex of the lock's entry; 0: there is none */
    struct entry lock;
    uint32_t limit;  /* of permits */
    uint64_t gate;   /* the ModifyIndex of the entry that every sharer writes; 0: none */
    size_t writers;  /* how many wait for the sharers to end */
    json_t *holders; /* {"<session>":true,...}: sharers, or those with permits, who are
                      * alive; NULL: it is not for them */
};

/* view reads an answer that has all entries of a name: DIBS_OK, ECORRUPT, ENOMEM. view_get
 * asks for them, and leaves it in *answer: also the codes of ask. After DIBS_OK free both,
 * else none. */
int dibs__consul_view(struct view *out, const struct consul *consul,
                      struct answer *answer, const char *name, size_t name_len,
                      dibs_error *err);
int dibs__consul_view_get(struct view *out, struct consul *consul, struct answer *answer,
                          const char *name, size_t name_len, dibs_time deadline,
                          dibs_error *err);
void dibs__consul_view_free(struct view *view);
/* how many hold, and the newest token of theirs (0: nobody does) */
size_t dibs__consul_view_count(const struct view *view);
uint64_t dibs__consul_view_token(struct view *view);
/* holder: the entry that a holder has locked; 0, or -1: it is none */
int dibs__consul_holder(struct view *view, const char *session, struct entry *out);
uint64_t dibs__consul_entry_token(const struct entry *entry);

/* ---- the client ---- */

#define DC_MAX 128

struct consul {
    dibs_session *session;
    const dibs_host *host;
    http *http;
    char prefix[PREFIX_MAX];
    int is_key;              /* ?form=key */
    char dc[3 * DC_MAX + 1]; /* encoded; "": the agent's own */
    int64_t lock_delay_ms;   /* less than 0: as long as the lease */
    kit_tenure_ops session_ops;
    _Atomic int may_have_more;    /* sessions than it knows of: an answer was lost */
    _Atomic int64_t least_ttl_ms; /* what the servers have told us; 0: nothing */
    kit_tenures *tenures;
    kit_lapses *lapses;
    kit_places *places;
    struct stakes *stakes;   /* stake.c */
    struct watches *watches; /* watch.c */
};

#endif /* DIBS_CONSUL_H */
