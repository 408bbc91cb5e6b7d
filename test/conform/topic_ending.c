/* SPDX-License-Identifier: MIT */
/* The end of clients and processes: close with waits under way, fork, and what is left
 * behind. main.c looks for left-overs after every other case as well. */
#include "conform.h"

#include <sys/wait.h>
#include <unistd.h>

#define NAME "ending"

static void
wait_until_closed(void *client, int index)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = NULL;
    (void)index;
    request.wait_ms = DIBS_WAIT_FOREVER;
    atomic_fetch_add(&stage.shared->words[0], 1);
    GIVES(DIBS_ECANCELED, acquire(&hold, client, &request));
    CHECK(hold == NULL);
}

CASE(ending, close_ends_waits)
{
    dibs *client = open_client();
    dibs_hold *hold = take_name(stage.client, NAME);
    gang *waiters = gang_start(4, wait_until_closed, client);
    await_word(0, 4);
    sleep_ms(slowly(50));
    int64_t from = now_ms();
    dibs_close(client);
    CHECK_WITHIN(now_ms() - from, 0, slowly(500));
    gang_join(waiters);
    await_waiters(NAME, 0);
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(NULL);
}

CASE(ending, idle_client_has_no_threads)
{
    int threads = count_threads();
    dibs *client = open_client();
    CHECK_SAME(count_threads(), threads);
    CHECK(is_free(client, NAME));
    dibs_close(client);
    CHECK_SAME(threads_settle(threads, slowly(1000)), threads);
}

static void
come_and_go(int frees_later)
{
    dibs *client = open_client();
    dibs_request request = brief_lease(NAME);
    dibs_hold *hold = take(client, &request);
    CHECK(dibs_lost_fd(hold, &oops) >= 0);
    if (frees_later) {
        dibs_close(client);
        dibs_hold_free(hold);
    } else {
        give(hold);
        dibs_close(client);
    }
}

CASE(ending, nothing_piles_up)
{
    /* what a client library keeps of the first ones, to use it again, is no pile */
    come_and_go(0);
    come_and_go(1);
    give(take_name(stage.client, NAME));
    int fds = count_fds(), threads = count_threads();
    for (int i = 0; i < 50; i++) {
        come_and_go(i % 2);
    }
    CHECK_SAME(threads_settle(threads, slowly(2000)), threads);
    CHECK_SAME(count_fds(), fds);
}

/* in the child: a number that says what is wrong, or 0 */
static int
look_around_in_child(dibs_hold *hold)
{
    dibs_hold *second = NULL;
    if (dibs_held(hold) != 0) {
        return 2;
    }
    if (dibs_remaining(hold) != 0) {
        return 3;
    }
    if (dibs_release(hold, NULL) != DIBS_ELOST) {
        return 4;
    }
    if (dibs_trylock(&second, stage.client, NAME " 2", NULL) == DIBS_OK) {
        return 5;
    }
    dibs_hold_free(hold);
    dibs_close(stage.client);
    return 0;
}

CASE(ending, fork_child_has_nothing)
{
    int status = 0;
    dibs_request request = brief_lease(NAME);
    dibs_hold *hold = take(stage.client, &request);
    pid_t child = fork();
    if (child == 0) {
        _exit(look_around_in_child(hold));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_SAME(WEXITSTATUS(status), 0);
    /* and the parent has lost nothing by it, also not after a while */
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    sleep_ms(2 * stage.lease_ms);
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    give(hold);
    CHECK(is_free(stage.client, NAME));
}

/* a child may open a client of its own; it is another party */
static int
open_in_child(void)
{
    dibs *client = NULL;
    dibs_hold *hold = NULL;
    /* some engines need a thread to connect */
    if (!threads_work_after_fork()) {
        return 0;
    }
    if (dibs_open(&client, stage.url, NULL, NULL) != DIBS_OK) {
        return 2;
    }
    int code = dibs_trylock(&hold, client, NAME, NULL);
    if (code != DIBS_EBUSY && !stage.fixture->one_process) {
        return 3;
    }
    if (dibs_trylock(&hold, client, NAME " 2", NULL) != DIBS_OK) {
        return 4;
    }
    if (dibs_unlock(hold, NULL) != DIBS_OK) {
        return 5;
    }
    dibs_close(client);
    return 0;
}

CASE(ending, fork_child_opens_its_own)
{
    int status = 0;
    dibs_hold *hold = take_name(stage.client, NAME);
    /* threads that are being born hold locks of the sanitizer, which a child would inherit
     * locked: let the client's own be up before the fork */
    sleep_ms(slowly(20));
    pid_t child = fork();
    if (child == 0) {
        _exit(open_in_child());
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_SAME(WEXITSTATUS(status), 0);
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    give(hold);
}

/* a process that ends without a word: exit instead of close */
CASE(ending, exit_without_close)
{
    dibs_request request = brief_lease(NAME);
    peer *other = peer_new();
    OK(peer_acquire(other, 0, &request).code);
    peer_kill(other);
    CHECK(comes_free(stage.client, NAME, death_limit_ms() + slowly(250)));
}
