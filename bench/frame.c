/* SPDX-License-Identifier: MIT */
/*
 * What is the same in every benchmark program: options, a folder of its own, running the
 * parts that were asked for, and writing down what they gave.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

static const char usage[] =
    "usage: %s [options] [PART...]\n"
    "  PART           %s; default: all\n"
    "  --json FILE    write the figures as JSON\n"
    "  --plots DIR    write the plots\n"
    "  --dibs PATH    the command to measure; default: the one of this build\n"
    "  --peers DIR    what scripts/get-peers fetched; default: no such contestants\n"
    "  --runs N       how often each figure is measured; default: 3\n"
    "  --smoke        tiny counts, to see that it works\n";

static _Noreturn void
explain_usage(void)
{
    char parts[256] = "";
    size_t len = 0;

    for (const bench_part *part = program.parts; part->name && len < sizeof parts; part++)
        len += (size_t)snprintf(parts + len, sizeof parts - len, "%s%s", len ? ", " : "",
                                part->name);
    fprintf(stderr, usage, program_invocation_short_name, parts);
    exit(2);
}

static char scratch_dir[200], disk_dir[200];
static pid_t scratch_owner;

static int
remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

/* children end by _exit or a signal, but bench_die may end one with exit() */
static void
remove_scratch(void)
{
    if (getpid() != scratch_owner)
        return;
    nftw(scratch_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (disk_dir[0] != 0)
        nftw(disk_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* make_scratch prefers memory: a disk has no part in what is measured. */
static void
make_scratch(void)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    if (getenv("TMPDIR") != NULL)
        parent = getenv("TMPDIR");
    snprintf(scratch_dir, sizeof scratch_dir, "%s/dibs-bench-XXXXXX", parent);
    if (mkdtemp(scratch_dir) == NULL)
        bench_die("cannot make a folder in %s: %s", parent, strerror(errno));
    scratch_owner = getpid();
    atexit(remove_scratch);
    bench.dir = scratch_dir;
    snprintf(bench.url, sizeof bench.url, "local:%s", scratch_dir);
}

const char *
bench_disk(void)
{
    if (disk_dir[0] != 0)
        return disk_dir;
    snprintf(disk_dir, sizeof disk_dir, "/var/tmp/dibs-bench-XXXXXX");
    if (mkdtemp(disk_dir) == NULL)
        bench_die("cannot make a folder in /var/tmp: %s", strerror(errno));
    return disk_dir;
}

/* find_build looks where this program was built, one folder below the command and the
 * engines' modules (mock: is one), and uses those. */
static void
find_build(void)
{
    static char command[512];
    char folder[400], engines[512];
    ssize_t len = readlink("/proc/self/exe", folder, sizeof folder - 1);

    folder[len < 0 ? 0 : len] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');

        if (slash != NULL)
            *slash = 0;
    }
    snprintf(command, sizeof command, "%s/dibs", folder);
    bench.dibs_path = command;
    snprintf(engines, sizeof engines, "%s/engines", folder);
    (void)setenv("DIBS_ENGINE_DIR", engines, 0);
}

static void
check_parts(char **names, int count)
{
    for (int i = 0; i < count; i++) {
        int known = 0;

        for (const bench_part *part = program.parts; part->name != NULL; part++)
            known |= strcmp(names[i], part->name) == 0;
        if (!known)
            explain_usage();
    }
}

static int
wanted(const char *part, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], part) == 0)
            return 1;
    return count == 0;
}

static int
write_plots(const char *dir)
{
    const char *rival = program.rival;
    char path[512], title[128], heading[128];
    int rows = 0;

    while (program.comparisons[rows].label != NULL)
        rows++;
    snprintf(path, sizeof path, "%s/speed-%s.svg", dir, program.name);
    snprintf(title, sizeof title, "speed of dibs on %s: as a multiple of %s",
             program.store, rival != NULL ? rival : "other ways");
    snprintf(heading, sizeof heading,
             "%s: as a multiple of %s's speed (log scale, longer is faster)",
             program.store, rival != NULL ? rival : "the other");
    if (plot_ratios(path, title, heading, program.comparisons, rows) != 0)
        return -1;
    return program.plot_more != NULL ? program.plot_more(dir) : 0;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", required_argument, NULL, 'j' },
        { "plots", required_argument, NULL, 'p' },
        { "dibs", required_argument, NULL, 'd' },
        { "peers", required_argument, NULL, 'P' },
        { "runs", required_argument, NULL, 'r' },
        { "smoke", no_argument, NULL, 's' },
        { NULL, 0, NULL, 0 },
    };
    const char *json = NULL, *plots = NULL;
    int option;

    bench.runs = 3;
    find_build();
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'j')
            json = optarg;
        else if (option == 'p')
            plots = optarg;
        else if (option == 'd')
            bench.dibs_path = optarg;
        else if (option == 'P')
            bench.peers = optarg;
        else if (option == 'r' && strtol(optarg, NULL, 10) > 0)
            bench.runs = (int)strtol(optarg, NULL, 10);
        else if (option == 's')
            bench.smoke = 1;
        else
            explain_usage();
    }
    check_parts(argv + optind, argc - optind);
    bench_cpus(); /* before anything is pinned */
    make_scratch();
    for (const bench_part *part = program.parts; part->name != NULL; part++)
        if (wanted(part->name, argv + optind, argc - optind))
            part->run();
    if (json != NULL && report_write_json(json) != 0)
        bench_die("cannot write %s: %s", json, strerror(errno));
    if (plots != NULL && write_plots(plots) != 0)
        bench_die("cannot write the plots in %s: %s", plots, strerror(errno));
    printf("\n%d bar(s) missed\n", report_misses());
    return 0;
}
