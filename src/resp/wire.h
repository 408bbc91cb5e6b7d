/* SPDX-License-Identifier: MIT */
/*
 * A connection to a server, and the parser of what comes in. Known to the files of this
 * folder only.
 *
 * connect.c makes it, hello.c signs in, tls.c encrypts it, wire.c writes and reads.
 * One thread may write while another reads; two of a kind may not.
 */
#ifndef DIBS_RESP_WIRE_H
#define DIBS_RESP_WIRE_H

#include <sys/types.h>

#include "resp/resp.h"

/* A blocking read comes back after this long, so that its caller can look around. */
#define WIRE_SLICE (50 * DIBS_MS)

/* Who we are to the server, as it said itself. id 0: it did not say. The address keeps us
 * from meaning another client that has the same id on another server, or after a restart. */
struct wire_self {
    int64_t id;
    char address[128];
};

struct tls;

struct wire {
    const resp_access *access;
    int fd;      /* -1: not connected */
    int wake_fd; /* connecting and reading end early when this is readable; -1: none */
    struct tls *tls;
    redisReader *reader;
    size_t unparsed; /* bytes since the last complete reply */
    int is_closed;   /* the server (or break_off) ended it */
    int is_refused;  /* the server ended it because of our certificate */
    int is_near;     /* a round trip on the network takes almost no time */
    struct wire_self self;
    char where[280]; /* the address, for messages */
};

/* where writes an address for messages; 280 bytes are enough. */
void dibs__wire_where(char *out, size_t size, const resp_address *address);

/* init makes a wire that is not connected. */
void dibs__wire_init(struct wire *wire, const resp_access *access, int wake_fd);

/* open connects and signs in. `kill`: a connection of ours that the server is to close
 * first; NULL: none. DIBS_OK, EUNAVAIL, EDENIED, ENOMEM; if it fails, the wire is closed. */
int dibs__wire_open(struct wire *wire, const resp_address *address,
                    const struct wire_self *kill, dibs_time deadline, dibs_error *err);

/* close may be repeated. `forked`: only descriptors. break_off makes whoever reads or
 * writes find the connection ended. */
void dibs__wire_close(struct wire *wire, int forked);
void dibs__wire_break_off(struct wire *wire);

/* send never waits. It returns how many bytes it took, fewer than `len` if the socket is
 * full, or -1 (errno). With TLS a rest may be left of what it took (has_rest), which the
 * next send puts out first, even one of no bytes. */
ssize_t dibs__wire_send(struct wire *wire, const char *bytes, size_t len);
int dibs__wire_has_rest(const struct wire *wire);

/* write sends all of it: 0, or -1 if the connection is broken or the deadline passed. */
int dibs__wire_write(struct wire *wire, const char *bytes, size_t len,
                     dibs_time deadline);

/* read waits for bytes and feeds them to the parser: 1 there are some; 0 not yet: the
 * deadline passed, or it was woken, or some time has gone by, or `or_room` and one can
 * write; -1 the connection is over, and err says why. */
int dibs__wire_read(struct wire *wire, int or_room, dibs_time deadline, dibs_error *err);

/* receive is read without waiting for anything. */
int dibs__wire_receive(struct wire *wire, dibs_error *err);

/* parse takes the next reply: 1 and a reply, 0 none complete, -1 not the protocol. */
int dibs__wire_parse(struct wire *wire, redisReply **reply, dibs_error *err);

/* is_quiet says that nothing has come in, also not the end, since it was last read. */
int dibs__wire_is_quiet(struct wire *wire);

/* ---- among the files of a wire ---- */

/* reader: what parses, and believes no length that it is told. NULL: out of memory. */
redisReader *dibs__wire_reader(void);

/* connect: a socket that is connected. DIBS_OK, EUNAVAIL. */
int dibs__wire_connect(struct wire *wire, const resp_address *address, dibs_time deadline,
                       dibs_error *err);
/* is_near: what wire->is_near says, as the kernel has measured it so far */
int dibs__wire_is_near(const struct wire *wire);
int dibs__wire_hello(struct wire *wire, const struct wire_self *kill, dibs_time deadline,
                     dibs_error *err);

/* wait: poll until one of `events`, or the deadline, or (with POLLIN) woken. Returns the events that
 * came, 0 if none. */
short dibs__wire_wait(const struct wire *wire, short events, dibs_time deadline);

/* timeout is what to poll with: ms until the deadline, rounded up; -1: no limit. */
int dibs__wire_timeout(const struct wire *wire, dibs_time deadline);

/* fail_connect: EUNAVAIL, "connect to WHERE: why" */
int dibs__wire_fail_connect(const struct wire *wire, const char *why, dibs_error *err);
/* fail: -1, with that text */
int dibs__wire_fail(const struct wire *wire, const char *why, dibs_error *err);
/* feed: 0, or -1 and err */
int dibs__wire_feed(struct wire *wire, const char *bytes, size_t len, dibs_error *err);

/* start shakes hands, and checks that the server is `host`. DIBS_OK, EUNAVAIL, EDENIED
 * (one of us does not accept the other's certificate), ENOMEM. take decrypts what was
 * received and feeds it: as wire_read. */
int dibs__tls_start(struct wire *wire, const char *host, dibs_time deadline,
                    dibs_error *err);
void dibs__tls_end(struct wire *wire);
ssize_t dibs__tls_send(struct wire *wire, const char *bytes, size_t len);
int dibs__tls_has_rest(const struct tls *tls);
int dibs__tls_take(struct wire *wire, const char *bytes, size_t len, dibs_error *err);

#endif /* DIBS_RESP_WIRE_H */
