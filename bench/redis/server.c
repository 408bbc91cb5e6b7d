/* SPDX-License-Identifier: MIT */
/* Servers of our own, and what they say about themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../serve.h"
#include "redis.h"

enum { SERVERS_MAX = 5, READY_MS = 5000 };

static struct {
    pid_t pid;
    int port;
} servers[SERVERS_MAX];

static void
start_server(int i)
{
    char port[16], dir[300], log[320];
    const char *argv[] = { "redis-server",
                           "--port",
                           port,
                           "--bind",
                           "127.0.0.1",
                           "--dir",
                           dir,
                           "--logfile",
                           log,
                           "--save",
                           "",
                           "--appendonly",
                           "no",
                           "--daemonize",
                           "no",
                           NULL };

    servers[i].port = serve_free_port();
    snprintf(port, sizeof port, "%d", servers[i].port);
    snprintf(dir, sizeof dir, "%s/server%d", bench.dir, i);
    snprintf(log, sizeof log, "%s/log", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        bench_die("cannot make %s: %s", dir, strerror(errno));
    servers[i].pid = serve(argv);
    for (int waited = 0; waited < READY_MS; waited++) {
        redisContext *link = redisConnect("127.0.0.1", servers[i].port);
        int up = link != NULL && link->err == 0;

        if (link != NULL)
            redisFree(link);
        if (up)
            return;
        if (!serve_runs(servers[i].pid))
            bench_die("redis-server does not start; is it installed?");
        bench_nap_ms(1);
    }
    bench_die("redis-server does not answer");
}

int
server_port(int i)
{
    if (servers[i].pid == 0)
        start_server(i);
    return servers[i].port;
}

redisContext *
server_connect(int i)
{
    redisContext *link = redisConnect("127.0.0.1", server_port(i));

    if (link == NULL || link->err != 0)
        bench_die("cannot connect to redis-server: %s", link ? link->errstr : "memory");
    return link;
}

void
server_url(char *out, size_t size, const char *layout)
{
    snprintf(out, size, "redis://127.0.0.1:%d?layout=%s", server_port(0), layout);
}

/* ---- what a server says ---- */

/* sum_stats adds one field of the lines of INFO commandstats that are wanted */
static double
sum_stats(redisContext *link, const char *commands, const char *field)
{
    const char *words[] = { "INFO", "commandstats" };
    redisReply *reply = raw_ask(link, 2, words);
    double sum = 0;

    for (char *rest = NULL, *line = strtok_r(reply->str, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        char name[64], wanted[66];
        const char *value = strstr(line, field);

        if (sscanf(line, "cmdstat_%63[^:]", name) != 1 || value == NULL)
            continue;
        snprintf(wanted, sizeof wanted, " %s ", name);
        if (commands == NULL || strstr(commands, wanted) != NULL)
            sum += strtod(value + strlen(field), NULL);
    }
    freeReplyObject(reply);
    return sum;
}

double
server_calls(redisContext *link, const char *commands)
{
    return sum_stats(link, commands, "calls=");
}

double
server_usec(redisContext *link, const char *commands)
{
    return sum_stats(link, commands, ",usec=");
}
