/* SPDX-License-Identifier: MIT */
/* Names of hosts that cannot be looked up, addresses of which only one is right, and no port
 * to connect from. All this in a network of our own, from which nothing gets out. See
 * scarce.h. */
#include "scarce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOWHERE "nowhere.invalid"
/* how long the system waits for a resolver that says nothing: see resolv.conf */
#define SILENCE_MS 6000
#define LIMIT_MS 300

/* ---- the network ---- */

static int
raise_loopback(void)
{
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &lo);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* puts a text in the place of a file, for us alone */
static int
replace(const char *path, const char *text)
{
    char folder[64], file[96];
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(file, sizeof(file), "%s/file", folder);
    FILE *out = fopen(file, "we");
    CHECK(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
    CHECK(chmod(file, 0644) == 0);
    int rc = mount(file, path, NULL, MS_BIND, NULL);
    remove_tree(folder);
    return rc;
}

int
names_prepare(void)
{
    char host[65] = "", hosts[256];
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(hosts, sizeof(hosts),
                   "127.0.0.1 localhost %s\n::1 six\n::1 both\n127.0.0.1 both\n", host);
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 &&
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        raise_loopback() == 0 && replace("/etc/hosts", hosts) == 0 &&
        replace("/etc/nsswitch.conf", "hosts: files dns\n") == 0 &&
        replace("/etc/resolv.conf",
                "nameserver 127.0.0.1\noptions timeout:3 attempts:2\n") == 0) {
        return 0;
    }
    printf("skipped: cannot have a network of its own: %s\n", strerror(errno));
    return -1;
}

/* ---- names ---- */

static void
open_fails(const char *host, const char *why)
{
    char url[512];
    dibs *client = NULL;
    one_url(url, sizeof(url), host);
    timed call = begin_timed(why, LIMIT_MS);
    GIVES(DIBS_EUNAVAIL, end_timed(&call, try_open(&client, url, LIMIT_MS)));
    CHECK_SAYS(host);
}

static void
open_works(const char *host)
{
    char url[512];
    one_url(url, sizeof(url), host);
    dibs *client = open_url("%s", url);
    OK(try_once(client, "name"));
    dibs_close(client);
}

/* a resolver that takes every question and answers none */
static int
open_silent_resolver(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(53) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

/* ---- those who ask again and again ---- */

#define CROWD 4
#define TRIES 5

/* databases' own clients look up names in one go: a thread of ours does it before them */
static int
asks_by_thread(void)
{
    return strcmp(at->engine, "postgres") == 0 || strcmp(at->engine, "mysql") == 0;
}

static void
try_some_times(void *arg, int index)
{
    (void)arg, (void)index;
    for (int i = 0; i < TRIES; i++) {
        dibs *client = NULL;
        char url[512];
        one_url(url, sizeof(url), NOWHERE);
        GIVES(DIBS_EUNAVAIL, try_open(&client, url, LIMIT_MS / 3));
    }
}

/* one thread asks, however many want to know and however often they try */
static void
open_in_vain(void)
{
    int threads = count_threads();
    gang_join(gang_start(CROWD, try_some_times, NULL));
    CHECK_WITHIN(count_threads(), threads - 1, threads + 1);
}

void
run_names(void)
{
    int threads = count_threads();
    one_start(NULL);
    open_fails(NOWHERE, "no resolver");
    int fd = open_silent_resolver();
    open_fails(NOWHERE, "silent resolver");
    if (asks_by_thread()) {
        open_in_vain();
    }
    /* who asks for a name goes on asking, behind our back */
    CHECK_SAME(threads_settle(threads, SILENCE_MS + slowly(1000)), threads);
    close(fd);
    open_works("both");
}

/* ---- IPv6 ---- */

int
six_prepare(void)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6,
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    if (names_prepare() != 0) {
        return -1;
    }
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
    if (fd >= 0) {
        close(fd);
    }
    if (rc != 0) {
        printf("skipped: there is no IPv6\n");
    }
    return rc;
}

/* etcd must know its port for that */
static void
restart_etcd(void)
{
    static char urls[96];
    static const char *const more[] = { "--listen-client-urls", urls, NULL };
    (void)snprintf(urls, sizeof(urls), "http://127.0.0.1:%d,http://[::1]:%d", one.port,
                   one.port);
    server_kill(&one);
    one.options.more = more;
    server_restart(&one);
}

void
run_six(void)
{
    static const char *const redis[] = { "--bind", "127.0.0.1", "::1", NULL };
    static const char *const consul[] = { "-client=127.0.0.1 ::1", NULL };
    static const char *const mysql[] = { "--bind-address=127.0.0.1,::1", NULL };
    static const struct {
        const char *engine, *config;
        const char *const *more;
    } both[] = {
        { "redis", NULL, redis },
        { "consul", NULL, consul },
        { "mysql", NULL, mysql },
        { "postgres", "listen_addresses = '127.0.0.1,::1'", NULL },
        { "etcd", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
        if (strcmp(both[i].engine, at->engine) == 0) {
            server_options options = { .config = both[i].config, .more = both[i].more };
            one_start(&options);
        }
    }
    if (strcmp(at->engine, "etcd") == 0) {
        restart_etcd();
    }
    open_works("[::1]");
    open_works("six");
}

/* ---- ports ---- */

#define PORTS 4

static void
narrow_ports(int low, int high)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "we");
    CHECK(file != NULL && fprintf(file, "%d %d\n", low, high) > 0 && fclose(file) == 0);
}

/* a connection to the server that leaves nothing behind when it is closed; -1: no port */
static int
take_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)one.port) };
    struct linger none = { 1, 0 };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }
    CHECK(errno == EADDRNOTAVAIL);
    close(fd);
    return -1;
}

static int fds[PORTS + 1], fd_count;

static void
take_all_ports(void)
{
    narrow_ports(40000, 40000 + PORTS - 1);
    while ((fds[fd_count] = take_port()) >= 0) {
        CHECK(++fd_count <= PORTS);
    }
    CHECK(fd_count > 0);
}

static void
give_all_ports(void)
{
    while (fd_count > 0) {
        close(fds[--fd_count]);
    }
    narrow_ports(32768, 60999);
}

/* who has a connection goes on, others are told */
void
run_ports(void)
{
    char url[512];
    dibs *other = NULL;
    one_start(NULL);
    one_url(url, sizeof(url), "127.0.0.1");
    dibs *client = open_url("%s", url);
    dibs_hold *hold = take(client, "held", SHORT_MS);
    take_all_ports();
    timed call = begin_timed("no port", LIMIT_MS);
    GIVES(DIBS_EUNAVAIL, end_timed(&call, try_open(&other, url, LIMIT_MS)));
    sleep_ms(2 * SHORT_MS);
    CHECK(dibs_held(hold));
    give_all_ports();
    other = open_url("%s", url);
    GIVES(DIBS_EBUSY, try_once(other, "held"));
    give(hold);
    OK(try_once(other, "held"));
    dibs_close(other);
    dibs_close(client);
}
