/* SPDX-License-Identifier: MIT */
/*
 * What becomes scarce: descriptors, room on a disk, names of hosts, ports. Not one call that
 * fails, as in test/nth, but the real thing, for as long as it takes, on real servers.
 * `scarce ENGINE CASE LAYOUT` is one test.
 *
 * main.c: the program. full.c: a full disk. names.c: names, addresses, ports. one.c: a server for
 * those two. descriptors.c: a process that holds a lock and has no descriptor to
 * spare, as others see it; starved.c: as it sees it itself. files.c: the engines that have
 * files and no servers; servers are those of the sweeps.
 */
#ifndef TEST_SCARCE_H
#define TEST_SCARCE_H

#include "sweep.h"

/* ---- files.c ---- */

/* files_find is store_find for those without servers. */
const store *files_find(const char *engine);

/* ---- main.c ---- */

extern const store *at;
/* what the process was given besides */
extern char **extra;

/* is_bound: a lock ends with the connection that took it. The shortest lease that is asked for;
 * those want no less than a second. */
int is_bound(void);
#define SHORT_MS ((uint32_t)(is_bound() && LEASE_MS < 1000 ? 1000 : LEASE_MS))

/* one_try returns a request for it that does not wait; try_once tries that, and gives back what
 * it gets. */
dibs_request one_try(const char *name);
int try_once(dibs *client, const char *name);

/* print_url writes the URL by which clients get to servers at these ports. */
void print_url(char *out, size_t size, const int *ports);

/* A call that must end in time, and if it fails, with a code that says that it may work later
 * and a text. end_timed returns the code. */
typedef struct timed {
    const char *what;
    int64_t began, limit_ms;
} timed;
timed begin_timed(const char *what, int64_t limit_ms);
int end_timed(const timed *call, int code);

/* ---- descriptors.c and starved.c ---- */

/* What the two processes tell each other: how far each is. */
enum { STARVED_HOLDS = 1, STARVED_KEPT, STARVED_KEPT_CUT, STARVED_LOST, STARVED_FED };
enum { OTHER_WAITS = 1, OTHER_CUT, OTHER_CUT_AGAIN };
typedef struct news {
    _Atomic int starved, other;
    _Atomic int64_t lost_at, granted_at; /* now_ms; 0: not yet */
} news;

void descriptors_clean_up(void);
void run_descriptors(void);
void starved_clean_up(void);
void run_starved(void);

/* ---- one.c ---- */

/* A server of the engine, with options; one_url writes a URL in which it has that host. */
extern server one;
void one_start(const server_options *options);
void one_url(char *out, size_t size, const char *host);
void one_clean_up(void);

/* ---- names.c ---- */

/* They make the network, before there are threads: 0, or -1 and it has said why not. */
int names_prepare(void);
int six_prepare(void);
void run_names(void);
void run_six(void);
void run_ports(void);

/* ---- full.c ---- */

/* full_prepare mounts the disk, before there are threads: 0, or -1 and it has said why not. */
int full_prepare(void);
void full_clean_up(void);
void run_full(void);

#endif /* TEST_SCARCE_H */
