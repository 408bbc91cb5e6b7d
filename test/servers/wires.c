/* SPDX-License-Identifier: MIT */
/*
 * Connections that can be cut and held up, through a process of their own: what a test
 * counts, its threads and descriptors, stays what it was. See servers.h.
 *
 * The process is told what to do in messages, and answers each with a number once it is
 * done. It ends when the other end of the control is closed.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

#define PAIRS_MAX 512
#define KEPT_MAX 16384
#define BACKLOG 256
#define RETRY_MS 10

enum order {
    ORDER_FLOW,
    ORDER_HOLD,
    ORDER_MUTE,
    ORDER_REFUSE,
    ORDER_CUT,
    ORDER_PASSED,
    ORDER_BAR,
    ORDER_DEAF
};

struct message {
    int order, wire;
    pid_t pid; /* for ORDER_BAR */
};

/* one way through a pair; what was read from `from` and is not yet written to `to` */
struct way {
    int from, to, is_over;
    int is_deaf; /* the end of `from` is not told to `to` */
    size_t len;
    char kept[KEPT_MAX];
};

struct pair {
    int wire;    /* -1: this place is free */
    int is_held; /* it is of a process that is barred */
    struct way up, down;
};

/* what the process knows; it is the only one to touch this */
struct plant {
    int count;
    int listeners[WIRES_MAX], targets[WIRES_MAX], passed[WIRES_MAX];
    int64_t patience_ms;
    int64_t refused_at[WIRES_MAX]; /* since when nobody listens there; 0: somebody does */
    enum order orders[WIRES_MAX];
    pid_t barred[WIRES_MAX]; /* 0: nobody */
    struct pair pairs[PAIRS_MAX];
};

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* ---- whose a connection is ---- */

/* The inode of the other end of a connection, or 0. There the addresses are the other way
 * round. */
static unsigned long
inode_of_peer(int fd)
{
    struct sockaddr_in here, there;
    socklen_t len = sizeof(here);
    char line[256], want[64];
    unsigned long inode = 0;
    if (getsockname(fd, (struct sockaddr *)&here, &len) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &len) != 0) {
        return 0;
    }
    (void)snprintf(want, sizeof(want), "%08X:%04X %08X:%04X", there.sin_addr.s_addr,
                   ntohs(there.sin_port), here.sin_addr.s_addr, ntohs(here.sin_port));
    FILE *file = fopen("/proc/net/tcp", "re");
    while (file != NULL && inode == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, want) != NULL) {
            (void)sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &inode);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return inode;
}

static int
has_inode(pid_t pid, unsigned long inode)
{
    char path[64], want[64], link[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    (void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
    DIR *dir = opendir(path);
    int found = 0;
    struct dirent *entry;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        link[len > 0 ? len : 0] = '\0';
        found = strcmp(link, want) == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

/* whether the client of a pair is the process that its wire bars */
static int
is_barred(const struct plant *plant, const struct pair *pair)
{
    pid_t pid = plant->barred[pair->wire];
    unsigned long inode = pid != 0 ? inode_of_peer(pair->up.from) : 0;
    return inode != 0 && has_inode(pid, inode);
}

/* ---- the pairs ---- */

static void
shut(struct pair *pair)
{
    close(pair->up.from);
    close(pair->up.to);
    pair->wire = -1;
}

static void
shut_wire(struct plant *plant, int wire)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (plant->pairs[i].wire == wire) {
            shut(&plant->pairs[i]);
        }
    }
}

static struct pair *
free_pair(struct plant *plant)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (plant->pairs[i].wire < 0) {
            return &plant->pairs[i];
        }
    }
    /* the test fails for it: nobody answers its orders any more */
    _exit(1);
}

/* whether one is refused; one that takes its time is not */
static int
is_refused(int fd)
{
    struct pollfd look = { .fd = fd, .events = POLLOUT };
    int error = 0;
    socklen_t len = sizeof(error);
    return poll(&look, 1, RETRY_MS) == 1 &&
           (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0);
}

/* a connection to where a wire leads, or -1 */
static int
reach(struct plant *plant, int wire)
{
    struct sockaddr_in address = loopback(plant->targets[wire]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
        (errno != EINPROGRESS || is_refused(fd))) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        plant->refused_at[wire] = 0;
    } else if (plant->refused_at[wire] == 0) {
        plant->refused_at[wire] = now_ms();
    }
    return fd;
}

/* whether to let one wait outside until somebody listens where it wants to go */
static int
is_patient(const struct plant *plant, int wire)
{
    return plant->refused_at[wire] != 0 &&
           now_ms() < plant->refused_at[wire] + plant->patience_ms;
}

/* what comes in pieces goes on in pieces at once, as it would without us */
static void
be_prompt(int fd)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static void
take(struct plant *plant, int wire)
{
    int there = plant->orders[wire] == ORDER_REFUSE ? -1 : reach(plant, wire);
    if (there < 0 && is_patient(plant, wire)) {
        return;
    }
    plant->refused_at[wire] = 0;
    int client =
        accept4(plant->listeners[wire], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0 || there < 0) {
        (void)close(client);
        (void)close(there);
        return;
    }
    struct pair *pair = free_pair(plant);
    be_prompt(client);
    be_prompt(there);
    pair->wire = wire;
    pair->up.from = pair->down.to = client;
    pair->up.to = pair->down.from = there;
    pair->up.is_over = pair->down.is_over = 0;
    pair->up.is_deaf = pair->down.is_deaf = 0;
    pair->up.len = pair->down.len = 0;
    pair->is_held = is_barred(plant, pair);
    plant->passed[wire]++;
}

/* writes what is kept; 0 if the other end is gone */
static int
drain(struct way *way)
{
    ssize_t n = send(way->to, way->kept, way->len, MSG_NOSIGNAL);
    if (n < 0) {
        return errno == EAGAIN;
    }
    way->len -= (size_t)n;
    memmove(way->kept, way->kept + n, way->len);
    return 1;
}

/* reads and passes on; 0 if an end is gone. An end that only says no more is told so to
 * the other, which may still have an answer. */
static int
pass(struct way *way, int mute)
{
    ssize_t n = recv(way->from, way->kept, KEPT_MAX, 0);
    if (n < 0) {
        return errno == EAGAIN;
    }
    if (n == 0) {
        way->is_over = 1;
        return way->is_deaf || shutdown(way->to, SHUT_WR) == 0;
    }
    way->len = mute ? 0 : (size_t)n;
    return way->len == 0 || drain(way);
}

static int
serve_way(struct way *way, const struct pollfd *from, const struct pollfd *to, int mute)
{
    if (way->len > 0) {
        return (to->revents & (POLLOUT | POLLERR | POLLHUP)) == 0 || drain(way);
    }
    if (way->is_over) {
        /* nothing is awaited there any more, but for its end */
        return (from->revents & POLLERR) == 0;
    }
    return (from->revents & (POLLIN | POLLERR | POLLHUP)) == 0 || pass(way, mute);
}

static void
serve_pair(struct plant *plant, struct pair *pair, const struct pollfd *fds)
{
    int mute = plant->orders[pair->wire] == ORDER_MUTE;
    if (!serve_way(&pair->up, &fds[0], &fds[1], 0) ||
        !serve_way(&pair->down, &fds[1], &fds[0], mute) ||
        (pair->up.is_over && pair->down.is_over)) {
        shut(pair);
    }
}

static short
events_of(const struct way *in, const struct way *out)
{
    return (short)((in->len == 0 && !in->is_over ? POLLIN : 0) |
                   (out->len > 0 ? POLLOUT : 0));
}

/* ---- orders ---- */

static void
bar(struct plant *plant, int wire, pid_t pid)
{
    plant->barred[wire] = pid;
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &plant->pairs[i];
        if (pair->wire == wire) {
            pair->is_held = is_barred(plant, pair);
        }
    }
}

static void
deafen(struct plant *plant, int wire)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        plant->pairs[i].up.is_deaf |= plant->pairs[i].wire == wire;
    }
}

static int
obey(struct plant *plant, int order, int wire, pid_t pid)
{
    if (order == ORDER_CUT || order == ORDER_REFUSE) {
        shut_wire(plant, wire);
    }
    if (order < ORDER_CUT) {
        plant->orders[wire] = (enum order)order;
    }
    if (order == ORDER_FLOW || order == ORDER_BAR) {
        bar(plant, wire, pid);
    }
    if (order == ORDER_DEAF) {
        deafen(plant, wire);
    }
    return plant->passed[wire];
}

/* 0: the test is over */
static int
obey_control(struct plant *plant, int control)
{
    struct message message;
    int sum = 0;
    if (recv(control, &message, sizeof(message), 0) != (ssize_t)sizeof(message)) {
        return 0;
    }
    for (int i = 0; i < plant->count; i++) {
        if (message.wire == i || message.wire == WIRES_ALL) {
            sum += obey(plant, message.order, i, message.pid);
        }
    }
    return send(control, &sum, sizeof(sum), MSG_NOSIGNAL) == (ssize_t)sizeof(sum);
}

/* ---- the process ---- */

#define FDS (1 + WIRES_MAX + 2 * PAIRS_MAX)

static void
look_where(const struct plant *plant, struct pollfd *fds)
{
    for (int i = 0; i < WIRES_MAX; i++) {
        int open = i < plant->count && plant->orders[i] != ORDER_HOLD;
        fds[1 + i] = (struct pollfd){ open ? plant->listeners[i] : -1, POLLIN, 0 };
    }
    for (int i = 0; i < PAIRS_MAX; i++) {
        const struct pair *pair = &plant->pairs[i];
        struct pollfd *two = &fds[1 + WIRES_MAX + 2 * i];
        two[0] = two[1] = (struct pollfd){ -1, 0, 0 };
        if (pair->wire >= 0 && !pair->is_held &&
            plant->orders[pair->wire] != ORDER_HOLD) {
            two[0] =
                (struct pollfd){ pair->up.from, events_of(&pair->up, &pair->down), 0 };
            two[1] = (struct pollfd){ pair->up.to, events_of(&pair->down, &pair->up), 0 };
        }
    }
}

static void
serve(struct plant *plant, const struct pollfd *fds)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        const struct pollfd *two = &fds[1 + WIRES_MAX + 2 * i];
        struct pair *pair = &plant->pairs[i];
        if (pair->wire >= 0 && two[0].fd == pair->up.from &&
            (two[0].revents != 0 || two[1].revents != 0)) {
            serve_pair(plant, pair, two);
        }
    }
    for (int i = 0; i < plant->count; i++) {
        if (fds[1 + i].revents != 0) {
            take(plant, i);
        }
    }
}

/* does not look for a while at those that are let wait, which are there all the time */
static int
where_refused(struct plant *plant, struct pollfd *fds)
{
    int count = 0;
    for (int i = 0; i < plant->count; i++) {
        if (plant->refused_at[i] != 0 && fds[1 + i].fd >= 0) {
            take(plant, i);
            fds[1 + i].fd = -1;
            count++;
        }
    }
    return count;
}

static _Noreturn void
run(struct plant *plant, int control)
{
    struct pollfd *fds = calloc(FDS, sizeof(*fds));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < PAIRS_MAX; i++) {
        plant->pairs[i].wire = -1;
    }
    for (;;) {
        fds[0] = (struct pollfd){ control, POLLIN, 0 };
        look_where(plant, fds);
        if (poll(fds, FDS, where_refused(plant, fds) ? RETRY_MS : -1) < 0 &&
            errno != EINTR) {
            _exit(1);
        }
        if (fds[0].revents == 0) {
            serve(plant, fds);
        } else if (!obey_control(plant, control)) {
            _exit(0);
        }
    }
}

/* ---- the test's side ---- */

static int
listen_at(const char *host, int port)
{
    struct sockaddr_in address = loopback(port);
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK(host == NULL || inet_pton(AF_INET, host, &address.sin_addr) == 1);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, BACKLOG) == 0);
    return fd;
}

/* `beside` is the address of wires with the ports of their targets, or NULL */
static void
open_wires(wires *out, struct plant *plant, const int *targets, int count,
           const char *beside)
{
    CHECK(count <= WIRES_MAX);
    out->count = plant->count = count;
    for (int i = 0; i < count; i++) {
        plant->targets[i] = targets[i];
        plant->listeners[i] = -1;
        if (targets[i] != 0) {
            out->ports[i] = beside != NULL ? targets[i] : port_take();
            plant->listeners[i] = listen_at(beside, out->ports[i]);
        }
    }
}

static void
close_listeners(const struct plant *plant)
{
    for (int i = 0; i < plant->count; i++) {
        if (plant->listeners[i] >= 0) {
            close(plant->listeners[i]);
        }
    }
}

static void
start_wires(wires *out, const int *targets, int count, int64_t patience_ms,
            const char *beside)
{
    int ends[2];
    struct plant *plant = calloc(1, sizeof(*plant));
    CHECK(plant != NULL);
    memset(out, 0, sizeof(*out));
    open_wires(out, plant, targets, count, beside);
    plant->patience_ms = patience_ms;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    out->pid = fork();
    CHECK(out->pid >= 0);
    if (out->pid == 0) {
        close(ends[0]);
        run(plant, ends[1]);
    }
    close(ends[1]);
    out->control = ends[0];
    close_listeners(plant);
    free(plant);
}

void
wires_start(wires *out, const int *targets, int count)
{
    start_wires(out, targets, count, 0, NULL);
}

void
wires_start_patient(wires *out, const int *targets, int count, int64_t patience_ms)
{
    start_wires(out, targets, count, patience_ms, NULL);
}

void
wires_start_beside(wires *out, const int *targets, int count, int64_t patience_ms)
{
    start_wires(out, targets, count, patience_ms, BESIDE);
}

void
wires_stop(wires *old)
{
    if (old->control == 0) {
        return;
    }
    close(old->control);
    old->control = 0;
    waitpid(old->pid, NULL, 0);
    for (int i = 0; i < old->count; i++) {
        port_give_back(old->ports[i]);
    }
}

static int
order_about(wires *to, enum order what, int index, pid_t pid)
{
    struct message message = { (int)what, index, pid };
    int answer = -1;
    CHECK(send(to->control, &message, sizeof(message), MSG_NOSIGNAL) ==
          (ssize_t)sizeof(message));
    CHECK(recv(to->control, &answer, sizeof(answer), 0) == (ssize_t)sizeof(answer));
    return answer;
}

static int
order(wires *to, enum order what, int index)
{
    return order_about(to, what, index, 0);
}

void
wires_cut(wires *all, int index)
{
    (void)order(all, ORDER_CUT, index);
}

void
wires_hold(wires *all, int index)
{
    (void)order(all, ORDER_HOLD, index);
}

void
wires_mute(wires *all, int index)
{
    (void)order(all, ORDER_MUTE, index);
}

void
wires_refuse(wires *all, int index)
{
    (void)order(all, ORDER_REFUSE, index);
}

void
wires_bar(wires *all, int index, pid_t pid)
{
    (void)order_about(all, ORDER_BAR, index, pid);
}

void
wires_deafen(wires *all, int index)
{
    (void)order(all, ORDER_DEAF, index);
}

void
wires_flow(wires *all, int index)
{
    (void)order(all, ORDER_FLOW, index);
}

int
wires_passed(wires *all, int index)
{
    return order(all, ORDER_PASSED, index);
}
