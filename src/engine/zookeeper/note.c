/* SPDX-License-Identifier: MIT */
/*
 * What stands in the nodes of contenders: the note, as it is, then a line of ours:
 *
 *     NOTE
 *     dibs1 uuid=... mode=0 permits=1 limit=0 lease=30000 pid=7 since=... token=0 host=h app=a
 *
 * The last line is the one that counts, so a note may have lines of its own. Host and app
 * are encoded so that they have no blanks. Others read what they like: Curator takes the
 * data of a latch for the id of its participant, kazoo for the identifier of a contender.
 */
#include "zk.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAGIC "dibs1 "
#define HOST_MAX 64
#define APP_MAX 128

static const char digits[] = "0123456789ABCDEF";

/* ---- writing ---- */

static int
needs_encoding(unsigned char byte)
{
    return byte <= ' ' || byte > 0x7e || byte == '%';
}

static void
encode(char *out, const char *text, size_t most)
{
    for (; *text && most; text++, most--) {
        unsigned char byte = (unsigned char)*text;
        if (needs_encoding(byte)) {
            *out++ = '%';
            *out++ = digits[byte >> 4];
            *out++ = digits[byte & 15];
        } else {
            *out++ = (char)byte;
        }
    }
    *out = '\0';
}

static int64_t
wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

int
dibs__zk_data_write(char out[NODE_DATA_MAX], const struct zk *zk, const dibs_claim *claim)
{
    char uuid[UUID_LEN + 1], host[3 * HOST_MAX + 1], app[3 * APP_MAX + 1];
    dibs__zk_uuid(zk, claim, uuid);
    encode(host, zk->session->machine, HOST_MAX);
    encode(app, zk->session->app, APP_MAX);
    return snprintf(out, NODE_DATA_MAX,
                    "%.*s\n" MAGIC "uuid=%s mode=%d permits=%" PRIu32 " limit=%" PRIu32
                    " lease=%" PRIu32 " pid=%" PRId64 " since=%" PRId64 " token=%" PRIu64
                    " host=%s app=%s",
                    DIBS_NOTE_MAX, claim->note, uuid, claim->mode, claim->permits,
                    claim->limit, claim->lease_ms, zk->session->pid, wall_ms(),
                    claim->token, host, app);
}

/* ---- reading ---- */

/* what the text ends with, if it is a line of ours */
static char *
own_line(char *text)
{
    char *line = strrchr(text, '\n');
    return line && strncmp(line + 1, MAGIC, sizeof MAGIC - 1) == 0 ? line + 1 : NULL;
}

static int
digit_of(char byte)
{
    const char *at = byte ? strchr(digits, byte) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* decodes in place; what is no encoding stays as it is */
static void
decode(char *text)
{
    char *to = text;
    for (; *text; text++) {
        int high = *text == '%' ? digit_of(text[1]) : -1;
        int low = high >= 0 ? digit_of(text[2]) : -1;
        if (low >= 0 && (high || low)) {
            *to++ = (char)(high << 4 | low);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* a number within bounds; anything else counts as not said */
static int64_t
number_of(const char *text, int64_t most)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    return end != text && !*end && value >= 0 && value <= most ? value : 0;
}

static void
take_word(struct node_note *note, const char *key, char *value)
{
    dibs_party *party = &note->party;
    if (strcmp(key, "uuid") == 0 && strlen(value) == UUID_LEN) {
        memcpy(note->uuid, value, UUID_LEN + 1);
    } else if (strcmp(key, "mode") == 0) {
        note->mode = party->mode = (int)number_of(value, DIBS_PERMITS);
    } else if (strcmp(key, "permits") == 0) {
        note->permits = party->permits = (uint32_t)number_of(value, UINT32_MAX);
    } else if (strcmp(key, "limit") == 0) {
        note->limit = (uint32_t)number_of(value, UINT32_MAX);
    } else if (strcmp(key, "lease") == 0) {
        party->lease_left_ms = number_of(value, UINT32_MAX);
    } else if (strcmp(key, "pid") == 0) {
        party->pid = number_of(value, INT32_MAX);
    } else if (strcmp(key, "since") == 0) {
        party->since_ms = number_of(value, INT64_MAX);
    } else if (strcmp(key, "token") == 0) {
        party->token = (uint64_t)number_of(value, INT64_MAX);
    } else if (strcmp(key, "host") == 0) {
        decode(value);
        party->host = value;
    } else if (strcmp(key, "app") == 0) {
        decode(value);
        party->app = value;
    }
}

static void
take_words(struct node_note *note, char *line)
{
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = '\0';
        take_word(note, word, equals + 1);
    }
}

/* what somebody else wrote may be long */
static void
shorten(char *note)
{
    if (strlen(note) > DIBS_NOTE_MAX)
        note[DIBS_NOTE_MAX] = '\0';
}

void
dibs__zk_data_parse(struct node_note *out, const char *data, int len)
{
    size_t size = len > 0 ? (size_t)len : 0;
    if (size >= sizeof out->text)
        size = sizeof out->text - 1;
    memset(out, 0, offsetof(struct node_note, text));
    if (size)
        memcpy(out->text, data, size);
    out->text[size] = '\0';
    out->mode = -1;
    out->party.permits = 1;
    out->party.lease_left_ms = -1;
    out->party.note = out->text;
    out->party.host = out->party.app = "";
    char *line = own_line(out->text);
    if (line) {
        line[-1] = '\0';
        take_words(out, line);
    }
    shorten(out->text);
}
