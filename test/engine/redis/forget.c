/* SPDX-License-Identifier: MIT */
/*
 * A store that forgets who has a lock gives it to somebody else while the first one still
 * believes in it. Here that is shown (the cases that end in _unguarded), and that it does
 * not happen with ?guard= and ?failover=quarantine.
 *
 * What is recorded cannot accuse wrongly: a belief lasts from when the call that granted
 * it came back to the last time that was read before dibs_held() said yes.
 */
#include "faults.h"

#include <stdlib.h>

#define GRANTS_MAX 20000

struct belief {
    int64_t from, until;
};

/* A client that takes the lock again and again, for a moment each time. */
struct contender {
    dibs *client;
    _Atomic int is_over;
    _Atomic int count;
    struct belief grants[GRANTS_MAX];
};

static struct contender contenders[2];
static _Atomic int is_held_off; /* for as long as they leave the lock alone */

/* follows a hold until it ends by itself, or for that long */
static int64_t
believe(dibs_hold *hold, int64_t limit_ms)
{
    int64_t began = now_ns(), last = began;
    for (int64_t now = began; now - began < limit_ms * 1000000; now = now_ns()) {
        if (!dibs_held(hold)) {
            break;
        }
        last = now;
        sleep_ms(1);
    }
    return last;
}

static void
contend(void *arg, int index)
{
    struct contender *self = &((struct contender *)arg)[index];
    while (!atomic_load(&self->is_over) && atomic_load(&self->count) < GRANTS_MAX) {
        dibs_request request = want("shared", LEASE_MS);
        dibs_hold *hold = NULL;
        request.wait_ms = 500;
        if (atomic_load(&is_held_off)) {
            sleep_ms(1);
            continue;
        }
        if (dibs_acquire(&hold, self->client, &request, NULL) != DIBS_OK) {
            continue;
        }
        struct belief *belief = &self->grants[atomic_load(&self->count)];
        belief->from = now_ns();
        belief->until = believe(hold, 5);
        atomic_fetch_add(&self->count, 1);
        (void)dibs_unlock(hold, NULL);
    }
}

static int
overlaps(const struct belief *one_belief)
{
    int found = 0;
    for (size_t i = 0; i < 2; i++) {
        for (int j = 0; j < atomic_load(&contenders[i].count); j++) {
            const struct belief *other = &contenders[i].grants[j];
            found += other->from < one_belief->until && one_belief->from < other->until;
        }
    }
    return found;
}

static int
all_grants(void)
{
    return atomic_load(&contenders[0].count) + atomic_load(&contenders[1].count);
}

/* ---- one server loses its data ---- */

/* Who comes after the data is gone: granted at once, or when the first one has lost it. */
static void
forget(const char *more, void (*lose)(void), int is_guarded)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), more);
    dibs *first = open_url("%s", url), *second = open_url("%s", url);
    dibs_request request = want("shared", LEASE_MS);
    dibs_hold *hold = NULL, *other = NULL;
    request.lease_ms = 3000;
    OK(dibs_acquire(&hold, first, &request, &oops));
    GIVES(DIBS_EBUSY, try_take(second, "shared"));
    lose();
    int64_t lost_at = now_ms();
    OK(dibs_acquire(&other, second, &request, &oops));
    if (is_guarded) {
        CHECK(!dibs_held(hold));
        CHECK(now_ms() - lost_at >= 2900);
    } else {
        CHECK(dibs_held(hold) && dibs_held(other));
    }
    (void)dibs_unlock(hold, NULL);
    give(other);
    dibs_close(first);
    dibs_close(second);
}

static void
flush(void)
{
    server_do(&one, "FLUSHALL");
}

static void
kill_and_restart(void)
{
    server_kill(&one);
    server_restart(&one);
}

static void
flushed_unguarded(void)
{
    forget("", flush, 0);
}

static void
flushed(void)
{
    forget("guard=3s", flush, 1);
}

static void
restarted(void)
{
    forget("guard=3s", kill_and_restart, 1);
}

/* A hold that survived is renewed while nothing is granted. */
static void
renewed_while_closed(void)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), "guard=2s");
    dibs *client = open_url("%s", url);
    dibs_request request = want("shared", LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = 1000;
    request.wait_ms = slowly(10000);
    OK(dibs_acquire(&hold, client, &request, &oops));
    server_do(&one, "DEL", "dibs:born");
    GIVES(DIBS_EBUSY, try_take(client, "another")); /* closed again */
    CHECK(!is_lost(hold, 1500));
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(client);
}

static void
lease_too_long(void)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), "guard=2s");
    dibs *client = open_url("%s", url);
    dibs_request request = want("shared", LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = 2500;
    GIVES(DIBS_EINVAL, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS("guard=");
    dibs_close(client);
}

/* ---- a replica takes over that has not heard of it ---- */

static void
start_set(void)
{
    set_options options = { .down_after_ms = 1000, .each = { .durable = 1 } };
    set_start_sentinel(&set, &options);
    for (int i = 0; i < set.count - set.sentinels; i++) {
        server_do(&set.servers[i], "CONFIG", "SET", "min-replicas-to-write", "1");
        server_do(&set.servers[i], "CONFIG", "SET", "min-replicas-max-lag", "2");
    }
    /* until the replicas have said so the master refuses to write */
    int64_t until = now_ms() + slowly(10000);
    while (!server_answers(set_master(&set, 0), "OK", "SET", "ready", "1", "PX", "1")) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
}

/* The replicas stand still while the lock is granted, then the master dies; what lies in
 * their sockets dies with them, and they come back with what they had before. */
static dibs_hold *
grant_and_fail_over(dibs *holder, uint32_t lease_ms)
{
    server *master = set_master(&set, 0);
    dibs_request request = want("shared", LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = lease_ms;
    request.wait_ms = slowly(20000);
    /* the layouts that have no queue may let others in first, for too long */
    atomic_store(&is_held_off, 1);
    sleep_ms(600);
    for (int i = 0; i < set.count - set.sentinels; i++) {
        if (&set.servers[i] != master) {
            server_pause(&set.servers[i]);
        }
    }
    OK(dibs_acquire(&hold, holder, &request, &oops));
    atomic_store(&is_held_off, 0);
    sleep_ms(100);
    server_kill(master);
    for (int i = 0; i < set.count - set.sentinels; i++) {
        if (&set.servers[i] != master) {
            server_kill(&set.servers[i]);
            server_restart(&set.servers[i]);
        }
    }
    return hold;
}

static dibs *
open_contender(const char *terms)
{
    char url[512], hosts[256];
    set_hosts(hosts, sizeof(hosts), &set);
    (void)snprintf(url, sizeof(url),
                   "redis+sentinel://%s/" SET_MASTER_NAME "?layout=%s%s", hosts, layout,
                   terms);
    return open_url("%s", url);
}

/* One client knows only the old master, so nobody tells it; two others contend for the
 * same lock all the time and follow the Sentinels. Returns how often one of them held it
 * while the first one did. */
static int
fail_over_under_load(const char *terms, uint32_t lease_ms)
{
    limit_time(170);
    start_set();
    one.port = set_master(&set, 0)->port; /* for url_of; it is not ours to end */
    char url[512];
    url_of(url, sizeof(url), "");
    (void)strncat(url, terms, sizeof(url) - strlen(url) - 1);
    dibs *holder = open_url("%s", url);
    for (int i = 0; i < 2; i++) {
        contenders[i].client = open_contender(terms);
    }
    gang *load = gang_start(2, contend, contenders);
    int64_t until = now_ms() + slowly(25000);
    while (all_grants() < 20) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    dibs_hold *hold = grant_and_fail_over(holder, lease_ms);
    struct belief old = { .from = now_ns() };
    int before = all_grants();
    old.until = believe(hold, 2 * lease_ms);
    until = now_ms() + slowly(40000);
    while (all_grants() < before + 20) { /* it goes on afterwards */
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&contenders[i].is_over, 1);
    }
    gang_join(load);
    (void)dibs_unlock(hold, NULL);
    for (int i = 0; i < 2; i++) {
        dibs_close(contenders[i].client);
    }
    dibs_close(holder);
    return overlaps(&old);
}

static void
failover_unguarded(void)
{
    CHECK(fail_over_under_load("", 12000) > 0);
}

static void
failover(void)
{
    CHECK_SAME(fail_over_under_load("&guard=6s&failover=quarantine&lag=2s", 6000), 0);
}

/* The old master does not hear of what is renewed at the new one, and may go on for as long
 * as `lag` says: until then a client renews nothing there. */
static void
renewed_elsewhere(void)
{
    int64_t refused_at = 0, until;
    int code = DIBS_OK;
    limit_time(170);
    start_set();
    dibs *client = open_contender("&guard=15s&failover=quarantine&lag=2s");
    dibs_request request = want("shared", 15000);
    dibs_hold *hold = NULL;
    request.wait_ms = slowly(40000); /* it begins with a quarantine */
    OK(dibs_acquire(&hold, client, &request, &oops));
    EVENTUALLY(slowly(20000), server_answers(&set.servers[set.count - 1], "OK",
                                             "SENTINEL", "FAILOVER", SET_MASTER_NAME));
    until = now_ms() + slowly(20000);
    while (!refused_at || code != DIBS_OK) {
        code = dibs_renew(hold, 0, &oops);
        CHECK(code != DIBS_ELOST);
        if (code == DIBS_EUNAVAIL && !refused_at && strstr(oops.text, "new master")) {
            refused_at = now_ms();
        }
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    CHECK(now_ms() - refused_at >= 2000);
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "flushed_unguarded", flushed_unguarded },
        { "flushed", flushed },
        { "restarted", restarted },
        { "renewed_while_closed", renewed_while_closed },
        { "lease_too_long", lease_too_long },
        { "failover_unguarded", failover_unguarded },
        { "failover", failover },
        { "renewed_elsewhere", renewed_elsewhere },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
