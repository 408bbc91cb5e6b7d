/* SPDX-License-Identifier: MIT */
/*
 * The other party of a case. It is this same program, executed again with "--peer", and
 * is told over a socket what to do; a case thereby decides the order of events between
 * processes without a single sleep. Where the engine's state is one process's memory,
 * the same loop runs on a thread here, with a client of its own.
 *
 * The first half is the side of the case, the second half the peer's own.
 */
#include "conform.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum verb {
    VERB_ACQUIRE,
    VERB_RELEASE,
    VERB_RELEASE_AFTER,
    VERB_ABANDON,
    VERB_STATE,
    VERB_JOB,
    VERB_QUIT
};

#define JOB_ARGS 8

/* One order. Both ends are the same program, so that it can be sent as it is. */
struct order {
    int verb, slot;
    dibs_request request; /* its pointers mean nothing at the other end */
    char name[DIBS_NAME_MAX + 1], owner[DIBS_OWNER_MAX + 1], note[DIBS_NOTE_MAX + 1];
    char job[32];
    int64_t args[JOB_ARGS];
};

struct slot {
    dibs_hold *hold;
    _Atomic int told;
    _Atomic int64_t told_at_ns;
};

/* The peer's own side. */
struct agent {
    int fd;
    dibs *client;
    dibs_canceller *cancel; /* in all its waits, so that peer_kill can end them */
    _Atomic int killed;
    struct slot slots[PEER_SLOTS];
};

struct peer {
    int fd;
    pid_t pid; /* 0: it is a thread */
    pthread_t thread;
    struct agent *agent; /* NULL: it is a process */
};

static void *agent_thread(void *arg);

/* ---- the side of the case ---- */

static void
start_process(peer *new, int their_end)
{
    char fd_text[16], shared_text[16];
    int keep[] = { their_end, stage.shared_fd };
    (void)snprintf(fd_text, sizeof(fd_text), "%d", their_end);
    (void)snprintf(shared_text, sizeof(shared_text), "%d", stage.shared_fd);
    const char *arguments[] = { "--peer", stage.fixture->name, stage.url,
                                fd_text,  shared_text,         NULL };
    new->pid = spawn_self(arguments, keep, 2);
    close(their_end);
}

static void
start_thread(peer *new, int their_end)
{
    new->agent = calloc(1, sizeof(*new->agent));
    CHECK(new->agent != NULL);
    new->agent->fd = their_end;
    OK(dibs_canceller_new(&new->agent->cancel, &oops));
    CHECK(pthread_create(&new->thread, NULL, agent_thread, new->agent) == 0);
}

peer *
peer_new(void)
{
    int ends[2];
    peer *new = calloc(1, sizeof(*new));
    CHECK(new != NULL);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    new->fd = ends[0];
    if (stage.fixture->one_process) {
        start_thread(new, ends[1]);
    } else {
        start_process(new, ends[1]);
    }
    /* its first answer says that its client is open */
    OK(peer_end(new).code);
    return new;
}

int64_t
peer_pid(const peer *of)
{
    return of->pid != 0 ? of->pid : getpid();
}

static void
send_order(peer *to, const struct order *order)
{
    if (send(to->fd, order, sizeof(*order), MSG_NOSIGNAL) != (ssize_t)sizeof(*order)) {
        FAIL("the peer is gone");
    }
}

static void
copy_text(char *out, size_t size, const char *text)
{
    CHECK(strlen(text) < size);
    memcpy(out, text, strlen(text) + 1);
}

void
peer_acquire_begin(peer *to, int slot, const dibs_request *request)
{
    struct order order = { .verb = VERB_ACQUIRE, .slot = slot, .request = *request };
    copy_text(order.name, sizeof(order.name), request->name);
    copy_text(order.owner, sizeof(order.owner), request->owner ? request->owner : "");
    copy_text(order.note, sizeof(order.note), request->note ? request->note : "");
    send_order(to, &order);
}

void
peer_job_begin(peer *to, const char *job, const int64_t *args, int count)
{
    struct order order = { .verb = VERB_JOB };
    CHECK(count <= JOB_ARGS);
    copy_text(order.job, sizeof(order.job), job);
    for (int i = 0; i < count; i++) {
        order.args[i] = args[i];
    }
    send_order(to, &order);
}

int
peer_is_done(peer *of, int64_t limit_ms)
{
    return readable(of->fd, limit_ms);
}

answer
peer_end(peer *of)
{
    answer got;
    if (!peer_is_done(of, slowly(30000))) {
        FAIL("the peer does not answer");
    }
    if (recv(of->fd, &got, sizeof(got), 0) != (ssize_t)sizeof(got)) {
        FAIL("the peer has failed");
    }
    memcpy(oops.text, got.text, sizeof(got.text));
    return got;
}

answer
peer_acquire(peer *to, int slot, const dibs_request *request)
{
    peer_acquire_begin(to, slot, request);
    return peer_end(to);
}

answer
peer_take(peer *to, const char *name)
{
    dibs_request request = want(name);
    answer got = peer_acquire(to, 0, &request);
    OK(got.code);
    return got;
}

static answer
ask(peer *to, int verb, int slot, int64_t arg)
{
    struct order order = { .verb = verb, .slot = slot, .args = { arg } };
    send_order(to, &order);
    return peer_end(to);
}

int
peer_release(peer *to, int slot)
{
    return ask(to, VERB_RELEASE, slot, 0).code;
}

int
peer_release_after(peer *to, int slot, uint32_t delay_ms)
{
    return ask(to, VERB_RELEASE_AFTER, slot, delay_ms).code;
}

void
peer_abandon(peer *to, int slot)
{
    OK(ask(to, VERB_ABANDON, slot, 0).code);
}

answer
peer_state(peer *to, int slot)
{
    return ask(to, VERB_STATE, slot, 0);
}

int64_t
peer_job(peer *to, const char *job, const int64_t *args, int count)
{
    peer_job_begin(to, job, args, count);
    return peer_end(to).value;
}

static void
peer_free(peer *old)
{
    close(old->fd);
    if (old->agent != NULL) {
        pthread_join(old->thread, NULL);
        dibs_canceller_free(old->agent->cancel);
        free(old->agent);
    }
    free(old);
}

void
peer_quit(peer *old)
{
    OK(ask(old, VERB_QUIT, 0, 0).code);
    if (old->pid != 0) {
        int status = reap(old->pid, slowly(10000));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            FAIL("the peer ended with wait status 0x%x", (unsigned)status);
        }
    }
    peer_free(old);
}

void
peer_kill(peer *old)
{
    if (old->pid != 0) {
        kill_and_reap(old->pid);
    } else {
        atomic_store(&old->agent->killed, 1);
        dibs_cancel(old->agent->cancel);
        shutdown(old->fd, SHUT_RDWR);
    }
    peer_free(old);
}

void
peer_pause(peer *to)
{
    if (to->pid != 0) {
        int status;
        kill(to->pid, SIGSTOP);
        CHECK(waitpid(to->pid, &status, WUNTRACED) == to->pid && WIFSTOPPED(status));
    }
}

void
peer_resume(peer *to)
{
    if (to->pid != 0) {
        kill(to->pid, SIGCONT);
    }
}

uint32_t
peer_pause_flags(void)
{
    return stage.fixture->one_process ? DIBS_NO_RENEW : 0;
}

/* ---- the peer's own side ---- */

static void
hold_is_lost(dibs_hold *hold, void *arg)
{
    struct slot *slot = arg;
    (void)hold;
    atomic_store(&slot->told_at_ns, now_ns());
    atomic_fetch_add(&slot->told, 1);
}

static void
fill_state(answer *out, struct slot *slot)
{
    if (slot->hold != NULL) {
        out->held = dibs_held(slot->hold);
        out->token = dibs_token(slot->hold);
        out->previous = dibs_previous(slot->hold);
        out->remaining_ms = dibs_remaining(slot->hold);
    }
    out->told = atomic_load(&slot->told);
    out->told_at_ns = atomic_load(&slot->told_at_ns);
}

static void
agent_acquire(struct agent *agent, struct order *order, answer *out)
{
    struct slot *slot = &agent->slots[order->slot];
    dibs_request request = order->request;
    dibs_hold_free(slot->hold);
    slot->hold = NULL;
    atomic_store(&slot->told, 0);
    atomic_store(&slot->told_at_ns, 0);
    request.name = order->name;
    request.owner = order->owner[0] != '\0' ? order->owner : NULL;
    request.note = order->note;
    request.cancel = agent->cancel;
    request.on_lost = hold_is_lost;
    request.on_lost_arg = slot;
    out->code = acquire(&slot->hold, agent->client, &request);
    out->at_ns = now_ns();
    fill_state(out, slot);
}

static int64_t
agent_job(struct agent *agent, const struct order *order)
{
    for (const job_entry *at = job_entries; at->name != NULL; at++) {
        if (strcmp(at->name, order->job) == 0) {
            return at->run(agent->client, order->args);
        }
    }
    FAIL("there is no job '%s'", order->job);
}

static void
agent_state(struct slot *slot, answer *out)
{
    fill_state(out, slot);
    if (slot->hold != NULL) {
        int fd = dibs_lost_fd(slot->hold, &oops);
        out->lost_fd_ready = fd >= 0 && readable(fd, 0);
    }
}

static void
agent_obey(struct agent *agent, struct order *order, answer *out)
{
    struct slot *slot = &agent->slots[order->slot];
    switch (order->verb) {
    case VERB_ACQUIRE:
        agent_acquire(agent, order, out);
        break;
    case VERB_RELEASE:
        out->code = dibs_release(slot->hold, &oops);
        break;
    case VERB_RELEASE_AFTER:
        out->code = dibs_release_after(slot->hold, (uint32_t)order->args[0], &oops);
        break;
    case VERB_ABANDON:
        dibs_abandon(slot->hold);
        slot->hold = NULL;
        break;
    case VERB_STATE:
        agent_state(slot, out);
        break;
    case VERB_JOB:
        out->value = agent_job(agent, order);
        break;
    default:
        break;
    }
}

static void
agent_answer(struct agent *agent, answer *out)
{
    memcpy(out->text, oops.text, sizeof(out->text) - 1);
    /* who asked may be gone: then the next recv says so */
    (void)send(agent->fd, out, sizeof(*out), MSG_NOSIGNAL);
}

static void
agent_end(struct agent *agent)
{
    for (int i = 0; i < PEER_SLOTS; i++) {
        if (atomic_load(&agent->killed)) {
            dibs_abandon(agent->slots[i].hold);
        } else {
            dibs_hold_free(agent->slots[i].hold);
        }
    }
    dibs_close(agent->client);
}

static void
agent_run(struct agent *agent)
{
    answer out = { .code = DIBS_OK };
    struct order order;
    agent->client = open_client();
    agent_answer(agent, &out);
    while (recv(agent->fd, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
        memset(&out, 0, sizeof(out));
        memset(&oops, 0, sizeof(oops));
        if (order.verb == VERB_QUIT) {
            break;
        }
        agent_obey(agent, &order, &out);
        agent_answer(agent, &out);
    }
    agent_end(agent);
    agent_answer(agent, &out);
    close(agent->fd);
}

static void *
agent_thread(void *arg)
{
    agent_run(arg);
    return NULL;
}

int
peer_main(int argc, char **argv)
{
    struct agent agent = { .fd = -1 };
    CHECK(argc == 6);
    stage.fixture = find_fixture(argv[2]);
    CHECK(stage.fixture != NULL);
    copy_text(stage.url, sizeof(stage.url), argv[3]);
    stage.shared = shared_map(atoi(argv[5]), sizeof(*stage.shared));
    agent.fd = atoi(argv[4]);
    OK(dibs_canceller_new(&agent.cancel, &oops));
    agent_run(&agent);
    dibs_canceller_free(agent.cancel);
    return 0;
}
