/* SPDX-License-Identifier: MIT */
/*
 * The line of a lock in a database (sql/line.c, line_text.c). Any row may be there: it is
 * refused, or read and written again as the same. On a row that we began ourselves anything
 * may happen, step by step: what is written can be read, and the holders can always be
 * together.
 *
 * An input is "NOW VERSION TICK UNTIL PREVIOUS", NUL, the state, NUL, and two bytes for each
 * step.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "sql/line.h"

#define TIME_FIRST_MOST (INT64_C(1) << 52)
#define STEPS_MAX 64

/* ---- rows ---- */

struct row {
    struct line columns; /* of it: now, version, tick, until, previous */
    char *state;
    size_t len;
};

/* for free(line->parties) */
static int
read_row(struct line *line, const struct row *row)
{
    *line = row->columns;
    line->room = dibs__line_count(row->state, row->len) + 1;
    line->parties = calloc(line->room, sizeof *line->parties);
    return dibs__line_parse(line, row->state, row->len);
}

/* what a row becomes; the text has just the room that was asked for */
static void
write_row(struct row *row, const struct line *line)
{
    struct line_text out = { 0 };
    size_t state_max = dibs__line_state_max(line), tells_max = dibs__line_tells_max(line);
    out.state = malloc(state_max);
    out.tells = malloc(tells_max);
    dibs__line_print(line, &out);
    HOLDS(out.state_len <= state_max && out.tells_len <= tells_max);
    free(out.tells);
    free(row->state);
    row->state = fuzz_text(out.state, out.state_len);
    row->len = out.state_len;
    free(out.state);
    row->columns.tick = line->tick;
    row->columns.until = out.until;
    row->columns.previous = out.previous;
    row->columns.version++;
}

/* ---- a row that may be anybody's ---- */

static void
check_words(const struct line *line)
{
    struct line_words words;
    char record[LINE_RECORD_MAX];
    for (size_t i = 0; i < line->count; i++) {
        HOLDS(dibs__line_record(record, &line->parties[i]) <= sizeof record);
        if (dibs__line_words(&words, &line->parties[i]) == 0)
            HOLDS(words.pid >= 0 && strlen(words.app) < sizeof words.app);
    }
}

static void
check_same(struct row *row)
{
    struct line line;
    if (read_row(&line, row) == 0) {
        check_words(&line);
        write_row(row, &line);
        char *once = fuzz_text(row->state, row->len);
        struct line again;
        HOLDS(read_row(&again, row) == 0 && again.count == line.count);
        write_row(row, &again);
        HOLDS(strcmp(once, row->state) == 0);
        free(again.parties);
        free(once);
    }
    free(line.parties);
}

/* ---- a row of ours ---- */

struct step {
    unsigned what, who;
    char id[LINE_ID_MAX + 1];
    struct party asks;
};

static void
prepare(struct step *step, const struct line *line, uint8_t what, uint8_t who)
{
    static const uint32_t modes[] = { DIBS_EXCLUSIVE, DIBS_SHARED, DIBS_EXCLUSIVE,
                                      DIBS_PERMITS };
    step->what = what % 8;
    step->who = who;
    int len = snprintf(step->id, sizeof step->id, "%032x:%u", who % 4, 1 + who % 3u);
    uint32_t mode = modes[what / 8 % 4];
    step->asks = (struct party){ .kind = LINE_WAITER,
                                 .mode = mode,
                                 .permits = mode == DIBS_PERMITS ? 1 + who % 3u : 1,
                                 .limit = mode == DIBS_PERMITS ? 3 : 0,
                                 .lease_ms = 3000,
                                 .wait_ms = 1000,
                                 .since = line->now,
                                 .until = line->now + 1000000,
                                 .id = step->id,
                                 .id_len = (size_t)len,
                                 .rest = "app host 1 note",
                                 .rest_len = 15 };
}

/* expected: nobody else is let in beside one who is alone */
static void
check_holders(const struct line *line)
{
    uint64_t permits = 0, exclusive = 0, holders = 0, limit = 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->is_gone || !line_holds(party))
            continue;
        holders++;
        exclusive += party->mode == DIBS_EXCLUSIVE;
        permits += party->limit ? party->permits : 0;
        limit = party->limit ? party->limit : limit;
    }
    HOLDS(exclusive == 0 || holders == 1);
    HOLDS(permits <= limit);
}

static void
run_step(struct line *line, const struct step *step)
{
    struct line_answer answer = { 0 };
    struct party asks = step->asks;
    switch (step->what) {
    case 0:
    case 1:
        if (dibs__line_take(line, &asks, step->what, &answer) == LINE_GRANTED)
            HOLDS(answer.me && line_holds(answer.me) && answer.me->tick > 0);
        break;
    case 2:
        (void)dibs__line_give(line, step->id, asks.id_len, step->who > 250 ? 500 : 0);
        break;
    case 3:
        (void)dibs__line_keep(line, step->id, asks.id_len, 3000);
        break;
    case 4:
        (void)dibs__line_share(line, step->id, asks.id_len);
        break;
    case 5:
        (void)dibs__line_end_all(line);
        break;
    case 6:
        asks.kind = LINE_OBSERVER;
        asks.mode = DIBS_OBSERVE;
        asks.permits = 1;
        asks.limit = 0;
        asks.since = 0;
        HOLDS(dibs__line_observe(line, &asks, step->who) >= 0);
        break;
    default:
        dibs__line_expire(line, NULL);
    }
}

static void
check_steps(struct row *row, struct input *input)
{
    row->len = 0;
    for (int steps = 0; steps < STEPS_MAX && input->left >= 2; steps++) {
        struct line line;
        struct step step;
        int64_t tick = row->columns.tick;
        uint8_t what = fuzz_byte(input), who = fuzz_byte(input);
        row->columns.now += (int64_t)(what / 32) * 400000;
        HOLDS(read_row(&line, row) == 0);
        prepare(&step, &line, what, who);
        run_step(&line, &step);
        check_holders(&line);
        HOLDS(line.tick >= tick);
        write_row(row, &line);
        free(line.parties);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    size_t len;
    const char *part = fuzz_part(&input, 200, &len);
    char *numbers = fuzz_text(part, len);
    struct row row = { 0 };
    struct line *columns = &row.columns;
    (void)sscanf(numbers, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %u",
                 &columns->now, &columns->version, &columns->tick, &columns->until,
                 &columns->previous);
    part = fuzz_part(&input, SIZE_MAX, &len);
    row.state = fuzz_text(part, len);
    row.len = len;
    columns->version &= INT32_MAX;
    struct line before = *columns;
    check_same(&row);
    *columns = before;
    if (before.now >= 0 && before.now <= TIME_FIRST_MOST && before.tick >= 0 &&
        before.tick <= TIME_FIRST_MOST && before.previous <= DIBS_PREVIOUS_UNKNOWN) {
        columns->until = before.now;
        check_steps(&row, &input);
    }
    free(row.state);
    free(numbers);
    return 0;
}
