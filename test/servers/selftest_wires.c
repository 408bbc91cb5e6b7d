/* SPDX-License-Identifier: MIT */
/* Tests of what wires do to bytes, so that a test which spoils them can rely on it:
 * `test_wires CASE`. The server is our own, in a thread: it sends back what it gets. Parts:
 * the server, the client, cases. */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"

#define TALKS_MAX 16

static wires line;

/* what the server saw */
static int listener;
static _Atomic int reads, ends, breaks;
static _Atomic size_t got;

/* ---- the server ---- */

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* -1 when there is nothing more to come */
static int
echo(int fd)
{
    char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    if (n > 0) {
        reads++;
        got += (size_t)n;
        (void)!send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
        return fd;
    }
    *(n == 0 ? &ends : &breaks) += 1;
    close(fd);
    return -1;
}

static void
serve(void *arg, int index)
{
    struct pollfd fds[TALKS_MAX] = { { listener, POLLIN, 0 } };
    int count = 1;
    (void)arg;
    (void)index;
    for (;;) {
        CHECK(poll(fds, (nfds_t)count, -1) > 0);
        for (int i = 1; i < count; i++) {
            fds[i].fd = fds[i].revents != 0 ? echo(fds[i].fd) : fds[i].fd;
        }
        if (fds[0].revents != 0) {
            CHECK(count < TALKS_MAX);
            fds[count++] =
                (struct pollfd){ accept4(listener, NULL, NULL, SOCK_CLOEXEC), POLLIN, 0 };
        }
    }
}

static void
start(void)
{
    int port = port_take();
    struct sockaddr_in address = loopback(port);
    wires_start(&line, &port, 1);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(listener, TALKS_MAX) == 0);
    /* it ends with the process */
    (void)gang_start(1, serve, NULL);
}

static void
clean_up(void)
{
    wires_stop(&line);
}

/* ---- the client ---- */

static int
talk(void)
{
    struct sockaddr_in address = loopback(line.ports[0]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static void
say(int fd, const char *text)
{
    CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static int
comes(int fd, int64_t limit_ms)
{
    struct pollfd look = { .fd = fd, .events = POLLIN };
    return poll(&look, 1, (int)limit_ms) == 1;
}

/* the next bytes are these */
static void
hear(int fd, const char *want)
{
    char bytes[256];
    size_t have = 0, len = strlen(want);
    while (have < len) {
        CHECK(comes(fd, slowly(2000)));
        ssize_t n = recv(fd, bytes + have, len - have, 0);
        CHECK(n > 0);
        have += (size_t)n;
    }
    CHECK(memcmp(bytes, want, len) == 0);
}

/* nothing comes any more: 0 if it ended, else the errno */
static int
hear_end(int fd)
{
    char byte;
    CHECK(comes(fd, slowly(2000)));
    ssize_t n = recv(fd, &byte, 1, 0);
    CHECK(n <= 0);
    return n == 0 ? 0 : errno;
}

static void
exchange(int fd, const char *text)
{
    say(fd, text);
    hear(fd, text);
}

static void
down(wires_fault fault)
{
    wires_spoil(&line, 0, WIRES_DOWN, &fault);
}

static void
up(wires_fault fault)
{
    wires_spoil(&line, 0, WIRES_UP, &fault);
}

static void
await(const _Atomic int *number, int want)
{
    for (int64_t until = now_ms() + slowly(2000); *number < want; sleep_ms(1)) {
        CHECK(now_ms() < until);
    }
}

static int
struck(void)
{
    return wires_counted(&line, 0).struck;
}

/* ---- cases ---- */

static void
test_counts(void)
{
    int one = talk(), other = talk();
    exchange(one, "ab");
    exchange(one, "c");
    exchange(other, "def");
    wires_count count = wires_counted(&line, 0);
    CHECK(count.connections == 2 && count.struck == 0);
    CHECK(count.messages[WIRES_UP] == 3 && count.messages[WIRES_DOWN] == 3);
    CHECK(count.bytes[WIRES_UP] == 6 && count.bytes[WIRES_DOWN] == 6);
    down((wires_fault){ 0 });
    exchange(one, "g");
    count = wires_counted(&line, WIRES_ALL);
    CHECK(count.messages[WIRES_UP] == 4 && count.messages[WIRES_DOWN] == 1);
    CHECK(count.bytes[WIRES_DOWN] == 1);
}

static void
test_delay(void)
{
    int fd = talk();
    up((wires_fault){ .delay_ms = 80, .jitter_ms = 20 });
    down((wires_fault){ .delay_ms = 50 });
    for (int i = 0; i < 3; i++) {
        int64_t from = now_ms();
        exchange(fd, "a");
        CHECK_WITHIN(now_ms() - from, 109, 150 + slowly(100));
    }
    /* what is sent meanwhile does not wait for what was sent before */
    int64_t from = now_ms();
    for (int i = 0; i < 5; i++) {
        say(fd, "b");
        sleep_ms(10);
    }
    hear(fd, "bbbbb");
    CHECK_WITHIN(now_ms() - from, 150, 200 + slowly(100));
    wires_flow(&line, 0);
    from = now_ms();
    exchange(fd, "c");
    CHECK_WITHIN(now_ms() - from, 0, 49 + slowly(10));
}

static void
test_late(void)
{
    int fd = talk();
    down((wires_fault){ .once = WIRES_LATE, .at = 2, .late_ms = 200 });
    exchange(fd, "a");
    int64_t from = now_ms();
    exchange(fd, "b");
    CHECK_WITHIN(now_ms() - from, 199, 200 + slowly(100));
    from = now_ms();
    exchange(fd, "c");
    CHECK_WITHIN(now_ms() - from, 0, 100);
    CHECK_SAME(struck(), 1);
}

static void
test_rate(void)
{
    int fd = talk();
    char text[201];
    memset(text, 'x', 200);
    text[200] = '\0';
    down((wires_fault){ .rate = 1000 });
    int64_t from = now_ms();
    exchange(fd, text);
    CHECK_WITHIN(now_ms() - from, 180, 250 + slowly(300));
}

/* how many packets with bytes the kernel has taken in */
static int
packets(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    memset(&info, 0, sizeof(info));
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    return (int)info.tcpi_data_segs_in;
}

static void
test_split(void)
{
    int fd = talk();
    char text[101];
    memset(text, 'x', 100);
    text[100] = '\0';
    /* slow enough that the kernel does not put pieces together, but not cut up by that */
    down((wires_fault){ .rate = 10000 });
    exchange(fd, text);
    CHECK_SAME(packets(fd), 1);
    down((wires_fault){ .rate = 10000, .split = 1 });
    exchange(fd, text);
    CHECK_WITHIN(packets(fd), 50, 101);
}

static void
test_merge(void)
{
    int fd = talk(), yes = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0);
    up((wires_fault){ .merge_ms = (int)slowly(100) });
    for (int i = 0; i < 5; i++) {
        say(fd, "a");
        sleep_ms(2);
    }
    hear(fd, "aaaaa");
    CHECK_SAME(reads, 1);
}

/* before a request, after it, and before its answer */
static void
test_cut(void)
{
    int fd = talk();
    up((wires_fault){ .once = WIRES_CUT, .at = 2 });
    exchange(fd, "a");
    say(fd, "b");
    CHECK_SAME(hear_end(fd), 0);
    CHECK_SAME(got, 1);
    await(&ends, 1);

    fd = talk();
    up((wires_fault){ .once = WIRES_CUT, .at = 1, .bytes = -1 });
    say(fd, "cd");
    CHECK_SAME(hear_end(fd), 0);
    await(&reads, 2);
    CHECK_SAME(got, 3);

    fd = talk();
    down((wires_fault){ .once = WIRES_CUT, .at = 2 });
    exchange(fd, "e");
    say(fd, "f");
    CHECK_SAME(hear_end(fd), 0);
    CHECK_SAME(got, 5);
    CHECK_SAME(struck(), 3);
    exchange(talk(), "others are not cut");
}

/* by the bytes of a message, and by those of the wire */
static void
test_truncate(void)
{
    int one = talk(), other = talk();
    down((wires_fault){ .once = WIRES_CUT, .at = 2, .bytes = 2 });
    exchange(one, "abcd");
    say(one, "efgh");
    hear(one, "ef");
    CHECK_SAME(hear_end(one), 0);
    one = talk();
    down((wires_fault){ .once = WIRES_CUT, .bytes = 7 });
    exchange(one, "abc");
    exchange(other, "def");
    say(one, "ghi");
    hear(one, "g");
    CHECK_SAME(hear_end(one), 0);
    exchange(other, "not cut");
    /* none is so long */
    down((wires_fault){ .once = WIRES_CUT, .at = 1, .bytes = 5 });
    exchange(other, "abcd");
    exchange(other, "efgh");
    CHECK_SAME(struck(), 2);
}

static void
test_reset(void)
{
    int fd = talk();
    down((wires_fault){ .once = WIRES_RESET, .at = 1 });
    say(fd, "a");
    CHECK_SAME(hear_end(fd), ECONNRESET);
    await(&breaks, 1);
    CHECK_SAME(ends, 0);
}

/* the other way goes on */
static void
test_end(void)
{
    int fd = talk();
    down((wires_fault){ .once = WIRES_END, .at = 1, .bytes = 1 });
    say(fd, "ab");
    hear(fd, "a");
    CHECK_SAME(hear_end(fd), 0);
    say(fd, "cd");
    await(&reads, 2);
    CHECK_SAME(got, 4);
    CHECK_SAME(ends + breaks, 0);
    close(fd);
    /* what was never read makes it a break, if that comes first */
    for (int64_t until = now_ms() + slowly(2000); ends + breaks == 0; sleep_ms(1)) {
        CHECK(now_ms() < until);
    }
}

static void
test_lose(void)
{
    int fd = talk();
    down((wires_fault){ .once = WIRES_LOSE, .at = 2 });
    exchange(fd, "a");
    say(fd, "b");
    await(&reads, 2);
    say(fd, "c");
    await(&reads, 3);
    CHECK(!comes(fd, 100));
    exchange(talk(), "others hear all");
    CHECK_SAME(ends, 0);
    close(fd);
    await(&ends, 1);
}

static void
test_repeat(void)
{
    int fd = talk();
    down((wires_fault){ .once = WIRES_REPEAT, .at = 2 });
    exchange(fd, "ab");
    say(fd, "cd");
    hear(fd, "cdcd");
    exchange(fd, "ef");
    CHECK(!comes(fd, 50));
}

static void
test_flip(void)
{
    char bytes[3] = "";
    int fd = talk();
    down((wires_fault){ .once = WIRES_FLIP, .at = 2, .bytes = 1, .seed = 7 });
    exchange(fd, "abc");
    say(fd, "def");
    hear(fd, "d");
    CHECK(recv(fd, bytes, 1, MSG_WAITALL) == 1);
    CHECK_SAME(__builtin_popcount((unsigned char)(bytes[0] ^ 'e')), 1);
    hear(fd, "f");
    exchange(fd, "ghi");
}

static void
test_flips(void)
{
    char text[20001], bytes[20000];
    int fd = talk(), flipped = 0;
    memset(text, 'x', 20000);
    text[20000] = '\0';
    down((wires_fault){ .flip_ppm = 10000, .seed = 7 });
    say(fd, text);
    CHECK(recv(fd, bytes, sizeof(bytes), MSG_WAITALL) == (ssize_t)sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        flipped += bytes[i] != 'x';
    }
    CHECK_WITHIN(flipped, 100, 300);
}

static const struct test_case cases[] = {
    { "counts", test_counts },     { "delay", test_delay }, { "late", test_late },
    { "rate", test_rate },         { "split", test_split }, { "merge", test_merge },
    { "cut", test_cut },           { "reset", test_reset }, { "end", test_end },
    { "truncate", test_truncate }, { "lose", test_lose },   { "repeat", test_repeat },
    { "flip", test_flip },         { "flips", test_flips },
};

int
main(int argc, char **argv)
{
    const struct test_case *found =
        find_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
    if (found == NULL) {
        return 2;
    }
    on_failure(clean_up);
    limit_time(20 * (unsigned)slow_factor());
    start();
    found->run();
    clean_up();
    return 0;
}
