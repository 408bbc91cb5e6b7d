/* SPDX-License-Identifier: MIT */
/*
 * Lock libraries of other languages, as they are. Each runs in a process of its own that
 * reads how many pairs to do and answers with their median: starting it is not measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis.h"

enum { WORDS_MAX = 12 };

/* What there is. `wants` is a file that the peer needs, below bench.peers. */
static const struct {
    const char *id, *label, *wants;
    const char *argv[WORDS_MAX];
} known[] = {
    { "redis-py", "redis-py", NULL, { "/usr/bin/python3", "%S/pairs.py", "%P" } },
    { "node-redlock",
      "node-redlock",
      "node/node_modules/redlock",
      { "env", "NODE_PATH=%D/node/node_modules", "node", "%S/pairs.js", "redlock",
        "%P" } },
    { "redis-semaphore",
      "redis-semaphore",
      "node/node_modules/redis-semaphore",
      { "env", "NODE_PATH=%D/node/node_modules", "node", "%S/pairs.js", "redis-semaphore",
        "%P" } },
    { "redisson",
      "Redisson",
      "redisson/jars",
      { "java", "-cp", "%D/redisson/jars/*", "%S/Pairs.java", "%P" } },
};

/* fill copies a word of a command line, with what its %X stand for */
static void
fill(char *out, size_t size, const char *word)
{
    size_t len = 0;

    for (; *word != 0 && len + 1 < size; word++) {
        if (*word != '%') {
            out[len++] = *word;
            continue;
        }
        word++;
        if (*word == 'P')
            len += (size_t)snprintf(out + len, size - len, "%d", server_port(0));
        else
            len += (size_t)snprintf(out + len, size - len, "%s",
                                    *word == 'D' ? bench.peers : PEERS_SOURCE);
    }
    out[len < size ? len : size - 1] = 0;
}

static _Noreturn void
run_peer(const char *const *words, const int *orders, const int *answers)
{
    static char filled[WORDS_MAX][512];
    char *argv[WORDS_MAX + 1];
    int count = 0, log;

    for (; count < WORDS_MAX && words[count] != NULL; count++) {
        fill(filled[count], sizeof filled[count], words[count]);
        argv[count] = filled[count];
    }
    argv[count] = NULL;
    log = open("/dev/null", O_WRONLY);
    if (log < 0 || dup2(orders[0], 0) < 0 || dup2(answers[1], 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[0], argv);
    _exit(127);
}

static int
start(peer *p, const char *const *argv, int place)
{
    int orders[2], answers[2];

    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
        bench_die("no pipe: %s", strerror(errno));
    (void)server_port(0);
    fflush(stdout);
    p->pid = fork();
    if (p->pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (p->pid == 0) {
        place_client(place);
        run_peer(argv, orders, answers);
    }
    close(orders[0]);
    close(answers[1]);
    p->orders = orders[1];
    p->answers = answers[0];
    return peer_pairs(p, 1) > 0;
}

/* read_line returns what the peer says, or nothing if it ended */
static void
read_line(int fd, char *line, size_t size)
{
    size_t len = 0;

    while (len + 1 < size && read(fd, line + len, 1) == 1 && line[len] != '\n')
        len++;
    line[len] = 0;
}

double
peer_pairs(peer *p, int count)
{
    char line[64];

    signal(SIGPIPE, SIG_IGN);
    if (dprintf(p->orders, "%d\n", count) < 0)
        return 0;
    read_line(p->answers, line, sizeof line);
    return strtod(line, NULL);
}

static int
is_there(const char *wants)
{
    char path[512];

    if (wants == NULL)
        return 1;
    if (bench.peers == NULL)
        return 0;
    snprintf(path, sizeof path, "%s/%s", bench.peers, wants);
    return access(path, R_OK) == 0;
}

static void
stop(peer *p)
{
    close(p->orders);
    close(p->answers);
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

int
peers_start(peer *out, int most, int place)
{
    int count = 0;

    for (size_t i = 0; i < sizeof known / sizeof known[0] && count < most; i++) {
        peer *p = &out[count];

        p->id = known[i].id;
        p->label = known[i].label;
        if (!is_there(known[i].wants)) {
            report_note("%s is not here: see --peers and scripts/get-peers", p->label);
        } else if (!start(p, known[i].argv, place)) {
            report_note("%s does not run", p->label);
            stop(p);
        } else {
            count++;
        }
    }
    return count;
}

void
peers_stop(peer *peers, int count)
{
    for (int i = 0; i < count; i++)
        stop(&peers[i]);
}
