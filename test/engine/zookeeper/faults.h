/* SPDX-License-Identifier: MIT */
/*
 * Faults of real servers, and what a user of dibs sees of them. Unlike the cases of
 * test/conform these name the engine: they do to its servers, and to the connections with
 * them, what can be done to a ZooKeeper.
 *
 * outage.c: one server is killed, stands still, or its answers are lost. access.c: who may
 * use what, and in which sessions holds live. ensemble.c: three servers, of which one is
 * killed, stands still or is cut off.
 */
#ifndef TEST_ZOOKEEPER_FAULTS_H
#define TEST_ZOOKEEPER_FAULTS_H

#include "servers.h"
#include "user.h"

/* fault_main runs the case that the arguments name; NULL ends the list. */
int fault_main(int argc, char **argv, const fault_case *cases);

/* What a case may use; ended after it, also when it fails. The layout is from the arguments,
 * or "curator". */
extern server one;
extern server_set set;
extern wires lines;   /* from clients to servers */
extern wires between; /* from server to server */

/* Where the locks of clients are that open_at opens. */
#define ROOT "/locks"

/* start_one starts one server, with wires to it; start_three an ensemble with wires to each
 * and between them. `options` may be NULL. */
void start_one(const server_options *options);
void start_three(const server_options *options);

/* open_at opens a client of the server behind a port; open_all one of all that there are
 * wires to. */
dibs *open_at(int port);
dibs *open_all(void);

/* count_nodes counts what locks there are on a server; owner_of the session of the node
 * that stands alone below a lock, or is the lock. */
int count_nodes(const server *server);
int64_t owner_of(const server *server, const char *name);

#endif /* TEST_ZOOKEEPER_FAULTS_H */
