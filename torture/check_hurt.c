/* SPDX-License-Identifier: MIT */
/*
 * What was done to whom, and when: incidents, sorted so that "was this process hurt between
 * these two times" is a search and not a walk.
 *
 * A pause is over a little after the process may go on again: it has to catch up.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define CATCH_UP (50 * MS)
#define SLOW_ANSWER (50 * MS)

/* ---- sorting ---- */

static int
compare_process(const struct hurt *a, uint32_t client, uint32_t life)
{
    if (a->client != client)
        return a->client < client ? -1 : 1;
    return a->life < life ? -1 : a->life > life;
}

static int
by_process_and_time(const void *left, const void *right)
{
    const struct hurt *a = left, *b = right;
    int order = compare_process(a, b->client, b->life);
    if (order)
        return order;
    return a->from < b->from ? -1 : a->from > b->from;
}

static void
sort_hurts(struct hurts *hurts)
{
    if (hurts->count)
        qsort(hurts->list, hurts->count, sizeof *hurts->list, by_process_and_time);
    for (size_t i = 0; i < hurts->count; i++) {
        struct hurt *hurt = &hurts->list[i];
        const struct hurt *before = i ? hurt - 1 : NULL;
        hurt->latest = hurt->until;
        if (before && compare_process(before, hurt->client, hurt->life) == 0 &&
            before->latest > hurt->latest)
            hurt->latest = before->latest;
    }
}

/* what was not over when the run ended lasts */
static int64_t
over_at(int64_t until, int64_t more)
{
    return until && until < FOREVER - more ? until + more : FOREVER;
}

static void
add_hurt(struct hurts *hurts, const struct incident *incident, int of_one, int64_t more)
{
    struct hurt *hurt = &hurts->list[hurts->count++];
    memset(hurt, 0, sizeof *hurt);
    if (of_one) {
        hurt->client = incident->client;
        hurt->life = incident->life;
    }
    hurt->from = incident->from;
    hurt->until = over_at(incident->until, more);
}

/* so says a process of itself, whatever it was */
static int
is_starved(const struct incident *incident)
{
    return incident->kind == INCIDENT_PAUSE && strcmp(incident->what, "starved") == 0;
}

static void
take_incident(struct check *check, const struct incident *incident)
{
    struct verdict *out = check->out;
    switch (incident->kind) {
    case INCIDENT_KILL:
        add_hurt(&check->kills, incident, 1, 0);
        out->kills++;
        break;
    case INCIDENT_PAUSE:
        add_hurt(&check->pauses, incident, 1, CATCH_UP * check->slow);
        out->pauses++;
        break;
    case INCIDENT_SERVER:
        add_hurt(&check->strikes, incident, 0, check->heal);
        out->strikes++;
        break;
    case INCIDENT_LATE:
        add_hurt(&check->lates, incident, 0, CATCH_UP * check->slow);
        break;
    default:
        break;
    }
}

static int
make_room(struct hurts *hurts, size_t room)
{
    hurts->list = calloc(room + 1, sizeof *hurts->list);
    return hurts->list ? 0 : -1;
}

/* ---- when the store was slow ---- */

/* Releases, and requests that do not wait for the lock, need one answer of the store. */
static int64_t
release_took(const struct turn *turn)
{
    return turn->released ? turn->released - turn->releasing : 0;
}

static int64_t
refusal_took(const struct turn *turn)
{
    return turn->returned && turn->wait_ms == DIBS_WAIT_NONE
               ? turn->returned - turn->invoked
               : 0;
}

static void
add_span(struct hurts *hurts, int64_t from, int64_t took)
{
    hurts->list[hurts->count++] = (struct hurt){ .from = from, .until = from + took };
}

static int
index_slow(struct check *check)
{
    const int64_t slow = SLOW_ANSWER * check->slow;
    size_t count = 0;
    for (size_t i = 0; i < check->turn_count; i++) {
        const struct turn *turn = check->turns[i].turn;
        count +=
            (size_t)(release_took(turn) > slow) + (size_t)(refusal_took(turn) > slow);
    }
    if (make_room(&check->slow_answers, count) != 0)
        return -1;
    for (size_t i = 0; i < check->turn_count; i++) {
        const struct turn *turn = check->turns[i].turn;
        if (release_took(turn) > slow)
            add_span(&check->slow_answers, turn->releasing, release_took(turn));
        if (refusal_took(turn) > slow)
            add_span(&check->slow_answers, turn->invoked, refusal_took(turn));
    }
    sort_hurts(&check->slow_answers);
    return 0;
}

/* Those that `starved` says, in the order in which they happened to be noted. */
static void
take_incidents(struct check *check, size_t count, int starved)
{
    for (size_t i = 0; i < count; i++) {
        const struct incident *incident = &check->history->incidents[i];
        if (incident->from && is_starved(incident) == starved)
            take_incident(check, incident);
    }
}

/* A machine that starves one starves others, too; unless that one was just paused, which it
 * cannot tell from starving. The list of pauses has only what was done to them, so far. */
static void
take_starved(struct check *check, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct incident *incident = &check->history->incidents[i];
        if (incident->from && incident->until && is_starved(incident) &&
            !is_hurt(&check->pauses, incident->client, incident->life, incident->from,
                     incident->until))
            add_hurt(&check->lates, incident, 0, CATCH_UP * check->slow);
    }
}

int
hurts_index(struct check *check)
{
    size_t count = check->history->incident_count;
    count = count < HISTORY_INCIDENTS ? count : HISTORY_INCIDENTS;
    if (make_room(&check->kills, count) || make_room(&check->pauses, count) ||
        make_room(&check->strikes, count) || make_room(&check->lates, count) ||
        make_room(&check->standstills, 2 * count))
        return -1;
    take_incidents(check, count, 0);
    sort_hurts(&check->pauses);
    take_starved(check, count);
    take_incidents(check, count, 1);
    sort_hurts(&check->kills);
    sort_hurts(&check->pauses);
    sort_hurts(&check->strikes);
    sort_hurts(&check->lates);
    return index_slow(check);
}

void
hurts_free(struct check *check)
{
    free(check->kills.list);
    free(check->pauses.list);
    free(check->strikes.list);
    free(check->lates.list);
    free(check->standstills.list);
    free(check->slow_answers.list);
}

/* ---- when all stood still ---- */

/* On these engines a process does its work inside a lock of the table or the file; paused in
 * there it stops everybody. */
static int
works_in_place(const struct check *check)
{
    const char *url = check->plan->url;
    return !url || strncmp(url, "local", 5) == 0 || strncmp(url, "sqlite", 6) == 0;
}

static uint64_t
released_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return turn->released && turn->release_code == DIBS_OK ? (uint64_t)turn->released : 0;
}

/* the first of a sorted list that is not before `at`, or `count` */
static size_t
not_before(const struct keyed *list, size_t count, int64_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].key < (uint64_t)at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int
any_within(const struct keyed *list, size_t count, int64_t from, int64_t until)
{
    size_t at = not_before(list, count, from);
    return at < count && list[at].key <= (uint64_t)until;
}

void
hurts_index_lot(struct check *check, const struct lot *lot)
{
    struct hurts *all = &check->standstills;
    all->count = 0;
    for (size_t i = 0; i < check->lates.count; i++)
        all->list[all->count++] = check->lates.list[i];
    if (!works_in_place(check))
        return;
    size_t grants = order_turns(check, 0, lot, granted_at);
    size_t releases = order_turns(check, 1, lot, released_at);
    for (size_t i = 0; i < check->pauses.count; i++) {
        struct hurt pause = check->pauses.list[i];
        int64_t from = pause.from + 20 * MS * check->slow;
        int64_t until = pause.until - CATCH_UP * check->slow;
        /* somebody got on: it was not in there */
        if (any_within(check->orders[0], grants, from, until) ||
            any_within(check->orders[1], releases, from, until))
            continue;
        pause.client = pause.life = 0;
        all->list[all->count++] = pause;
    }
    sort_hurts(all);
}

/* ---- asking ---- */

/* the last entry of a process that begins at or before `at`; NULL: none */
static const struct hurt *
last_from(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t at)
{
    size_t low = 0, high = hurts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct hurt *hurt = &hurts->list[middle];
        int order = compare_process(hurt, client, life);
        if (order < 0 || (order == 0 && hurt->from <= at))
            low = middle + 1;
        else
            high = middle;
    }
    const struct hurt *found = low ? &hurts->list[low - 1] : NULL;
    return found && compare_process(found, client, life) == 0 ? found : NULL;
}

const struct hurt *
hurts_before(const struct hurts *hurts, const struct hurt *hurt, int64_t from)
{
    uint32_t client = hurt->client, life = hurt->life;
    while (hurt > hurts->list) {
        hurt--;
        if (compare_process(hurt, client, life) != 0 || hurt->latest < from)
            return NULL;
        if (hurt->until >= from)
            return hurt;
    }
    return NULL;
}

const struct hurt *
hurts_last(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t from,
           int64_t until)
{
    const struct hurt *hurt = last_from(hurts, client, life, until);
    if (!hurt || hurt->latest < from)
        return NULL;
    return hurt->until >= from ? hurt : hurts_before(hurts, hurt, from);
}

int
is_hurt(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t from,
        int64_t until)
{
    return hurts_last(hurts, client, life, from, until) != NULL;
}

int64_t
time_hurt(const struct hurts *hurts, uint32_t client, uint32_t life, int64_t from,
          int64_t until)
{
    int64_t sum = 0;
    const struct hurt *hurt = hurts_last(hurts, client, life, from, until);
    for (; hurt; hurt = hurts_before(hurts, hurt, from)) {
        int64_t begin = hurt->from > from ? hurt->from : from;
        int64_t end = hurt->until < until ? hurt->until : until;
        sum += end > begin ? end - begin : 0;
    }
    return sum;
}

const struct hurt *
kill_of(const struct check *check, const struct turn *turn)
{
    return last_from(&check->kills, turn->client, turn->life, FOREVER);
}

int
stood_still(const struct check *check, const struct turn *turn, int64_t from,
            int64_t until)
{
    return is_hurt(&check->pauses, turn->client, turn->life, from, until) ||
           is_hurt(&check->standstills, 0, 0, from, until);
}

int
was_slow(const struct check *check, int64_t from, int64_t until, int64_t least)
{
    const struct hurt *hurt = hurts_last(&check->slow_answers, 0, 0, from, until);
    while (hurt && hurt->until - hurt->from < least)
        hurt = hurts_before(&check->slow_answers, hurt, from);
    return hurt != NULL;
}

int
servers_hurt(const struct check *check, int64_t from, int64_t until)
{
    return is_hurt(&check->strikes, 0, 0, from, until);
}

int
is_disturbed(const struct check *check, const struct turn *turn, int64_t from,
             int64_t until)
{
    return stood_still(check, turn, from, until) || servers_hurt(check, from, until);
}
