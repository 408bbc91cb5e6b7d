/* SPDX-License-Identifier: MIT */
/* A peer, from start to end. See interop.h. */
#include "interop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PEERS 8
#define START_MS 30000
#define ANSWER_MS 10000

static volatile pid_t running[MAX_PEERS];

static void
remember(pid_t before, pid_t after)
{
    for (int i = 0; i < MAX_PEERS; i++) {
        if (running[i] == before) {
            running[i] = after;
            return;
        }
    }
    FAIL("more than %d peers", MAX_PEERS);
}

void
kill_all_peers(void)
{
    for (int i = 0; i < MAX_PEERS; i++) {
        if (running[i] > 0) {
            kill(running[i], SIGKILL);
            waitpid(running[i], NULL, 0);
            running[i] = 0;
        }
    }
}

static _Noreturn void
become(const struct program *program, const int *orders, const int *answers)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(orders[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    program_run(program);
}

static void
launch(struct peer *peer)
{
    int orders[2], answers[2];
    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
        FAIL("no pipes: errno %d", errno);
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(peer->program, orders, answers);
    }
    if (pid < 0) {
        FAIL("cannot fork: errno %d", errno);
    }
    remember(0, pid);
    close(orders[0]);
    close(answers[1]);
    peer->pid = pid;
    peer->orders = orders[1];
    peer->answers = answers[0];
    peer->unread = 0;
    memset(peer->waiting, 0, sizeof(peer->waiting));
}

static void
end(struct peer *peer)
{
    close(peer->orders);
    close(peer->answers);
    kill_and_reap(peer->pid);
    remember(peer->pid, 0);
    peer->pid = 0;
}

static void
open_url(struct peer *peer)
{
    char answer[ANSWER_MAX];
    peer_order(peer, 0, "open %s", peer->url);
    peer_answer(peer, 0, slowly(START_MS), answer);
    if (strcmp(answer, "ok") != 0) {
        FAIL("%s cannot open %s: %s", peer->program->title, peer->url, answer);
    }
}

void
peer_start(struct peer *out, const struct program *program, const char *url)
{
    memset(out, 0, sizeof(*out));
    out->program = program;
    snprintf(out->url, sizeof(out->url), "%s", url);
    peer_restart(out);
}

void
peer_restart(struct peer *peer)
{
    launch(peer);
    open_url(peer);
}

void
peer_kill(struct peer *peer)
{
    end(peer);
}

void
peer_stop(struct peer *peer)
{
    if (peer->pid > 0) {
        peer_order(peer, 0, "quit");
        end(peer);
    }
}

static void
order_words(struct peer *peer, int actor, const char *format, va_list args)
{
    char line[1024];
    int len = snprintf(line, sizeof(line), "%d ", actor);
    len += vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
    CHECK((size_t)len < sizeof(line) - 1);
    line[len++] = '\n';
    if (write(peer->orders, line, (size_t)len) != len) {
        FAIL("%s takes no orders: errno %d", peer->program->title, errno);
    }
}

void
peer_order(struct peer *peer, int actor, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    order_words(peer, actor, format, args);
    va_end(args);
}

static void
sort_answer(struct peer *peer, const char *line)
{
    int actor = -1, used = 0;
    if (sscanf(line, "%d %n", &actor, &used) != 1 || actor < 0 || actor >= ACTORS) {
        FAIL("%s said '%s'", peer->program->title, line);
    }
    snprintf(peer->waiting[actor], ANSWER_MAX, "%s", line + used);
}

static void
sort_answers(struct peer *peer)
{
    char *end;
    while ((end = memchr(peer->text, '\n', peer->unread)) != NULL) {
        *end = '\0';
        sort_answer(peer, peer->text);
        size_t used = (size_t)(end + 1 - peer->text);
        peer->unread -= used;
        memmove(peer->text, end + 1, peer->unread);
    }
}

/* reads what there is by then; 0 if there was nothing */
static int
read_some(struct peer *peer, int64_t limit_ms)
{
    struct pollfd ready = { peer->answers, POLLIN, 0 };
    if (poll(&ready, 1, (int)limit_ms) <= 0) {
        return 0;
    }
    ssize_t got =
        read(peer->answers, peer->text + peer->unread, sizeof(peer->text) - peer->unread);
    if (got <= 0) {
        FAIL("%s has ended", peer->program->title);
    }
    peer->unread += (size_t)got;
    sort_answers(peer);
    return 1;
}

int
peer_has_answered(struct peer *peer, int actor, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (peer->waiting[actor][0] == '\0') {
        int64_t left = until - now_ms();
        if (!read_some(peer, left > 0 ? left : 0) && left <= 0) {
            return 0;
        }
    }
    return 1;
}

void
peer_answer(struct peer *peer, int actor, int64_t limit_ms, char out[ANSWER_MAX])
{
    if (!peer_has_answered(peer, actor, limit_ms)) {
        FAIL("%s, actor %d: no answer in %lld ms", peer->program->title, actor,
             (long long)limit_ms);
    }
    memcpy(out, peer->waiting[actor], ANSWER_MAX);
    peer->waiting[actor][0] = '\0';
}

void
peer_must_at(const char *file, int line, struct peer *peer, int actor, const char *answer,
             const char *format, ...)
{
    char got[ANSWER_MAX], order[ANSWER_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(order, sizeof(order), format, args);
    va_end(args);
    peer_order(peer, actor, "%s", order);
    if (!peer_has_answered(peer, actor, slowly(ANSWER_MS))) {
        fail_at(file, line, "%s: '%s' was not answered", peer->program->title, order);
    }
    peer_answer(peer, actor, 0, got);
    size_t len = strlen(answer);
    if (strncmp(got, answer, len) != 0 || (got[len] != '\0' && got[len] != ' ')) {
        fail_at(file, line, "%s: '%s' was answered '%s', not '%s'", peer->program->title,
                order, got, answer);
    }
}

uint64_t
peer_granted_at(const char *file, int line, struct peer *peer, int actor,
                int64_t limit_ms)
{
    char got[ANSWER_MAX];
    if (!peer_has_answered(peer, actor, limit_ms)) {
        fail_at(file, line, "%s, actor %d: no grant in %lld ms", peer->program->title,
                actor, (long long)limit_ms);
    }
    peer_answer(peer, actor, 0, got);
    if (strncmp(got, "ok", 2) != 0) {
        fail_at(file, line, "%s, actor %d: '%s' instead of a grant", peer->program->title,
                actor, got);
    }
    return strtoull(got + 2, NULL, 10);
}
