/* SPDX-License-Identifier: MIT */
/* What is sent: commands, built word by word, and written straight to where they go. */
#include "resp/resp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/digits.h"

#define HEAD_MAX 24 /* a kind, a length and the end of a line */

void
dibs__resp_bytes(resp_command *command, const void *bytes, size_t len)
{
    assert(command->count < RESP_WORDS);
    command->words[command->count] = len > 0 ? bytes : "";
    command->lengths[command->count++] = len;
}

void
dibs__resp_word(resp_command *command, const char *text)
{
    dibs__resp_bytes(command, text, strlen(text));
}

void
dibs__resp_number(resp_command *command, int64_t number)
{
    assert(command->number_count < RESP_NUMBERS);
    char *text = command->numbers[command->number_count++];
    size_t sign = number < 0;
    text[0] = '-';
    size_t len = put_digits(text + sign, sign ? -(uint64_t)number : (uint64_t)number);
    dibs__resp_bytes(command, text, sign + len);
}

/* room for `more` bytes behind what is there */
static int
make_room(resp_request *request, size_t more)
{
    size_t room = request->room != 0 ? request->room : 512;
    while (room - request->len < more)
        room *= 2;
    if (room == request->room)
        return 0;
    char *bytes = realloc(request->bytes, room);
    if (bytes == NULL)
        return DIBS_ENOMEM;
    request->bytes = bytes;
    request->room = room;
    return 0;
}

/* "$5\r\n" and the like */
static size_t
put_head(char *out, char kind, uint64_t count)
{
    out[0] = kind;
    size_t len = 1 + put_digits(out + 1, count);
    out[len] = '\r';
    out[len + 1] = '\n';
    return len + 2;
}

int
dibs__resp_add(resp_request *request, const resp_command *command)
{
    size_t most = HEAD_MAX;
    for (int i = 0; i < command->count; i++)
        most += HEAD_MAX + command->lengths[i] + 2;
    int code = make_room(request, most);
    if (code != 0)
        return code;
    char *at = request->bytes + request->len;
    at += put_head(at, '*', (uint64_t)command->count);
    for (int i = 0; i < command->count; i++) {
        at += put_head(at, '$', command->lengths[i]);
        memcpy(at, command->words[i], command->lengths[i]);
        at += command->lengths[i];
        *at++ = '\r';
        *at++ = '\n';
    }
    request->len = (size_t)(at - request->bytes);
    request->commands++;
    return 0;
}

void
dibs__resp_request_free(resp_request *request)
{
    free(request->bytes);
    memset(request, 0, sizeof(*request));
}
