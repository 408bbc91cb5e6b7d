/* SPDX-License-Identifier: MIT */
/*
 * For engines whose server keeps a log: one server that forces its log to a disk before it
 * answers, as it should, and one that keeps it in memory, where what the clients cost is seen
 * better. And the parts of a benchmark that are the same on all of them. The engine's own
 * server.c starts the servers, and says where they are and what they count.
 */
#ifndef DIBS_BENCH_LOGS_H
#define DIBS_BENCH_LOGS_H

#include "bench.h"
#include "command.h"

enum log_kind { LOG_DISK, LOG_MEMORY, LOGS };

typedef struct server {
    const char *name; /* "disk", "memory" */
    int log;          /* enum log_kind */
    int port;
    pid_t pid;
} server;

/* server_get starts it at first use. It ends with us. */
const server *server_get(int log);

/* for_each_log runs a part on both servers, in both placements; a smoke run is content with
 * X. logs_title writes PART.LOG.PLACE and "LOG, PLACE", with which ids and labels begin. */
void for_each_log(void (*part)(const server *s, int place));

typedef struct log_title {
    char id[48], words[32];
} log_title;

log_title logs_title(const char *part, const server *s, int place);

/* -------------------------------------------- what the engine's server.c has ---- */

/* server_start fills in port and pid of a server whose data is in that folder, and returns
 * when it answers. server_await helps: it asks until `answers`, or dies. */
void server_start(server *s, const char *dir);
void server_await(const server *s, int (*answers)(const server *s));
/* `layout` is NULL for an engine that has one only. */
void server_url(char *out, size_t size, const server *s, const char *layout);

/* What a server has counted since it was started: requests of clients, and events that it
 * told to those who watched (0 where it does not count them). */
typedef struct server_counts {
    double requests, events;
} server_counts;

server_counts server_count(const server *s);

/* --------------------------------------------------------------------- parts ---- */

/* logs_run: `dibs run NAME -- true` over the first of those commands, at most `bar`; they
 * learn the server's address by the environment variable. logs_inside: threads of one process, see inside.h. logs_holds: 10,000 kept holds; `what`
 * (NULL: nothing) the server keeps for them, say leases, is counted by count_what. */
void logs_run(const char *layout, const command *others, int count,
              const char *address_variable, double bar);
void logs_inside(const char *layout, double bar);
void logs_holds(const char *layout, const char *what,
                double (*count_what)(const server *s));

#endif /* DIBS_BENCH_LOGS_H */
