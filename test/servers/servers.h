/* SPDX-License-Identifier: MIT */
/*
 * Real servers for the tests: Redis and Valkey, alone, several side by side, watched by
 * Sentinels, and as a Cluster. They run on loopback ports nobody else has, in folders of
 * their own, and die with the test.
 *
 * server.c: one server, from start to end. ask.c: commands to it. ports.c: free ports,
 * and one that swallows connections. set.c: several of them. kept.c: a set that several
 * tests use, one after the other. certs.c: certificates for TLS.
 *
 * What goes wrong here fails the test, unless it is said otherwise. Every wait has a
 * limit. Start servers from the main thread: they die with the thread that did.
 */
#ifndef TEST_SERVERS_H
#define TEST_SERVERS_H

#include "harness.h"

/* ---- one server ---- */

/* How to run a server; zeroed it is redis-server with nothing kept on disk. Strings and
 * lists must live as long as the server. */
typedef struct server_options {
    const char *program;     /* NULL: "redis-server" */
    int durable;             /* every write is on disk before it is answered */
    int unix_socket;         /* also listens at server.socket_path */
    const char *certs;       /* a folder of certs_make: also listens at server.tls_port */
    const char *cert;        /* which certificate in it; NULL: "server" */
    const char *acl;         /* the text of an ACL file; see ask.c for who we are then */
    const char *const *more; /* more arguments, NULL at the end */
} server_options;

typedef struct server {
    server_options options;
    int kind;          /* how it is run, see parts.h */
    int kept;          /* another process runs it: it is not ours to end */
    int replica_of;    /* a port, when it is started */
    int down_after_ms; /* as in set_options */
    pid_t pid;         /* 0: it does not run */
    int port, tls_port;
    int bus_port; /* of a Cluster's node */
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
typedef struct set_options {
    int down_after_ms; /* a server is taken for dead after that; 0: 5000 */
    server_options each;
} set_options;

/* set_start_apart starts servers that know nothing of each other; set_start_sentinel a
 * master, two replicas and three Sentinels; set_start_cluster three masters and three
 * replicas. They wait until the set is in order. `options` may be NULL. */
void set_start_apart(server_set *out, int count, const server_options *each);
void set_start_sentinel(server_set *out, const set_options *options);
void set_start_cluster(server_set *out, const set_options *options);

/* set_stop is server_stop for all. */
void set_stop(server_set *set);

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
 * there are none. */
void set_hosts(char *out, size_t size, const server_set *set);

/* ---- sets that several tests use ---- */

/* set_attach finds the set that the program servers_keep wrote down in a file. Its
 * servers are not ours to end. Returns 0, or -1 if there is none. */
int set_attach(server_set *out, const char *path);

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

#endif /* TEST_SERVERS_H */
