/* SPDX-License-Identifier: MIT */
/*
 * One connection, by the non-blocking half of libmariadb: an operation is begun, and goes on
 * whenever the socket is ready, until it is done or the deadline has come.
 *
 * Parts: steps; connecting; closing; texts.
 */
#include "my.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sql/lookup.h"

/* how long a peer may be silent at the level of TCP */
#define KEEP_IDLE_S 10
#define KEEP_EACH_S 5
#define KEEP_COUNT 3
#define UNACKED_MS 25000

/* a connection that was there a moment ago need not be looked at */
#define FRESH (20 * DIBS_MS)

/* ---- steps ---- */

/* waits until the socket is ready for one of `what`: which, or 0 at the deadline */
static int
wait_until_ready(const struct my_link *link, int what, dibs_time deadline)
{
    struct pollfd fd = { .fd = mysql_get_socket(link->mysql) };
    fd.events = (short)((what & MYSQL_WAIT_READ ? POLLIN : 0) |
                        (what & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                        (what & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
    for (;;) {
        dibs_time left = deadline - link->login->host->now();
        left = left > 0 ? left : 0;
        struct timespec limit = { .tv_sec = (time_t)(left / (1000 * DIBS_MS)),
                                  .tv_nsec = (long)(left % (1000 * DIBS_MS)) };
        int count = ppoll(&fd, 1, deadline == DIBS_NEVER ? NULL : &limit, NULL);
        if (count > 0)
            break;
        if (count == 0 || errno != EINTR)
            return 0;
    }
    int is_over = fd.revents & (POLLERR | POLLHUP | POLLNVAL);
    return (fd.revents & POLLIN || is_over ? what & MYSQL_WAIT_READ : 0) |
           (fd.revents & POLLOUT || is_over ? what & MYSQL_WAIT_WRITE : 0) |
           (fd.revents & POLLPRI ? MYSQL_WAIT_EXCEPT : 0);
}

void
dibs__my_link_begin(struct my_link *link, my_step *step, void *of)
{
    link->step = step;
    link->of = of;
    link->waits_for = step(link, of, -1);
}

void
dibs__my_link_proceed(struct my_link *link)
{
    int what = link->waits_for;
    if (what)
        what = wait_until_ready(link, what, 0);
    if (what)
        link->waits_for = link->step(link, link->of, what);
}

int
dibs__my_link_finish(struct my_link *link, dibs_time deadline)
{
    while (link->waits_for) {
        int what = wait_until_ready(link, link->waits_for, deadline);
        if (!what) {
            link->is_broken = 1;
            return -1;
        }
        link->waits_for = link->step(link, link->of, what);
    }
    return 0;
}

int
dibs__my_link_do(struct my_link *link, my_step *step, void *of, dibs_time deadline)
{
    dibs__my_link_begin(link, step, of);
    return dibs__my_link_finish(link, deadline);
}

/* ---- connecting ---- */

static int
step_connect(struct my_link *link, void *of, int ready)
{
    const struct my_login *login = link->login;
    const struct my_address *at = of;
    if (ready >= 0)
        return mysql_real_connect_cont(&link->connected, link->mysql, ready);
    return mysql_real_connect_start(&link->connected, link->mysql, at ? at->host : NULL,
                                    login->user, login->password, login->database,
                                    at ? at->port : 0, login->socket, 0);
}

static void
set_tls(MYSQL *mysql, const struct my_login *login)
{
    my_bool yes = 1, verify = !login->insecure;
    if (!login->tls)
        return;
    mysql_optionsv(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_optionsv(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (login->ca)
        mysql_optionsv(mysql, MYSQL_OPT_SSL_CA, login->ca);
    if (login->cert) {
        mysql_optionsv(mysql, MYSQL_OPT_SSL_CERT, login->cert);
        mysql_optionsv(mysql, MYSQL_OPT_SSL_KEY, login->key);
    }
}

static void
set_options(MYSQL *mysql, const struct my_login *login)
{
    my_bool no = 0;
    unsigned file = 0;
    mysql_optionsv(mysql, MYSQL_OPT_NONBLOCK, NULL);
    if (login->defaults)
        mysql_optionsv(mysql, MYSQL_READ_DEFAULT_GROUP, "dibs");
    /* a new session under our feet would have none of our locks */
    mysql_optionsv(mysql, MYSQL_OPT_RECONNECT, &no);
    mysql_optionsv(mysql, MYSQL_OPT_LOCAL_INFILE, &file);
    mysql_optionsv(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "dibs");
    set_tls(mysql, login);
}

static void
set_socket(const struct my_link *link)
{
    const int idle = KEEP_IDLE_S, each = KEEP_EACH_S, count = KEEP_COUNT, yes = 1;
    const unsigned unacked = UNACKED_MS;
    int fd = mysql_get_socket(link->mysql);
    /* those of TCP fail on a Unix socket, which does not matter */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof unacked);
}

static int
connect_to(struct my_link *link, struct my_address *at, dibs_time deadline,
           dibs_error *err)
{
    int rc = dibs__sql_look_up(link->login->host, at ? at->host : NULL, deadline, err);
    if (rc)
        return rc;
    link->mysql = mysql_init(NULL);
    if (!link->mysql)
        return link->login->host->fail(err, DIBS_ENOMEM, "out of memory");
    set_options(link->mysql, link->login);
    dibs__my_link_begin(link, step_connect, at);
    if (mysql_get_socket(link->mysql) >= 0)
        (void)fcntl(mysql_get_socket(link->mysql), F_SETFD, FD_CLOEXEC);
    if (dibs__my_link_finish(link, deadline))
        return link->login->host->fail(err, DIBS_ETIMEDOUT,
                                       "the server did not answer in time");
    if (!link->connected)
        return dibs__my_trouble(link, mysql_errno(link->mysql), mysql_error(link->mysql),
                                0, err);
    set_socket(link);
    link->id = mysql_thread_id(link->mysql);
    link->is_mariadb = mariadb_connection(link->mysql);
    rc = dibs__my_greet(link, deadline, err);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* one server of the list; `at` is NULL if there is none */
static int
try_server(struct my_link *link, const struct my_login *login, struct my_address *at,
           dibs_time deadline, dibs_error *err)
{
    *link = (struct my_link){ .login = login };
    int rc = connect_to(link, at, deadline, err);
    if (rc)
        dibs__my_link_close(link, 0);
    return rc;
}

int
dibs__my_link_open(struct my_link *link, const struct my_login *login, dibs_time deadline,
                   dibs_error *err)
{
    struct my_address at;
    const char *rest = login->hosts;
    if (!*rest)
        return try_server(link, login, NULL, deadline, err);
    int rc = DIBS_EUNAVAIL;
    while (*rest && dibs__my_address_next(&at, &rest) == 0) {
        /* those that follow want their time as well */
        dibs_time now = login->host->now(), limit = deadline;
        if (*rest && deadline != DIBS_NEVER)
            limit = now + (deadline - now) / 2;
        rc = try_server(link, login, &at, limit, err);
        if (rc != DIBS_EUNAVAIL && rc != DIBS_ETIMEDOUT)
            break;
    }
    return rc;
}

/* ---- closing ---- */

/* What libmariadb says when it closes must not get to the server if that goes on talking to
 * another process, and must not wait if nobody listens. */
static void
mute(const struct my_link *link, int forked)
{
    int fd = mysql_get_socket(link->mysql);
    if (fd < 0)
        return;
    if (!forked) {
        (void)shutdown(fd, SHUT_RDWR);
        return;
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, fd);
        (void)close(null);
    }
}

void
dibs__my_link_close(struct my_link *link, int forked)
{
    if (!link->mysql)
        return;
    if (forked &&
        link->is_busy) { /* with a thread that is not here: as it is in a call */
        (void)close(mysql_get_socket(link->mysql));
        return;
    }
    if (forked || link->is_broken || link->waits_for)
        mute(link, forked);
    mysql_close(link->mysql);
    for (size_t i = 0; i < SQL_STATEMENTS; i++)
        dibs__my_statement_free(link->login->host, link->statements[i]);
    *link = (struct my_link){ .login = link->login };
}

/* What comes while nothing was asked is the server's farewell; but over TLS it may be the
 * tickets that follow the handshake. */
int
dibs__my_link_is_closed(struct my_link *link)
{
    short farewell = link->login->tls ? POLLRDHUP : POLLIN | POLLRDHUP;
    struct pollfd fd = { .fd = mysql_get_socket(link->mysql), .events = farewell };
    dibs_time now = link->login->host->now();
    if (now - link->seen_open < FRESH)
        return link->is_broken;
    if (!link->is_broken && poll(&fd, 1, 0) != 0)
        link->is_broken = 1;
    link->seen_open = now;
    return link->is_broken;
}

/* ---- texts ---- */

int
dibs__my_step_query(struct my_link *link, void *of, int ready)
{
    const char *text = of;
    if (ready >= 0)
        return mysql_real_query_cont(&link->said, link->mysql, ready);
    return mysql_real_query_start(&link->said, link->mysql, text, strlen(text));
}

static int
step_store(struct my_link *link, void *of, int ready)
{
    (void)of;
    return ready < 0 ? mysql_store_result_start(&link->stored, link->mysql)
                     : mysql_store_result_cont(&link->stored, link->mysql, ready);
}

static int
say_trouble(struct my_link *link, dibs_error *err)
{
    unsigned number = mysql_errno(link->mysql);
    link->is_broken |= dibs__my_is_fatal(number);
    return dibs__my_trouble(link, number, mysql_error(link->mysql), 1, err);
}

int
dibs__my_link_exec(struct my_link *link, const char *text, dibs_time deadline,
                   dibs_error *err)
{
    if (dibs__my_link_do(link, dibs__my_step_query, (void *)text, deadline))
        return dibs__my_too_late(link, err);
    return link->said ? say_trouble(link, err) : DIBS_OK;
}

int
dibs__my_link_ask(struct my_link *link, const char *text, MYSQL_RES **out,
                  dibs_time deadline, dibs_error *err)
{
    int rc = dibs__my_link_exec(link, text, deadline, err);
    if (rc)
        return rc;
    if (dibs__my_link_do(link, step_store, NULL, deadline))
        return dibs__my_too_late(link, err);
    if (!link->stored)
        return say_trouble(link, err);
    *out = link->stored;
    return DIBS_OK;
}
