/* SPDX-License-Identifier: MIT */
/* Elections: one leader, observers who see each of them come and go. */
#include "conform.h"

#define NAME "election"
#define LATE slowly(250)

/* An observer writes down each leader once: the number in the leader's value. Word 0 is
 * who leads now (0: nobody), word 1 how often it was told, words 2 and up are the leaders
 * in their order, as many as word 31 says. Between two leaders there may be nobody. */
static int
write_down(const dibs_party *leader, void *arg)
{
    int64_t count = atomic_load(&stage.shared->words[31]);
    int64_t number = 0;
    (void)arg;
    if (leader != NULL) {
        CHECK(strncmp(leader->note, "leader ", 7) == 0);
        CHECK(leader->token != 0 || !has(DIBS_CAP_TOKEN));
        number = leader->note[7] - '0';
    }
    if (number != 0 &&
        (count == 0 || atomic_load(&stage.shared->words[1 + count]) != number)) {
        CHECK(count < 20);
        atomic_store(&stage.shared->words[2 + count], number);
        atomic_store(&stage.shared->words[31], count + 1);
    }
    atomic_store(&stage.shared->words[0], number);
    atomic_fetch_add(&stage.shared->words[1], 1);
    return number == 9 ? 1 : 0;
}

JOB(observe)
{
    (void)args;
    return dibs_observe(client, NAME, write_down, NULL, slowly(20000), NULL, &oops);
}

/* where waiters are woken, observers are too; else they look now and then */
static void
await_leader(int64_t number)
{
    int64_t until = now_ms() + slowly(has(DIBS_CAP_WAKE) ? 300 : 3000);
    while (atomic_load(&stage.shared->words[0]) != number) {
        if (now_ms() > until) {
            FAIL("the observer does not see leader %d", (int)number);
        }
        sleep_ms(1);
    }
}

static void
check_leaders(const int64_t *numbers, int count)
{
    CHECK_SAME(atomic_load(&stage.shared->words[31]), count);
    for (int i = 0; i < count; i++) {
        CHECK_SAME(atomic_load(&stage.shared->words[2 + i]), numbers[i]);
    }
}

JOB(campaign)
{
    char value[] = "leader 0";
    dibs_hold *hold = NULL;
    value[7] = (char)('0' + args[0]);
    int code = dibs_campaign(&hold, client, NAME, value, slowly(10000), &oops);
    OK(code);
    note_token(hold, DIBS_EXCLUSIVE);
    atomic_store(&stage.shared->words[40 + args[0]], 1);
    /* leads until it is told to resign, or is killed */
    await_word(50, args[0]);
    give(hold);
    return 0;
}

static int
observing_refused(void)
{
    if (has(DIBS_CAP_OBSERVE)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED,
          dibs_observe(stage.client, NAME, write_down, NULL, 100, NULL, &oops));
    return 1;
}

/* ends the observation: it stops at leader 9 */
static void
end_with_leader_nine(peer *watcher, peer *leader)
{
    const int64_t nine = 9;
    peer_job_begin(leader, "campaign", &nine, 1);
    CHECK_SAME(peer_end(watcher).value, 1);
    atomic_store(&stage.shared->words[50], 9);
    CHECK_SAME(peer_end(leader).value, 0);
}

CASE(election, observed)
{
    const int64_t one = 1, two = 2, expected[] = { 1, 2, 9 };
    if (observing_refused()) {
        return;
    }
    peer *watcher = peer_new(), *first = peer_new(), *second = peer_new();
    peer_job_begin(watcher, "observe", NULL, 0);
    await_word(1, 1);
    CHECK_SAME(atomic_load(&stage.shared->words[0]), 0);
    peer_job_begin(first, "campaign", &one, 1);
    await_leader(1);
    peer_job_begin(second, "campaign", &two, 1);
    await_waiters(NAME, 1);
    CHECK_SAME(atomic_load(&stage.shared->words[42]), 0);
    atomic_store(&stage.shared->words[50], 1);
    CHECK_SAME(peer_end(first).value, 0);
    await_leader(2);
    atomic_store(&stage.shared->words[50], 2);
    CHECK_SAME(peer_end(second).value, 0);
    await_leader(0);
    end_with_leader_nine(watcher, first);
    check_leaders(expected, 3);
    peer_quit(watcher);
    peer_quit(first);
    peer_quit(second);
}

/* a leader with a short lease, by a request of its own: a leader is a holder */
static answer
lead_briefly(peer *leader, const char *value)
{
    dibs_request request = brief_lease(NAME);
    request.flags = DIBS_ELECTION;
    request.note = value;
    answer got = peer_acquire(leader, 0, &request);
    OK(got.code);
    return got;
}

CASE(election, leader_killed)
{
    const int64_t expected[] = { 1, 9 };
    if (observing_refused()) {
        return;
    }
    peer *watcher = peer_new(), *first = peer_new(), *second = peer_new();
    peer_job_begin(watcher, "observe", NULL, 0);
    await_word(1, 1);
    lead_briefly(first, "leader 1");
    await_leader(1);
    int64_t until = now_ms() + death_limit_ms() + slowly(1000);
    peer_kill(first);
    while (atomic_load(&stage.shared->words[0]) != 0) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
    end_with_leader_nine(watcher, second);
    check_leaders(expected, 2);
    peer_quit(watcher);
    peer_quit(second);
}

static int
look_once(const dibs_party *leader, void *arg)
{
    *(int64_t *)arg = leader != NULL ? leader->pid : 0;
    return 1;
}

CASE(election, who_leads)
{
    int64_t pid = -1;
    if (observing_refused()) {
        return;
    }
    peer *leader = peer_new();
    CHECK_SAME(dibs_observe(stage.client, NAME, look_once, &pid, 100, NULL, &oops), 1);
    CHECK_SAME(pid, 0);
    lead_briefly(leader, "leader 1");
    CHECK_SAME(dibs_observe(stage.client, NAME, look_once, &pid, 100, NULL, &oops), 1);
    CHECK_SAME(pid, peer_pid(leader));
    peer_quit(leader);
}

static int
keep_looking(const dibs_party *leader, void *arg)
{
    (void)leader, (void)arg;
    atomic_fetch_add(&stage.shared->words[0], 1);
    return 0;
}

CASE(election, observe_ends)
{
    dibs_canceller *cancel = NULL;
    if (observing_refused()) {
        return;
    }
    int64_t from = now_ms();
    GIVES(DIBS_ETIMEDOUT,
          dibs_observe(stage.client, NAME, keep_looking, NULL, 100, NULL, &oops));
    CHECK_WITHIN(now_ms() - from, 99, 100 + LATE);
    CHECK_SAME(atomic_load(&stage.shared->words[0]), 1);
    OK(dibs_canceller_new(&cancel, &oops));
    dibs_cancel(cancel);
    from = now_ms();
    GIVES(DIBS_ECANCELED, dibs_observe(stage.client, NAME, keep_looking, NULL,
                                       slowly(5000), cancel, &oops));
    CHECK_WITHIN(now_ms() - from, 0, LATE);
    dibs_canceller_free(cancel);
}

static void
campaign_in_thread(void *client, int index)
{
    dibs_hold *hold = NULL;
    (void)index;
    OK(dibs_campaign(&hold, client, NAME, NULL, slowly(10000), &oops));
    guard_visit(&stage.shared->guards[0]);
    give(hold);
}

CASE(election, one_leader)
{
    dibs_hold *hold = NULL, *other = NULL;
    dibs *rival = open_client();
    gang_join(gang_start(8, campaign_in_thread, stage.client));
    CHECK_SAME(stage.shared->guards[0].count, 8);
    OK(dibs_campaign(&hold, stage.client, NAME, "me", DIBS_WAIT_NONE, &oops));
    GIVES(DIBS_EBUSY, dibs_campaign(&other, rival, NAME, "you", DIBS_WAIT_NONE, &oops));
    int64_t from = now_ms();
    GIVES(DIBS_ETIMEDOUT, dibs_campaign(&other, rival, NAME, "you", slowly(80), &oops));
    CHECK_WITHIN(now_ms() - from, slowly(80) - 1, slowly(80) + LATE);
    give(hold);
    OK(dibs_campaign(&other, rival, NAME, "you", DIBS_WAIT_NONE, &oops));
    give(other);
    dibs_close(rival);
}
