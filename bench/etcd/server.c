/* SPDX-License-Identifier: MIT */
/* Servers of our own, and what they say about themselves. */
#include <stdio.h>
#include <string.h>

#include "../serve.h"
#include "etcd.h"

static int
answers(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *answer = raw_http_try(http, "GET", "/health", NULL);
    int is_healthy = answer != NULL && strstr(answer, "\"true\"") != NULL;

    raw_http_close(http);
    return is_healthy;
}

void
server_start(server *s, const char *dir)
{
    char clients[64], members[64], cluster[80];
    const char *argv[] = {
        "etcd",  "--data-dir",           dir,     "--log-level",
        "error", "--listen-client-urls", clients, "--advertise-client-urls",
        clients, "--listen-peer-urls",   members, "--initial-advertise-peer-urls",
        members, "--initial-cluster",    cluster, NULL,
    };

    s->port = serve_free_port();
    snprintf(clients, sizeof clients, "http://127.0.0.1:%d", s->port);
    snprintf(members, sizeof members, "http://127.0.0.1:%d", serve_free_port());
    snprintf(cluster, sizeof cluster, "default=%s", members);
    s->pid = serve(argv);
    server_await(s, answers);
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    snprintf(out, size, "etcd://127.0.0.1:%d/bench?layout=%s", s->port, layout);
}

/* every message of a stream is a request too: those of the watches, say */
server_counts
server_count(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *metrics = raw_http_ask(http, "GET", "/metrics", NULL);
    server_counts counts = {
        raw_sum(metrics, "grpc_server_msg_received_total", "", NULL),
        raw_sum(metrics, "etcd_debugging_mvcc_events_total", "", NULL),
    };

    raw_http_close(http);
    return counts;
}

double
etcd_leases(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *answer = raw_http_ask(http, "POST", "/v3/lease/leases", "{}");
    double count = 0;

    while ((answer = strstr(answer, "\"ID\":")) != NULL) {
        answer++;
        count++;
    }
    raw_http_close(http);
    return count;
}
