/* SPDX-License-Identifier: MIT */
/* Tokens: they cost no round trip of their own, and they only rise, whatever servers
 * forget. */
#include "stage.h"

#include <stdatomic.h>
#include <time.h>

#define BUCKETS 256

/* sets the ticks of all buckets on a server */
static void
set_ticks(const server *at, const char *tick)
{
    static const char script[] = "for i = 0, 255 do "
                                 "redis.call('HSET', 'dibs:token', i, ARGV[1]) end";
    server_do(at, "EVAL", script, "0", tick);
}

/* ---- rounds ---- */

/* takes and gives the lock so often, and returns how many scripts that took everywhere */
static int64_t
calls_of(dibs *client, int times)
{
    int64_t before[NODES], most = 0;
    for (int i = 0; i < NODES; i++) {
        before[i] = calls(&set.servers[i]);
    }
    for (int i = 0; i < times; i++) {
        give(take(client, 0));
    }
    for (int i = 0; i < NODES; i++) {
        int64_t count = calls(&set.servers[i]) - before[i];
        most = count > most ? count : most;
    }
    return most;
}

/* one parallel round each way */
static void
one_round(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    give(take(client, 0)); /* the first one brings the scripts and begins the bucket */
    CHECK_SAME(calls_of(client, 100), 200);
    dibs_close(client);
}

/* also for one who comes for the first time, if the last grant is some time ago */
static void
one_round_when_cold(void)
{
    start(NODES, NULL);
    for (int i = 0; i < NODES; i++) {
        set_ticks(&set.servers[i], "1000000");
    }
    dibs *warm = open_with("");
    give(take(warm, 0)); /* brings the scripts */
    for (int i = 0; i < 10; i++) {
        dibs *cold = open_with("");
        CHECK_SAME(calls_of(cold, 1), 2);
        dibs_close(cold);
    }
    dibs_close(warm);
}

/* Stops two servers, from `first` on. */
static void
pause_two(int first)
{
    server_pause(&set.servers[first % NODES]);
    server_pause(&set.servers[(first + 1) % NODES]);
}

static void
resume_two(int first)
{
    server_resume(&set.servers[first % NODES]);
    server_resume(&set.servers[(first + 1) % NODES]);
}

/* what the servers know is more than anybody could propose */
static void
rises_over_own_past(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, 0);
    uint64_t last = dibs_token(hold);
    give(hold);
    for (int i = 0; i < NODES; i++) {
        /* two majorities that overlap in one server, which knows best */
        char tick[32];
        (void)snprintf(tick, sizeof(tick), "%llu",
                       (unsigned long long)(last / 64 + 1000000000));
        set_ticks(&set.servers[i], tick);
        pause_two(i + 1);
        hold = take(client, 0);
        CHECK(dibs_token(hold) / 64 > last / 64 + 1000000000);
        last = dibs_token(hold);
        give(hold);
        resume_two(i + 1);
    }
    dibs_close(client);
}

/* Two majorities have one server in common, and that one forgets everything in between.
 * The newest tick is far ahead of what the next client, which is new, would propose. */
static void
common_server_forgets(void)
{
    start(NODES, NULL);
    for (int i = 0; i < NODES; i++) {
        char tick[32];
        (void)snprintf(tick, sizeof(tick), "%lld",
                       (long long)time(NULL) * 1000000 - 1000000);
        for (int k = 0; k < NODES; k++) {
            set_ticks(&set.servers[(i + k) % NODES], k < 3 ? tick : "1000000");
        }
        pause_two(i + 3);
        dibs *before = open_with("");
        dibs_hold *hold = take(before, 0);
        uint64_t token = dibs_token(hold);
        give(hold);
        dibs_close(before);
        resume_two(i + 3);
        server_kill(&set.servers[i]);
        server_restart(&set.servers[i]);
        pause_two(i + 1);
        dibs *after = open_with("");
        hold = take(after, 0);
        CHECK(dibs_token(hold) > token);
        give(hold);
        dibs_close(after);
        resume_two(i + 1);
    }
}

/* other names raise the bucket under our feet: it takes more rounds, and comes out right */
static _Atomic int stopping;

static void
raise_ticks(void *arg, int index)
{
    (void)arg;
    for (uint64_t i = 0; !atomic_load(&stopping); i++) {
        char tick[32];
        (void)snprintf(tick, sizeof(tick), "%llu",
                       (unsigned long long)(UINT64_C(2000000000000000) + i));
        set_ticks(&set.servers[index], tick);
    }
}

static void
foreign_bucket(void)
{
    uint64_t last = 0;
    start(NODES, NULL);
    dibs *client = open_with("");
    gang *raisers = gang_start(2, raise_ticks, NULL);
    for (int i = 0; i < 50; i++) {
        dibs_hold *hold = take(client, 0);
        CHECK(dibs_token(hold) > last);
        last = dibs_token(hold);
        give(hold);
    }
    atomic_store(&stopping, 1);
    gang_join(raisers);
    dibs_close(client);
}

/* beyond 2^53 scripts do not count exactly: rather no lock than a wrong token */
static void
at_the_end(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    set_ticks(&set.servers[2], "9007199254740991");
    set_ticks(&set.servers[3], "9007199254740991");
    set_ticks(&set.servers[4], "9007199254740991");
    GIVES(DIBS_ECORRUPT, try_for(client));
    CHECK(strstr(oops.text, "dibs:token") != NULL);
    CHECK_SAME(copies(), 0);
    dibs_close(client);
}

/* ---- restarts ---- */

#define CLIENTS 4

/* What clients do while servers come and go. `last` is guarded by the lock itself. */
static struct {
    pthread_rwlock_t quiet; /* written by who restarts, if nobody may hold then */
    const char *more;
    uint32_t lease_ms;
    _Atomic int stop;
    _Atomic int inside;
    _Atomic uint64_t last;
    _Atomic int64_t grants, lost;
} work;

static void
visit(dibs_hold *hold)
{
    uint64_t token = dibs_token(hold);
    /* who is past its deadline may not be alone any more, and knows it */
    if (!dibs_held(hold)) {
        return;
    }
    CHECK_SAME(atomic_fetch_add(&work.inside, 1), 0);
    uint64_t last = atomic_exchange(&work.last, token);
    if (token <= last && dibs_held(hold)) {
        FAIL("token %llu comes after %llu", (unsigned long long)token,
             (unsigned long long)last);
    }
    CHECK_SAME(atomic_fetch_sub(&work.inside, 1), 1);
    atomic_fetch_add(&work.grants, 1);
}

static void
work_on(void *arg, int index)
{
    dibs_error error;
    dibs *client = open_with(work.more);
    (void)arg;
    (void)index;
    for (int i = 1; !atomic_load(&work.stop); i++) {
        if (i % 25 == 0) {
            /* a new client has seen nothing */
            dibs_close(client);
            client = open_with(work.more);
        }
        dibs_request request = DIBS_REQUEST_INIT;
        dibs_hold *hold = NULL;
        request.name = NAME;
        request.lease_ms = work.lease_ms;
        request.wait_ms = 1000;
        pthread_rwlock_rdlock(&work.quiet);
        int code = dibs_acquire(&hold, client, &request, &error);
        if (code == DIBS_OK) {
            visit(hold);
            code = dibs_unlock(hold, &error);
            atomic_fetch_add(&work.lost, code != DIBS_OK);
        }
        pthread_rwlock_unlock(&work.quiet);
        sleep_ms(0);
    }
    dibs_close(client);
}

static gang *
work_start(const char *more, uint32_t lease_ms)
{
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&work.quiet, &kind);
    pthread_rwlockattr_destroy(&kind);
    work.more = more;
    work.lease_ms = lease_ms;
    return gang_start(CLIENTS, work_on, NULL);
}

static void
work_end(gang *workers, int64_t least)
{
    atomic_store(&work.stop, 1);
    gang_join(workers);
    printf("%lld grants, %lld releases that were not sure\n",
           (long long)atomic_load(&work.grants), (long long)atomic_load(&work.lost));
    CHECK(atomic_load(&work.grants) > least);
    pthread_rwlock_destroy(&work.quiet);
}

static unsigned seed = 20261115;

static void
restart_some(int64_t down_ms)
{
    int count = 1 + rand_r(&seed) % 2, first = rand_r(&seed) % NODES;
    for (int i = 0; i < count; i++) {
        server_kill(&set.servers[(first + i) % NODES]);
    }
    sleep_ms(rand_r(&seed) % (down_ms + 1));
    for (int i = 0; i < count; i++) {
        server_restart(&set.servers[(first + i) % NODES]);
    }
}

/* every write is on disk: one or two at a time, at any time */
static void
durable_restarts(void)
{
    server_options durable = { .durable = 1 };
    start(NODES, &durable);
    gang *workers = work_start("", (uint32_t)slowly(2000));
    for (int i = 0; i < 25; i++) {
        restart_some(50);
        sleep_ms(100 + rand_r(&seed) % 300);
    }
    work_end(workers, 200);
}

/* Nothing is kept. Locks are then only safe with a guard, but tokens must rise anyway, from
 * any holds that are over to any that begin. */
static void
forgetful_restarts(void)
{
    start(NODES, NULL);
    gang *workers = work_start("", 0);
    for (int i = 0; i < 150; i++) {
        pthread_rwlock_wrlock(&work.quiet);
        restart_some(i % 10 == 0 ? 30 : 0);
        pthread_rwlock_unlock(&work.quiet);
        sleep_ms(rand_r(&seed) % 80);
        if (i % 3 == 0) {
            /* those who remember are not always to be reached */
            int first = rand_r(&seed) % NODES;
            server_pause(&set.servers[first]);
            server_pause(&set.servers[(first + 2) % NODES]);
            sleep_ms(60);
            server_resume(&set.servers[first]);
            server_resume(&set.servers[(first + 2) % NODES]);
        }
    }
    work_end(workers, 1000);
}

/* nothing is kept, and servers that forgot stay out for as long as the longest lease */
static void
guarded_restarts(void)
{
    const int64_t lease_ms = slowly(300);
    char more[32];
    (void)snprintf(more, sizeof(more), "?guard=%lldms", (long long)lease_ms);
    start(NODES, NULL);
    gang *workers = work_start(more, (uint32_t)lease_ms);
    sleep_ms(2 * lease_ms);
    for (int i = 0; i < 6; i++) {
        restart_some(50);
        /* no more than two are out at any time */
        sleep_ms(2 * lease_ms + rand_r(&seed) % 200);
    }
    work_end(workers, 100);
}

int
main(int argc, char **argv)
{
    static const test_case cases[] = {
        { "one_round", one_round },
        { "one_round_when_cold", one_round_when_cold },
        { "rises_over_own_past", rises_over_own_past },
        { "common_server_forgets", common_server_forgets },
        { "foreign_bucket", foreign_bucket },
        { "at_the_end", at_the_end },
        { "durable_restarts", durable_restarts },
        { "forgetful_restarts", forgetful_restarts },
        { "guarded_restarts", guarded_restarts },
        { NULL, NULL },
    };
    return run_case(argc, argv, cases);
}
