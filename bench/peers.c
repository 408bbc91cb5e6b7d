/* SPDX-License-Identifier: MIT */
/* Programs of other languages that do what they are told: see peers.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "peers.h"

/* folder_of_ours writes where this program lies */
static void
folder_of_ours(char *out, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", out, size - 1);
    char *slash;

    out[len < 0 ? 0 : len] = 0;
    slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = 0;
}

/* meaning writes what %X stands for */
static void
meaning(char *out, size_t size, char letter, const peer_place *where)
{
    if (letter == 'P')
        snprintf(out, size, "%d", where->port);
    else if (letter == 'S')
        snprintf(out, size, "%s", where->source);
    else if (letter == 'B')
        folder_of_ours(out, size);
    else
        snprintf(out, size, "%s", bench.peers != NULL ? bench.peers : "");
}

/* fill copies a word of a command line, with what its %X stand for */
static void
fill(char *out, size_t size, const char *word, const peer_place *where)
{
    size_t len = 0;

    for (; *word != 0 && len + 1 < size; word++) {
        if (*word != '%') {
            out[len++] = *word;
            continue;
        }
        meaning(out + len, size - len, *++word, where);
        len += strlen(out + len);
    }
    out[len] = 0;
}

static _Noreturn void
run_peer(const char *const *words, const peer_place *where, const int *orders,
         const int *answers)
{
    static char filled[PEER_WORDS_MAX][1024];
    char *argv[PEER_WORDS_MAX + 1];
    int count = 0, log;

    for (; count < PEER_WORDS_MAX && words[count] != NULL; count++) {
        fill(filled[count], sizeof filled[count], words[count], where);
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
start(peer *p, const char *const *argv, const peer_place *where)
{
    int orders[2], answers[2];

    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
        bench_die("no pipe: %s", strerror(errno));
    fflush(stdout);
    p->pid = fork();
    if (p->pid < 0)
        bench_die("cannot fork: %s", strerror(errno));
    if (p->pid == 0) {
        place_client(where->place);
        run_peer(argv, where, orders, answers);
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
peer_ask(peer *p, const char *order)
{
    char line[64];

    signal(SIGPIPE, SIG_IGN);
    if (dprintf(p->orders, "%s\n", order) < 0)
        return -1;
    read_line(p->answers, line, sizeof line);
    return line[0] == 0 ? -1 : strtod(line, NULL);
}

double
peer_pairs(peer *p, int count)
{
    char order[16];

    snprintf(order, sizeof order, "%d", count);
    return peer_ask(p, order);
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
peers_start(peer *out, int most, const peer_program *programs, int count,
            const peer_place *where)
{
    int running = 0;

    for (int i = 0; i < count && running < most; i++) {
        peer *p = &out[running];

        p->id = programs[i].id;
        p->label = programs[i].label;
        if (!is_there(programs[i].wants)) {
            report_note("%s is not here: see --peers and scripts/get-peers", p->label);
        } else if (!start(p, programs[i].argv, where)) {
            report_note("%s does not run", p->label);
            stop(p);
        } else {
            running++;
        }
    }
    return running;
}

void
peers_stop(peer *peers, int count)
{
    for (int i = 0; i < count; i++)
        stop(&peers[i]);
}
