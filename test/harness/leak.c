/* SPDX-License-Identifier: MIT */
/* What the process has open and running, to compare before and after. See harness.h. */
#include "harness.h"

#include <dirent.h>

int
count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    CHECK(dir != NULL);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

int
count_fds(void)
{
    /* less the one that reads the folder */
    return count_entries("/proc/self/fd") - 1;
}

int
count_threads(void)
{
    return count_entries("/proc/self/task");
}

int
threads_settle(int count, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    int now = count_threads();
    while (now > count && now_ms() < until) {
        sleep_ms(2);
        now = count_threads();
    }
    return now;
}

static void *
do_nothing(void *arg)
{
    return arg;
}

void
start_first_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    pthread_join(thread, NULL);
}
