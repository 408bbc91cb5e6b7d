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
enum { KIND_ALONE, KIND_SENTINEL, KIND_CLUSTER };

/* server_prepare gives a server its ports and folder; it is not started yet, so that
 * files can be written there. server_run starts one that is prepared and waits until it
 * answers; server_await only waits. */
void server_prepare(server *out, int kind, const server_options *options);
void server_run(server *server);
void server_await(const server *server);

/* server_file opens a file in the server's folder for writing. */
FILE *server_file(const server *server, const char *name);

/* keep writes a set down in a file for set_attach, until this process ends. kept_by says
 * which process did, or 0. */
void keep(const server_set *set, const char *path);
pid_t kept_by(const char *path);

#endif /* TEST_SERVERS_PARTS_H */
