/* SPDX-License-Identifier: MIT */
/* Servers that keep a log: see logs.h. */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "logs.h"
#include "serve.h"

enum { READY_MS = 30000 };

static server servers[LOGS] = {
    { "disk", LOG_DISK, 0, 0 },
    { "memory", LOG_MEMORY, 0, 0 },
};

/* say_where warns of a log that is not where its name says */
static void
say_where(const server *s, const char *dir)
{
    struct statfs fs;

    if (statfs(dir, &fs) == 0 && (fs.f_type == TMPFS_MAGIC) != (s->log == LOG_MEMORY))
        report_note("'%s' is %s, as %s is", s->name,
                    s->log == LOG_MEMORY ? "not in memory" : "in memory", dir);
}

const server *
server_get(int log)
{
    server *s = &servers[log];
    char dir[400];

    if (s->pid != 0)
        return s;
    snprintf(dir, sizeof dir, "%s/server", log == LOG_DISK ? bench_disk() : bench.dir);
    if (mkdir(dir, 0700) != 0)
        bench_die("cannot make %s: %s", dir, strerror(errno));
    say_where(s, dir);
    server_start(s, dir);
    return s;
}

void
server_await(const server *s, int (*answers)(const server *s))
{
    for (double start = bench_now_ns(); bench_now_ns() - start < READY_MS * 1e6;) {
        if (answers(s))
            return;
        if (!serve_runs(s->pid))
            bench_die("the server does not start; is it installed?");
        bench_nap_ms(20);
    }
    bench_die("the server does not answer");
}

void
for_each_log(void (*part)(const server *s, int place))
{
    for (int log = 0; log < LOGS; log++)
        for (int place = 0; place < PLACES; place++) {
            if (bench.smoke && place != PLACE_X)
                continue;
            place_client(place);
            part(server_get(log), place);
        }
}

log_title
logs_title(const char *part, const server *s, int place)
{
    log_title title;

    snprintf(title.id, sizeof title.id, "%s.%s.%s", part, s->name, place_names[place]);
    snprintf(title.words, sizeof title.words, "%s, %s", s->name, place_names[place]);
    return title;
}
