/* SPDX-License-Identifier: MIT */
/* What a store remembers of a claim (kit/note.c): anybody's text can be read, and ours says
 * the same again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "kit/kit.h"

static int
is_within(const char *part, const struct kit_note *note)
{
    return *part == '\0' || (part >= note->text && part < note->text + sizeof note->text);
}

static void
check_note(const struct kit_note *note)
{
    const dibs_party *party = &note->party;
    HOLDS(memchr(note->id, '\0', sizeof note->id));
    HOLDS(note->mode >= -1 && note->mode <= DIBS_PERMITS);
    HOLDS(party->lease_left_ms >= -1 && party->since_ms >= 0 && party->pid >= 0);
    HOLDS(is_within(party->note, note) && is_within(party->host, note) &&
          is_within(party->app, note));
    HOLDS(strlen(party->note) <= DIBS_NOTE_MAX);
    HOLDS(strlen(party->host) + strlen(party->app) < sizeof note->text);
}

/* names with anything in them but NUL: the same, as far as there is room */
static void
check_written(const char *note_text, const char *app, uint8_t numbers)
{
    char out[KIT_NOTE_MAX];
    struct kit_note note;
    dibs_session session = { .app = app, .machine = "a host % \n", .pid = 7 };
    dibs_claim claim = { .note = note_text,
                         .mode = numbers % 3,
                         .permits = numbers + 1u,
                         .limit = numbers * 3u,
                         .lease_ms = 1000,
                         .token = numbers };
    int len = dibs__kit_note_write(out, &session, &claim, "the-id");
    HOLDS(len > 0 && (size_t)len < sizeof out && strlen(out) == (size_t)len);
    dibs__kit_note_parse(&note, out, (size_t)len);
    check_note(&note);
    HOLDS(strcmp(note.id, "the-id") == 0 && note.mode == claim.mode);
    HOLDS(note.permits == claim.permits && note.limit == claim.limit);
    HOLDS(note.party.token == claim.token && note.party.pid == 7);
    HOLDS(strcmp(note.party.host, session.machine) == 0);
    HOLDS(strncmp(note.party.app, app, 128) == 0 && strlen(note.party.app) <= 128);
    HOLDS(strncmp(note.party.note, note_text, DIBS_NOTE_MAX) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct kit_note note;
    char *bytes = fuzz_copy(data, size);
    dibs__kit_note_parse(&note, bytes, size);
    check_note(&note);
    free(bytes);
    size_t len;
    uint8_t numbers = fuzz_byte(&input);
    const char *part = fuzz_part(&input, 4000, &len);
    char *text = fuzz_text(part, len);
    part = fuzz_part(&input, 4000, &len);
    char *app = fuzz_text(part, len);
    check_written(text, app, numbers);
    free(app);
    free(text);
    return 0;
}
