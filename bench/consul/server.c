/* SPDX-License-Identifier: MIT */
/* Servers of our own, and what they say about themselves. */
#include <stdio.h>
#include <string.h>

#include "../serve.h"
#include "consul.h"

/* counts that last, and as many connections as a crowd of processes wants */
#define SETTINGS                                                                         \
    "telemetry{prometheus_retention_time=\"24h\" disable_hostname=true}"                 \
    " limits{http_max_conns_per_client=4000} performance{raft_multiplier=1}"             \
    " disable_update_check=true"

static int
answers(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *answer = raw_http_try(http, "GET", "/v1/status/leader", NULL);
    /* a session wants the node to be known */
    int has_leader =
        answer != NULL && strstr(answer, ":") != NULL &&
        (answer = raw_http_try(http, "GET", "/v1/health/state/passing", NULL)) != NULL &&
        strstr(answer, "serfHealth") != NULL;

    raw_http_close(http);
    return has_leader;
}

void
server_start(server *s, const char *dir)
{
    char data[450], http[32], rpc[32], serf[32];
    /* -dev is the last word where it stands */
    const char *argv[] = {
        "consul",
        "agent",
        "-bind=127.0.0.1",
        "-client=127.0.0.1",
        "-node=bench",
        "-log-level=err",
        "-dns-port=-1",
        "-grpc-port=-1",
        "-serf-wan-port=-1",
        "-hcl=" SETTINGS,
        http,
        rpc,
        serf,
        s->log == LOG_MEMORY ? "-dev" : data,
        s->log == LOG_MEMORY ? NULL : "-server",
        "-bootstrap-expect=1",
        NULL,
    };

    s->port = serve_free_port();
    snprintf(data, sizeof data, "-data-dir=%s", dir);
    snprintf(http, sizeof http, "-http-port=%d", s->port);
    snprintf(rpc, sizeof rpc, "-server-port=%d", serve_free_port());
    snprintf(serf, sizeof serf, "-serf-lan-port=%d", serve_free_port());
    s->pid = serve(argv);
    server_await(s, answers);
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    (void)layout; /* there is one only */
    snprintf(out, size, "consul://127.0.0.1:%d/bench", s->port);
}

/* blocking queries are counted when they are answered */
server_counts
server_count(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *metrics =
        raw_http_ask(http, "GET", "/v1/agent/metrics?format=prometheus", NULL);
    server_counts counts = {
        raw_sum(metrics, "consul_http_", "_count ", "_agent_metrics_"), 0
    };

    raw_http_close(http);
    return counts;
}

/* Ours only, by their names: those of `consul lock` in other parts may end meanwhile. */
double
consul_sessions(const server *s)
{
    raw_http *http = raw_http_open(s);
    const char *answer = raw_http_ask(http, "GET", "/v1/session/list", NULL);
    double count = 0;

    while ((answer = strstr(answer, "\"dibs: ")) != NULL) {
        answer++;
        count++;
    }
    raw_http_close(http);
    return count;
}
