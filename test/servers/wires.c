/* SPDX-License-Identifier: MIT */
/*
 * Connections that can be cut, held up and spoiled, through a process of their own: what a
 * test counts, its threads and descriptors, stays what it was. This is the test's side; see
 * servers.h for what can be done, wires_parts.h for how.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wires_parts.h"

#define BACKLOG 256

static int
listen_at(const char *host, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
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
        plant->lines[i].target = targets[i];
        plant->lines[i].listener = -1;
        if (targets[i] != 0) {
            out->ports[i] = beside != NULL ? targets[i] : port_take();
            plant->lines[i].listener = listen_at(beside, out->ports[i]);
        }
    }
}

static void
close_listeners(const struct plant *plant)
{
    for (int i = 0; i < plant->count; i++) {
        if (plant->lines[i].listener >= 0) {
            close(plant->lines[i].listener);
        }
    }
}

/* how wires differ from others */
struct manner {
    int64_t patience_ms;
    const char *beside;
    int spares;
};

static void
start_wires(wires *out, const int *targets, int count, struct manner manner)
{
    int ends[2];
    struct plant *plant = calloc(1, sizeof(*plant));
    CHECK(plant != NULL);
    memset(out, 0, sizeof(*out));
    open_wires(out, plant, targets, count, manner.beside);
    plant->patience_ms = manner.patience_ms;
    plant->spares = manner.spares;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    out->pid = fork();
    CHECK(out->pid >= 0);
    if (out->pid == 0) {
        close(ends[0]);
        wires_run(plant, ends[1]);
    }
    close(ends[1]);
    out->control = ends[0];
    close_listeners(plant);
    free(plant);
}

void
wires_start(wires *out, const int *targets, int count)
{
    start_wires(out, targets, count, (struct manner){ 0 });
}

void
wires_start_patient(wires *out, const int *targets, int count, int64_t patience_ms)
{
    start_wires(out, targets, count, (struct manner){ .patience_ms = patience_ms });
}

void
wires_start_beside(wires *out, const int *targets, int count, int64_t patience_ms)
{
    start_wires(out, targets, count,
                (struct manner){ .patience_ms = patience_ms, .beside = BESIDE });
}

void
wires_start_sparing(wires *out, const int *targets, int count)
{
    start_wires(out, targets, count, (struct manner){ .spares = 1 });
}

void
wires_stop(wires *old)
{
    if (old->control == 0) {
        return;
    }
    /* other wires that were started later have it open as well */
    shutdown(old->control, SHUT_RDWR);
    close(old->control);
    old->control = 0;
    waitpid(old->pid, NULL, 0);
    for (int i = 0; i < old->count; i++) {
        port_give_back(old->ports[i]);
    }
}

static wires_count
tell(wires *to, const struct wires_message *message)
{
    wires_count answer;
    CHECK(send(to->control, message, sizeof(*message), MSG_NOSIGNAL) ==
          (ssize_t)sizeof(*message));
    CHECK(recv(to->control, &answer, sizeof(answer), 0) == (ssize_t)sizeof(answer));
    return answer;
}

static wires_count
order(wires *to, enum order what, int index)
{
    struct wires_message message = { .order = what, .wire = index };
    return tell(to, &message);
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
    struct wires_message message = { .order = ORDER_BAR, .wire = index, .pid = pid };
    (void)tell(all, &message);
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
    return order(all, ORDER_COUNT, index).connections;
}

void
wires_spoil(wires *all, int index, int way, const wires_fault *fault)
{
    struct wires_message message = {
        .order = ORDER_SPOIL, .wire = index, .way = way, .fault = *fault
    };
    (void)tell(all, &message);
}

wires_count
wires_counted(wires *all, int index)
{
    return order(all, ORDER_COUNT, index);
}
