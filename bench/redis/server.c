/* SPDX-License-Identifier: MIT */
/*
 * Servers of our own, and what they say about themselves. Each is a child that dies with
 * us, on the first CPU and on a port that was free.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis.h"

enum { SERVERS_MAX = 5, READY_MS = 5000 };

const char *const place_names[PLACES] = { "X", "S" };

static struct {
    pid_t pid, owner;
    int port;
} servers[SERVERS_MAX];

void
place_client(int place)
{
    bench_pin(place == PLACE_X ? 1 : 0);
}

/* free_port asks the kernel. Somebody may take it before the server does: then the server
 * ends at once, and we say so. */
static int
free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        bench_die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static void
run_server(int i)
{
    char port[16], dir[300], log[320];

    snprintf(port, sizeof port, "%d", servers[i].port);
    snprintf(dir, sizeof dir, "%s/server%d", bench.dir, i);
    snprintf(log, sizeof log, "%s/log", dir);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        bench_die("cannot make %s: %s", dir, strerror(errno));
    bench_pin(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir",
           dir, "--logfile", log, "--save", "", "--appendonly", "no", "--daemonize", "no",
           (char *)NULL);
    _exit(127);
}

static void
stop_servers(void)
{
    for (int i = 0; i < SERVERS_MAX; i++)
        if (servers[i].pid > 0 && servers[i].owner == getpid()) {
            kill(servers[i].pid, SIGKILL);
            waitpid(servers[i].pid, NULL, 0);
        }
}

static void
start_server(int i)
{
    static int will_stop;
    int waited;

    servers[i].port = free_port();
    servers[i].owner = getpid();
    fflush(stdout);
    servers[i].pid = fork();
    if (servers[i].pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (servers[i].pid == 0)
        run_server(i);
    if (!will_stop)
        atexit(stop_servers);
    will_stop = 1;
    for (waited = 0; waited < READY_MS; waited++) {
        redisContext *link = redisConnect("127.0.0.1", servers[i].port);
        int up = link != NULL && link->err == 0;

        if (link != NULL)
            redisFree(link);
        if (up)
            return;
        if (waitpid(servers[i].pid, NULL, WNOHANG) == servers[i].pid)
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
