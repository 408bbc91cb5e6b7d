/* SPDX-License-Identifier: MIT */
/*
 * What the settings of a server mean for locks, for dibs_notice: whether it throws them away
 * when its memory is short, and whether it forgets them when it is restarted, or the last of
 * them when its machine fails. What it does not let us see is not said, and no reason to fail.
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

/* whether it says that it keeps an append-only file ("1"), or that it does not ("0") */
static int
says_of_file(const redisReply *persistence, const char *what)
{
    char file[8];
    line_of(file, sizeof file, persistence, "\naof_enabled:");
    return strcmp(file, what) == 0;
}

/* how it syncs that file, if that may be too late; else NULL */
static const char *
syncs_late(const redisReply *setting)
{
    const redisReply *value = dibs__resp_element(setting, 1);
    int is_text = value && value->type == REDIS_REPLY_STRING;
    return is_text && strcmp(value->str, "always") != 0 ? value->str : NULL;
}

void
dibs__resp_ask_risk(resp_command commands[RESP_RISKS])
{
    static const char *const words[RESP_RISKS][3] = { { "INFO", "memory" },
                                                      { "INFO", "persistence" },
                                                      { "CONFIG", "GET",
                                                        "appendfsync" } };
    for (int i = 0; i < RESP_RISKS; i++) {
        for (int j = 0; j < 3 && words[i][j]; j++)
            dibs__resp_word(&commands[i], words[i][j]);
    }
}

void
dibs__resp_judge(char *notice, size_t size, redisReply *const replies[RESP_RISKS],
                 enum resp_care care)
{
    const char *late = syncs_late(replies[2]);
    char policy[32];
    if (evicts(replies[0], policy, sizeof policy))
        (void)snprintf(notice, size,
                       "the server may throw locks away when its memory is short: its "
                       "maxmemory-policy is %s, and should be noeviction",
                       policy);
    else if (care == RESP_NO_CARE && says_of_file(replies[1], "0"))
        (void)snprintf(notice, size,
                       "the server forgets its locks when it is restarted, and then two "
                       "may have one: it keeps no append-only file, and the URL has no "
                       "guard=");
    else if (care != RESP_QUARANTINED && says_of_file(replies[1], "1") && late)
        (void)snprintf(notice, size,
                       "the server may forget its last locks when its machine fails, and "
                       "then two may have one: its appendfsync is %.16s, and should be "
                       "always",
                       late);
}

void
dibs__resp_warn(char *notice, size_t size, resp_server *server, enum resp_care care,
                dibs_time deadline)
{
    resp_request request = { 0 };
    resp_command commands[RESP_RISKS] = { 0 };
    redisReply *replies[RESP_RISKS];
    int rc = DIBS_OK;
    dibs__resp_ask_risk(commands);
    for (int i = 0; i < RESP_RISKS && !rc; i++)
        rc = dibs__resp_add(&request, &commands[i]);
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, deadline, replies, NULL);
    dibs__resp_request_free(&request);
    if (rc)
        return;
    dibs__resp_judge(notice, size, replies, care);
    for (int i = 0; i < RESP_RISKS; i++)
        freeReplyObject(replies[i]);
}
