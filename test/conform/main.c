/* SPDX-License-Identifier: MIT */
/*
 * Runs one case with one fixture: `conform FIXTURE TOPIC/CASE`. After the case nothing of
 * it may be left: no lock in use, no thread, no descriptor; memory is for the sanitizers.
 * $DIBS_TEST_ENGINE, a list with commas, selects engines, or fixtures by their names;
 * others are skipped.
 * With --list it prints the cases; --meta is in meta.c, --peer in peer.c.
 */
#include "conform.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define CASE_LIMIT_S 30

stage_info stage;

/* where the verbs of all engine calls go, for the meta-tests; -1: nowhere */
static int verb_log = -1;

static void
log_verb(const dibs_trace_event *event, void *arg)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "%s\n", event->verb);
    (void)arg;
    if (len > 0 && write(verb_log, line, (size_t)len) != len) {
        FAIL("cannot write the log of verbs");
    }
}

static void
open_verb_log(void)
{
    const char *path = getenv("CONFORM_VERB_LOG");
    if (path != NULL) {
        verb_log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        CHECK(verb_log >= 0);
    }
}

dibs *
open_client(void)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs *client = NULL;
    if (verb_log >= 0) {
        options.trace = log_verb;
    }
    OK(dibs_open(&client, stage.url, &options, &oops));
    if (stage.caps == 0) {
        /* the first client of the process, before there are threads */
        stage.caps = dibs_caps(client);
        stage.lease_ms = stage.fixture->lease_ms * (uint32_t)slow_factor();
    }
    return client;
}

static int
list_has(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return 1;
        }
    }
    return 0;
}

static int
selected(const fixture *with)
{
    const char *list = getenv("DIBS_TEST_ENGINE");
    return list == NULL || *list == '\0' || list_has(list, with->engine) ||
           list_has(list, with->name);
}

static int
count_lock(const dibs_report *report, void *arg)
{
    char name[64];
    dibs_name_print(name, sizeof(name), report->name, report->name_len);
    (void)snprintf(arg, 128, "'%s' has %zu holders and %zu waiters", name,
                   report->holder_count, report->waiter_count);
    return 1;
}

/* how long what those left who were killed may stay: it goes with their leases */
static int64_t
residue_ms(void)
{
    int64_t lease_ms = 2 * (int64_t)stage.lease_ms;
    int64_t remains_ms = slowly(stage.fixture->remains_ms);
    int64_t most_ms = lease_ms > remains_ms ? lease_ms : remains_ms;
    return (has(DIBS_CAP_LEASE) ? most_ms : 0) + slowly(500);
}

static void
check_no_locks(void)
{
    int64_t until = now_ms() + residue_ms();
    char found[128] = "";
    if (!has(DIBS_CAP_INSPECT)) {
        return;
    }
    dibs *client = open_client();
    while (dibs_list(client, NULL, count_lock, found, &oops) == 1) {
        if (now_ms() > until) {
            FAIL("a lock is left in use: %s", found);
        }
        sleep_ms(10);
    }
    dibs_close(client);
}

static int
count_things(void)
{
    return stage.fixture->count_things != NULL ? stage.fixture->count_things() : 0;
}

static void
check_no_things(int before)
{
    int64_t until = now_ms() + residue_ms();
    while (count_things() != before && now_ms() < until) {
        sleep_ms(10);
    }
    if (count_things() != before && stage.fixture->show_things != NULL) {
        stage.fixture->show_things();
    }
    CHECK_SAME(count_things(), before);
}

static void
run_on_stage(const test_case *chosen)
{
    start_first_thread();
    /* what the first client of a process keeps, like a loaded module, is no leak */
    dibs_close(open_client());
    int fds = count_fds(), things = count_things();
    int threads = threads_settle(1, 0);

    stage.client = open_client();
    chosen->run();
    dibs_close(stage.client);
    check_no_locks();
    check_tokens();
    CHECK_SAME(threads_settle(threads, slowly(2000)), threads);
    CHECK_SAME(count_fds(), fds);
    check_no_things(things);
}

static void
stop_fixture(void)
{
    stage.fixture->stop();
}

static int
run_case(const fixture *with, const test_case *chosen)
{
    if (!selected(with)) {
        printf("skipped: DIBS_TEST_ENGINE does not select %s\n", with->name);
        return EXIT_SKIPPED;
    }
    stage.fixture = with;
    on_failure(stop_fixture);
    int status = with->start(stage.url, sizeof(stage.url));
    if (status != 0) {
        return status;
    }
    limit_time(CASE_LIMIT_S * (unsigned)slow_factor());
    stage.shared = shared_new(sizeof(*stage.shared), &stage.shared_fd);
    run_on_stage(chosen);
    with->stop();
    return 0;
}

static int
run_named(const char *fixture_name, const char *case_name)
{
    const test_case *chosen = find_case(case_name);
    const fixture *with = find_fixture(fixture_name);
    if (chosen != NULL && with != NULL) {
        return run_case(with, chosen);
    }
    fprintf(stderr, "there is no %s '%s'\n", chosen == NULL ? "case" : "fixture",
            chosen == NULL ? case_name : fixture_name);
    return 2;
}

int
main(int argc, char **argv)
{
    open_verb_log();
    if (argc > 1 && strcmp(argv[1], "--peer") == 0) {
        return peer_main(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], "--meta") == 0) {
        return meta_main(argc, argv);
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const test_case *at = test_cases; at->name != NULL; at++) {
            puts(at->name);
        }
        return 0;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: conform FIXTURE TOPIC/CASE | --list\n");
        return 2;
    }
    return run_named(argv[1], argv[2]);
}
