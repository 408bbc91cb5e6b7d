/* SPDX-License-Identifier: MIT */
/* Servers of our own, and what they say about themselves. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "../serve.h"
#include "zookeeper.h"

#define JARS "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar"

enum { ANSWER_S = 2, ANSWER_MAX = 256 * 1024 };

static void
write_config(const char *path, const char *dir, int port)
{
    FILE *file = fopen(path, "w");

    if (file == NULL)
        bench_die("cannot write %s: %s", path, strerror(errno));
    fprintf(file,
            "tickTime=2000\nmaxSessionTimeout=120000\ndataDir=%s\nclientPort=%d\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\n",
            dir, port);
    if (fclose(file) != 0)
        bench_die("cannot write %s: %s", path, strerror(errno));
}

/* ask sends one of the four-letter words, and returns what the server says: "" if it does
 * not answer. */
static const char *
ask(const server *s, const char *word)
{
    static char answer[ANSWER_MAX];
    struct sockaddr_in address = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = { ANSWER_S, 0 };
    size_t len = 0;
    ssize_t got;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)s->port);
    if (fd < 0)
        bench_die("no socket: %s", strerror(errno));
    /* a server that is about to start may never close the connection */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        write(fd, word, strlen(word)) == (ssize_t)strlen(word))
        while ((got = read(fd, answer + len, sizeof answer - 1 - len)) > 0)
            len += (size_t)got;
    close(fd);
    answer[len] = 0;
    return answer;
}

static int
answers(const server *s)
{
    return strstr(ask(s, "srvr"), "Mode: standalone") != NULL;
}

void
server_start(server *s, const char *dir)
{
    char config[450];
    const char *argv[] = {
        "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        s->log == LOG_DISK ? "-Dzookeeper.forceSync=yes" : "-Dzookeeper.forceSync=no",
        "-cp",
        JARS,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        config,
        NULL,
    };

    s->port = serve_free_port();
    snprintf(config, sizeof config, "%s.cfg", dir);
    write_config(config, dir, s->port);
    s->pid = serve(argv);
    server_await(s, answers);
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    snprintf(out, size, "zk://127.0.0.1:%d/bench-%s?layout=%s", s->port, layout, layout);
}

/* value_of reads one line of `mntr` */
static double
value_of(const char *answer, const char *key)
{
    const char *at = strstr(answer, key);

    if (at == NULL)
        bench_die("the ZooKeeper server does not tell %s", key);
    return strtod(at + strlen(key), NULL);
}

server_counts
server_count(const server *s)
{
    static const char *const events[] = { "\nzk_sum_node_created_watch_count\t",
                                          "\nzk_sum_node_deleted_watch_count\t",
                                          "\nzk_sum_node_changed_watch_count\t",
                                          "\nzk_sum_node_children_watch_count\t" };
    const char *answer = ask(s, "mntr");
    server_counts counts = { value_of(answer, "\nzk_packets_received\t"), 0 };

    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        counts.events += value_of(answer, events[i]);
    return counts;
}
