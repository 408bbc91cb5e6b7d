/* SPDX-License-Identifier: MIT */
/* Servers of our own: see serve.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "serve.h"

enum { SERVERS_MAX = 16 };

static struct {
    pid_t pid, owner;
} servers[SERVERS_MAX];

int
serve_free_port(void)
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

static _Noreturn void
run_server(const char *const *argv)
{
    int null = open("/dev/null", O_RDWR);

    bench_pin(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(126);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static void
end_slot(int i)
{
    kill(servers[i].pid, SIGKILL);
    waitpid(servers[i].pid, NULL, 0);
    servers[i].pid = 0;
}

/* children of ours may come here too: the servers are not theirs */
static void
end_all(void)
{
    for (int i = 0; i < SERVERS_MAX; i++)
        if (servers[i].pid > 0 && servers[i].owner == getpid())
            end_slot(i);
}

static int
slot_of(pid_t server)
{
    for (int i = 0; i < SERVERS_MAX; i++)
        if (servers[i].pid == server)
            return i;
    bench_die("more than %d servers", SERVERS_MAX);
}

pid_t
serve(const char *const *argv)
{
    static int will_end;
    int i = slot_of(0);

    fflush(stdout);
    servers[i].owner = getpid();
    servers[i].pid = fork();
    if (servers[i].pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (servers[i].pid == 0)
        run_server(argv);
    if (!will_end)
        atexit(end_all);
    will_end = 1;
    return servers[i].pid;
}

int
serve_runs(pid_t server)
{
    siginfo_t info = { 0 };

    /* it stays a child to be waited for */
    return waitid(P_PID, (id_t)server, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

void
serve_end(pid_t server)
{
    end_slot(slot_of(server));
}

double
serve_cpu(pid_t server)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;
    const char *rest;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)server);
    file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL)
        bench_die("cannot read %s", path);
    fclose(file);
    /* the name, in brackets, may hold anything; 11 fields behind it */
    rest = strrchr(line, ')');
    if (rest == NULL ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &system) != 2)
        bench_die("cannot understand %s", path);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}
