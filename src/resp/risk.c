/* SPDX-License-Identifier: MIT */
/*
 * What the settings of a server mean for locks, for dibs_notice: whether it throws them away
 * when its memory is short, and whether it forgets them when it is restarted. What it does
 * not let us see is not said, and no reason to fail.
 */
#include <stdio.h>
#include <string.h>

#include "resp/resp.h"

/* the value of a line of INFO, as "maxmemory:0"; "" if there is none */
static void
line_of(char *out, size_t size, const redisReply *reply, const char *label)
{
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, label) : NULL;
    out[0] = '\0';
    if (!at)
        return;
    at += strlen(label);
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
}

static int
evicts(const redisReply *memory, char *policy, size_t size)
{
    char most[24];
    line_of(most, sizeof most, memory, "\nmaxmemory:");
    line_of(policy, size, memory, "\nmaxmemory_policy:");
    return *most && strcmp(most, "0") != 0 && *policy &&
           strcmp(policy, "noeviction") != 0;
}

static int
forgets(const redisReply *persistence)
{
    char log[8];
    line_of(log, sizeof log, persistence, "\naof_enabled:");
    return strcmp(log, "0") == 0;
}

void
dibs__resp_judge(char *notice, size_t size, const redisReply *memory,
                 const redisReply *persistence, int is_guarded)
{
    char policy[32];
    if (evicts(memory, policy, sizeof policy))
        (void)snprintf(notice, size,
                       "the server may throw locks away when its memory is short: its "
                       "maxmemory-policy is %s, and should be noeviction",
                       policy);
    else if (!is_guarded && forgets(persistence))
        (void)snprintf(notice, size,
                       "the server forgets its locks when it is restarted, and then two "
                       "may have one: it keeps no append-only file, and the URL has no "
                       "guard=");
}

void
dibs__resp_warn(char *notice, size_t size, resp_server *server, int is_guarded,
                dibs_time deadline)
{
    static const char *const sections[] = { "memory", "persistence" };
    resp_request request = { 0 };
    redisReply *replies[2];
    int rc = DIBS_OK;
    for (int i = 0; i < 2 && !rc; i++) {
        resp_command command = { 0 };
        dibs__resp_word(&command, "INFO");
        dibs__resp_word(&command, sections[i]);
        rc = dibs__resp_add(&request, &command);
    }
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, deadline, replies, NULL);
    dibs__resp_request_free(&request);
    if (rc)
        return;
    dibs__resp_judge(notice, size, replies[0], replies[1], is_guarded);
    for (int i = 0; i < 2; i++)
        freeReplyObject(replies[i]);
}
