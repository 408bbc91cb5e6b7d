/* SPDX-License-Identifier: MIT */
/*
 * sql/line.c: who has a lock, and who is next. Lines are written in short here, a word for
 * each party: its kind and, of a holder, what it was told; a letter for who it is; x, s or a
 * number for exclusive, shared, or so many of 3 permits; and then
 *   !  its times are in the columns      +  it lingers
 *   -  its time is over                  ~  it has not asked for long
 *
 * Parts: in short; tables; more than who is next.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <dibs/engine.h>

#include "sql/line.h"

#define NOW INT64_C(1000000000000)
#define TICK (NOW - 5000000)
#define LEASE_MS 30000
#define WAIT_MS 10000
#define PARTIES 16
#define TEXT_MAX (PARTIES * LINE_RECORD_MAX)

/* ---- in short ---- */

struct stage {
    struct line line;
    struct party parties[PARTIES];
    char text[TEXT_MAX], ids[PARTIES][LINE_ID_MAX + 1];
};

static void
set_id(struct party *party, char letter, char id[LINE_ID_MAX + 1])
{
    memset(id, letter, LINE_SESSION);
    strcpy(id + LINE_SESSION, ":7");
    party->id = id;
    party->id_len = LINE_SESSION + 2;
    party->rest = "app host 1 ";
    party->rest_len = strlen(party->rest);
}

static void
set_mode(struct party *party, char mode)
{
    party->mode = mode == 'x'   ? DIBS_EXCLUSIVE
                  : mode == 's' ? DIBS_SHARED
                  : mode == 'o' ? DIBS_OBSERVE
                                : DIBS_PERMITS;
    party->permits = party->mode == DIBS_PERMITS ? (uint32_t)(mode - '0') : 1;
    party->limit = party->mode == DIBS_PERMITS ? 3 : 0;
}

/* one word; `nth` makes ticks differ */
static void
set_party(struct party *party, const char *word, int nth, char id[LINE_ID_MAX + 1])
{
    int holds = word[0] == 'H' || word[0] == 'F';
    *party = (struct party){ .kind = *word++,
                             .since = NOW - 1000,
                             .until = NOW + (holds ? LEASE_MS : WAIT_MS) * 1000,
                             .tick = holds ? TICK - nth : 0,
                             .lease_ms = LEASE_MS,
                             .wait_ms = WAIT_MS };
    if (*word >= '1' && *word <= '3')
        party->told = (uint8_t)(*word++ - '0');
    set_id(party, word[0], id);
    set_mode(party, word[1]);
    for (word += 2; *word && *word != ' '; word++) {
        party->is_lone |= *word == '!';
        party->lingers |= *word == '+';
        if (*word == '-')
            party->until = NOW;
        if (*word == '~')
            party->until = NOW + WAIT_MS * 500;
    }
}

static void
stage_set(struct stage *stage, const char *in_short, unsigned previous)
{
    struct line *line = &stage->line;
    size_t len = 0;
    int nth = 0;
    *line = (struct line){ .now = NOW,
                           .version = 1,
                           .tick = TICK,
                           .until = NOW,
                           .previous = previous,
                           .parties = stage->parties,
                           .room = PARTIES };
    for (const char *word = in_short; word && *word;) {
        struct party party;
        char id[LINE_ID_MAX + 1];
        set_party(&party, word, nth++, id);
        if (party.is_lone)
            line->until = party.until;
        len += dibs__line_record(stage->text + len, &party);
        word = strchr(word, ' ');
        word += word != NULL;
    }
    stage->text[len] = '\0';
    assert_int_equal(dibs__line_parse(line, stage->text, len), 0);
}

static void
add(char *out, const char *format, char a, char b)
{
    (void)sprintf(out + strlen(out), format, a, b);
}

static void
describe_party(char *out, const struct party *party)
{
    if (*out)
        strcat(out, " ");
    add(out, "%c", party->kind, 0);
    if (party->told && !party->is_lone)
        add(out, "%c", (char)('0' + party->told), 0);
    char mode =
        party->mode == DIBS_PERMITS ? (char)('0' + party->permits) : "xs?o"[party->mode];
    add(out, "%c%c", party->id[0], mode);
    if (party->is_lone)
        strcat(out, "!");
    if (party->lingers)
        strcat(out, "+");
}

/* behind the parties: what is said to whom, "g:b", and "all" if nobody may have joined */
static void
describe(char *out, const struct line *line, unsigned *previous)
{
    struct party parties[PARTIES];
    static char state[TEXT_MAX], tells[TEXT_MAX];
    struct line_text text = { .state = state, .tells = tells };
    assert_in_range(line->count, 0, PARTIES);
    dibs__line_print(line, &text);
    assert_true(text.state_len <= dibs__line_state_max(line));
    assert_true(text.tells_len <= dibs__line_tells_max(line));
    state[text.state_len] = tells[text.tells_len] = '\0';
    *previous = text.previous;
    struct line again = { .now = NOW,
                          .tick = line->tick,
                          .until = text.until,
                          .previous = text.previous,
                          .parties = parties,
                          .room = PARTIES };
    assert_int_equal(dibs__line_parse(&again, state, text.state_len), 0);
    *out = '\0';
    for (size_t i = 0; i < again.count; i++)
        describe_party(out, &parties[i]);
    for (const char *tell = tells; *tell; tell = strchr(tell, '\n') + 1) {
        assert_memory_equal(tell, LINE_CHANNEL, strlen(LINE_CHANNEL));
        const char *who = tell + strlen(LINE_CHANNEL);
        add(out, " %c:%c", who[LINE_SESSION + 1], who[0]);
    }
    if (dibs__line_needs_all(line))
        strcat(out, " all");
}

/* ---- tables ---- */

enum op { TAKE, TRY, GIVE, LINGER, KEEP, SHARE, BREAK, OBSERVE };

struct row {
    const char *why, *before;
    unsigned previous;
    enum op op;
    const char *who; /* letter and mode */
    int64_t says;    /* enum line_verdict, or what the function returns */
    const char *after;
    unsigned then; /* the column: what a lone holder was told, or the next one will be */
};

static int64_t
run(struct line *line, const struct row *row, const struct party *asks)
{
    struct line_answer answer;
    switch (row->op) {
    case TAKE:
        return dibs__line_take(line, asks, 1, &answer);
    case TRY:
        return dibs__line_take(line, asks, 0, &answer);
    case GIVE:
        return dibs__line_give(line, asks->id, asks->id_len, 0);
    case LINGER:
        return dibs__line_give(line, asks->id, asks->id_len, 5000);
    case KEEP:
        return dibs__line_keep(line, asks->id, asks->id_len, LEASE_MS);
    case SHARE:
        return dibs__line_share(line, asks->id, asks->id_len);
    case BREAK:
        return (int64_t)dibs__line_end_all(line);
    default:
        return dibs__line_observe(line, asks, TICK) == TICK;
    }
}

static void
check_row(const struct row *row)
{
    static struct stage stage;
    char after[512], word[8], id[LINE_ID_MAX + 1];
    unsigned then;
    struct party asks;
    (void)snprintf(word, sizeof word, "%c%s", row->op == OBSERVE ? 'O' : 'W', row->who);
    set_party(&asks, word, 0, id);
    stage_set(&stage, row->before, row->previous);
    int64_t says = run(&stage.line, row, &asks);
    describe(after, &stage.line, &then);
    if (says != row->says || strcmp(after, row->after) != 0 || then != row->then)
        fail_msg("%s: says %d, then \"%s\" and %u", row->why, (int)says, after, then);
}

static void
check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_row(&rows[i]);
}

CASE(taking)
{
    static const struct row rows[] = {
        { "free", "", 0, TAKE, "ax", LINE_GRANTED, "Hax!", 0 },
        { "free, and tried", "", 0, TRY, "ax", LINE_GRANTED, "Hax!", 0 },
        { "held", "Hbx!", 0, TAKE, "ax", LINE_BUSY, "Hbx! Wax", 0 },
        { "held, and tried", "Hbx!", 0, TRY, "ax", LINE_BUSY, "Hbx!", 0 },
        { "in order", "Hbx! Wcx", 0, TAKE, "ax", LINE_BUSY, "Hbx! Wcx Wax", 0 },
        { "asks again", "Hbx! Wax Wcx", 0, TAKE, "ax", LINE_BUSY, "Hbx! Wax Wcx", 0 },
        { "has it", "Hax! Wcx", 0, TAKE, "ax", LINE_GRANTED, "Hax! Wcx", 0 },
        { "offered", "Fax Wcx", 0, TAKE, "ax", LINE_GRANTED, "Hax! Wcx", 0 },
        { "only observed", "Obo", 0, TAKE, "ax", LINE_GRANTED, "Hax! Obo w:b", 0 },
        { "late, but still in line", "Hbx! Wax-", 0, TAKE, "ax", LINE_BUSY, "Hbx! Wax",
          0 },
        { "its turn, though late", "Hbx!- Wax-", 0, TAKE, "ax", LINE_GRANTED, "Hax! b:b",
          1 },
        { "lost it", "Hax!-", 0, TAKE, "ax", LINE_GRANTED, "Hax! b:a", 1 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(sharing)
{
    static const struct row rows[] = {
        { "together", "Hbs!", 0, TAKE, "as", LINE_GRANTED, "Hbs Has all", 0 },
        { "not with a writer", "Hbx!", 0, TAKE, "as", LINE_BUSY, "Hbx! Was", 0 },
        { "not past a writer", "Hbs! Wcx", 0, TAKE, "as", LINE_BUSY, "Hbs! Wcx Was", 0 },
        { "writer waits for all", "Hbs Hcs", 0, TAKE, "ax", LINE_BUSY, "Hbs Hcs Wax", 0 },
        { "all that are next", "Hax! Wbs Wcs Wdx Wes", 0, GIVE, "ax", 1,
          "Hbs Hcs Wdx Wes g:b g:c", 0 },
        { "the last of them", "Hbs! Wdx Wes", 0, GIVE, "bs", 1, "Hdx! Wes g:d", 0 },
        { "one of them", "Hbs Hcs Wdx", 0, GIVE, "cs", 1, "Hbs! Wdx", 0 },
        { "the older one stays", "Hbs Hcs", 0, GIVE, "bs", 1, "Hcs all", 0 },
        { "share", "Hax! Wbs Wcx", 0, SHARE, "ax", 1, "Has Hbs Wcx g:b", 0 },
        { "share alone", "Hax!", 0, SHARE, "ax", 1, "Has! all", 0 },
        { "share what is shared", "Has Hbs", 0, SHARE, "as", 1, "Has Hbs all", 0 },
        { "share what is lost", "Hbx!", 0, SHARE, "ax", 0, "Hbx!", 0 },
        { "the writer gave up", "Hbs! Wcx Wds", 0, GIVE, "cx", 0, "Hbs Hds g:d all", 0 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(permits)
{
    static const struct row rows[] = {
        { "room", "Hb2!", 0, TAKE, "a1", LINE_GRANTED, "Hb2 Ha1", 0 },
        { "no room", "Hb2!", 0, TAKE, "a2", LINE_BUSY, "Hb2! Wa2", 0 },
        { "not past one who needs more", "Hb2! Wc2", 0, TAKE, "a1", LINE_BUSY,
          "Hb2! Wc2 Wa1", 0 },
        { "in order", "Hb3! Wc2 Wd2 We1", 0, GIVE, "b3", 1, "Hc2! Wd2 We1 g:c", 0 },
        { "as many as fit", "Hb3! Wc1 Wd2 We1", 0, GIVE, "b3", 1, "Hc1 Hd2 We1 g:c g:d",
          0 },
        { "more could come", "Hb1 Hc1", 0, GIVE, "b1", 1, "Hc1 all", 0 },
        { "as a lock", "Hb2!", 0, TAKE, "ax", LINE_MISMATCH, "Hb2! all", 0 },
        { "a lock as a semaphore", "Hbx!", 0, TAKE, "a1", LINE_MISMATCH, "Hbx!", 0 },
        { "waited for as a lock", "Hbx!- Wcs", 0, TAKE, "a1", LINE_MISMATCH,
          "Hcs! b:b g:c all", 1 },
        { "joined blindly", "Hbx! Wa1", 0, TAKE, "a1", LINE_MISMATCH, "Hbx!", 0 },
        { "nobody in it any more", "Hbx!- Obo", 0, TAKE, "a1", LINE_GRANTED,
          "Ha1! Obo b:b w:b all", 1 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(ends_and_what_is_told)
{
    static const struct row rows[] = {
        { "clean", "Hax! Wbx", 1, GIVE, "ax", 1, "Hbx! g:b", 0 },
        { "to nobody", "Hax!", 1, GIVE, "ax", 1, " all", 0 },
        { "expired", "Hbx!-", 0, TAKE, "ax", LINE_GRANTED, "Hax! b:b", 1 },
        { "what is told stays told", "Hax!", 2, TAKE, "ax", LINE_GRANTED, "Hax!", 2 },
        { "what the row says", "", 2, TAKE, "ax", LINE_GRANTED, "Hax!", 2 },
        { "to the first of several", "Hbx!- Wcs Wds", 0, TAKE, "as", LINE_GRANTED,
          "H1cs Hds Has b:b g:c g:d all", 0 },
        { "a sharer's end is for the next", "Hbs Hcs-", 0, TAKE, "as", LINE_GRANTED,
          "Hbs H1as b:c all", 0 },
        { "and not forgotten by a clean one", "Hbs", 1, GIVE, "bs", 1, " all", 1 },
        { "an offer that was not taken", "Fbx-", 0, TAKE, "ax", LINE_GRANTED, "Hax! b:b",
          0 },
        { "nor what it was told", "F2bx-", 0, TAKE, "ax", LINE_GRANTED, "Hax! b:b", 2 },
        { "an offer given back", "F1ax Wbx", 0, GIVE, "ax", 1, "Hbx! g:b", 1 },
        { "broken", "Hbx! Wcx", 0, BREAK, "ax", 1, "Hcx! b:b g:c", 2 },
        { "all broken", "Hbs Hcs", 0, BREAK, "ax", 2, " b:b b:c all", 2 },
        { "nothing to break", "", 0, BREAK, "ax", 0, " all", 0 },
        { "kept", "Hbs Has Wcx", 0, KEEP, "as", 1, "Hbs Has Wcx", 0 },
        { "an offer is kept", "Fax Wcx", 0, KEEP, "ax", 1, "Hax! Wcx", 0 },
        { "kept too late", "Hbs Has- Wcx", 0, KEEP, "as", 0, "Hbs Wcx b:a", 1 },
        { "not held", "Hbx! Wax", 0, GIVE, "ax", 0, "Hbx!", 0 },
        { "not there", "Hbx!", 0, GIVE, "ax", 0, "Hbx!", 0 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(who_is_surely_there)
{
    static const struct row rows[] = {
        { "is offered", "Hax! Wbx~", 0, GIVE, "ax", 1, "Fbx o:b", 0 },
        { "is offered among sharers", "Hax! Wbs~ Wcs", 0, GIVE, "ax", 1,
          "Fbs Hcs o:b g:c all", 0 },
        { "was told of the end", "Hax! Wbx~", 0, BREAK, "", 1, "F2bx b:a o:b", 0 },
        { "dead ones are passed over", "Hax! Wbx- Wcx- Wdx", 0, GIVE, "ax", 1, "Hdx! g:d",
          0 },
        { "an offer is taken up", "F2ax Wbx", 0, TAKE, "ax", LINE_GRANTED, "Hax! Wbx",
          2 },
        { "came twice", "Hax! Wbx Wbx Wcx", 0, GIVE, "ax", 1, "Hbx! Wcx g:b", 0 },
        { "the second place is none", "Hbs! Wcx Wbs Wds", 0, GIVE, "cx", 0,
          "Hbs Hds g:d all", 0 },
        { "both places are left", "Hax! Wbx Wbx", 0, GIVE, "bx", 0, "Hax!", 0 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(lingering)
{
    static const struct row rows[] = {
        { "it stays", "Hax! Wbx", 0, LINGER, "ax", 1, "Hax!+ Wbx", 0 },
        { "said twice", "Hax!+ Wbx", 0, LINGER, "ax", 1, "Hax!+ Wbx", 0 },
        { "it is nobody's", "Hax!+", 0, GIVE, "ax", 0, "Hax!+", 0 },
        { "not even to keep", "Hax!+", 0, KEEP, "ax", 0, "Hax!+", 0 },
        { "its owner waits as others do", "Hax!+", 0, TAKE, "ax", LINE_BUSY, "Hax!+ Wax",
          0 },
        { "its end is clean", "Hax!+- Wbx", 0, TAKE, "cx", LINE_BUSY, "Hbx! Wcx g:b", 0 },
        { "broken", "Hax!+", 0, BREAK, "", 1, " all", 2 },
        { "not held", "Hbx!", 0, LINGER, "ax", 0, "Hbx!", 0 },
    };
    check_rows(rows, COUNT(rows));
}

CASE(observing)
{
    static const struct row rows[] = {
        { "nothing new", "Hbx!", 0, OBSERVE, "ao", 1, "Hbx! Oao", 0 },
        { "nobody has it", "", 0, OBSERVE, "ao", 0, " all", 0 },
        { "asks again", "Hbx! Oao", 0, OBSERVE, "ao", 1, "Hbx! Oao", 0 },
        { "ended", "Hbx!-", 0, OBSERVE, "ao", 0, " b:b all", 1 },
        { "is told", "Hbx! Oao", 0, GIVE, "bx", 1, "Oao w:a all", 0 },
        { "not of those who wait", "Hbx! Oao Wcx", 0, GIVE, "cx", 0, "Hbx! Oao", 0 },
        { "goes", "Hbx! Oao", 0, GIVE, "ao", 0, "Hbx!", 0 },
        { "over", "Hbx! Oao-", 0, TAKE, "cx", LINE_BUSY, "Hbx! Wcx", 0 },
    };
    check_rows(rows, COUNT(rows));
}

/* ---- more than who is next ---- */

static enum line_verdict
take(struct stage *stage, const char *in_short, const char *who, int queues,
     struct line_answer *answer)
{
    static char id[LINE_ID_MAX + 1];
    struct party asks;
    char word[8];
    (void)snprintf(word, sizeof word, "W%s", who);
    set_party(&asks, word, 0, id);
    stage_set(stage, in_short, 0);
    return dibs__line_take(&stage->line, &asks, queues, answer);
}

CASE(how_it_is_written)
{
    static const struct {
        const char *before, *who;
        int queues;
        enum line_write how;
    } rows[] = {
        { "Hbx!", "ax", 1, LINE_JOINS },
        { "Hbx! Wax", "ax", 1, LINE_WRITES_NOTHING },
        { "Hbx! Wax~", "ax", 1, LINE_EDITS }, /* to stay in line */
        { "Hbx! Wax-", "ax", 1, LINE_SWAPS }, /* it was too late for that */
        { "Hbx!", "ax", 0, LINE_WRITES_NOTHING },
        { "Hbx!-", "ax", 1, LINE_SWAPS },
        { "Hax! Wbx", "ax", 1, LINE_KEEPS },
        { "Has Hbs", "as", 1, LINE_EDITS },
        { "Fax", "ax", 1, LINE_SWAPS },
        { "Hbx! Wcx-", "ax", 1, LINE_SWAPS },
        { "Hbx!", "a1", 1, LINE_WRITES_NOTHING }, /* refused */
    };
    static struct stage stage;
    struct line_answer answer;
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)take(&stage, rows[i].before, rows[i].who, rows[i].queues, &answer);
        if (dibs__line_written(&stage.line) != rows[i].how)
            fail_msg("%s, asked by %s: %d", rows[i].before, rows[i].who,
                     (int)dibs__line_written(&stage.line));
    }
}

CASE(position_and_times)
{
    static struct stage stage;
    struct line_answer answer;
    assert_int_equal(take(&stage, "Hbx! Oco Wdx- Wex", "ax", 1, &answer), LINE_BUSY);
    assert_int_equal(answer.position, 2);
    assert_true(answer.ends_in == LEASE_MS * 1000);
    assert_true(answer.me->until == NOW + WAIT_MS * 1000);

    assert_int_equal(take(&stage, "", "ax", 1, &answer), LINE_GRANTED);
    assert_true(answer.me->until == NOW + LEASE_MS * 1000);
    assert_true(answer.me->tick == NOW);
    assert_false(answer.was_granted);

    assert_int_equal(take(&stage, "Has Hbs", "as", 1, &answer), LINE_GRANTED);
    assert_true(answer.was_granted);
    assert_true(answer.base == NOW);
    assert_int_equal(take(&stage, "Fax", "ax", 1, &answer), LINE_GRANTED);
    assert_false(answer.was_granted);
}

/* Ticks rise whatever the clock does, and several grants of one moment have each their own. */
CASE(ticks)
{
    static struct stage stage;
    stage_set(&stage, "Hax! Wbs Wcs", 0);
    stage.line.tick = NOW + 77;
    (void)dibs__line_give(&stage.line, stage.parties[0].id, stage.parties[0].id_len, 0);
    assert_true(stage.parties[1].tick == NOW + 78);
    assert_true(stage.parties[2].tick == NOW + 79);
    assert_true(stage.line.tick == NOW + 79);
}

/* An offer lasts as long as the place in line did, and no longer than a hold would. */
CASE(offers_end)
{
    static struct stage stage;
    stage_set(&stage, "Hax! Wbx~ Wcx", 0);
    (void)dibs__line_give(&stage.line, stage.parties[0].id, stage.parties[0].id_len, 0);
    assert_true(stage.parties[1].until == NOW + WAIT_MS * 500);
    assert_int_equal(stage.parties[1].kind, LINE_OFFERED);
    stage_set(&stage, "Hax! Wbx~ Wcx", 0);
    stage.parties[1].lease_ms = 100;
    (void)dibs__line_give(&stage.line, stage.parties[0].id, stage.parties[0].id_len, 0);
    assert_true(stage.parties[1].until == NOW + 100 * 1000);
}

/* Nobody is shortened by being kept. */
CASE(keeping_never_shortens)
{
    static struct stage stage;
    stage_set(&stage, "Has Hbs", 0);
    assert_int_equal(
        dibs__line_keep(&stage.line, stage.parties[0].id, stage.parties[0].id_len, 10),
        1);
    assert_true(stage.parties[0].until == NOW + LEASE_MS * 1000);
}
