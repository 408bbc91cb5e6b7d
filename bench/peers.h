/* SPDX-License-Identifier: MIT */
/*
 * Programs that do what they are told, a line each, and answer with a line: lock libraries
 * of other languages, as they are. Starting them is not measured.
 */
#ifndef DIBS_BENCH_PEERS_H
#define DIBS_BENCH_PEERS_H

#include <sys/types.h>

enum { PEER_WORDS_MAX = 12 };

/* A peer there may be. `wants` is a file that it needs, below bench.peers; NULL: none. In
 * its command %P is the server's port, %S the folder of its source, %D bench.peers and %B
 * the folder of this program. */
typedef struct peer_program {
    const char *id, *label, *wants;
    const char *argv[PEER_WORDS_MAX];
} peer_program;

typedef struct peer_place {
    const char *source;
    int port, place;
} peer_place;

typedef struct peer {
    const char *id, *label;
    pid_t pid;
    int orders, answers;
} peer;

/* peers_start starts those that are there and run, on the CPU of that placement, says
 * which do not, and returns how many do. */
int peers_start(peer *out, int most, const peer_program *programs, int count,
                const peer_place *where);
void peers_stop(peer *peers, int count);

/* peer_ask returns the number that the peer answers with, or -1 if it has ended.
 * peer_pairs is the order to do so many pairs: their median in nanoseconds. */
double peer_ask(peer *p, const char *order);
double peer_pairs(peer *p, int count);

#endif /* DIBS_BENCH_PEERS_H */
