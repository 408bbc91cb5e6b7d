/* SPDX-License-Identifier: MIT */
/*
 * Faults of servers that are alone or three members, and what a user of dibs sees of them.
 * The cases here are the same for the engines etcd, consul, postgres and mysql, of which the
 * last two have no members; what they need of an engine is in its faults.c, which is built into the same programs. What can be done to the one
 * only is in its own folder.
 *
 * outage.c: one server is killed, stands still, or cannot be reached. replies.c: what is
 * asked or answered gets lost, or comes late. operator.c: somebody ends leases, sessions and
 * keys by hand. cluster.c: three servers, of which one is killed, stands still or is cut
 * off.
 */
#ifndef TEST_MEMBERS_H
#define TEST_MEMBERS_H

#include "servers.h"
#include "user.h"

/* the lock that all is about */
#define NAME "job"
/* a lease that outlasts the start of a server, and an election */
#define LONG_MS ((uint32_t)slowly(4000))

/* ---- what all engines have: members.c ---- */

/* What a case may use; ended after it, also when it fails. `folder` is for files. */
extern server one;
extern server_set set;
extern wires lines;   /* from clients to servers; two to `one` */
extern wires between; /* from member to member */
extern char folder[64];

/* What an engine's faults.c says of it. */
typedef struct members_engine {
    const char *scheme;
    const char *user; /* what stands before the hosts, as "me@"; NULL: nothing */
    int has_layouts;  /* then the URL says which */
    const char
        *patient; /* of three: one that is dead is still one of them; NULL: as is */
    void (*start_one)(server *out, const server_options *options);
    void (*start_three)(server_set *out, const server_options *options,
                        struct wires *between);
    int (*leader)(const server_set *set);
    void (*cut_off)(const server_set *set, struct wires *between, int index);
    int (*count_keys)(const server *of, const char *prefix);
    int (*count_lives)(const server *of); /* leases, sessions, or connections */
    int most_lives;                       /* of one client with many holds */
    void (*show)(const server *of);
    const char *root;     /* what keys begin with, when the URL has the path "/locks" */
    int (*is_line)(void); /* whether those who wait have keys too */
    /* the operator ends the lease or session of the oldest of NAME, or deletes its key */
    void (*end_life)(const server *of);
    void (*delete_key)(const server *of);
} members_engine;
extern const members_engine engine;
extern const fault_stage stage;

/* start_one starts one server, with two wires to it; start_three three with a wire to each
 * and wires between them. `options` may be NULL. make_certs makes `folder` and certificates
 * in it, or ends the process as skipped. */
void start_one(const server_options *options);
void start_three(const server_options *options);
void make_certs(void);
void members_clean_up(void);

/* open_at opens a client of the server behind a port; open_lines one that knows all that
 * there are wires to. */
dibs *open_at(int port);
dibs *open_lines(void);

/* count_keys counts the keys of NAME; line_keys says how many there are with a holder and
 * that many who wait. */
int count_keys(const server *of);
int line_keys(int waiters);

/* check_nothing_left: no lease, session or key, soon. */
void check_nothing_left(const server *of);

/* hand_over_after watches a hold that must be lost before a wait ends, within that time,
 * and returns what the wait got. */
dibs_hold *hand_over_after(dibs_hold *hold, dibs_op *wait, int64_t limit_ms);

#endif /* TEST_MEMBERS_H */
