/* SPDX-License-Identifier: MIT */
/* sql/line_text.c: the line of a lock as text. What others wrote is refused, never believed. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <dibs/engine.h>

#include "sql/line.h"

#define NOW INT64_C(1700000000000000)
#define A "0123456789abcdef0123456789abcdef:1"
#define B "fedcba9876543210fedcba9876543210:18446744073709551615"
#define BODY_A A " 0 1 0 30000 10000 app host 42 a%20note"
#define BODY_B B " 2 3 4000000000 5 4294967295 - h%C3%A4 0 "
#define LONE "H 0 0 0 " BODY_A "\n"
#define PLAIN A " 0 1 0 1 1 a b 1 %s\n"
#define ROOM 4

/* Parses a copy that has just its length, so that reading beyond it is found. */
static int
parse(struct line *line, struct party parties[ROOM], const char *text, size_t len)
{
    static char *copy; /* the parties point into it */
    free(copy);
    copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    *line = (struct line){ .now = NOW,
                           .tick = NOW - 5,
                           .until = NOW + 9,
                           .previous = DIBS_PREVIOUS_BROKEN,
                           .parties = parties,
                           .room = ROOM };
    return dibs__line_parse(line, copy, len);
}

CASE(nobody)
{
    struct party parties[ROOM];
    struct line line;
    assert_int_equal(parse(&line, parties, "", 0), 0);
    assert_int_equal(line.count, 0);
    assert_int_equal(line.previous, DIBS_PREVIOUS_BROKEN);
}

CASE(a_lone_holder_is_in_the_columns)
{
    struct party parties[ROOM];
    struct line line;
    assert_int_equal(parse(&line, parties, LONE, strlen(LONE)), 0);
    assert_int_equal(line.count, 1);
    assert_true(parties[0].is_lone);
    assert_true(parties[0].tick == NOW - 5);
    assert_true(parties[0].until == NOW + 9);
    assert_int_equal(parties[0].told, DIBS_PREVIOUS_BROKEN);
    assert_int_equal(line.previous, DIBS_PREVIOUS_CLEAN);
    assert_int_equal(parties[0].id_len, strlen(A));
    assert_memory_equal(parties[0].id, A, strlen(A));
    assert_int_equal(parties[0].lease_ms, 30000);
    assert_int_equal(parties[0].wait_ms, 10000);
}

CASE(all_kinds)
{
    static const char text[] = "H2 11 12 13 " BODY_B "\nF 21 22 23 " BODY_A "\n"
                               "W 31 32 0 " BODY_A "\nO 0 42 0 " A " 3 1 0 1 1 a b 1 n\n";
    struct party parties[ROOM];
    struct line line;
    assert_int_equal(parse(&line, parties, text, strlen(text)), 0);
    assert_int_equal(line.count, 4);
    assert_int_equal(dibs__line_count(text, strlen(text)), 4);
    assert_int_equal(parties[0].told, DIBS_PREVIOUS_BROKEN);
    assert_true(parties[0].since == 11 && parties[0].until == 12);
    assert_true(parties[0].tick == 13);
    assert_int_equal(parties[0].permits, 3);
    assert_int_equal(parties[0].limit, 4000000000u);
    assert_int_equal(parties[0].id_len, strlen(B));
    assert_int_equal(parties[1].kind, LINE_OFFERED);
    assert_int_equal(parties[2].kind, LINE_WAITER);
    assert_int_equal(parties[3].kind, LINE_OBSERVER);
    assert_int_equal(parties[3].mode, DIBS_OBSERVE);
    assert_int_equal(line.previous, DIBS_PREVIOUS_BROKEN);
}

/* What is printed is what was read, but for the order: holders come first. */
CASE(there_and_back)
{
    static const char text[] = "W 31 32 0 " BODY_A "\nH1 21 22 23 +" BODY_A "\n"
                               "H 11 12 13 " BODY_B "\n";
    static const char same[] = "H1 21 22 23 +" BODY_A "\nH 11 12 13 " BODY_B "\n"
                               "W 31 32 0 " BODY_A "\n";
    struct party parties[ROOM];
    struct line line;
    assert_int_equal(parse(&line, parties, text, strlen(text)), 0);
    char *lines = malloc(dibs__line_state_max(&line));
    char *tells = malloc(dibs__line_tells_max(&line));
    struct line_text out = { .state = lines, .tells = tells };
    dibs__line_print(&line, &out);
    assert_int_equal(out.state_len, strlen(same));
    assert_memory_equal(lines, same, strlen(same));
    assert_int_equal(out.tells_len, 0);
    assert_true(out.until == 12);
    assert_int_equal(out.previous, DIBS_PREVIOUS_BROKEN);
    free(lines);
    free(tells);
}

CASE(a_record_as_it_stands_alone)
{
    struct party parties[ROOM];
    struct line line;
    char record[LINE_RECORD_MAX];
    assert_int_equal(parse(&line, parties, LONE, strlen(LONE)), 0);
    assert_int_equal(dibs__line_record(record, &parties[0]), strlen(LONE));
    assert_memory_equal(record, LONE, strlen(LONE));
    size_t len = dibs__line_mark(record, parties[0].id, parties[0].id_len);
    assert_memory_equal(record, LONE, len);
    assert_int_equal(record[len - 1], ' ');
}

CASE(messages)
{
    static const char text[] = "H 11 12 13 " BODY_B "\nW 31 32 0 " BODY_A "\n";
    static const char said[] = LINE_CHANNEL
        "fedcba9876543210fedcba9876543210 b 18446744073709551615\n" LINE_CHANNEL
        "0123456789abcdef0123456789abcdef g 1 31 7 1 32\n";
    struct party parties[ROOM];
    struct line line;
    char lines[2 * LINE_RECORD_MAX], tells[512];
    struct line_text out = { .state = lines, .tells = tells };
    assert_int_equal(parse(&line, parties, text, strlen(text)), 0);
    parties[0].is_gone = 1;
    parties[0].say = LINE_SAY_ENDED;
    parties[1].say = LINE_SAY_GRANTED;
    parties[1].joined = 31;
    parties[1].tick = 7;
    parties[1].told = DIBS_PREVIOUS_EXPIRED;
    dibs__line_print(&line, &out);
    assert_int_equal(out.tells_len, strlen(said));
    assert_memory_equal(tells, said, strlen(said));
}

/* Prints a line in which the lock was just granted to the only holder, and returns what its
 * client is told of the line: behind the version, which no earlier one can be; NULL if
 * nothing. */
static const char *
gist_of(const char *text, int64_t version)
{
    static char lines[8 * LINE_RECORD_MAX], tells[4096];
    struct party parties[ROOM];
    struct line line;
    char expected[32];
    struct line_text out = { .state = lines, .tells = tells };
    assert_int_equal(parse(&line, parties, text, strlen(text)), 0);
    line.version = version;
    line.tick = parties[0].tick;
    line.previous = DIBS_PREVIOUS_CLEAN;
    parties[0].say = LINE_SAY_GRANTED;
    assert_in_range(dibs__line_tells_max(&line), 1, sizeof tells);
    dibs__line_print(&line, &out);
    assert_in_range(out.tells_len, 1, dibs__line_tells_max(&line));
    tells[out.tells_len - 1] = '\0';
    char *gist = strchr(tells, '\t');
    (void)snprintf(expected, sizeof expected, " %lld",
                   (long long)(version < NOW ? NOW : version + 1));
    if (gist)
        assert_memory_equal(gist - strlen(expected), expected, strlen(expected));
    return gist;
}

/* Who gets the lock alone is told how the line begins; not if an observer would be missed. */
CASE(gist)
{
    char text[4 * LINE_RECORD_MAX], note[700];
    memset(note, 'n', sizeof note - 1);
    note[sizeof note - 1] = '\0';
    assert_string_equal(gist_of("H 1 2 3 " BODY_A "\nW 4 5 0 " BODY_B "\n", 41),
                        "\tH 0 0 0 " BODY_A "\tW 4 5 0 " BODY_B);
    assert_non_null(gist_of("H 1 2 3 " BODY_A "\nW 4 5 0 " BODY_B "\n", NOW));
    assert_null(gist_of("H 1 2 3 " BODY_A "\nH 4 5 6 " BODY_B "\n", 41));

    (void)snprintf(text, sizeof text, "H 1 2 3 " PLAIN "W 4 5 0 " PLAIN "W 6 7 0 " PLAIN,
                   note, note, note);
    const char *gist = gist_of(text, 41);
    assert_non_null(gist);
    assert_in_range(strlen(gist), 1, LINE_GIST_MAX);
    assert_non_null(strstr(gist, "\tW 4 5 0 "));
    assert_null(strstr(gist, "\tW 6 7 0 "));

    (void)snprintf(text, sizeof text, "H 1 2 3 " PLAIN "W 4 5 0 " PLAIN "O 0 7 0 " PLAIN,
                   note, note, note);
    assert_null(gist_of(text, 41));
}

CASE(words)
{
    char rest[LINE_REST_MAX];
    struct line_words words;
    size_t len = dibs__line_self(rest, "an app", "h\xc3\xa4st", 42);
    len += dibs__line_note(rest + len, "100% of\ntwo lines");
    struct party party = { .rest = rest, .rest_len = len };
    assert_int_equal(dibs__line_words(&words, &party), 0);
    assert_string_equal(words.app, "an app");
    assert_string_equal(words.host, "h\xc3\xa4st");
    assert_true(words.pid == 42);
    assert_string_equal(words.note, "100% of\ntwo lines");
    assert_null(memchr(rest, '\n', len));
    for (size_t i = 0; i < len; i++)
        assert_in_range((unsigned char)rest[i], ' ', '~');
}

/* However long its words are, a record has room, and can be read. */
CASE(as_long_as_can_be)
{
    char wide[400], rest[LINE_REST_MAX], record[LINE_RECORD_MAX];
    struct party parties[ROOM];
    struct line line;
    struct line_words words;
    memset(wide, '\xff', sizeof wide);
    wide[sizeof wide - 1] = '\0';
    size_t len = dibs__line_self(rest, wide, wide, INT64_MAX);
    len += dibs__line_note(rest + len, wide);
    struct party party = { .kind = LINE_HOLDER,
                           .told = 3,
                           .lingers = 1,
                           .mode = DIBS_PERMITS,
                           .permits = UINT32_MAX,
                           .limit = UINT32_MAX,
                           .lease_ms = UINT32_MAX,
                           .wait_ms = UINT32_MAX,
                           .since = NOW,
                           .until = NOW,
                           .tick = NOW,
                           .id = B,
                           .id_len = strlen(B),
                           .rest = rest,
                           .rest_len = len };
    len = dibs__line_record(record, &party);
    assert_in_range(len, LINE_REST_MAX / 2, LINE_RECORD_MAX - 1);
    assert_int_equal(parse(&line, parties, record, len), 0);
    assert_int_equal(dibs__line_words(&words, &parties[0]), 0);
    assert_int_equal(strlen(words.app), sizeof words.app - 1);
    assert_int_equal(strlen(words.note), DIBS_NOTE_MAX);
}

CASE(what_we_do_not_write)
{
    static const char *const texts[] = {
        "\n",
        "free",
        "H 0 0 0 " BODY_A,       /* no newline */
        LONE "x",                /* something behind it */
        LONE "\n",               /* an empty line */
        "X 1 2 3 " BODY_A "\n",  /* no kind */
        "h 1 2 3 " BODY_A "\n",  /* nor this */
        "H4 1 2 3 " BODY_A "\n", /* no end of a hold */
        "W1 1 2 0 " BODY_A "\n", /* who waits was told nothing */
        "H  1 2 3 " BODY_A "\n", /* two blanks */
        "H 1 2 " BODY_A "\n",    /* a number is missing */
        "H 1 2 -3 " BODY_A "\n", /* negative */
        "H 1 2 99999999999999999999 " BODY_A "\n",
        "H 1 18446744073709551615 3 " BODY_A "\n",
        "H 1 2 0 " BODY_A "\n",  /* a holder without a tick */
        "W 1 2 3 " BODY_A "\n",  /* one who waits with a tick */
        "F 0 0 0 " BODY_A "\n",  /* an offer is never in the columns */
        "W 1 2 0 +" BODY_A "\n", /* only holds linger */
        "H 1 2 3 0123456789abcdef:1 0 1 0 1 1 a b 1 n\n",
        "H 1 2 3 0123456789ABCDEF0123456789ABCDEF:1 0 1 0 1 1 a b 1 n\n",
        "H 1 2 3 0123456789abcdef0123456789abcdef 0 1 0 1 1 a b 1 n\n",
        "H 1 2 3 0123456789abcdef0123456789abcdef: 0 1 0 1 1 a b 1 n\n",
        "H 1 2 3 0123456789abcdef0123456789abcdef:18446744073709551616 0 1 0 1 1 a b 1 "
        "n\n",
        "H 1 2 3 " A " 3 1 0 1 1 a b 1 n\n", /* a holder that observes */
        "H 1 2 3 " A " 0 2 0 1 1 a b 1 n\n", /* permits of a lock */
        "H 1 2 3 " A " 0 1 5 1 1 a b 1 n\n",
        "H 1 2 3 " A " 2 0 5 1 1 a b 1 n\n",
        "H 1 2 3 " A " 2 6 5 1 1 a b 1 n\n", /* more than there are */
        "H 1 2 3 " A " 0 1 0 4294967296 1 a b 1 n\n",
        "H 1 2 3 " A " 0 1 0 1 1 a b 1\n",     /* a word is missing */
        "H 1 2 3 " A " 0 1 0 1 1 a b 1 n n\n", /* or too much */
        LONE LONE,                             /* two in the same columns */
        LONE "H 1 2 3 " BODY_B "\n",           /* one of two */
    };
    struct party parties[ROOM];
    struct line line;
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (parse(&line, parties, texts[i], strlen(texts[i])) == 0)
            fail_msg("was read: %s", texts[i]);
    }
}

CASE(columns_we_do_not_write)
{
    static const struct line lines[] = {
        { .now = -1 },
        { .now = NOW, .tick = -1 },
        { .now = NOW, .tick = INT64_MAX / 256 },
        { .now = NOW, .until = INT64_MAX },
        { .now = NOW, .previous = 4 },
        { .now = NOW, .until = NOW }, /* a lone holder without a tick */
    };
    struct party parties[ROOM];
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct line line = lines[i];
        line.parties = parties;
        line.room = ROOM;
        if (dibs__line_parse(&line, LONE, strlen(LONE)) == 0)
            fail_msg("columns %zu were read", i);
    }
}

/* Cut anywhere, or with any byte another, a text is refused or makes sense: it can be printed,
 * and is read again as the same. */
CASE(damaged_anywhere)
{
    static const char text[] = "H1 11 12 13 " BODY_B "\nW 31 32 0 " BODY_A "\n";
    static const char bytes[] = { '\0', '\n', ' ', '0', '9', 'F', 'f', '+', '%', '\xff' };
    struct party parties[ROOM];
    struct line line;
    char copy[sizeof text], lines[4 * LINE_RECORD_MAX], tells[512];
    size_t len = strlen(text), refused = 0;
    for (size_t i = 0; i < len; i++) {
        int whole = i == 0 || text[i - 1] == '\n';
        assert_int_equal(parse(&line, parties, text, i) == 0, whole);
        for (size_t b = 0; b < COUNT(bytes); b++) {
            struct line_text out = { .state = lines, .tells = tells };
            memcpy(copy, text, sizeof copy);
            copy[i] = bytes[b];
            if (parse(&line, parties, copy, len)) {
                refused++;
                continue;
            }
            dibs__line_print(&line, &out);
            assert_int_equal(parse(&line, parties, lines, out.state_len), 0);
        }
    }
    assert_true(refused > len);
}
