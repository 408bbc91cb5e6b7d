/* SPDX-License-Identifier: MIT */
/*
 * The line of a lock as text; line.h says how it looks. What is read may have been written by
 * anybody, so nothing of it is believed: each word is checked, and a line that we would not
 * write is refused as a whole.
 *
 * Parts: reading; writing; what people read.
 */
#include "line.h"

#include <string.h>

#include <dibs/engine.h>

#include "util/digits.h"
#include "util/escape.h"

/* times and ticks beyond this are none: it leaves room for sums, and for a tick's token */
#define TIME_MOST (INT64_C(1) << 54)
/* how much longer a record becomes when its times move out of the columns */
#define TIMES_MAX (3 * DIGITS_MAX + 2)
#define TELL_MAX (sizeof LINE_CHANNEL + LINE_SESSION + 7 * (DIGITS_MAX + 1) + 4)

/* ---- reading ---- */

/* reads a number and the blank behind it */
static int
read_number(const char **at, uint64_t most, uint64_t *out)
{
    const char *from = *at;
    if (*from == ' ' || get_digits(&from, out) || *out > most || *from != ' ')
        return -1;
    *at = from + 1;
    return 0;
}

static int
read_time(const char **at, int64_t *out)
{
    uint64_t number;
    if (read_number(at, (uint64_t)TIME_MOST, &number))
        return -1;
    *out = (int64_t)number;
    return 0;
}

static int
read_word(const char **at, uint32_t *out)
{
    uint64_t number;
    if (read_number(at, UINT32_MAX, &number))
        return -1;
    *out = (uint32_t)number;
    return 0;
}

static int
read_kind(const char **at, struct party *party)
{
    const char *from = *at;
    if (!*from || !strchr("HFWO", *from))
        return -1;
    party->kind = *from++;
    if (line_holds(party) && *from >= '1' && *from <= '3')
        party->told = (uint8_t)(*from++ - '0');
    if (*from != ' ')
        return -1;
    *at = from + 1;
    return 0;
}

static int
read_id(const char **at, struct party *party)
{
    uint64_t serial;
    party->lingers = **at == '+';
    *at += party->lingers;
    party->id = *at;
    if (strspn(*at, "0123456789abcdef") != LINE_SESSION || (*at)[LINE_SESSION] != ':')
        return -1;
    *at += LINE_SESSION + 1;
    if (read_number(at, UINT64_MAX, &serial))
        return -1;
    party->id_len = (size_t)(*at - 1 - party->id);
    return party->id_len > LINE_ID_MAX ? -1 : 0;
}

static int
read_rest(const char **at, const char *end, struct party *party)
{
    size_t blanks = 0;
    party->rest = *at;
    party->rest_len = (size_t)(end - *at);
    for (const char *byte = *at; byte < end; byte++)
        blanks += *byte == ' ';
    *at = end + 1;
    return blanks == 3 && party->rest_len <= LINE_REST_MAX ? 0 : -1;
}

static int
is_possible(const struct party *party)
{
    if (party->lingers && party->kind != LINE_HOLDER)
        return 0;
    if (line_holds(party) ? party->tick == 0 : party->tick != 0)
        return 0;
    if (party->mode > (party->kind == LINE_OBSERVER ? DIBS_OBSERVE : DIBS_PERMITS))
        return 0;
    if (party->mode == DIBS_PERMITS)
        return party->permits > 0 && party->permits <= party->limit;
    return party->permits == 1 && party->limit == 0;
}

/* the times of a lone holder are in the columns */
static void
take_columns(struct line *line, struct party *party)
{
    if (party->kind != LINE_HOLDER || party->told || party->since || party->until ||
        party->tick)
        return;
    party->is_lone = 1;
    party->since = party->tick = line->tick;
    party->until = line->until;
    party->told = (uint8_t)line->previous;
    line->previous = DIBS_PREVIOUS_CLEAN;
}

static int
read_party(struct line *line, const char **at, const char *end, struct party *party)
{
    memset(party, 0, sizeof *party);
    if (read_kind(at, party) || read_time(at, &party->since) ||
        read_time(at, &party->until) || read_time(at, &party->tick) ||
        read_id(at, party) || read_word(at, &party->mode) ||
        read_word(at, &party->permits) || read_word(at, &party->limit) ||
        read_word(at, &party->lease_ms) || read_word(at, &party->wait_ms) || *at > end ||
        read_rest(at, end, party))
        return -1;
    take_columns(line, party);
    return is_possible(party) ? 0 : -1;
}

static int
is_time(int64_t time)
{
    return time >= 0 && time <= TIME_MOST;
}

/* one whose times are in the columns has no other holder beside it */
static int
is_alone(const struct line *line)
{
    size_t holders = 0, lone = 0;
    for (size_t i = 0; i < line->count; i++) {
        holders += line_holds(&line->parties[i]) != 0;
        lone += line->parties[i].is_lone;
    }
    return lone == 0 || holders == 1;
}

size_t
dibs__line_count(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count;
}

int
dibs__line_parse(struct line *line, const char *text, size_t len)
{
    const char *at = text, *end;
    line->known = len;
    line->count = 0;
    if (!is_time(line->tick) || !is_time(line->until) || !is_time(line->now) ||
        line->previous > DIBS_PREVIOUS_UNKNOWN)
        return -1;
    while (at < text + len) {
        end = memchr(at, '\n', (size_t)(text + len - at));
        if (!end || line->count == line->room ||
            read_party(line, &at, end, &line->parties[line->count]))
            return -1;
        line->count++;
    }
    return is_alone(line) ? 0 : -1;
}

/* ---- writing ---- */

struct pen {
    char *at;
};

static void
put_text(struct pen *pen, const char *text, size_t len)
{
    memcpy(pen->at, text, len);
    pen->at += len;
}

static void
put_char(struct pen *pen, char byte)
{
    *pen->at++ = byte;
}

/* a number and a blank */
static void
put_number(struct pen *pen, uint64_t number)
{
    pen->at += put_digits(pen->at, number);
    put_char(pen, ' ');
}

static void
put_record(struct pen *pen, const struct party *party, int is_lone)
{
    put_char(pen, party->kind);
    if (party->told && !is_lone)
        put_char(pen, (char)('0' + party->told));
    put_char(pen, ' ');
    put_number(pen, is_lone ? 0 : (uint64_t)party->since);
    put_number(pen, is_lone ? 0 : (uint64_t)party->until);
    put_number(pen, is_lone ? 0 : (uint64_t)party->tick);
    if (party->lingers)
        put_char(pen, '+');
    put_text(pen, party->id, party->id_len);
    put_char(pen, ' ');
    put_number(pen, party->mode);
    put_number(pen, party->permits);
    put_number(pen, party->limit);
    put_number(pen, party->lease_ms);
    put_number(pen, party->wait_ms);
    put_text(pen, party->rest, party->rest_len);
    put_char(pen, '\n');
}

size_t
dibs__line_record(char *out, const struct party *party)
{
    struct pen pen = { out };
    put_record(&pen, party, party->is_lone);
    return (size_t)(pen.at - out);
}

size_t
dibs__line_mark(char *out, const char *id, size_t id_len)
{
    struct pen pen = { out };
    put_text(&pen, "H 0 0 0 ", 8);
    put_text(&pen, id, id_len);
    put_char(&pen, ' ');
    return (size_t)(pen.at - out);
}

/* The lone holder, if its times may stand in the columns: its tick is the last one, and the
 * next holder has nothing to be told of but how this one ends. */
static const struct party *
lone_holder(const struct line *line)
{
    const struct party *lone = NULL;
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->is_gone || !line_holds(party))
            continue;
        if (lone)
            return NULL;
        lone = party;
    }
    if (!lone || lone->kind != LINE_HOLDER || lone->tick != line->tick || line->previous)
        return NULL;
    return lone;
}

/* what the columns say if they are not a lone holder's */
static int64_t
first_end(const struct line *line)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (!party->is_gone && line_holds(party) && party->until < first)
            first = party->until;
    }
    return first == INT64_MAX ? line->now : first;
}

size_t
dibs__line_state_max(const struct line *line)
{
    return line->known + LINE_RECORD_MAX + line->count * TIMES_MAX;
}

size_t
dibs__line_tells_max(const struct line *line)
{
    size_t count = 1;
    for (size_t i = 0; i < line->count; i++)
        count += line->parties[i].say != LINE_SAY_NOTHING;
    return count * TELL_MAX + LINE_GIST_MAX;
}

static void
print_state(const struct line *line, const struct party *lone, struct line_text *out)
{
    struct pen pen = { out->state };
    for (int holders = 1; holders >= 0; holders--) {
        for (size_t i = 0; i < line->count; i++) {
            const struct party *party = &line->parties[i];
            if (!party->is_gone && line_holds(party) == holders)
                put_record(&pen, party, party == lone);
        }
    }
    out->state_len = (size_t)(pen.at - out->state);
}

/* How much of a state fits into a message; 0: nothing, or an observer would be left out. */
static size_t
gist_len(const char *state, size_t len)
{
    size_t kept = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(state + at, '\n', len - at);
        size_t next = (size_t)(end - state) + 1;
        if (next <= LINE_GIST_MAX)
            kept = next;
        else if (state[at] == LINE_OBSERVER)
            return 0;
        at = next;
    }
    return kept;
}

static void
print_gist(struct pen *pen, const struct line_text *text)
{
    size_t len = gist_len(text->state, text->state_len);
    if (!len)
        return;
    put_char(pen, ' ');
    pen->at += put_digits(pen->at, (uint64_t)text->version);
    for (size_t i = 0; i < len; i++) {
        if (i == 0 || text->state[i - 1] == '\n')
            put_char(pen, '\t');
        if (text->state[i] != '\n')
            put_char(pen, text->state[i]);
    }
}

/* "CHANNEL g SERIAL JOINED TICK PREVIOUS UNTIL [VERSION\tRECORD..]", or "CHANNEL x SERIAL" */
static void
print_tell(struct pen *pen, const struct party *party, const struct line_text *gist)
{
    put_text(pen, LINE_CHANNEL, sizeof LINE_CHANNEL - 1);
    put_text(pen, party->id, LINE_SESSION);
    put_char(pen, ' ');
    put_char(pen, party->say);
    put_char(pen, ' ');
    put_text(pen, party->id + LINE_SESSION + 1, party->id_len - LINE_SESSION - 1);
    if (party->say == LINE_SAY_GRANTED) {
        put_char(pen, ' ');
        put_number(pen, (uint64_t)party->joined);
        put_number(pen, (uint64_t)party->tick);
        put_number(pen, party->told);
        pen->at += put_digits(pen->at, (uint64_t)party->until);
        if (gist)
            print_gist(pen, gist);
    }
    put_char(pen, '\n');
}

void
dibs__line_print(const struct line *line, struct line_text *out)
{
    const struct party *lone = lone_holder(line);
    struct pen pen = { out->tells };
    out->until = lone ? lone->until : first_end(line);
    out->previous = lone ? lone->told : line->previous;
    out->version = line->version < line->now ? line->now : line->version + 1;
    print_state(line, lone, out);
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->say != LINE_SAY_NOTHING)
            print_tell(&pen, party, party == lone ? out : NULL);
    }
    out->tells_len = (size_t)(pen.at - out->tells);
}

/* ---- what people read ---- */

/* bytes that are not ASCII are not known to be UTF-8, as databases want text */
static int
is_no_word(unsigned char byte)
{
    return byte <= ' ' || byte > '~';
}

static void
put_escaped(struct pen *pen, const char *text, size_t most)
{
    size_t len = 0;
    (void)escape(pen->at, 3 * most, &len, text, strnlen(text, most), is_no_word);
    pen->at += len;
}

size_t
dibs__line_self(char *out, const char *app, const char *host, int64_t pid)
{
    struct pen pen = { out };
    put_escaped(&pen, app, sizeof((struct line_words *)0)->app - 1);
    put_char(&pen, ' ');
    put_escaped(&pen, host, sizeof((struct line_words *)0)->host - 1);
    put_char(&pen, ' ');
    put_number(&pen, (uint64_t)(pid < 0 ? 0 : pid));
    return (size_t)(pen.at - out);
}

size_t
dibs__line_note(char *out, const char *note)
{
    struct pen pen = { out };
    put_escaped(&pen, note, DIBS_NOTE_MAX);
    return (size_t)(pen.at - out);
}

/* reads up to the next blank, or the end, and moves behind it */
static int
get_escaped(char *out, size_t room, const char **at, const char *end)
{
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    size_t len, word = (size_t)((blank ? blank : end) - *at);
    if (unescape(out, room - 1, &len, *at, word, is_no_word))
        return -1;
    out[len] = '\0';
    *at += word + (blank != NULL);
    return 0;
}

int
dibs__line_words(struct line_words *out, const struct party *party)
{
    const char *at = party->rest, *end = at + party->rest_len;
    uint64_t pid;
    if (get_escaped(out->app, sizeof out->app, &at, end) ||
        get_escaped(out->host, sizeof out->host, &at, end) ||
        read_number(&at, INT64_MAX, &pid) ||
        get_escaped(out->note, sizeof out->note, &at, end))
        return -1;
    out->pid = (int64_t)pid;
    return 0;
}
