/* SPDX-License-Identifier: MIT */
/* Many who want the lock at once: one at a time has it, all get it, and none of them
 * spends its time in collisions. */
#include "stage.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8

/* ---- processes that count in a file ---- */

static int64_t
read_count(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    return strtoll(text, NULL, 10);
}

static void
write_count(const char *path, int64_t count)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%lld\n", (long long)count);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, (size_t)len) == len);
    close(fd);
}

/* one of the processes: `contention --count URL FILE TIMES` */
static int
count_in_file(char **argv)
{
    dibs *client = NULL;
    int64_t longest_ms = 0;
    OK(dibs_open(&client, argv[2], NULL, &oops));
    for (int64_t i = strtoll(argv[4], NULL, 10); i > 0; i--) {
        int64_t from = now_ms();
        dibs_hold *hold = take(client, 0);
        int64_t took_ms = now_ms() - from;
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        write_count(argv[3], read_count(argv[3]) + 1);
        give(hold);
    }
    dibs_close(client);
    /* unfair as it is, nobody waits for most of the run */
    CHECK_WITHIN(longest_ms, 0, slowly(5000));
    return 0;
}

static void
count_together(int processes, int times)
{
    char folder[128], path[160], url[512], turns[16];
    pid_t pids[PROCESSES];
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(path, sizeof(path), "%s/count", folder);
    (void)snprintf(turns, sizeof(turns), "%d", times);
    url_of(url, sizeof(url), "");
    write_count(path, 0);
    int64_t from = now_ms(), before = calls(&set.servers[4]);
    for (int i = 0; i < processes; i++) {
        const char *arguments[] = { "--count", url, path, turns, NULL };
        pids[i] = spawn_self(arguments, NULL, 0);
    }
    for (int i = 0; i < processes; i++) {
        CHECK_SAME(reap(pids[i], slowly(60000)), 0);
    }
    int64_t took_ms = now_ms() - from, total = (int64_t)processes * times;
    CHECK_SAME(read_count(path), total);
    printf("%d processes: %lld grants in %lld ms, %.1f scripts each on one server\n",
           processes, (long long)total, (long long)took_ms,
           (double)(calls(&set.servers[4]) - before) / (double)total);
    remove_tree(folder);
}

static void
counted(void)
{
    start(NODES, NULL);
    count_together(2, 100);
    count_together(4, 50);
    count_together(PROCESSES, 50);
    comes_to(0, slowly(1000));
}

/* ---- threads, each with a client ---- */

static int64_t
    counter; /* plain on purpose: it comes out right only if the lock excludes */

static void
count_in_thread(void *arg, int index)
{
    dibs *client = open_with("");
    (void)arg;
    (void)index;
    for (int i = 0; i < 40; i++) {
        dibs_hold *hold = take(client, 0);
        counter++;
        give(hold);
    }
    dibs_close(client);
}

static void
by_threads(void)
{
    start(NODES, NULL);
    gang_join(gang_start(6, count_in_thread, NULL));
    CHECK_SAME(counter, 6 * 40);
    /* and with two servers less, one of which stands still */
    server_pause(&set.servers[0]);
    server_kill(&set.servers[3]);
    gang_join(gang_start(6, count_in_thread, NULL));
    CHECK_SAME(counter, 2 * 6 * 40);
    server_resume(&set.servers[0]);
}

/* ---- waking ---- */

static _Atomic int64_t got_at_ns;

static void
wait_for_it(void *arg, int index)
{
    dibs *client = open_with("");
    (void)arg;
    (void)index;
    dibs_hold *hold = take(client, 0);
    got_at_ns = now_ns();
    give(hold);
    dibs_close(client);
}

/* who waits hears of a release at once, also when the server it listens at is gone */
static void
woken(void)
{
    start(NODES, NULL);
    dibs *client = open_with("");
    for (int gone = 0; gone < 3; gone++) {
        int64_t total_ms = 0;
        for (int i = 0; i < 5; i++) {
            dibs_hold *hold = take(client, 0);
            gang *waiter = gang_start(1, wait_for_it, NULL);
            sleep_ms(800); /* by now it looks seldom */
            int64_t from = now_ns();
            give(hold);
            gang_join(waiter);
            total_ms += (got_at_ns - from) / 1000000;
        }
        CHECK_WITHIN(total_ms / 5, 0, slowly(30));
        if (gone < 2) {
            server_kill(&set.servers[gone]);
        }
    }
    dibs_close(client);
}

/* Others than dibs tell nobody that they are done: who waits must look. */
static void
woken_by_nobody(void)
{
    start(NODES, NULL);
    int64_t total_ms = 0;
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < NODES; k++) {
            server_do(&set.servers[k], "SET", NAME, "somebody else", "PX", "60000");
        }
        gang *waiter = gang_start(1, wait_for_it, NULL);
        sleep_ms(500 + 13 * i);
        int64_t from = now_ns();
        for (int k = 0; k < NODES; k++) {
            server_do(&set.servers[k], "DEL", NAME);
        }
        gang_join(waiter);
        total_ms += (got_at_ns - from) / 1000000;
    }
    CHECK_WITHIN(total_ms / 10, 0, slowly(150));
}

int
main(int argc, char **argv)
{
    static const test_case cases[] = {
        { "counted", counted }, { "by_threads", by_threads },
        { "woken", woken },     { "woken_by_nobody", woken_by_nobody },
        { NULL, NULL },
    };
    if (argc == 5 && strcmp(argv[1], "--count") == 0) {
        return count_in_file(argv);
    }
    return run_case(argc, argv, cases);
}
