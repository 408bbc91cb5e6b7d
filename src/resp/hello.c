/* SPDX-License-Identifier: MIT */
/*
 * Signing in: all in one write, then the answers.
 *
 * Only the password and the database must be accepted. The rest is of use, but an ACL
 * may forbid it and an old server may not know it: our name, who we are to the server,
 * and the end of the connection that this one takes the place of.
 */
#include "resp/wire.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum step { STEP_AUTH, STEP_SELECT, STEP_NAME, STEP_ID, STEP_INFO, STEP_KILL, STEPS };

struct hello {
    resp_request request;
    int code;
    unsigned count;
    enum step steps[STEPS];
};

static void
say(struct hello *hello, enum step step, const char *const *words)
{
    resp_command command = { 0 };
    for (; *words != NULL; words++)
        dibs__resp_word(&command, *words);
    if (hello->code == 0)
        hello->code = dibs__resp_add(&hello->request, &command);
    hello->steps[hello->count++] = step;
}
#define SAY(hello, step, ...) say(hello, step, (const char *const[]){ __VA_ARGS__, NULL })

static void
say_who(struct hello *hello, const resp_access *access)
{
    char db[16];
    if (access->password != NULL && access->user != NULL && access->user[0] != '\0')
        SAY(hello, STEP_AUTH, "AUTH", access->user, access->password);
    else if (access->password != NULL)
        SAY(hello, STEP_AUTH, "AUTH", access->password);
    if (access->db != 0) {
        (void)snprintf(db, sizeof(db), "%d", access->db);
        SAY(hello, STEP_SELECT, "SELECT", db);
    }
    if (access->client_name != NULL && access->client_name[0] != '\0')
        SAY(hello, STEP_NAME, "CLIENT", "SETNAME", access->client_name);
    SAY(hello, STEP_ID, "CLIENT", "ID");
    SAY(hello, STEP_INFO, "CLIENT", "INFO");
}

static void
say_kill(struct hello *hello, const struct wire_self *kill)
{
    char id[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)kill->id);
    if (kill->address[0] != '\0')
        SAY(hello, STEP_KILL, "CLIENT", "KILL", "ID", id, "ADDR", kill->address);
    else
        SAY(hello, STEP_KILL, "CLIENT", "KILL", "ID", id);
}

/* "id=7 addr=127.0.0.1:41414 laddr=..." */
static void
read_address(struct wire_self *self, const redisReply *reply)
{
    const char *at =
        reply->type == REDIS_REPLY_STRING ? strstr(reply->str, " addr=") : NULL;
    if (at == NULL)
        return;
    at += strlen(" addr=");
    size_t len = strcspn(at, " \r\n");
    if (len < sizeof(self->address)) {
        memcpy(self->address, at, len);
        self->address[len] = '\0';
    }
}

/* what a server says to everything: no password, too many clients, protected mode */
static int
is_refusal(const redisReply *reply)
{
    enum resp_trouble trouble = dibs__resp_trouble(reply);
    return (trouble == RESP_DENIED && strncmp(reply->str, "NOPERM", 6) != 0) ||
           strncmp(reply->str, "ERR max number of clients", 25) == 0;
}

static int
check(struct wire *wire, enum step step, const redisReply *reply, dibs_error *err)
{
    enum resp_trouble trouble = dibs__resp_trouble(reply);
    if (step == STEP_ID)
        wire->self.id = dibs__resp_integer(reply, 0);
    if (step == STEP_INFO)
        read_address(&wire->self, reply);
    if (trouble == RESP_FINE || (step >= STEP_NAME && !is_refusal(reply)))
        return DIBS_OK;
    /* if it is full or loading, it may let us in later */
    int is_later =
        trouble == RESP_NOT_NOW || (trouble == RESP_OTHER && is_refusal(reply));
    return wire->access->host->fail(err, is_later ? DIBS_EUNAVAIL : DIBS_EDENIED,
                                    "%s says: %s", wire->where, reply->str);
}

static int
was_woken(const struct wire *wire)
{
    struct pollfd wake = { wire->wake_fd, POLLIN, 0 };
    return wire->wake_fd >= 0 && poll(&wake, 1, 0) > 0;
}

static int
fail_reply(const struct wire *wire, const dibs_error *why, dibs_error *err)
{
    (void)dibs__wire_fail_connect(wire, why->text, err);
    if (!wire->is_refused)
        return DIBS_EUNAVAIL;
    if (err != NULL)
        err->code = DIBS_EDENIED;
    return DIBS_EDENIED;
}

static int
read_reply(struct wire *wire, redisReply **reply, dibs_time deadline, dibs_error *err)
{
    dibs_error why = { 0 };
    for (;;) {
        int n = dibs__wire_parse(wire, reply, &why);
        if (n > 0)
            return DIBS_OK;
        if (n == 0)
            n = dibs__wire_read(wire, 0, deadline, &why);
        if (n < 0)
            return fail_reply(wire, &why, err);
        if (n == 0 && (wire->access->host->now() >= deadline || was_woken(wire)))
            return dibs__wire_fail_connect(wire, "no answer in time", err);
    }
}

int
dibs__wire_hello(struct wire *wire, const struct wire_self *kill, dibs_time deadline,
                 dibs_error *err)
{
    struct hello hello = { 0 };
    say_who(&hello, wire->access);
    if (kill != NULL && kill->id != 0)
        say_kill(&hello, kill);
    int code = hello.code;
    if (code != DIBS_OK)
        code = wire->access->host->fail(err, code, "out of memory");
    else
        /* a server that has hung up may have said why: reading tells more than errno */
        (void)dibs__wire_write(wire, hello.request.bytes, hello.request.len, deadline);
    for (unsigned i = 0; i < hello.count && code == DIBS_OK; i++) {
        redisReply *reply;
        code = read_reply(wire, &reply, deadline, err);
        if (code != DIBS_OK)
            break;
        code = check(wire, hello.steps[i], reply, err);
        freeReplyObject(reply);
    }
    dibs__resp_request_free(&hello.request);
    return code;
}
