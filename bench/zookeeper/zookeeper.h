/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of zookeeper: share: servers of our own, and the programs that run
 * beside dibs. ../bench.h has the rules and the placements.
 */
#ifndef DIBS_BENCH_ZOOKEEPER_H
#define DIBS_BENCH_ZOOKEEPER_H

#include "../bench.h"
#include "../peers.h"

/* ------------------------------------------------------------------- servers ---- */

/* How a server keeps its log: as it should (forceSync=yes, on a disk), and in memory with
 * forceSync=no, where what the clients cost is seen better. */
enum log_kind { LOG_DISK, LOG_MEMORY, LOGS };

typedef struct server {
    const char *name; /* "disk", "memory" */
    int log;          /* enum log_kind */
    int port;
    pid_t pid;
} server;

/* server_get starts it at first use. It ends with us. */
const server *server_get(int log);
void server_url(char *out, size_t size, const server *s, const char *layout);

/* What a server has counted since it was started: requests of clients, and events that it
 * told to those who watched. */
typedef struct server_counts {
    double requests, events;
} server_counts;

server_counts server_count(const server *s);

/* --------------------------------------------------------------------- peers ---- */

/* A bare create and delete, with the single-threaded and the multi-threaded C client. */
#define PEER_ST "bare-st"
#define PEER_MT "bare-mt"
#define PEER_CURATOR "curator-java"

/* zookeeper_peers_start starts the program with this id (NULL: all) that are there: see
 * ../peers.h. */
int zookeeper_peers_start(peer *out, int most, const char *id, const server *s,
                          int place);

/* ---------------------------------------------------------------- benchmarks ---- */

void zookeeper_pair(void);
void zookeeper_handover(void);
void zookeeper_inside(void);
void zookeeper_waiters(void);
void zookeeper_holds(void);

/* for_each_log runs a part on both servers, in both placements; a smoke run is content with
 * X. */
void for_each_log(void (*part)(const server *s, int place));

#endif /* DIBS_BENCH_ZOOKEEPER_H */
