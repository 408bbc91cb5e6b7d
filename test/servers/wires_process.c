/* SPDX-License-Identifier: MIT */
/*
 * The process that passes connections on. It has one thread, which waits for something to
 * happen to any of them; it is told what to do in messages, and answers each once it is done.
 * See wires_parts.h. Parts: pairs, new ones, passing on, orders, the loop.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wires_parts.h"

#define RETRY_MS 10
#define MS_NS 1000000
/* no more is read from one that sends while so much waits for the other */
#define WAITING_MAX 65536

/* ---- pairs ---- */

static void
shut(struct pair *pair)
{
    close(pair->way[WIRES_UP].from);
    close(pair->way[WIRES_UP].to);
    way_clear(&pair->way[WIRES_UP]);
    way_clear(&pair->way[WIRES_DOWN]);
    pair->wire = -1;
}

/* both ends are told that it broke, not that it ended */
static void
reset(struct pair *pair)
{
    struct linger at_once = { 1, 0 };
    setsockopt(pair->way[WIRES_UP].from, SOL_SOCKET, SO_LINGER, &at_once,
               sizeof(at_once));
    setsockopt(pair->way[WIRES_UP].to, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    shut(pair);
}

static void
shut_wire(struct plant *plant, int wire, int with_spared)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (plant->pairs[i].wire == wire && (with_spared || !plant->pairs[i].is_spared)) {
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

/* whether the client of a pair is the process that its wire bars */
static int
is_barred(const struct plant *plant, const struct pair *pair)
{
    pid_t pid = plant->lines[pair->wire].barred;
    return pid != 0 && is_of(pid, pair->way[WIRES_UP].from);
}

static int
is_spared(const struct plant *plant, int client)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    return plant->spares && getpeername(client, (struct sockaddr *)&from, &len) == 0 &&
           from.sin_addr.s_addr == inet_addr(SPARED);
}

/* ---- new ones ---- */

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
reach(struct line *line)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)line->target) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
        (errno != EINPROGRESS || is_refused(fd))) {
        close(fd);
        fd = -1;
    }
    if (fd >= 0) {
        line->refused_at = 0;
    } else if (line->refused_at == 0) {
        line->refused_at = now_ms();
    }
    return fd;
}

/* whether to let one wait outside until somebody listens where it wants to go */
static int
is_patient(const struct plant *plant, const struct line *line)
{
    return line->refused_at != 0 && now_ms() < line->refused_at + plant->patience_ms;
}

/* what comes in pieces goes on in pieces at once, as it would without us */
static void
be_prompt(int fd)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static void
join(struct plant *plant, int wire, int client, int there)
{
    struct pair *pair = free_pair(plant);
    be_prompt(client);
    be_prompt(there);
    memset(pair, 0, sizeof(*pair));
    pair->wire = wire;
    pair->talks = -1;
    pair->way[WIRES_UP].from = pair->way[WIRES_DOWN].to = client;
    pair->way[WIRES_UP].to = pair->way[WIRES_DOWN].from = there;
    pair->is_held = is_barred(plant, pair);
    pair->is_spared = is_spared(plant, client);
    plant->lines[wire].passed++;
}

static void
take(struct plant *plant, int wire)
{
    struct line *line = &plant->lines[wire];
    int there = line->order == ORDER_REFUSE ? -1 : reach(line);
    if (there < 0 && is_patient(plant, line)) {
        return;
    }
    line->refused_at = 0;
    int client = accept4(line->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client >= 0 && there >= 0) {
        join(plant, wire, client, there);
        return;
    }
    (void)close(client);
    (void)close(there);
}

/* ---- passing on ---- */

static int
may_read(const struct way *way)
{
    return !way->is_over && way->waiting < WAITING_MAX;
}

/* reads what there is; 0 if an end is gone. An end that only says no more is told so to the
 * other, which may still have an answer. */
static int
pass(struct line *line, struct pair *pair, int which)
{
    char bytes[CHUNK_MAX];
    struct way *way = &pair->way[which];
    ssize_t n = recv(way->from, bytes, sizeof(bytes), 0);
    if (n < 0) {
        return errno == EAGAIN;
    }
    way->is_over = n == 0;
    int is_muted = which == WIRES_DOWN && line->order == ORDER_MUTE && !pair->is_spared;
    if (n > 0 && !is_muted) {
        spoil_pass(line, pair, which, bytes, (size_t)n);
    }
    return way_drain(way, &line->spoil[which].fault);
}

/* what follows when all has gone on; 0 if the pair is to be shut */
static int
finish(struct way *way)
{
    if (!way->is_over || way->is_told || way->first != NULL) {
        return 1;
    }
    way->is_told = 1;
    if (way->last == WIRES_CUT || way->last == WIRES_RESET) {
        return 0;
    }
    return way->is_deaf || shutdown(way->to, SHUT_WR) == 0;
}

static int
serve_way(struct line *line, struct pair *pair, int which, short events)
{
    struct way *way = &pair->way[which];
    if (!way_drain(way, &line->spoil[which].fault)) {
        return 0;
    }
    if (may_read(way)) {
        if (events != 0 && !pass(line, pair, which)) {
            return 0;
        }
    } else if ((events & POLLERR) != 0) {
        return 0;
    }
    return finish(way);
}

static void
serve_pair(struct plant *plant, struct pair *pair, const struct pollfd *fds)
{
    struct line *line = &plant->lines[pair->wire];
    const struct way *up = &pair->way[WIRES_UP], *down = &pair->way[WIRES_DOWN];
    int goes_on = serve_way(line, pair, WIRES_UP, fds[0].revents) &&
                  serve_way(line, pair, WIRES_DOWN, fds[1].revents) &&
                  !(up->is_told && down->is_told);
    if (!goes_on && (up->last == WIRES_RESET || down->last == WIRES_RESET)) {
        reset(pair);
    } else if (!goes_on) {
        shut(pair);
    }
}

/* ---- orders ---- */

static void
bar(struct plant *plant, int wire, pid_t pid)
{
    plant->lines[wire].barred = pid;
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
        plant->pairs[i].way[WIRES_UP].is_deaf |= plant->pairs[i].wire == wire;
    }
}

static void
spoil(struct plant *plant, int wire, int which, const wires_fault *fault)
{
    spoil_set(&plant->lines[wire].spoil[which], fault);
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (plant->pairs[i].wire == wire) {
            /* what goes on from before has no number */
            plant->pairs[i].way[which].message = 0;
        }
    }
}

static void
flow(struct plant *plant, int wire)
{
    static const wires_fault none;
    spoil(plant, wire, WIRES_UP, &none);
    spoil(plant, wire, WIRES_DOWN, &none);
    bar(plant, wire, 0);
}

static void
obey(struct plant *plant, int wire, const struct wires_message *message)
{
    struct line *line = &plant->lines[wire];
    if (message->order < ORDER_CUT) {
        line->order = message->order;
    }
    switch (message->order) {
    case ORDER_CUT:
    case ORDER_REFUSE:
        shut_wire(plant, wire, message->order == ORDER_REFUSE);
        break;
    case ORDER_FLOW:
        flow(plant, wire);
        break;
    case ORDER_BAR:
        bar(plant, wire, message->pid);
        break;
    case ORDER_DEAF:
        deafen(plant, wire);
        break;
    case ORDER_SPOIL:
        spoil(plant, wire, message->way, &message->fault);
        break;
    default:
        break;
    }
}

static void
add_count(wires_count *sum, const struct line *line)
{
    sum->connections += line->passed;
    sum->struck += line->struck;
    for (int i = 0; i < 2; i++) {
        sum->messages[i] += line->spoil[i].messages;
        sum->bytes[i] += line->spoil[i].bytes;
    }
}

/* 0: the test is over */
static int
obey_control(struct plant *plant, int control)
{
    struct wires_message message;
    wires_count sum = { 0 };
    if (recv(control, &message, sizeof(message), 0) != (ssize_t)sizeof(message)) {
        return 0;
    }
    for (int i = 0; i < plant->count; i++) {
        if (message.wire == i || message.wire == WIRES_ALL) {
            obey(plant, i, &message);
            add_count(&sum, &plant->lines[i]);
        }
    }
    return send(control, &sum, sizeof(sum), MSG_NOSIGNAL) == (ssize_t)sizeof(sum);
}

/* ---- the loop ---- */

#define FDS (1 + WIRES_MAX + 2 * PAIRS_MAX)

static int
is_still(const struct plant *plant, const struct pair *pair)
{
    return pair->wire < 0 || pair->is_held ||
           (plant->lines[pair->wire].order == ORDER_HOLD && !pair->is_spared);
}

/* one end of a pair: what is read there goes `in`, what is written there comes `out` */
static struct pollfd
look_at(const struct way *in, const struct way *out, int64_t now)
{
    short events =
        (short)((may_read(in) ? POLLIN : 0) | (way_due(out) <= now ? POLLOUT : 0));
    /* one that has said its last word, and heard it, would be looked at all the time */
    int is_done = in->is_over && out->is_told;
    return (struct pollfd){ is_done ? -1 : in->from, events, 0 };
}

static void
look_where(const struct plant *plant, struct pollfd *fds, int64_t now)
{
    for (int i = 0; i < WIRES_MAX; i++) {
        /* whose a connection is can be seen once it is accepted */
        int open =
            i < plant->count && (plant->lines[i].order != ORDER_HOLD || plant->spares);
        fds[1 + i] = (struct pollfd){ open ? plant->lines[i].listener : -1, POLLIN, 0 };
    }
    for (int i = 0; i < PAIRS_MAX; i++) {
        const struct pair *pair = &plant->pairs[i];
        struct pollfd *two = &fds[1 + WIRES_MAX + 2 * i];
        two[0] = two[1] = (struct pollfd){ -1, 0, 0 };
        if (!is_still(plant, pair)) {
            two[0] = look_at(&pair->way[WIRES_UP], &pair->way[WIRES_DOWN], now);
            two[1] = look_at(&pair->way[WIRES_DOWN], &pair->way[WIRES_UP], now);
        }
    }
}

/* does not look for a while at those that are let wait, which are there all the time */
static int
where_refused(struct plant *plant, struct pollfd *fds)
{
    int count = 0;
    for (int i = 0; i < plant->count; i++) {
        if (plant->lines[i].refused_at != 0 && fds[1 + i].fd >= 0) {
            take(plant, i);
            fds[1 + i].fd = -1;
            count++;
        }
    }
    return count;
}

static int64_t
earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* when something is due that is not due yet; what is due is waited for by POLLOUT */
static int64_t
next_due(const struct plant *plant, int64_t now)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < PAIRS_MAX; i++) {
        const struct pair *pair = &plant->pairs[i];
        for (int which = 0; which < 2 && !is_still(plant, pair); which++) {
            int64_t due = way_due(&pair->way[which]);
            next = due > now ? earlier(next, due) : next;
        }
    }
    return next;
}

static int
time_to_wait(struct plant *plant, struct pollfd *fds, int64_t now)
{
    int64_t next = next_due(plant, now);
    if (where_refused(plant, fds) > 0) {
        next = earlier(next, now_ns() + RETRY_MS * MS_NS);
    }
    int64_t left = next - now_ns();
    if (next == INT64_MAX) {
        return -1;
    }
    return left > 0 ? (int)((left + MS_NS - 1) / MS_NS) : 0;
}

static void
serve(struct plant *plant, const struct pollfd *fds)
{
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &plant->pairs[i];
        const struct pollfd *two = &fds[1 + WIRES_MAX + 2 * i];
        if (!is_still(plant, pair)) {
            serve_pair(plant, pair, two);
        }
    }
    for (int i = 0; i < plant->count; i++) {
        if (fds[1 + i].revents != 0) {
            take(plant, i);
        }
    }
}

void
wires_run(struct plant *plant, int control)
{
    struct pollfd *fds = calloc(FDS, sizeof(*fds));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < PAIRS_MAX; i++) {
        plant->pairs[i].wire = -1;
    }
    for (;;) {
        /* one time for both, or what becomes due between them is waited for by neither */
        int64_t now = now_ns();
        fds[0] = (struct pollfd){ control, POLLIN, 0 };
        look_where(plant, fds, now);
        if (poll(fds, FDS, time_to_wait(plant, fds, now)) < 0 && errno != EINTR) {
            _exit(1);
        }
        if (fds[0].revents == 0) {
            serve(plant, fds);
        } else if (!obey_control(plant, control)) {
            _exit(0);
        }
    }
}
