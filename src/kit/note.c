/* SPDX-License-Identifier: MIT */
/*
 * What a store remembers of a claim: the note, as it is, then a line of ours:
 *
 *     NOTE
 *     dibs1 id=... mode=0 permits=1 limit=0 lease=30000 pid=7 since=... token=0 host=h app=a
 *
 * The last line is the one that counts, so a note may have lines of its own. Host and app
 * are encoded so that they have no blanks. Others read what they like: Curator takes the
 * data of a latch for the id of its participant, kazoo for the identifier of a contender,
 * etcd's election for the proposal.
 */
#include "kit.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/escape.h"

#define MAGIC "dibs1 "
#define HOST_MAX 64
#define APP_MAX 128

static int
is_no_word(unsigned char byte)
{
    return byte <= ' ' || byte > 0x7e;
}

/* ---- writing ---- */

/* at most `most` bytes of a text, encoded; there is room for them */
static void
encode(char *out, const char *text, size_t most)
{
    size_t len = 0;
    (void)escape(out, 3 * most, &len, text, strnlen(text, most), is_no_word);
    out[len] = '\0';
}

static int64_t
wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

int
dibs__kit_note_write(char out[KIT_NOTE_MAX], const dibs_session *session,
                     const dibs_claim *claim, const char *id)
{
    char host[3 * HOST_MAX + 1], app[3 * APP_MAX + 1];
    encode(host, session->machine, HOST_MAX);
    encode(app, session->app, APP_MAX);
    return snprintf(out, KIT_NOTE_MAX,
                    "%.*s\n" MAGIC "id=%.*s mode=%d permits=%" PRIu32 " limit=%" PRIu32
                    " lease=%" PRIu32 " pid=%" PRId64 " since=%" PRId64 " token=%" PRIu64
                    " host=%s app=%s",
                    DIBS_NOTE_MAX, claim->note, KIT_ID_MAX - 1, id, claim->mode,
                    claim->permits, claim->limit, claim->lease_ms, session->pid,
                    wall_ms(), claim->token, host, app);
}

/* ---- reading ---- */

/* what the text ends with, if it is a line of ours */
static char *
own_line(char *text)
{
    char *line = strrchr(text, '\n');
    return line && strncmp(line + 1, MAGIC, sizeof MAGIC - 1) == 0 ? line + 1 : NULL;
}

/* decodes in place; what we would not write stays as it is */
static char *
decode(char *text)
{
    char plain[APP_MAX];
    size_t len;
    if (unescape(plain, sizeof plain, &len, text, strlen(text), is_no_word) == 0 &&
        !memchr(plain, '\0', len)) {
        memcpy(text, plain, len);
        text[len] = '\0';
    }
    return text;
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
take_word(struct kit_note *note, const char *key, char *value)
{
    dibs_party *party = &note->party;
    if (strcmp(key, "id") == 0 && strlen(value) < sizeof note->id) {
        memcpy(note->id, value, strlen(value) + 1);
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
        party->host = decode(value);
    } else if (strcmp(key, "app") == 0) {
        party->app = decode(value);
    }
}

static void
take_words(struct kit_note *note, char *line)
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
dibs__kit_note_parse(struct kit_note *out, const char *data, size_t len)
{
    size_t size = len < sizeof out->text ? len : sizeof out->text - 1;
    memset(out, 0, offsetof(struct kit_note, text));
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
