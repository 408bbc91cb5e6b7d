/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine: what its files share.
 *
 * zookeeper.c has the tables of the engine, one for each layout, and opens and closes. A
 * layout (`?layout=`) is how a lock is written down: curator.c (queues of sequential
 * nodes: locks, readers and writers, leaders), semaphore.c (Curator's semaphores, which
 * curator.c passes claims for permits to), node.c (one node per lock). contend.c reads a
 * queue: who comes before whom. path.c makes names of nodes; what stands in them is a note
 * of the kit's. claim.c is what layouts have in common (claim.h), renew.c keeps holds,
 * lapse.c ends those that nobody keeps, move.c gives one a longer session, observe.c tells
 * who leads.
 * look*.c is list, inspect and break; cell.c has the cells, the same for every layout; what
 * they ask goes through ask.c.
 *
 * Below them: session.c has the sessions with the ensemble, and knows until when each of
 * them surely lives. link.c drives the client library, in the thread of the caller. pump.c
 * is the thread that drives it while nobody calls. watch.c knows which claims wait for
 * which nodes.
 */
#ifndef DIBS_ZK_H
#define DIBS_ZK_H

#include <pthread.h>

#include <zookeeper/zookeeper.h>

#include <dibs/engine.h>

#include "kit/kit.h"

struct zk;

/* ---- names of nodes ---- */

#define PATH_MAX_LEN (3 * DIBS_NAME_MAX + 512)

/* A path is absolute: it has the root of the URL in front. */
struct path {
    size_t len;
    char text[PATH_MAX_LEN];
};

/* lock_path is ROOT/NAME. In the name '/', '%', control characters, bytes above 0x7e, and
 * the dots of "." and ".." are written %XX, so different names are different nodes and no
 * lock lies inside another. Our own nodes beside the locks are '%' and small letters, which
 * encoding never makes: ROOT/%cells, ROOT/%fences. DIBS_OK, or EINVAL: the path would be
 * too long. */
int dibs__zk_lock_path(struct path *out, const struct zk *zk, const char *name,
                       size_t name_len);
int dibs__zk_cell_path(struct path *out, const struct zk *zk, const dibs_cell_key *key);
/* child adds "/CHILD" to a path. name_of undoes the encoding: 0, or -1 if the node is not
 * the encoding of a name. */
int dibs__zk_child(struct path *out, const struct path *parent, const char *child);
int dibs__zk_name_of(const char *node, char name[DIBS_NAME_MAX], size_t *name_len);

/* What comes before the number in the name of a contender. */
enum contender_kind {
    CONTENDER_LOCK,  /* lock- : exclusive */
    CONTENDER_READ,  /* __READ__ */
    CONTENDER_WRITE, /* __WRIT__ */
    CONTENDER_LATCH, /* latch- : a leadership, exclusive */
    CONTENDER_LEASE, /* lease- : one permit of a semaphore */
    CONTENDER_OTHER  /* of a client we do not know: exclusive, as far as we can tell */
};

/* How contenders of ours are called (`?naming=`). */
enum naming {
    NAMING_CURATOR, /* _c_UUID-lock-N, with Curator's 36 characters of UUID */
    NAMING_KAZOO,   /* HEX__lock__N and HEX__rlock__N */
    NAMING_BARE     /* lock-N; the UUID is in the node's data only */
};

/* A claim's UUID: made of the session's id and the serial, so that a node whose creation
 * was not confirmed can be found again. */
#define UUID_LEN 36
void dibs__zk_uuid(const struct zk *zk, const dibs_claim *claim, char out[UUID_LEN + 1]);

/* contender_prefix is the name of a claim's node without its number. */
#define CONTENDER_MAX 80
void dibs__zk_contender_prefix(char out[CONTENDER_MAX], const struct zk *zk,
                               const dibs_claim *claim, enum contender_kind kind);

/* ---- sessions ---- */

/* One session with the ensemble. A client has one for each class of leases it uses (or one
 * for all, with ?session=), so that a crash frees a lock about one lease later. */
struct session;

/* A session for such a lease: connected, or connecting. Opened at first use, and again
 * after it has expired. DIBS_OK; EINVAL if the servers allow no session that is long
 * enough (the text says what to do); EUNAVAIL, ETIMEDOUT, EDENIED, ENOMEM. */
int dibs__zk_session_for(struct zk *zk, uint32_t lease_ms, dibs_time deadline,
                         struct session **out, dibs_error *err);

/* The session for what belongs to no lease: cells, looking. */
int dibs__zk_home(struct zk *zk, dibs_time deadline, struct session **out,
                  dibs_error *err);

/* A claim's nodes live in one session, and die with it. `birth` is different for every
 * session there was; 0 is none. session_born finds it again: NULL if it has expired, and
 * then nothing of it is left. */
uint64_t dibs__zk_birth(const struct session *session);
struct session *dibs__zk_session_born(struct zk *zk, uint64_t birth);

/* Until when the servers cannot have ended this session, whatever they said since; rises
 * with each answer that a quorum stands behind. The reasoning is in session.c. */
dibs_time dibs__zk_safe_until(const struct session *session);

int dibs__zk_sessions_open(struct zk *zk, dibs_time deadline, dibs_error *err);
void dibs__zk_sessions_close(struct zk *zk, int forked);

/* ---- requests ---- */

enum op_kind {
    OP_CREATE,   /* path, data, mode -> created, stat */
    OP_DELETE,   /* path, version */
    OP_SET,      /* path, data, version -> stat */
    OP_CHECK,    /* path, version; in an OP_MULTI only */
    OP_EXISTS,   /* path -> stat */
    OP_GET,      /* path -> data, stat */
    OP_CHILDREN, /* path -> children, stat */
    OP_SYNC,     /* path: what follows sees all that the leader had committed */
    OP_MULTI     /* parts: all or none */
};

struct op {
    /* asked; the caller's memory */
    enum op_kind kind;
    const char *path;
    const void *data;
    int data_len;
    int version; /* -1: any */
    int mode;    /* ZOO_EPHEMERAL_SEQUENTIAL, ... */
    struct op *parts;
    int part_count;
    int watch; /* for watch.c only: GET, EXISTS and CHILDREN leave a watch behind */
    /* answered */
    const dibs_host *host; /* whose memory the answer is in */
    int rc;                /* ZOK, ZNONODE, ... */
    struct Stat stat;
    char *created;                 /* these three: freed by ops_free */
    struct String_vector children; /* names, not paths */
    struct {
        char *text; /* NUL-terminated */
        int len;
    } got;
};

/* run sends the ops in order and at once, and waits until all are answered; ZooKeeper keeps
 * one session's requests in order. DIBS_OK: see each rc. EUNAVAIL: surely nothing was
 * done. EUNKNOWN: some may have been; rcs say of which the answer came (ZCONNECTIONLOSS or
 * ZOPERATIONTIMEOUT: it did not). ELOST: the session has expired, and all in it. EDENIED:
 * the servers refused our credentials. ENOMEM. The rcs of ops that the server answered are
 * never a failure of run. An op with `watch` set tells watch.c, which is the only one to
 * use it. */
int dibs__zk_run(struct session *session, struct op *ops, int count, dibs_time deadline,
                 dibs_error *err);
void dibs__zk_ops_free(struct op *ops, int count);

/* ask is run in the home session, again if the answers were lost: for questions, and for
 * changes that may be made twice. Codes of run, but for EUNKNOWN and ELOST. */
int dibs__zk_ask(struct zk *zk, struct op *ops, int count, dibs_time deadline,
                 dibs_error *err);

/* refused turns the rc of an answered op into a code and a text: ZNOAUTH EDENIED,
 * ZNOTREADONLY EUNAVAIL, ZQUOTAEXCEEDED EDENIED, ... , else ECORRUPT. */
int dibs__zk_refused(const struct zk *zk, const struct op *op, dibs_error *err);

/* make_parents creates the parents of a path that are missing: containers for the last one,
 * persistent nodes above it, and persistent nodes for all where the server has no
 * containers. */
int dibs__zk_make_parents(struct session *session, const struct path *path,
                          dibs_time deadline, dibs_error *err);

/* ---- waiting ---- */

enum watch_kind {
    WATCH_NODE,     /* it changes or goes */
    WATCH_CHILDREN, /* some are made, some go, or the node itself goes */
    WATCH_PLACE     /* it is made, changes or goes: there need not be a node */
};

/* watch rings the claim's bell once when that happens, or when the session is lost; at once
 * if the node of WATCH_NODE or WATCH_CHILDREN is not there. *gone: it is not there (with
 * WATCH_PLACE that is no reason to ring). Takes the place of what the claim watched before.
 * Claims of one session that watch one node share one watch of the server. */
int dibs__zk_watch(struct session *session, dibs_claim *claim, const char *path,
                   enum watch_kind kind, int *gone, dibs_time deadline, dibs_error *err);
/* still_watching: the claim watches, nothing has been heard, and it was set up less than
 * ten seconds ago: there is nothing to see yet. unwatch forgets it; needed before the claim
 * goes away, free if it watches nothing. */
int dibs__zk_still_watching(struct zk *zk, const dibs_claim *claim);
void dibs__zk_unwatch(struct zk *zk, const dibs_claim *claim);

/* ---- what stands in nodes ---- */

/* The data of a contender is a note of the kit's, with the claim's UUID as its id: the note
 * of a leader's claim comes first, as Curator reads it as the participant's id; then what
 * `dibs show` prints. Its token is 0 unless it is not the czxid's. note_of reads what an
 * OP_GET has got, if anything. */
int dibs__zk_data_write(char out[KIT_NOTE_MAX], const struct zk *zk,
                        const dibs_claim *claim);
void dibs__zk_note_of(struct kit_note *out, const struct op *op);

/* ---- queues ---- */

/* A contender, as its name tells. */
struct contender {
    enum contender_kind kind;
    int64_t number;   /* the ten digits at the end, which wrap to negative ones */
    int is_ours;      /* has the prefix that was asked for */
    const char *node; /* points into the children */
};

/* A queue: those children that are contenders, in the order in which they are served. What
 * has no number at its end is none. */
struct queue {
    struct contender *items; /* free with host->free */
    int count;
    int own; /* index of ours, -1: not there */
};
int dibs__zk_queue_read(struct queue *out, const struct zk *zk,
                        const struct String_vector *children, const char *own_prefix);
/* before returns the index of the one that the contender at `index` has to wait for and so
 * watches, or -1: it holds. A reader waits for the nearest writer before it, any other for
 * the nearest contender. */
int dibs__zk_queue_before(const struct queue *queue, int index);
/* holders counts those at the front that hold: all that wait for nobody. */
int dibs__zk_queue_holders(const struct queue *queue);
/* contender reads one name: 0, or -1 if it is none. */
int dibs__zk_contender(struct contender *out, const char *node, const char *own_prefix);
/* same_owner: both nodes were made for one claim (in Curator's naming). A lease whose owner
 * still has a node in `locks` is not granted yet. */
int dibs__zk_same_owner(const char *a, const char *b);

/* ---- layouts ---- */

/* The slots of the engine that each layout has for itself. */
int dibs__zk_curator_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                             dibs_error *err);
int dibs__zk_curator_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                             dibs_time deadline, dibs_error *err);
int dibs__zk_curator_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                               dibs_error *err);
int dibs__zk_node_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err);
int dibs__zk_node_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                          dibs_time deadline, dibs_error *err);
/* ... both: checks the nodes of many claims together (renew.c) */
void dibs__zk_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                    dibs_time deadline, dibs_error *err);
/* ... and in look.c and look_node.c */
int dibs__zk_curator_list(void *state, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err);
int dibs__zk_curator_inspect(void *state, const char *name, size_t name_len,
                             uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                             dibs_error *err);
int dibs__zk_curator_evict(void *state, const char *name, size_t name_len,
                           uint64_t name_hash, size_t *broken, dibs_time deadline,
                           dibs_error *err);
int dibs__zk_node_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__zk_node_inspect(void *state, const char *name, size_t name_len,
                          uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err);
int dibs__zk_node_evict(void *state, const char *name, size_t name_len,
                        uint64_t name_hash, size_t *broken, dibs_time deadline,
                        dibs_error *err);

/* Tokens: the czxid of the node that holds, with room for hand-overs behind it. */
#define TOKEN_ROOM 256
static inline uint64_t
token_of(int64_t czxid)
{
    return (uint64_t)czxid * TOKEN_ROOM;
}

/* ---- the client ---- */

struct zk {
    dibs_session *session; /* core's: not one of the ensemble's */
    const dibs_host *host;
    int is_node; /* layout=node */
    enum naming naming;
    int is_rw;      /* ?form=rw: exclusive claims are __WRIT__ */
    char *hosts;    /* as the client library wants them, with ports */
    char root[512]; /* "/dibs"; "" is the root of the ensemble */
    struct ACL_vector acl;
    char *credentials;  /* "user:password" of a digest, NULL: none */
    char *tls;          /* files for TLS, as the library wants them; NULL: none */
    int64_t session_ms; /* ?session=; 0: by the lease */
    int64_t tick_ms;    /* ?tick=: the servers' tickTime */
    void *sessions;     /* session.c */
    void *watches;      /* watch.c */
    void *pump;         /* pump.c */
    kit_lapses *lapses; /* see lapse.c */
    void *names;        /* names.c */
};

/* read_hosts makes zk->hosts of what the URL says: "h1,h2:2182,[::1]" becomes
 * "h1:2181,h2:2182,::1:2181". DIBS_OK, ECONFIG, ENOMEM. */
int dibs__zk_read_hosts(struct zk *zk, const char *text, dibs_error *err);

/* ---- leases that run out ---- */

/* A session may outlive the lease of a hold that nobody renews: the pump ends what is over. */
int dibs__zk_lapses_open(struct zk *zk);

/* ---- cells ---- */

int dibs__zk_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                       dibs_time deadline, dibs_error *err);
int dibs__zk_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                       const void *value, size_t len, uint64_t *new_version,
                       dibs_time deadline, dibs_error *err);

#endif /* DIBS_ZK_H */
