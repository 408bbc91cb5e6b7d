/* SPDX-License-Identifier: MIT */
/* What the files of this folder share and tests need not know. */
#ifndef TEST_SERVERS_PARTS_H
#define TEST_SERVERS_PARTS_H

#include <stdio.h>

#include "servers.h"

/* who we are where there is an ACL file */
#define TESTS_USER "tests"
#define TESTS_PASSWORD "tests"

/* server.kind */
enum { KIND_ALONE, KIND_SENTINEL, KIND_CLUSTER, KIND_ZOOKEEPER };

/* server_prepare gives a server its ports and folder; it is not started yet, so that
 * files can be written there. server_run starts one that is prepared and waits until it
 * answers; server_await only waits. */
void server_prepare(server *out, int kind, const server_options *options);
void server_run(server *server);
void server_await(const server *server);

/* zookeeper_arguments returns the words that start one, NULL at the end; the server's own
 * come from `config`, a path. zookeeper_is_ready says whether it serves. */
#define ZOOKEEPER_ARGUMENTS 32
void zookeeper_arguments(const char *words[ZOOKEEPER_ARGUMENTS], const server *server,
                         const char *config);
int zookeeper_is_ready(const server *server);

/* wires_start_patient is wires_start for those who take a connection that is ended at once
 * for worse than one that is refused: it waits that long for somebody to listen. */
void wires_start_patient(wires *out, const int *targets, int count, int64_t patience_ms);

/* server_file opens a file in the server's folder for writing. */
FILE *server_file(const server *server, const char *name);

/* keep writes a set down in a file for set_attach, until this process ends. kept_by says
 * which process did, or 0. */
void keep(const server_set *set, const char *path);
pid_t kept_by(const char *path);

#endif /* TEST_SERVERS_PARTS_H */
