/* SPDX-License-Identifier: MIT */
/*
 * What the tests of src/resp share: a host as core would lend it, and short ways to ask.
 * relay.c stands between a client and a server, and can keep back what it should pass on.
 */
#ifndef TEST_RESP_H
#define TEST_RESP_H

#include "cases.h"
#include "resp/resp.h"
#include "servers.h"

/* host is what core lends an engine, with plain malloc behind it. */
extern const dibs_host test_host;

/* in_ms is a deadline. It is not scaled: some are meant to pass. far is one that is not. */
dibs_time in_ms(int64_t ms);
dibs_time far(void);

/* plain_access lets us in at a server that asks for nothing. */
resp_access plain_access(unsigned connections);
resp_address address_of(const server *to);

/* ask sends one command, the words of which end with NULL, as dibs__resp_call does. The
 * reply is NULL if the code is not DIBS_OK. */
int ask_words(resp_server *to, uint64_t hash, dibs_time deadline, redisReply **reply,
              dibs_error *err, const char *const *words);
#define ask(server, hash, deadline, reply, err, ...)                                     \
    ask_words(server, hash, deadline, reply, err,                                        \
              (const char *const[]){ __VA_ARGS__, NULL })

/* add_command adds one to a request. */
void add_command_words(resp_request *request, const char *const *words);
#define add_command(request, ...)                                                        \
    add_command_words(request, (const char *const[]){ __VA_ARGS__, NULL })

/* must_ask is ask that has to work, and returns the integer that was answered, or 0. */
int64_t must_ask_words(resp_server *to, uint64_t hash, const char *const *words);
#define must_ask(server, hash, ...)                                                      \
    must_ask_words(server, hash, (const char *const[]){ __VA_ARGS__, NULL })

/* settle waits until all connections of a server have answered all they owe. */
void settle(resp_server *to);

/* ---- relay ---- */

/* relay_start passes connections to its port on to another one. */
struct relay;
struct relay *relay_start(int to_port);
void relay_stop(struct relay *relay);
int relay_port(const struct relay *relay);

/* relay_hold keeps back what clients send over the connections there are now;
 * relay_let_go passes the first bytes of it on, or all if that is 0, and no longer keeps
 * anything back then. relay_hang_up ends the clients' side of connections that are
 * held; the server's side stays. relay_count counts connections since the start. */
void relay_hold(struct relay *relay);
void relay_let_go(struct relay *relay, size_t bytes);
void relay_hang_up(struct relay *relay);
int relay_count(struct relay *relay);

#endif /* TEST_RESP_H */
