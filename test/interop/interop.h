/* SPDX-License-Identifier: MIT */
/*
 * dibs beside the lock libraries that share its layouts on Redis, ZooKeeper, etcd and
 * Consul, each as itself: real servers, the real library or command, its own language. On
 * PostgreSQL and MariaDB the others are sessions that say what those libraries say.
 *
 * A peer is a process that takes locks when it is told to. dibs is one (ours.c, this same
 * program), the incumbents are others (redisson/, python/, node/, go/, curator/, kazoo/,
 * and commands/, services/, gostore/, pyetcd3/, sql/). All speak the same protocol, so a check does
 * not know which is which and is run both ways round.
 *
 * A peer reads lines "ACTOR VERB ARGUMENTS" and answers each with "ACTOR ANSWER". Actors
 * are small numbers; each does one thing after another and owns its own holds.
 *
 *   open URL                         ok
 *   lock KIND NAME LEASE_MS WAIT_MS  ok TOKEN (0 if it has none), or busy
 *   unlock KIND NAME                 ok, or lost if it was not ours any more
 *   held KIND NAME                   yes or no
 *   downgrade NAME LEASE_MS          ok: kind write became kind read
 *   leader NAME                      leader ID: who leads, as this library reads it
 *   observe NAME ID                  saw ID ...: all who led until that one did (dibs only)
 *   count KIND NAME N FILE           done N: N times, in the lock, the number in FILE was
 *                                    read and a millisecond later written one larger
 *   quit                             no answer
 *
 * or "error TEXT". KIND is plain, getset, lock, fair, fenced, read or write; elsewhere mutex,
 * read, write, latch (a leadership), sem1 or sem2 (one permit of that many), and on etcd
 * single (one key), on Consul key (of any name) or share (what only dibs has); on databases it
 * is the program's name. LEASE_MS 0 is
 * KEPT_MS, or the shortest that the incumbent can have, renewed for as long as it is held;
 * any other is never renewed, where there are leases. WAIT_MS 0 is one try; WAIT_FOREVER,
 * where `woken` is set, is what it says.
 *
 * peer.c: a peer, from start to end. programs.c: which there are. shape.c, nodes.c,
 * entries.c: what is on the server. check_*.c: the checks. main.c: which checks which
 * incumbent gets.
 */
#ifndef TEST_INTEROP_H
#define TEST_INTEROP_H

#include "servers.h"

#define KEPT_MS 1500
#define LONG_MS 20000
#define WAIT_FOREVER (-1)
/* what waiters may take from the order to unlock to their answer: those who are woken,
 * and dibs where nobody wakes it and it has to poll */
#define WAKE_MS 200
#define POLL_MS 600
#define ACTORS 8
#define ANSWER_MAX 256

/* ---- peers ---- */

struct program;

struct peer {
    const struct program *program;
    char url[256];
    pid_t pid; /* 0: it does not run */
    int orders, answers;
    size_t unread;
    char text[4096];
    char waiting[ACTORS][ANSWER_MAX]; /* answers nobody has asked for yet; "": none */
};

/* peer_start starts one and has it open the URL. */
void peer_start(struct peer *out, const struct program *program, const char *url);

/* peer_kill is kill -9; peer_restart starts it again after that. peer_stop ends it. */
void peer_kill(struct peer *peer);
void peer_restart(struct peer *peer);
void peer_stop(struct peer *peer);

/* peer_order sends an order. peer_answer waits for the answer; peer_has_answered does not
 * take it, and says whether there is one by then. */
void peer_order(struct peer *peer, int actor, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void peer_answer(struct peer *peer, int actor, int64_t limit_ms, char out[ANSWER_MAX]);
int peer_has_answered(struct peer *peer, int actor, int64_t limit_ms);

/* peer_must sends an order that must be answered in this way. */
void peer_must_at(const char *file, int line, struct peer *peer, int actor,
                  const char *answer, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
#define peer_must(...) peer_must_at(__FILE__, __LINE__, __VA_ARGS__)

/* peer_granted waits for "ok" to an order to lock and returns the token. */
uint64_t peer_granted_at(const char *file, int line, struct peer *peer, int actor,
                         int64_t limit_ms);
#define peer_granted(...) peer_granted_at(__FILE__, __LINE__, __VA_ARGS__)

/* kill_all_peers ends them all. Safe in a signal handler. */
void kill_all_peers(void);

/* ---- which peers there are ---- */

struct program {
    const char *name;  /* on the command line and in scripts/get-peers */
    const char *title; /* for people */
    int keeps;         /* renews leases: LEASE_MS 0 works */
    int woken;         /* its waiters sleep until they are woken */
    int compares;      /* a late release cannot end somebody else's hold */
    int downgrades;    /* a writer can become a reader */
    int tells;         /* readers that wait hear of it when a writer becomes a reader */
};

extern const struct program program_dibs;
const struct program *program_find(const char *name);

/* program_missing says why it cannot be run, or NULL. */
const char *program_missing(const struct program *program);

/* program_run becomes that program; it does not return. */
_Noreturn void program_run(const struct program *program);

/* ours_main is the program of a peer that is dibs. */
int ours_main(void);

/* ---- what is on the server ---- */

/* shape_of describes all keys of a server, what is in them and how long they last, and
 * the channels listened to; in such a way that the same thing done by others looks the
 * same. For free(). */
char *shape_of(const server *server);

/* count_scripts returns how many scripts the servers have run. */
int64_t count_scripts(const server_set *set);

/* Below which node the locks of the peers are, on ZooKeeper. */
#define NODES_ROOT "/interop"

/* nodes_shape describes the nodes of a lock, in such a way that the same thing done by
 * others looks the same; with what stands in them, if that is asked for. For free(). */
char *nodes_shape(const server *server, const char *name, int with_data);

/* nodes_count counts the children of a lock's node, or of a node in it; 0 if there is no
 * such node. nodes_there says whether it has a node at all. */
int nodes_count(const server *server, const char *name, const char *inside);
int nodes_there(const server *server, const char *name);

/* nodes_asked returns how often nodes of locks were read. */
int64_t nodes_asked(const server *server);

/* ---- checks ---- */

enum store { REDIS, CLUSTER, ZOOKEEPER, ETCD, CONSUL, POSTGRES, MARIADB };

/* Who takes part: two processes of dibs and two of the incumbent. */
struct stage {
    enum store store;
    server_set servers;
    int64_t
        outlasts_ms; /* a killed holder's lock goes on for so much more than its lease */
    struct peer ours[2];
    struct peer theirs[2];
};

/* These are for etcd and Consul. entries_shape describes the entries of a lock, in such a way
 * that the same thing done by others looks the same: keys, marks, and what stands in them
 * where others read it, which it does in an entry of that kind. For free(). */
char *entries_shape(const struct stage *stage, const char *kind, const char *name);

/* entries_count counts them. entries_end ends the lease or session of the oldest. */
int entries_count(const struct stage *stage, const char *name);
void entries_end(const struct stage *stage, const char *name);

/* entries_left counts those of all locks that are nobody's or those of dibs. */
int entries_left(const struct stage *stage);

/* entries_asked returns how often entries were read or written. */
int64_t entries_asked(const struct stage *stage);

/* asked returns how often locks were looked at. wait_for_length waits until so many wait in
 * line, where there are lines. */
int64_t asked(const struct stage *stage);
void wait_for_length(const struct stage *stage, const char *kind, const char *name,
                     int length);

/* Each is given a kind and uses names of its own. */
void check_exclusion(struct stage *stage, const char *kind);
void check_count(struct stage *stage, const char *kind, int rounds);
void check_late_release(struct stage *stage, const char *kind);
void check_wake(struct stage *stage, const char *kind);
void check_death(struct stage *stage, const char *kind);
void check_shape(struct stage *stage, const char *kind);
void check_order(struct stage *stage, const char *kind);
void check_sharing(struct stage *stage);
void check_tokens(struct stage *stage, const char *kind);
void check_dialect(struct stage *stage);
void check_minority_down(struct stage *stage);

/* These are for all but Redis. */
void check_dead_waiter(struct stage *stage, const char *kind);
void check_permits(struct stage *stage);
void check_leader(struct stage *stage);

/* These are for ZooKeeper. */
void check_nodes(struct stage *stage, const char *kind);
void check_read_in_write(struct stage *stage);
void check_parents(struct stage *stage, int are_containers);

/* These are for etcd and Consul. */
void check_entries(struct stage *stage, const char *kind);
void check_ended(struct stage *stage, const char *kind);
void check_nothing_left(struct stage *stage);
void check_downgraded_order(struct stage *stage);
void check_refusals(struct stage *stage);
void check_slow_death(struct stage *stage);

/* These are for databases. tables makes those of the incumbents as they are documented. */
void check_sql_tables(const struct stage *stage, int is_old);
void check_sql_row(struct stage *stage, const char *kind);
void check_sql_late(struct stage *stage, const char *kind);
void check_sql_kept_row(struct stage *stage);

/* done says that something has been checked. */
void done(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* TEST_INTEROP_H */
