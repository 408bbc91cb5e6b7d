/* SPDX-License-Identifier: MIT */
/*
 * Real servers for the tests: Redis and Valkey, alone, several side by side, watched by
 * Sentinels, and as a Cluster; ZooKeeper, etcd and Consul, alone and three of them;
 * PostgreSQL, PgBouncer in front of it, and MariaDB. They run on loopback ports nobody else
 * has, in folders of their own, and die with the test.
 *
 * server.c: one server, from start to end. ask.c: commands to it. ports.c: free ports,
 * and one that swallows connections. set.c: several of them. kept.c: a set that several
 * tests use, one after the other. certs.c: certificates for TLS. zookeeper.c: ZooKeeper;
 * tree.c: a small client of it. etcd.c, consul.c: those; http.c: how they are asked.
 * postgres.c, pgbouncer.c, mariadb.c: those; standby.c: a PostgreSQL that follows another;
 * sql.c: how they are asked, data.c: where they begin. preload.c: clocks that are moved, and
 * power that fails. wires.c: connections that can be cut, held up and spoiled.
 *
 * What goes wrong here fails the test, unless it is said otherwise. Every wait has a
 * limit. Start servers from the main thread: they die with the thread that did.
 */
#ifndef TEST_SERVERS_H
#define TEST_SERVERS_H

#include "harness.h"

/* ---- one server ---- */

/* How to run a server; zeroed it is redis-server with nothing kept on disk. Strings and
 * lists must live as long as the server. Of these a ZooKeeper knows `more`, `config` and
 * `clock` only; etcd and Consul the first two, certs and acl; databases all but program,
 * everysec, unix_socket, acl and power. */
typedef struct server_options {
    const char *program;     /* NULL: "redis-server" */
    int durable;             /* every write is on disk before it is answered */
    int everysec;            /* ... or about a second later */
    int unix_socket;         /* also listens at server.socket_path */
    const char *certs;       /* a folder of certs_make: also listens at server.tls_port */
    const char *cert;        /* which certificate in it; NULL: "server" */
    const char *acl;         /* the text of an ACL file; see ask.c for who we are then */
    const char *const *more; /* more arguments, NULL at the end; Java's, of ZooKeeper */
    const char *config; /* more lines of a configuration, where there is such a file */
    int clock;          /* it has a clock of its own, see server_set_clock */
    int power; /* it can be ended by server_lose_power; not together with `clock` */
} server_options;

typedef struct server {
    server_options options;
    int kind;          /* how it is run, see parts.h */
    int kept;          /* another process runs it: it is not ours to end */
    int replica_of;    /* a port, when it is started */
    int wire_port;     /* of Redis in a set: where clients are sent to; 0: to `port` */
    int down_after_ms; /* as in set_options */
    pid_t pid;         /* 0: it does not run */
    int port, tls_port;
    int bus_port;   /* of a Cluster's node; where a ZooKeeper leads others; of members */
    int elect_port; /* where ZooKeepers elect; where Consuls gossip */
    int member;     /* its index among those it knows */
    int found_at;   /* etcd: the port where the others find it. Consul: 1 if wired.
                     * PgBouncer: the port of the PostgreSQL behind it */
    char members[128]; /* all of them, in the words of etcd or Consul */
    char token[40];    /* Consul: what `acl` allows, the token that is given out may do */
    char folder[64];
    char socket_path[80];
} server;

/* server_present says whether a program is on the path. */
int server_present(const char *program);

/* server_start starts one and waits until it answers. `options` may be NULL. */
void server_start(server *out, const server_options *options);

/* server_stop ends it and removes its folder. It is safe in a signal handler, and on a
 * server that is zeroed, stopped or killed already. One that is kept by another process
 * only goes on, if it was paused. */
void server_stop(server *server);

/* server_kill is kill -9; the folder stays. server_restart starts it again, on the same
 * ports and in the same folder, and waits until it answers; server_respawn does not
 * wait. */
void server_kill(server *server);
void server_restart(server *server);
void server_respawn(server *server);

/* server_lose_power is server_kill, as if the machine of that Redis had failed (`power`): what
 * it wrote and no fsync has confirmed is gone. */
void server_lose_power(server *server);

/* server_set_clock moves the wall clock of a server that has one of its own (`clock`): it is
 * off from the true time by that much from now on. */
void server_set_clock(const server *server, int64_t off_ms);

/* server_pause stops it where it is, and returns when it stands still; server_resume lets
 * it go on. */
void server_pause(const server *server);
void server_resume(const server *server);

/* ---- commands ---- */

/* server_ask sends one command, the words of which end with NULL, and returns the answer
 * as a text for free(): elements of lists are on lines of their own, nothing is "(nil)",
 * and an error begins with "-". It returns NULL if the server cannot be reached. Words
 * may not contain NUL. */
char *server_ask_words(const server *server, const char *const *words);
#define server_ask(server, ...)                                                          \
    server_ask_words(server, (const char *const[]){ __VA_ARGS__, NULL })

/* server_do is server_ask that must get something else than an error; server_number
 * returns the integer that is answered. */
void server_do_words(const server *server, const char *const *words);
#define server_do(server, ...)                                                           \
    server_do_words(server, (const char *const[]){ __VA_ARGS__, NULL })
int64_t server_number_words(const server *server, const char *const *words);
#define server_number(server, ...)                                                       \
    server_number_words(server, (const char *const[]){ __VA_ARGS__, NULL })

/* server_answers says whether the answer contains a text. */
int server_answers_words(const server *server, const char *text,
                         const char *const *words);
#define server_answers(server, text, ...)                                                \
    server_answers_words(server, text, (const char *const[]){ __VA_ARGS__, NULL })

/* server_cut ends the connections of all clients, subscribers included. */
void server_cut(const server *server);

/* server_count_keys counts the keys of locks: not cells, not fences, not what there is
 * once per server or slot, and not the notes that Redisson leaves to itself. */
int server_count_keys(const server *server);

/* server_show_keys prints all keys, for people: type, time to live, name. */
void server_show_keys(const server *server);

/* server_is_master says what the server itself thinks. */
int server_is_master(const server *server);

/* ---- several servers ---- */

#define SET_MAX 9

typedef struct server_set {
    int count; /* servers that keep keys come first, Sentinels last */
    int sentinels;
    server servers[SET_MAX];
} server_set;

/* What Sentinels and a Cluster call themselves, and how soon they act. */
#define SET_MASTER_NAME "mymaster"
struct wires;
typedef struct set_options {
    int down_after_ms;    /* a server is taken for dead after that; 0: 5000 */
    struct wires *before; /* NULL: none */
    server_options each;
} set_options;

/* set_start_apart starts servers that know nothing of each other; set_start_sentinel a
 * master, two replicas and three Sentinels; set_start_cluster three masters and three
 * replicas. They wait until the set is in order. `options` may be NULL.
 *
 * With `before`, there is a wire before each server, by its index, and the servers tell
 * clients the ports of wires. They also find each other there, but to cut, hold and mute
 * such wires is nothing to them: only clients notice. */
void set_start_apart(server_set *out, int count, const server_options *each);
void set_start_sentinel(server_set *out, const set_options *options);
void set_start_cluster(server_set *out, const set_options *options);

/* set_stop is server_stop for all. */
void set_stop(server_set *set);

/* set_await waits until all servers that run are ready: they have their data and, of those
 * that elect, know who leads. */
void set_await(const server_set *set);

/* set_wait_ready waits until a set of Sentinels or a Cluster is in order (again). */
void set_wait_ready(const server_set *set);

/* set_master returns the server that is the master now, by the number of masters before
 * it: 0 is the only one with Sentinels. NULL if there is none. */
server *set_master(server_set *set, int index);

/* What the functions of one server do, for all masters of a set. */
void set_flush(server_set *set);
void set_cut(server_set *set);
int set_count_keys(server_set *set);
void set_pause(server_set *set);
void set_resume(server_set *set);

/* set_hosts writes "127.0.0.1:P1,127.0.0.1:P2,..." of the Sentinels, or of all servers if
 * there are none; server_port is the port of one of them. With wires, it is theirs. */
int server_port(const server *server);
void set_hosts(char *out, size_t size, const server_set *set);

/* ---- sets that several tests use ---- */

/* set_attach finds the set that the program servers_keep wrote down in a file. Its
 * servers are not ours to end. Returns 0, or -1 if there is none. */
int set_attach(server_set *out, const char *path);

/* ---- ZooKeeper ---- */

/* What time is counted in by these servers; sessions are no shorter than this. */
#define ZOOKEEPER_TICK_MS 100
/* How long a server goes on without those it works with, unless `config` says otherwise. */
#define ZOOKEEPER_SYNC_MS 5000

/* zookeeper_start starts one that is alone; zookeeper_start_ensemble three that know each
 * other. `options` may be NULL. All functions of one server work on them, but for those
 * that send commands; what they are told survives kill -9. With `between`, the connections
 * of server I to the server J as its leader go through the wire 3 * I + J of it. */
int zookeeper_present(void);
void zookeeper_start(server *out, const server_options *options);
void zookeeper_start_ensemble(server_set *out, const server_options *options,
                              struct wires *between);

/* zookeeper_word asks with a word of four letters, as in "srvr"; the answer is for free(),
 * or NULL. zookeeper_number is the number behind a label in the answer, or -1. */
char *zookeeper_word(const server *server, const char *word);
int64_t zookeeper_number(const server *server, const char *word, const char *label);

/* zookeeper_leader waits until there is one among those that run, and returns its index. */
int zookeeper_leader(const server_set *set);

/* A session of the tests' own with a ZooKeeper, over the wire, one request at a time. What
 * returns an int returns the server's code: 0, or as TREE_NO_NODE; TREE_GONE if the
 * connection or the session is over. */
enum { TREE_NO_NODE = -101, TREE_NO_AUTH = -102, TREE_EXISTS = -110, TREE_GONE = -9999 };
enum { TREE_PLAIN = 0, TREE_EPHEMERAL = 1, TREE_SEQUENCE = 2, TREE_CONTAINER = 4 };

typedef struct tree {
    int fd, timeout_ms;
    int64_t session;
    int32_t xid;
} tree;

/* What Stat says, as far as tests ask. */
typedef struct tree_stat {
    int64_t czxid, mzxid, owner; /* owner: the session of an ephemeral node, or 0 */
    int64_t ctime_ms;            /* when it was made, by the clock of who leads */
    int32_t version, child_count;
} tree_stat;

int tree_open(tree *out, int port, int timeout_ms);
/* tree_limit sets how long to wait for an answer, before it counts as gone. */
void tree_limit(const tree *tree, int64_t limit_ms);
/* tree_close ends the session. tree_leave only the connection: the session lives on for as
 * long as the server lets it. */
void tree_close(tree *tree);
void tree_leave(tree *tree);
int tree_ping(tree *tree);
int tree_sign_in(tree *tree, const char *user_password);
/* tree_make makes a node that all may use, with the flags of above; `made`, if not NULL,
 * gets its path. */
int tree_make(tree *tree, const char *path, const char *data, int flags, char *made,
              size_t size);
int tree_delete(tree *tree, const char *path);
int tree_stat_of(tree *tree, const char *path, tree_stat *out);
/* tree_read and tree_children give texts for free(): the data, the names of the children
 * one per line. NULL if that fails; the code is in *code, if that is not NULL. */
char *tree_read(tree *tree, const char *path, int *code);
char *tree_children(tree *tree, const char *path, int *code);

/* These open a session of their own for it, and fail the test if the server does not
 * answer. tree_count counts the ephemeral nodes below a path; tree_show prints all. */
int tree_count(const server *server, const char *path);
void tree_show(const server *server, const char *path);

/* ---- etcd ---- */

/* etcd_start starts one that is alone, etcd_start_cluster three members. `options` may be
 * NULL. All functions of one server work on them, but for those that send commands; what
 * they are told survives kill -9. With `between`, what goes from the others to member I
 * goes through the wire I of it; etcd_cut_off holds up all between one and the others.
 *
 * With `certs` it also serves at tls_port, to those with a certificate of that authority.
 * With `acl`, a prefix, users have to sign in: ETCD_USER may use the keys below that prefix
 * and nothing else; tests are root. */
#define ETCD_USER "app"
#define ETCD_PASSWORD "secret"
int etcd_present(void);
void etcd_start(server *out, const server_options *options);
void etcd_start_cluster(server_set *out, const server_options *options,
                        struct wires *between);
int etcd_leader(const server_set *set);
void etcd_cut_off(const server_set *set, struct wires *between, int index);

/* etcd_do makes a request of the JSON gateway, to a path as "/v3/kv/put", with a body that
 * is printed; it must work, and the answer is for free(). etcd_key gives a key the form in
 * which bodies have it; it is good until the fourth call after it. */
char *etcd_do(const server *server, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *etcd_key(const char *key);

/* What operators do: to delete a key or all below a prefix, to revoke a lease, to compact
 * all that was. etcd_change_users makes tokens of before invalid, by a change of users. */
void etcd_put(const server *server, const char *key, const char *value);
void etcd_delete(const server *server, const char *key);
void etcd_revoke(const server *server, int64_t lease);
void etcd_compact(const server *server);
void etcd_change_users(const server *server);

/* etcd_count_keys counts the keys below a prefix, which may be "", but for those of cells
 * and fences; etcd_find_key writes the oldest of them, or the newest, and returns its lease
 * (0: none). etcd_show prints them and the leases, for people. */
int etcd_count_keys(const server *server, const char *prefix);
int64_t etcd_find_key(char *out, size_t size, const server *server, const char *prefix,
                      int newest);
int etcd_count_leases(const server *server);
void etcd_show(const server *server);

/* ---- Consul ---- */

/* consul_start starts one server that is alone, consul_start_cluster three. `options` may
 * be NULL. Sessions may be as short as a second. All functions of one server work on them,
 * but for those that send commands; what they are told survives kill -9. With `between`,
 * what goes from the others to server I goes through the wire I of it, but for gossip;
 * consul_cut_off holds up all between one and the others.
 *
 * With `certs` it also serves at tls_port, to those with a certificate of that authority.
 * With `acl`, the rules of a policy, nobody may do anything without a token: server.token
 * may do as the rules say; tests may do all. */
int consul_present(void);
void consul_start(server *out, const server_options *options);
void consul_start_cluster(server_set *out, const server_options *options,
                          struct wires *between);
int consul_leader(const server_set *set);
void consul_cut_off(const server_set *set, struct wires *between, int index);

/* consul_do makes a request, to a path behind "/v1/"; it must work, and the answer is for
 * free(). `body` may be NULL. */
char *consul_do(const server *server, const char *method, const char *path,
                const char *body);

/* What operators do. consul_session_of writes the id of the session that has a key, or "".
 * consul_end_session destroys it. */
void consul_session_of(char *out, size_t size, const server *server, const char *key);
void consul_end_session(const server *server, const char *id);
void consul_delete(const server *server, const char *key);

/* consul_count_keys counts the keys below a prefix, which may be "", but for those of cells
 * and fences. consul_show prints them and the sessions, for people. */
int consul_count_keys(const server *server, const char *prefix);
int consul_count_sessions(const server *server);
void consul_show(const server *server);

/* ---- PostgreSQL, PgBouncer, MariaDB ---- */

/* postgres_start and mariadb_start start one; `options` may be NULL. All functions of one
 * server work on them, but for those that send commands; what they are told survives
 * kill -9. `durable` means that it would survive a power failure too, as is usual.
 *
 * Over TCP, the superusers ("postgres", "root") need no password, all others do. With
 * `certs`, nobody gets in over TCP without TLS, and at PostgreSQL the others not without a
 * certificate of that authority; the port is the same. Tests ask over a Unix socket.
 *
 * pgbouncer_start starts one that pools transactions of a PostgreSQL; users are all
 * "postgres" there, and need no password. */
int postgres_present(void);
void postgres_start(server *out, const server_options *options);
int pgbouncer_present(void);
void pgbouncer_start(server *out, const server *behind, const server_options *options);
int mariadb_present(void);
void mariadb_start(server *out, const server_options *options);

/* postgres_start_pair starts two: a primary, and a standby that follows it and may be read
 * from. `options` may be NULL, and have neither certs nor a clock; with POSTGRES_SYNCED as
 * `config`, a commit is answered when the standby has it too. With `between`, what the other one asks of server I as its primary goes
 * through the wire I of it.
 *
 * postgres_primary waits until there is one among those that run, and returns its index.
 * postgres_promote makes the standby another primary, and returns when it can be written to;
 * its commits wait for nobody until it is followed. postgres_follow makes a server that was killed the standby of the other, of which it
 * takes all its data, and returns when it has caught up. */
#define POSTGRES_SYNCED "synchronous_standby_names = 'standby'"
void postgres_start_pair(server_set *out, const server_options *options,
                         struct wires *between);
int postgres_primary(const server_set *set);
void postgres_promote(server *standby);
void postgres_follow(server_set *set, int index, const struct wires *between);

/* sql_ask runs statements in a database (NULL: none in particular), and returns what they
 * give as a text for free(): a row per line, tabs between columns; NULL if that fails.
 * sql_do must work, sql_number must give one number. */
char *sql_ask(const server *server, const char *database, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sql_do(const server *server, const char *database, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t sql_number(const server *server, const char *database, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* sql_drop drops a database, with the connections to it. Safe in a signal handler. */
void sql_drop(const server *server, const char *database);

/* sql_cut ends the connections of all clients, as an administrator does; sql_count_clients
 * counts them. */
void sql_cut(const server *server);
int sql_count_clients(const server *server);

/* sql_count_locks counts the locks in a database that somebody has or waits for, as the
 * layouts that have tables keep them there; sql_show prints them, for people. */
int sql_count_locks(const server *server, const char *database);
void sql_show(const server *server, const char *database);

/* data_make makes the files that a server begins with, in a folder that is not there yet.
 * Where $SERVERS_DATA/postgres and $SERVERS_DATA/mariadb are such, servers begin with copies
 * of them, which takes much less time. */
void data_make(const char *kind, const char *folder);

/* ---- wires ---- */

#define WIRES_MAX 9

/* A process that passes connections on: whoever connects to ports[i] talks to the port
 * targets[i] here. A target 0 is no wire. Start it while there are no threads, and before
 * what uses it. */
typedef struct wires {
    int count;
    int ports[WIRES_MAX];
    int control; /* to the process; 0: there is none */
    pid_t pid;
} wires;
void wires_start(wires *out, const int *targets, int count);
void wires_stop(wires *wires); /* safe in a signal handler, and on zeroed ones */

/* One of them, or all with WIRES_ALL. wires_cut ends the connections there are; wires_hold
 * keeps back what is sent both ways, and new connections; wires_mute passes on what is
 * asked and throws away what is answered; wires_refuse ends the connections there are and
 * all new ones; wires_flow is as at first, and passes on what was kept back. wires_bar is
 * wires_hold for the connections of one process. wires_deafen passes on all but that a client
 * has gone: of the connections there are, what was asked for is done although nobody waits
 * for it. wires_passed counts connections so far. */
#define WIRES_ALL (-1)
void wires_cut(wires *wires, int index);
void wires_hold(wires *wires, int index);
void wires_mute(wires *wires, int index);
void wires_refuse(wires *wires, int index);
void wires_bar(wires *wires, int index, pid_t pid);
void wires_deafen(wires *wires, int index);
void wires_flow(wires *wires, int index);
int wires_passed(wires *wires, int index);

/* Which way: from who connects to the target, and back. */
enum { WIRES_UP, WIRES_DOWN };

/* What may happen once, to one connection, after a number of bytes. */
enum wires_once {
    WIRES_NOTHING,
    WIRES_CUT,   /* it ends, for both */
    WIRES_RESET, /* it breaks, for both (RST) */
    WIRES_END,  /* only that way: whoever is at its end is told that nothing more comes */
    WIRES_LOSE, /* nothing more gets through that way, and nobody is told */
    WIRES_LATE, /* what comes is held up for late_ms, and what follows behind it */
    WIRES_REPEAT, /* what was read at once goes on twice */
    WIRES_FLIP    /* a bit of the byte there is another */
};

/* What is done to bytes that go one way; zeroed, nothing is.
 *
 * A message is all that goes one way until something goes the other way on the same
 * connection, as requests and answers do. Messages and bytes are counted from 1, over all
 * connections of the wire and for each way, from when the fault is set. With `at` 0, `bytes`
 * are those of the wire. */
typedef struct wires_fault {
    int delay_ms;  /* all comes that much later */
    int jitter_ms; /* ... or by up to this much more or less */
    int rate;      /* bytes in a second */
    int split;     /* bytes that are written at once */
    int merge_ms;  /* what comes within that time goes on at once */
    int flip_ppm;  /* of a million bytes, so many have a bit flipped */
    enum wires_once once;
    int at;        /* in the message of that number */
    int64_t bytes; /* after so many bytes; -1: after what was read of it at once */
    int late_ms;
    uint32_t seed; /* for jitter and flips */
} wires_fault;

/* wires_spoil sets the fault of one way; wires_flow ends those of both. wires_counted counts
 * connections and what has happened once since the start, messages and bytes since a fault
 * was set for their way. */
typedef struct wires_count {
    int connections, struck;
    int messages[2]; /* by way */
    int64_t bytes[2];
} wires_count;
void wires_spoil(wires *wires, int index, int way, const wires_fault *fault);
wires_count wires_counted(wires *wires, int index);

/* ---- ports ---- */

/* port_take returns a loopback port that nobody listens at and that no other test gets
 * until port_give_back, or the end of this process. */
int port_take(void);
void port_give_back(int port);

/* blackhole_open makes a port at which connections are neither accepted nor refused: any
 * port if it is 0, else that of a server that was killed. blackhole_close ends that. */
typedef struct blackhole {
    int port, is_ours, count;
    int fds[16];
} blackhole;
void blackhole_open(blackhole *out, int port);
void blackhole_close(blackhole *hole);

/* ---- certificates ---- */

/* certs_make writes into a folder: ca.crt and what it signed, server.crt and server.key
 * (127.0.0.1 and localhost), client.*, elsewhere.* (the name of another host), expired.*;
 * and other.crt, an authority that signed none of them. Returns 0, or -1 if there is no
 * openssl command. */
int certs_make(const char *folder);
/* certs_folder makes a folder for it first, and ends the process as skipped without openssl. */
void certs_folder(char *out, size_t size);

#endif /* TEST_SERVERS_H */
