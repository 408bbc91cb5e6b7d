/* SPDX-License-Identifier: MIT */
/* kit/note.c: what a store remembers of a claim, as text. */
#include "unit.h"

#include <stdlib.h>

#include "kit/kit.h"

static dibs_session session = { .app = "an app", .machine = "a host", .pid = 7 };

static dibs_claim
some_claim(void)
{
    return (dibs_claim){ .mode = DIBS_PERMITS,
                         .permits = 2,
                         .limit = 4000000000u,
                         .lease_ms = 9,
                         .token = 640,
                         .note = "two\nlines of 100% \xc3\xa4" };
}

static int
is_foreign(const struct kit_note *note)
{
    return note->mode == -1 && !note->id[0] && !note->permits && !note->limit &&
           note->party.permits == 1 && note->party.lease_left_ms == -1 &&
           !*note->party.host && !*note->party.app;
}

CASE(there_and_back)
{
    char data[KIT_NOTE_MAX];
    struct kit_note note;
    dibs_claim claim = some_claim();
    int len = dibs__kit_note_write(data, &session, &claim, "an-id");
    assert_in_range(len, 100, KIT_NOTE_MAX - 1);
    assert_int_equal(len, strlen(data));
    assert_memory_equal(data, claim.note, strlen(claim.note));
    dibs__kit_note_parse(&note, data, (size_t)len);
    assert_string_equal(note.party.note, claim.note);
    assert_string_equal(note.id, "an-id");
    assert_int_equal(note.mode, DIBS_PERMITS);
    assert_int_equal(note.party.mode, DIBS_PERMITS);
    assert_int_equal(note.permits, 2);
    assert_int_equal(note.party.permits, 2);
    assert_int_equal(note.limit, 4000000000u);
    assert_int_equal(note.party.token, 640);
    assert_int_equal(note.party.lease_left_ms, 9);
    assert_int_equal(note.party.pid, 7);
    assert_true(note.party.since_ms > INT64_C(1500000000000));
    assert_string_equal(note.party.host, "a host");
    assert_string_equal(note.party.app, "an app");
}

/* However long the parts are, the text fits, and the note comes back whole. */
CASE(as_long_as_can_be)
{
    char data[KIT_NOTE_MAX], text[DIBS_NOTE_MAX + 1], app[4000], id[KIT_ID_MAX];
    struct kit_note note;
    dibs_session wide = { .app = app, .pid = INT64_MAX };
    dibs_claim claim = { .mode = UINT8_MAX,
                         .permits = UINT32_MAX,
                         .limit = UINT32_MAX,
                         .lease_ms = UINT32_MAX,
                         .token = UINT64_MAX,
                         .note = text };
    memset(text, '\n', sizeof text);
    text[sizeof text - 1] = '\0';
    memset(app, '\x01', sizeof app);
    app[sizeof app - 1] = '\0';
    memset(id, 'i', sizeof id);
    id[sizeof id - 1] = '\0';
    memset(wide.machine, ' ', sizeof wide.machine - 1);
    int len = dibs__kit_note_write(data, &wide, &claim, id);
    assert_in_range(len, 100, KIT_NOTE_MAX - 1);
    dibs__kit_note_parse(&note, data, (size_t)len);
    assert_string_equal(note.party.note, text);
    assert_string_equal(note.id, id);
    assert_int_equal(note.limit, UINT32_MAX);
    assert_string_equal(note.party.host, wide.machine);
    assert_int_equal(strlen(note.party.app), 128);
}

CASE(of_others)
{
    static const char *const texts[] = { "127.0.0.1", "dibs1 id=a mode=0",
                                         "a\ndibs2 id=a", "a\ndibs1", "a\ndibs1 id=a\n" };
    char big[5000];
    struct kit_note note;
    for (size_t i = 0; i < COUNT(texts); i++) {
        dibs__kit_note_parse(&note, texts[i], strlen(texts[i]));
        assert_string_equal(note.party.note, texts[i]);
        assert_true(is_foreign(&note));
    }
    dibs__kit_note_parse(&note, NULL, 0);
    assert_true(is_foreign(&note) && !*note.party.note);
    dibs__kit_note_parse(&note, "a\0b", 3);
    assert_string_equal(note.party.note, "a");
    memset(big, 'x', sizeof big);
    dibs__kit_note_parse(&note, big, sizeof big);
    assert_int_equal(strlen(note.party.note), DIBS_NOTE_MAX);
}

static void
parse_text(struct kit_note *note, const char *text)
{
    dibs__kit_note_parse(note, text, strlen(text));
}

/* It looks like ours, and is not what we write: what makes no sense counts as not said. */
CASE(hostile)
{
    struct kit_note note;
    parse_text(&note, "n\ndibs1 mode=9 permits=-1 limit=99999999999 x pid=abc since= "
                      "token=1x lease=4294967296 =y host=%00%4 app=%0a");
    assert_string_equal(note.party.note, "n");
    assert_true(!note.id[0] && !note.permits && !note.limit && !note.mode);
    assert_true(!note.party.pid && !note.party.token && !note.party.since_ms);
    assert_string_equal(note.party.host, "%00%4");
    assert_string_equal(note.party.app, "%0a");
    parse_text(&note, "\ndibs1 id=0123456789012345678901234567890123456789012345678901234"
                      "567890123 mode=0");
    assert_true(!note.id[0] && !*note.party.note);
    parse_text(&note, "\ndibs1 host= host=a host=b host app=%25%20 id==");
    assert_string_equal(note.party.host, "b");
    assert_string_equal(note.party.app, "% ");
    assert_string_equal(note.id, "=");
}

/* a host that is longer than ours ever is stays as it was written */
CASE(long_words)
{
    char text[KIT_NOTE_MAX] = "\ndibs1 host=";
    struct kit_note note;
    size_t start = strlen(text);
    for (size_t at = start; at < sizeof text - 1; at++)
        text[at] = "%20"[(at - start) % 3];
    dibs__kit_note_parse(&note, text, sizeof text - 1);
    assert_int_equal(strlen(note.party.host), sizeof text - 1 - start);
    assert_memory_equal(note.party.host, "%20%20", 6);
}

/* Cut off anywhere, or with any byte changed, ours is read without harm. */
CASE(damaged)
{
    char data[KIT_NOTE_MAX];
    struct kit_note note;
    dibs_claim claim = some_claim();
    size_t len = (size_t)dibs__kit_note_write(data, &session, &claim, "an-id");
    for (size_t i = 0; i <= len; i++) {
        char *exact = malloc(i + !i);
        assert_non_null(exact);
        memcpy(exact, data, i);
        dibs__kit_note_parse(&note, exact, i);
        assert_true(strlen(note.party.note) <= DIBS_NOTE_MAX);
        free(exact);
    }
    for (size_t i = 0; i < len; i++) {
        for (int byte = 0; byte < 256; byte++) {
            char kept = data[i];
            data[i] = (char)byte;
            dibs__kit_note_parse(&note, data, len);
            assert_true(strlen(note.party.host) + strlen(note.party.app) < len);
            data[i] = kept;
        }
    }
}
