/* SPDX-License-Identifier: MIT */
/*
 * The processes of a server: PostgreSQL has one for each client, which stand still and end
 * only if they are told so themselves. See parts.h. All of this is safe in a signal handler.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

#define FAMILY_MAX 1024
#define STILL_LIMIT_MS 5000

/* reads a file of /proc as a text; 0 if there is none */
static int
read_proc(char *out, size_t size, const char *format, pid_t pid)
{
    char path[64];
    size_t len = 0;
    ssize_t n = 0;
    (void)snprintf(path, sizeof(path), format, (int)pid, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    while (len < size - 1 && (n = read(fd, out + len, size - 1 - len)) > 0) {
        len += (size_t)n;
    }
    close(fd);
    out[len] = '\0';
    return 1;
}

/* the third word after the name in /proc/PID/stat; 0: there is no such process */
static char
state_of(pid_t pid)
{
    char text[256];
    if (!read_proc(text, sizeof(text), "/proc/%d/stat", pid)) {
        return 0;
    }
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 0;
}

static int
children_of(pid_t pid, pid_t *out)
{
    static char text[16 * FAMILY_MAX];
    int count = 0;
    if (!read_proc(text, sizeof(text), "/proc/%d/task/%d/children", pid)) {
        return 0;
    }
    for (char *at = text, *end; count < FAMILY_MAX; at = end) {
        long child = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        out[count++] = (pid_t)child;
    }
    return count;
}

static void
await_state(pid_t pid, char state)
{
    int64_t until = now_ms() + slowly(STILL_LIMIT_MS);
    for (char now = state_of(pid); now != state; now = state_of(pid)) {
        if (now == 0 || now == 'Z') {
            return; /* it has ended */
        }
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
}

/* the first stands still before others are counted: so there will be no more of them */
static int
stop_family(pid_t pid, pid_t *children)
{
    CHECK(pid > 0 && kill(pid, SIGSTOP) == 0);
    await_state(pid, 'T');
    return children_of(pid, children);
}

void
family_pause(pid_t pid)
{
    pid_t children[FAMILY_MAX];
    int count = stop_family(pid, children);
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGSTOP);
        await_state(children[i], 'T');
    }
}

void
family_resume(pid_t pid)
{
    pid_t children[FAMILY_MAX];
    int count = children_of(pid, children);
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGCONT);
    }
    (void)kill(pid, SIGCONT);
}

void
family_kill(pid_t pid)
{
    pid_t children[FAMILY_MAX];
    if (pid <= 0 || state_of(pid) == 0) {
        return;
    }
    int count = stop_family(pid, children);
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
    }
    kill_spawned(pid);
    for (int i = 0; i < count; i++) {
        await_state(children[i], 'Z');
    }
}
