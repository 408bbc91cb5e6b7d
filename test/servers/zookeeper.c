/* SPDX-License-Identifier: MIT */
/*
 * ZooKeeper, alone and as an ensemble of three. See servers.h.
 *
 * It is made to start fast and to count in short ticks, so that tests can have sessions of
 * some hundred milliseconds. Nothing is flushed to the disk, but all is written before it
 * is answered: kill -9 loses nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <unistd.h>

#include "parts.h"

#define JAR "/usr/share/java/zookeeper.jar"
#define LOGGER "/usr/share/java/slf4j-simple.jar"
#define MEMBERS 3
#define PATIENCE_MS 1000
#define WORD_LIMIT_MS 5000
/* one that is just starting may accept a connection and never answer on it */
#define READY_WORD_LIMIT_MS 300

int
zookeeper_present(void)
{
    return server_present("java") && access(JAR, R_OK) == 0;
}

void
zookeeper_words(struct words *to, const server *of)
{
    static const char *const java[] = { "-Xmx256m",
                                        "-XX:+UseSerialGC",
                                        "-XX:TieredStopAtLevel=1",
                                        "-Xshare:auto",
                                        "-XX:-UsePerfData",
                                        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                                        NULL };
    word_list(to, java);
    word_list(to, of->options.more);
    word_pair(to, "-cp", JAR ":" LOGGER);
    word_add(to, "org.apache.zookeeper.server.quorum.QuorumPeerMain");
    word_add(to, word_make(to, "%s/zoo.cfg", of->folder));
}

/* ---- the configuration ---- */

static FILE *
begin_config(const server *of)
{
    char data[96];
    (void)snprintf(data, sizeof(data), "%s/data", of->folder);
    CHECK(mkdir(data, 0700) == 0);
    FILE *file = server_file(of, "zoo.cfg");
    fprintf(file, "tickTime=%d\ninitLimit=%d\nsyncLimit=%d\n", ZOOKEEPER_TICK_MS,
            2 * ZOOKEEPER_SYNC_MS / ZOOKEEPER_TICK_MS,
            ZOOKEEPER_SYNC_MS / ZOOKEEPER_TICK_MS);
    fprintf(file, "minSessionTimeout=%d\nmaxSessionTimeout=3600000\n", ZOOKEEPER_TICK_MS);
    fprintf(file, "dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n", data,
            of->port);
    fputs("maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
          "forceSync=no\npreAllocSize=64\n",
          file);
    return file;
}

static void
end_config(FILE *file, const server *of)
{
    /* last: what is said again replaces what was said before */
    fprintf(file, "%s\n", of->options.config != NULL ? of->options.config : "");
    CHECK(fclose(file) == 0);
}

static void
write_member(const server_set *set, int index, const wires *between)
{
    const server *self = &set->servers[index];
    FILE *file = begin_config(self);
    for (int i = 0; i < MEMBERS; i++) {
        int wired = i != index && between != NULL;
        fprintf(file, "server.%d=127.0.0.1:%d:%d\n", i + 1,
                wired ? between->ports[MEMBERS * index + i] : set->servers[i].bus_port,
                set->servers[i].elect_port);
    }
    end_config(file, self);
    FILE *id = server_file(self, "data/myid");
    fprintf(id, "%d\n", index + 1);
    CHECK(fclose(id) == 0);
}

static void
wire_members(wires *between, const server_set *set)
{
    int targets[MEMBERS * MEMBERS] = { 0 };
    for (int i = 0; i < MEMBERS * MEMBERS; i++) {
        int is_self = i / MEMBERS == i % MEMBERS;
        targets[i] = is_self ? 0 : set->servers[i % MEMBERS].bus_port;
    }
    wires_start_patient(between, targets, MEMBERS * MEMBERS, PATIENCE_MS);
}

void
zookeeper_start(server *out, const server_options *options)
{
    server_prepare(out, KIND_ZOOKEEPER, options);
    end_config(begin_config(out), out);
    server_run(out);
}

void
zookeeper_start_ensemble(server_set *out, const server_options *options, wires *between)
{
    memset(out, 0, sizeof(*out));
    for (out->count = 0; out->count < MEMBERS; out->count++) {
        server_prepare(&out->servers[out->count], KIND_ZOOKEEPER, options);
    }
    if (between != NULL) {
        wire_members(between, out);
    }
    for (int i = 0; i < MEMBERS; i++) {
        write_member(out, i, between);
    }
    set_run(out);
}

/* ---- words of four letters ---- */

static int
connect_to(int port, int64_t limit_ms)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    struct timeval limit = { limit_ms / 1000, limit_ms % 1000 * 1000 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *
ask_within(const server *of, const char *word, int64_t limit_ms)
{
    char part[4096], *text = NULL;
    size_t size;
    ssize_t n = 0;
    int fd = connect_to(of->port, limit_ms);
    if (fd < 0) {
        return NULL;
    }
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    if (send(fd, word, strlen(word), MSG_NOSIGNAL) == (ssize_t)strlen(word)) {
        while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
            (void)fwrite(part, 1, (size_t)n, to);
        }
    }
    fclose(to);
    close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *
zookeeper_word(const server *of, const char *word)
{
    return ask_within(of, word, slowly(WORD_LIMIT_MS));
}

int64_t
zookeeper_number(const server *of, const char *word, const char *label)
{
    char *text = zookeeper_word(of, word);
    const char *at = text != NULL ? strstr(text, label) : NULL;
    int64_t number = at != NULL ? strtoll(at + strlen(label), NULL, 10) : -1;
    free(text);
    return number;
}

static int
says(const server *of, const char *part)
{
    char *text = ask_within(of, "srvr", slowly(READY_WORD_LIMIT_MS));
    int found = text != NULL && strstr(text, part) != NULL;
    free(text);
    return found;
}

int
zookeeper_is_ready(const server *of)
{
    return says(of, "Mode: ");
}

static int
leads(const server *of)
{
    return says(of, "Mode: leader");
}

int
zookeeper_leader(const server_set *set)
{
    return set_leader(set, leads);
}
