/* SPDX-License-Identifier: MIT */
/* Which faults there are, in which order, and what came of them. See sweep.h. */
#include "sweep.h"

#include <stdatomic.h>

/* A case takes a sample if there is more: so many faults, and no new one after that time.
 * The seed says which, and in which order. */
#define FAULTS_MOST 64
#define TIME_MOST_MS 6000
#define MEASURES_MOST 6
#define SEED_NAME "DIBS_SWEEP_SEED"

/* one play at a time, on a way of its own */
struct lane {
    wires line;
    char url[512];
    dibs *judge;
};

/* a fault of one play, and which way it is */
struct strike {
    wires_fault up, down;
    const char *what;
    int number;      /* of the message or byte */
    int is_harmless; /* all calls must work */
};

static const store *at;
static char straight[512]; /* a URL where nothing is spoiled */
static struct lane lanes[LANES_MAX];
static int lane_count;
static tally outcome;

/* what the undisturbed play took: messages that were answers, and their bytes */
static int requests, bytes;

/* the case that is run, and its faults in the order in which they have their turn */
struct sweep {
    int may_lie;   /* what is heard may be wrong */
    int is_silent; /* nothing may be heard any more */
    int (*count)(void);
    void (*make)(struct strike *out, int index);
};
static const struct sweep *chosen;
static uint64_t seed;
static int *order, order_count;
static _Atomic int next, done, struck;
static int64_t until_ms;

/* ---- the faults of each case ---- */

static int
per_request(void)
{
    return requests;
}

static int
twice_per_request(void)
{
    return 2 * requests;
}

static int
thrice_per_request(void)
{
    return 3 * requests;
}

static int
per_byte(void)
{
    return bytes;
}

/* the request is done, its answer never comes, and the connection stays */
static void
make_swallowed(struct strike *out, int index)
{
    out->what = "answer swallowed";
    out->number = index + 1;
    out->down = (wires_fault){ .once = WIRES_LOSE, .at = out->number };
}

/* before the request gets there, when it is on its way, or when it was answered */
static void
make_cut(struct strike *out, int index)
{
    out->number = index / 3 + 1;
    if (index % 3 == 0) {
        out->what = "cut before request";
        out->up = (wires_fault){ .once = WIRES_CUT, .at = out->number };
    } else if (index % 3 == 1) {
        out->what = "cut after request";
        out->up = (wires_fault){ .once = WIRES_CUT, .at = out->number, .bytes = -1 };
    } else {
        out->what = "reset before answer";
        out->down = (wires_fault){ .once = WIRES_RESET, .at = out->number };
    }
}

static void
make_truncated(struct strike *out, int index)
{
    out->what = index % 2 != 0 ? "ended after byte" : "cut after byte";
    out->number = index + 1;
    out->down = (wires_fault){ .once = index % 2 != 0 ? WIRES_END : WIRES_CUT,
                               .bytes = out->number };
}

/* when nobody waits for it any more, but the lock is still held, or not even that */
static void
make_late(struct strike *out, int index)
{
    int late_ms = (int)(index % 2 != 0 ? LEASE_MS * 3 / 2 : LEASE_MS / 3);
    out->what = index % 2 != 0 ? "answer too late" : "answer late";
    out->number = index / 2 + 1;
    out->down =
        (wires_fault){ .once = WIRES_LATE, .at = out->number, .late_ms = late_ms };
}

static void
make_garbled(struct strike *out, int index)
{
    if (index % 2 == 0) {
        out->what = "answer repeated";
        out->number = index / 2 + 1;
        out->down = (wires_fault){ .once = WIRES_REPEAT, .at = out->number };
    } else {
        out->what = "bit flipped in byte";
        out->number = (int)((uint64_t)index * 2654435761u % (uint64_t)bytes);
        out->down = (wires_fault){ .once = WIRES_FLIP,
                                   .bytes = out->number,
                                   .seed = (uint32_t)index };
    }
}

/* what a network may do without doing wrong */
#define ROUGH(words, ...)                                                                \
    {                                                                                    \
        .up = { __VA_ARGS__ }, .down = { __VA_ARGS__ }, .what = (words),                 \
        .is_harmless = 1                                                                 \
    }
static const struct strike rough[] = {
    ROUGH("in single bytes", .split = 1),
    ROUGH("together", .merge_ms = 5),
    ROUGH("delayed", .delay_ms = 5, .jitter_ms = 5),
    ROUGH("slow", .rate = 200000),
};

static int
count_rough(void)
{
    return sizeof(rough) / sizeof(rough[0]);
}

static void
make_rough(struct strike *out, int index)
{
    *out = rough[index];
}

/* ---- lanes ---- */

static void
print_url(char *out, size_t size, const int *ports)
{
    char hosts[256];
    int len = 0;
    for (int i = 0; i < at->servers; i++) {
        len += snprintf(hosts + len, sizeof(hosts) - (size_t)len, "%s127.0.0.1:%d",
                        i > 0 ? "," : "", ports[i]);
    }
    at->print_url(out, size, hosts);
}

static void
open_judge(struct lane *lane)
{
    print_url(lane->url, sizeof(lane->url), lane->line.ports);
    lane->judge = open_url("%s", straight);
}

/* first all processes, then what has threads */
static void
start_lanes(void)
{
    /* each wire takes a port */
    lane_count = at->servers > 1 ? LANES_MAX / at->servers : LANES_MAX;
    int ports[SET_MAX];
    for (int i = 0; i < at->servers; i++) {
        ports[i] = store_port(i);
    }
    print_url(straight, sizeof(straight), ports);
    for (int i = 0; i < lane_count; i++) {
        wires_start(&lanes[i].line, ports, at->servers);
    }
    for (int i = 0; i < lane_count; i++) {
        open_judge(&lanes[i]);
    }
}

static void
stop_lanes(void)
{
    for (int i = 0; i < lane_count; i++) {
        dibs_close(lanes[i].judge);
        wires_stop(&lanes[i].line);
    }
}

static void
clean_up(void)
{
    for (int i = 0; i < lane_count; i++) {
        wires_stop(&lanes[i].line);
    }
    at->stage.clean_up();
}

static void
spoil(struct lane *lane, const struct strike *strike)
{
    for (int i = 0; i < at->spoiled; i++) {
        wires_spoil(&lane->line, i, WIRES_UP, &strike->up);
        wires_spoil(&lane->line, i, WIRES_DOWN, &strike->down);
    }
}

/* what went over the first wire meanwhile */
static wires_count
play_in(struct lane *lane, const struct strike *strike, int index)
{
    play one = { .at = at,
                 .through = lane->url,
                 .judge = lane->judge,
                 .may_fail = !strike->is_harmless,
                 .may_lie = chosen->may_lie,
                 .is_silent = chosen->is_silent,
                 .tally = &outcome };
    (void)snprintf(one.name, sizeof(one.name), "play-%d", index);
    (void)snprintf(one.fault, sizeof(one.fault), "%s %d", strike->what, strike->number);
    int before = wires_counted(&lane->line, WIRES_ALL).struck;
    spoil(lane, strike);
    play_run(&one);
    wires_count count = wires_counted(&lane->line, 0);
    struck += wires_counted(&lane->line, WIRES_ALL).struck > before;
    wires_flow(&lane->line, WIRES_ALL);
    return count;
}

/* ---- the sweep ---- */

static int
failures(void)
{
    int sum = 0;
    for (int i = 1; i < CODES; i++) {
        sum += outcome.codes[i];
    }
    return sum;
}

/* The play without a fault, in which all must work, says how many there can be. Servers may
 * need a while to get going. */
static void
measure(void)
{
    static const struct strike none = { .what = "no fault" };
    wires_count count = { 0 };
    int before = -1;
    for (int i = 0; i < MEASURES_MOST && failures() != before; i++) {
        before = failures();
        count = play_in(&lanes[0], &none, FAULTS_MOST + i);
    }
    CHECK_SAME(failures(), before);
    requests = count.messages[WIRES_DOWN];
    bytes = (int)count.bytes[WIRES_DOWN];
    CHECK(requests > 0 && bytes > 0);
}

static uint64_t
random_below(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void
shuffle(void)
{
    order_count = chosen->count();
    order = calloc((size_t)order_count, sizeof(*order));
    CHECK(order != NULL);
    for (int i = 0; i < order_count; i++) {
        int j = (int)random_below((uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static void
work(void *arg, int index)
{
    (void)arg;
    int most = order_count < FAULTS_MOST ? order_count : FAULTS_MOST;
    for (int i = next++; i < most && now_ms() < until_ms; i = next++) {
        struct strike strike = { 0 };
        chosen->make(&strike, order[i]);
        (void)play_in(&lanes[index], &strike, i);
        done++;
    }
}

static void
check_nothing_left(void)
{
    int64_t until = now_ms() + LEASE_MS + slowly(at->remains_ms) + slowly(1000);
    while (at->count_left() > 0) {
        if (now_ms() > until) {
            at->show_left();
            FAIL("something is left");
        }
        sleep_ms(50);
    }
}

static void
report(uint64_t begun_with)
{
    printf(
        "%s %s: %s %llu, %d requests, %d bytes of answers; %d of %d faults, %d struck;",
        at->engine, layout, SEED_NAME, (unsigned long long)begun_with, requests, bytes,
        done, order_count, struck);
    for (int i = 0; i < CODES; i++) {
        if (outcome.codes[i] > 0) {
            printf(" %d %s,", outcome.codes[i], dibs_errname(-i));
        }
    }
    printf(" %d lies, %d late\n", outcome.lies, outcome.late);
}

static void
run_sweep(const struct sweep *one)
{
    const char *given = getenv(SEED_NAME);
    uint64_t begun_with = seed = given != NULL ? strtoull(given, NULL, 10) : 1;
    chosen = one;
    at->start();
    start_lanes();
    late_watch(straight);
    measure();
    shuffle();
    until_ms = now_ms() + TIME_MOST_MS;
    gang_join(gang_start(lane_count, work, NULL));
    late_watch_end();
    stop_lanes();
    check_nothing_left();
    report(begun_with);
    free(order);
    /* a fault that strikes nothing shows nothing */
    CHECK(one->make == make_rough || struck * 3 > done);
}

#define SWEEP(name, may_lie, is_silent, count, make)                                     \
    static const struct sweep sweep_##name = { may_lie, is_silent, count, make };        \
    static void run_##name(void)                                                         \
    {                                                                                    \
        run_sweep(&sweep_##name);                                                        \
    }
SWEEP(swallowed, 0, 1, per_request, make_swallowed)
SWEEP(cut, 0, 0, thrice_per_request, make_cut)
SWEEP(truncated, 0, 0, per_byte, make_truncated)
SWEEP(late, 0, 0, twice_per_request, make_late)
SWEEP(garbled, 1, 0, twice_per_request, make_garbled)
SWEEP(rough, 0, 0, count_rough, make_rough)

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "swallowed", run_swallowed },
        { "cut", run_cut },
        { "truncated", run_truncated },
        { "late", run_late },
        { "garbled", run_garbled },
        { "rough", run_rough },
        { NULL, NULL },
    };
    at = argc == 4 ? store_find(argv[1], argv[3]) : NULL;
    if (at == NULL) {
        fprintf(stderr, "usage: sweep ENGINE CASE LAYOUT\n");
        return 2;
    }
    fault_stage stage = at->stage;
    stage.clean_up = clean_up;
    return fault_run(argc - 1, argv + 1, &stage, cases);
}
