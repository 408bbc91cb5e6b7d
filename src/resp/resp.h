/* SPDX-License-Identifier: MIT */
/*
 * The RESP link: how the engines redis and redlock speak to a server. It knows the
 * protocol and connections, and nothing of locks.
 *
 * access.c reads how to get in from a URL. request.c builds what is sent, and script.c what
 * runs a script; hiredis' reader parses what comes back, and reply.c says what it means.
 * wire.c is a connection, with deadlines: connect.c gets there (TCP or Unix socket), tls.c
 * encrypts, hello.c signs in. link.c shares one connection among threads: whoever calls does
 * the round trip, and carries those who come meanwhile; op.c is how they sleep. server.c is
 * one server with a few links, and chooses among them. listener.c is the subscription
 * connection and its thread.
 */
#ifndef DIBS_RESP_H
#define DIBS_RESP_H

#include <hiredis/hiredis.h>

#include <dibs/engine.h>

/* ---- where to, and how to get in ---- */

/* port 0: host is the path of a Unix socket */
typedef struct resp_address {
    char host[256];
    uint16_t port;
} resp_address;

typedef struct resp_tls resp_tls;

/* The same for all servers of a client; everything outlives the servers. */
typedef struct resp_access {
    const dibs_host *host;
    const char *user, *password; /* NULL: none. Never printed. */
    int db;
    const char *client_name; /* for CLIENT SETNAME, which only allows '!' to '~' */
    resp_tls *tls;           /* NULL: in the clear */
    unsigned connections;    /* per server, at least 1 */
} resp_access;

/* TLS settings: file names or NULL. `name` is verified instead of the address. */
typedef struct resp_tls_files {
    const char *ca, *cert, *key, *name;
    int insecure; /* do not verify the server */
} resp_tls_files;

/* DIBS_OK, DIBS_ECONFIG (with what OpenSSL said), DIBS_ENOMEM */
int dibs__resp_tls_new(resp_tls **out, const resp_tls_files *files, const dibs_host *host,
                       dibs_error *err);
void dibs__resp_tls_free(resp_tls *tls, const dibs_host *host);

/* access_begin takes who we are from a URL; access_tls the settings of TLS, and makes
 * access->tls. It encrypts if `is_wanted`, unless tls= says something else. `ways`: how TLS is
 * asked for, for who has settings without it. DIBS_OK, DIBS_ECONFIG, DIBS_ENOMEM */
void dibs__resp_access_begin(resp_access *access, const dibs_url_parts *url,
                             const dibs_host *host);
int dibs__resp_access_tls(resp_access *access, const dibs_url_parts *url, int is_wanted,
                          const char *ways, dibs_error *err);

/* address_parse reads "host", "host:port" or "[v6]:port"; `text` ends at `len`. 0 or -1. */
int dibs__resp_address_parse(resp_address *out, const char *text, size_t len,
                             uint16_t default_port);

/* ---- requests ---- */

/* One command under construction: words that must outlive it, and numbers. */
#define RESP_WORDS 40
#define RESP_NUMBERS 16
typedef struct resp_command {
    int count, number_count;
    const char *words[RESP_WORDS];
    size_t lengths[RESP_WORDS];
    char numbers[RESP_NUMBERS][24];
} resp_command;

void dibs__resp_word(resp_command *command, const char *text);
void dibs__resp_bytes(resp_command *command, const void *bytes, size_t len);
void dibs__resp_number(resp_command *command, int64_t number);

/* A script in Lua, and the SHA-1 of its text in hex digits: what a server that has seen it
 * knows it by. The text outlives it. init: DIBS_OK or DIBS_ENOMEM. begin begins a command
 * that runs it, up to the number of keys; keys and arguments are the caller's to add. name
 * has such a command say the script's name, or bring its text. */
#define RESP_SHA 40
typedef struct resp_script {
    const char *text;
    size_t len;
    char sha[RESP_SHA];
} resp_script;

int dibs__resp_script_init(resp_script *script, const char *text);
void dibs__resp_script_begin(resp_command *command, const resp_script *script,
                             unsigned key_count);
void dibs__resp_script_name(resp_command *command, const resp_script *script,
                            int with_text);

/* Commands that travel together on one connection, in their order. Zero it first; free
 * with request_free. add: 0, or DIBS_ENOMEM. */
typedef struct resp_request {
    char *bytes;
    size_t len, room;
    unsigned commands;
} resp_request;

int dibs__resp_add(resp_request *request, const resp_command *command);
void dibs__resp_request_free(resp_request *request);

/* ---- servers ---- */

typedef struct resp_server resp_server;
typedef struct resp_op resp_op;

/* Does not connect: the first call does, within its deadline. free wants no call under
 * way; `forked`: we are in a child, so only close descriptors. */
resp_server *dibs__resp_server_new(const resp_access *access,
                                   const resp_address *address);
void dibs__resp_server_free(resp_server *server, int forked);
const resp_address *dibs__resp_server_address(const resp_server *server);

/* send hands a request to a connection. What is sent with one hash is executed in order,
 * also after a time-out or a lost connection: as long as anything of it may still be
 * under way, the next one goes the same way behind it. It connects first if it must. wait waits for the replies, one for each command, and ends
 * the op whatever it returns; free the replies with freeReplyObject. A reply may be an
 * error: that is the caller's to read (reply.c). If the deadline passes first, the replies
 * are dropped when they come, and the connection stays as it is.
 *   send: DIBS_OK, EUNAVAIL (surely not sent), EDENIED (the server does not let us in),
 *     ENOMEM.
 *   wait: DIBS_OK, EUNKNOWN (sent, but no answer), EUNAVAIL (surely not sent).
 * call is both. Any number of threads; one thread may have several ops under way on
 * different servers. */
int dibs__resp_send(resp_server *server, uint64_t hash, const resp_request *request,
                    dibs_time deadline, resp_op **op, dibs_error *err);
int dibs__resp_wait(resp_op *op, dibs_time deadline, redisReply **replies,
                    dibs_error *err);
int dibs__resp_call(resp_server *server, uint64_t hash, const resp_request *request,
                    dibs_time deadline, redisReply **replies, dibs_error *err);

/* is_stalled says whether the server owes replies that somebody gave up waiting for, with
 * this hash, or with any if nothing of this hash is under way: what is sent now will be
 * answered late, if at all. */
int dibs__resp_is_stalled(resp_server *server, uint64_t hash);

/* lane is a number below 64: what has the same lane is executed in order, too, so it may
 * travel in one request, with any hash of that lane. */
unsigned dibs__resp_lane(const resp_server *server, uint64_t hash);

/* What a URL asks for, so that forgetting does no harm: of all locks, of the last ones too. */
enum resp_care { RESP_NO_CARE, RESP_GUARDED, RESP_QUARANTINED };

/* warn writes what users of such a server should know, if there is anything: risk.c. judge
 * does so by what the server said to the requests that ask_risk writes, RESP_RISKS of them;
 * these may be errors. */
#define RESP_RISKS 3
void dibs__resp_ask_risk(resp_command commands[RESP_RISKS]);
void dibs__resp_warn(char *notice, size_t size, resp_server *server, enum resp_care care,
                     dibs_time deadline);
void dibs__resp_judge(char *notice, size_t size, redisReply *const replies[RESP_RISKS],
                      enum resp_care care);

/* ---- replies ---- */

/* What an error reply means to us. */
enum resp_trouble {
    RESP_FINE, /* not an error */
    RESP_NOSCRIPT,
    RESP_MOVED,
    RESP_ASK,
    RESP_NOT_NOW,   /* LOADING, TRYAGAIN, CLUSTERDOWN, BUSY, MISCONF, OOM */
    RESP_NOT_HERE,  /* READONLY, MASTERDOWN, NOREPLICAS (they may have left for another
                     * one): ask who is the master now */
    RESP_DENIED,    /* NOAUTH, WRONGPASS, NOPERM */
    RESP_WRONGTYPE, /* the key is something else */
    RESP_OTHER
};
enum resp_trouble dibs__resp_trouble(const redisReply *reply);

/* Integers as integers or as digits; `otherwise` if it is neither. */
int64_t dibs__resp_integer(const redisReply *reply, int64_t otherwise);
/* The i-th element of an array, or NULL. */
redisReply *dibs__resp_element(const redisReply *reply, size_t i);
int dibs__resp_is_text(const redisReply *reply, const char *text);

/* ---- listening ---- */

/* All three are called on the listener's thread, which starts with the first subscription;
 * heard and gap also on a thread that borrows the connection. They may ring bells, not
 * subscribe. */
typedef struct resp_listener_events {
    /* where to connect to; asked before every connect */
    int (*locate)(void *context, resp_address *address, dibs_time deadline,
                  dibs_error *err);
    void (*heard)(void *context, const char *channel, size_t channel_len,
                  const char *message, size_t message_len);
    /* messages may have been missed: the connection was lost, or has just come back with
     * all subscriptions. Look at everything. */
    void (*gap)(void *context);
} resp_listener_events;

typedef struct resp_listener resp_listener;
resp_listener *dibs__resp_listener_new(const resp_access *access,
                                       const resp_listener_events *events, void *context);
void dibs__resp_listener_free(resp_listener *listener, int forked);

/* subscribe returns when the server has confirmed the channel: what is published after
 * that is heard. Channels are counted: each subscribe wants its unsubscribe. sharded:
 * SSUBSCRIBE (Redis Cluster, from 7.0). DIBS_OK, EUNAVAIL, EDENIED, ENOMEM. */
int dibs__resp_subscribe(resp_listener *listener, const char *channel, size_t len,
                         int sharded, dibs_time deadline, dibs_error *err);
void dibs__resp_unsubscribe(resp_listener *listener, const char *channel, size_t len,
                            int sharded);

/* epoch changes whenever messages may have been missed. A subscription that was confirmed
 * in this epoch has missed nothing; 0: there is no connection now. */
uint64_t dibs__resp_listener_epoch(const resp_listener *listener);

/* borrow has the caller read the connection instead of the thread, until the bell is not
 * `seen` any more, somebody calls rouse, or the deadline has passed. It returns at once if
 * there is no connection, or somebody reads already. rouse may be called by any thread, and
 * more often than necessary. */
void dibs__resp_listener_borrow(resp_listener *listener, dibs_bell *bell, uint32_t seen,
                                dibs_time deadline);
void dibs__resp_listener_rouse(resp_listener *listener);

/* ping makes the listener find out now whether its connection still works. */
void dibs__resp_listener_check(resp_listener *listener);

#endif /* DIBS_RESP_H */
