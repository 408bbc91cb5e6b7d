/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the command share; see cli.h. In this order: starting, talking, waiting
 * for things to happen, looking at text, JSON, running one case.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 20000
#define PROCS_MAX 64

static char folder[256];
static pid_t running[PROCS_MAX]; /* to be killed if the test fails */

/* ---- starting ---- */

static void
remember(pid_t pid)
{
    for (size_t i = 0; i < PROCS_MAX; i++) {
        if (running[i] == 0) {
            running[i] = pid;
            return;
        }
    }
    FAIL("too many processes");
}

static void
forget(pid_t pid)
{
    for (size_t i = 0; i < PROCS_MAX; i++) {
        if (running[i] == pid)
            running[i] = 0;
    }
}

static void
clean_up(void)
{
    for (size_t i = 0; i < PROCS_MAX; i++) {
        if (running[i] > 0)
            kill(running[i], SIGKILL);
    }
    if (folder[0])
        remove_tree(folder);
}

/* dies with us, and does not ignore what we do */
static void
become(const char *const *argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(125);
}

void
start_program(struct proc *proc, const char *const *argv)
{
    int in[2], out[2], err[2];
    memset(proc, 0, sizeof *proc);
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
          pipe2(err, O_CLOEXEC) == 0);
    proc->pid = fork();
    CHECK(proc->pid >= 0);
    if (proc->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        become(argv);
    }
    remember(proc->pid);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    proc->in_fd = in[1];
    proc->out_fd = out[0];
    proc->err_fd = err[0];
}

void
start(struct proc *proc, const char *const *arguments)
{
    const char *argv[40] = { getenv("DIBS") };
    for (size_t i = 0; arguments[i]; i++) {
        CHECK(i + 2 < sizeof argv / sizeof *argv);
        argv[i + 1] = arguments[i];
    }
    start_program(proc, argv);
}

void
start_on_terminal(struct proc *proc, const char *const *argv)
{
    int master, slave;
    struct winsize size = { 24, 200, 0, 0 };
    memset(proc, 0, sizeof *proc);
    CHECK(openpty(&master, &slave, NULL, NULL, &size) == 0);
    CHECK(fcntl(master, F_SETFD, FD_CLOEXEC) == 0);
    proc->pid = fork();
    CHECK(proc->pid >= 0);
    if (proc->pid == 0) {
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        dup2(slave, 0);
        dup2(slave, 1);
        dup2(slave, 2);
        close(slave);
        become(argv);
    }
    remember(proc->pid);
    close(slave);
    proc->in_fd = -1;
    proc->out_fd = master;
    proc->err_fd = -1;
}

/* ---- talking ---- */

/* appends what there is; closes at the end of it */
static void
drain(int *fd, char *buffer, size_t size, size_t *len)
{
    char rest[4096];
    bool room = *len + 1 < size;
    ssize_t got =
        read(*fd, room ? buffer + *len : rest, room ? size - 1 - *len : sizeof rest);
    if (got > 0 && room) {
        *len += (size_t)got;
        buffer[*len] = 0;
    }
    if (got <= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void
pump(struct proc *proc, int timeout_ms)
{
    struct pollfd fds[] = { { proc->out_fd, POLLIN, 0 }, { proc->err_fd, POLLIN, 0 } };
    if (poll(fds, 2, timeout_ms) <= 0)
        return;
    if (fds[0].revents)
        drain(&proc->out_fd, proc->out, sizeof proc->out, &proc->out_len);
    if (fds[1].revents)
        drain(&proc->err_fd, proc->err, sizeof proc->err, &proc->err_len);
}

int
finish(struct proc *proc)
{
    int64_t until = now_ms() + slowly(LIMIT_MS);
    int status = 0;
    pid_t ended = 0;
    end_input(proc);
    while ((ended = waitpid(proc->pid, &status, WNOHANG)) == 0) {
        if (now_ms() > until)
            FAIL("it does not end; stdout: %s stderr: %s", proc->out, proc->err);
        pump(proc, 2);
    }
    CHECK(ended == proc->pid);
    forget(proc->pid);
    /* what it has left behind may keep these open, so take only what is there */
    for (size_t before = SIZE_MAX; before != proc->out_len + proc->err_len;) {
        before = proc->out_len + proc->err_len;
        pump(proc, 0);
    }
    if (proc->out_fd >= 0)
        close(proc->out_fd);
    if (proc->err_fd >= 0)
        close(proc->err_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void
put(struct proc *proc, const char *text)
{
    int fd = proc->in_fd >= 0 ? proc->in_fd : proc->out_fd;
    size_t len = strlen(text);
    CHECK(write(fd, text, len) == (ssize_t)len);
}

void
end_input(struct proc *proc)
{
    if (proc->in_fd >= 0)
        close(proc->in_fd);
    proc->in_fd = -1;
}

static void
await(struct proc *proc, const char *buffer, const char *text)
{
    int64_t until = now_ms() + slowly(LIMIT_MS);
    while (!strstr(buffer, text)) {
        if (now_ms() > until || (proc->out_fd < 0 && proc->err_fd < 0))
            FAIL("it does not say '%s'; stdout: %s stderr: %s", text, proc->out,
                 proc->err);
        pump(proc, 10);
    }
}

void
await_out(struct proc *proc, const char *text)
{
    await(proc, proc->out, text);
}

void
await_err(struct proc *proc, const char *text)
{
    await(proc, proc->err, text);
}

/* ---- waiting for things to happen ---- */

static int
count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

void
await_waiters(const char *name, int count)
{
    int64_t until = now_ms() + slowly(LIMIT_MS);
    for (;;) {
        struct proc show;
        CHECK_SAME(DIBS(&show, "show", "--json", name), 0);
        const char *waiters = strstr(show.out, "\"waiters\":");
        CHECK(waiters != NULL);
        if (count_of(waiters, "\"host\":") == count)
            return;
        if (now_ms() > until)
            FAIL("%d do not queue for '%s': %s", count, name, show.out);
        sleep_ms(5);
    }
}

bool
is_alive(pid_t pid)
{
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    bool there = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return there && state != 'Z' && state != 'X';
}

void
await_gone(pid_t pid)
{
    int64_t until = now_ms() + slowly(LIMIT_MS);
    while (is_alive(pid)) {
        if (now_ms() > until)
            FAIL("process %d does not end", (int)pid);
        sleep_ms(2);
    }
}

void
await_file(const char *path)
{
    int64_t until = now_ms() + slowly(LIMIT_MS);
    while (access(path, F_OK) != 0) {
        if (now_ms() > until)
            FAIL("there is no %s", path);
        sleep_ms(2);
    }
}

void
hold(struct proc *proc, const char *name)
{
    START(proc, "hold", name);
    await_out(proc, "\n");
}

void
let_go(struct proc *proc)
{
    CHECK_SAME(finish(proc), 0);
}

/* ---- looking at text ---- */

void
check_text(const char *file, int line, const char *got, const char *want)
{
    if (strcmp(got, want) != 0)
        fail_at(file, line, "got '%s', not '%s'", got, want);
}

void
check_has(const char *file, int line, const char *got, const char *part)
{
    if (!strstr(got, part))
        fail_at(file, line, "there is no '%s' in '%s'", part, got);
}

long
number_after(const char *in, const char *text)
{
    const char *at = strstr(in, text);
    if (!at)
        FAIL("there is no '%s' in '%s'", text, in);
    return strtol(at + strlen(text), NULL, 10);
}

const char *
in_folder(const char *file)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

/* ---- JSON ---- */

static const char *json_value(const char *at, int depth);

static const char *
json_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (*at != '"') {
        unsigned char c = (unsigned char)*at++;
        if (c < 0x20)
            return NULL;
        if (c == '\\' && *at == 'u') {
            if (strspn(at + 1, "0123456789abcdefABCDEF") < 4)
                return NULL;
            at += 5;
        } else if (c == '\\') {
            if (!*at || !strchr("\"\\/bfnrt", *at++))
                return NULL;
        } else if (c >= 0x80) {
            /* the lead byte says how many follow */
            int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : -1;
            if (more < 0)
                return NULL;
            for (; more > 0; more--) {
                if (((unsigned char)*at++ & 0xc0) != 0x80)
                    return NULL;
            }
        }
    }
    return at + 1;
}

static const char *
json_members(const char *at, char close, bool keys, int depth)
{
    if (*at == close)
        return at + 1;
    for (;;) {
        if (keys) {
            at = json_string(at);
            if (!at || *at++ != ':')
                return NULL;
        }
        at = json_value(at, depth + 1);
        if (!at)
            return NULL;
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

static const char *
json_value(const char *at, int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    if (depth > 8)
        return NULL;
    if (*at == '{')
        return json_members(at + 1, '}', true, depth);
    if (*at == '[')
        return json_members(at + 1, ']', false, depth);
    if (*at == '"')
        return json_string(at);
    for (size_t i = 0; i < 3; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    }
    at += *at == '-';
    size_t digits = strspn(at, "0123456789");
    return digits > 0 && (digits == 1 || *at != '0') ? at + digits : NULL;
}

void
check_json(const char *text)
{
    const char *at = text;
    do {
        const char *end = *at == '{' ? json_value(at, 0) : NULL;
        if (!end || *end != '\n')
            FAIL("this is not JSON: '%s'", text);
        at = end + 1;
    } while (*at);
}

/* ---- the case ---- */

static void
set_up(void)
{
    char url[300];
    const char *base = getenv("TMPDIR");
    temp_dir(folder, sizeof folder, base && *base ? base : "/tmp");
    on_failure(clean_up);
    snprintf(url, sizeof url, "local:%s/locks", folder);
    CHECK(mkdir(in_folder("locks"), 0700) == 0);
    CHECK(setenv("DIBS_URL", url, 1) == 0);
    CHECK(setenv("DIBS_ENGINE_DIR", DIBS_TEST_ENGINES, 1) == 0);
    CHECK(setenv("DIBS", DIBS_TEST_BINARY, 0) == 0);
    (void)unsetenv("DIBS_TTL");
    (void)unsetenv("DIBS_WAIT");
    (void)unsetenv("DIBS_TICKET");
    (void)signal(SIGPIPE, SIG_IGN);
}

int
run_case(int argc, char **argv, const struct test_case *cases, size_t count)
{
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            set_up();
            limit_time((unsigned)(60 * slow_factor()));
            cases[i].run();
            clean_up();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 64;
}
