/* SPDX-License-Identifier: MIT */
/*
 * dibs_sim --seeds A..B         run these seeds; 1 if a rule is broken, and how to replay
 * dibs_sim --seed N [--trace]   run one, and print what happens
 * dibs_sim --mutant K3 ...      break something on purpose; 0 if K3 notices, 1 if not
 * dibs_sim --repeat ...         run each seed twice; 1 if their histories differ
 * dibs_sim --list FILE          run the seeds in FILE, one a line; '#' begins a comment
 * -v adds a line per seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct sim_run sim_run;

static struct {
    uint64_t from, to;
    const char *list;
    int repeat;
} options = { 1, 100, NULL, 0 };

static uint64_t total_records;

static void
run_seed(uint64_t seed)
{
    sim_run.seed = seed;
    sim_sys_reset(seed);
    sim_engine_reset();
    sim_mem_reset();
    sim_check_reset();
    sim_load_run();
    total_records += sim_history_count();
    if (sim_run.verbose)
        printf("seed %llu: %zu records, %.3f s, hash %016llx%s\n",
               (unsigned long long)seed, sim_history_count(), (double)sim_now() / 1e9,
               (unsigned long long)sim_history_hash(), sim_violated() ? ", broken" : "");
}

static void
report(void)
{
    if (!sim_run.trace)
        sim_history_print_tail(40);
    printf("seed %llu breaks %s\nreplay: dibs_sim --seed %llu --trace",
           (unsigned long long)sim_run.seed, sim_violation_text(),
           (unsigned long long)sim_run.seed);
    if (sim_run.mutant)
        printf(" --mutant K%d", sim_run.mutant);
    printf("\n");
}

/* try_seed returns 1 when there is no need to go on. */
static int
try_seed(uint64_t seed)
{
    uint64_t hash;

    run_seed(seed);
    if (sim_violated()) {
        report();
        return 1;
    }
    if (!options.repeat)
        return 0;
    hash = sim_history_hash();
    run_seed(seed);
    if (hash == sim_history_hash())
        return 0;
    printf("seed %llu: two runs differ\n", (unsigned long long)seed);
    return 1;
}

static int
try_range(void)
{
    for (uint64_t seed = options.from; seed <= options.to; seed++)
        if (try_seed(seed))
            return 1;
    printf("%llu seeds, %llu records: no rule broken\n",
           (unsigned long long)(options.to - options.from + 1),
           (unsigned long long)total_records);
    return 0;
}

static int
try_list(void)
{
    FILE *file = fopen(options.list, "r");
    char line[256];
    int broken = 0;

    if (!file) {
        perror(options.list);
        return 2;
    }
    while (!broken && fgets(line, sizeof(line), file))
        if (*line != '#' && *line != '\n')
            broken = try_seed(strtoull(line, NULL, 10));
    fclose(file);
    return broken;
}

static void
usage(const char *what)
{
    fprintf(stderr,
            "dibs_sim: %s\nusage: dibs_sim [--seeds A..B | --seed N | --list FILE] "
            "[--mutant K1..K11] [--repeat] [--trace] [-v]\n",
            what);
    exit(2);
}

static void
read_range(const char *text)
{
    char *end;

    options.from = options.to = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) == 0)
        options.to = strtoull(end + 2, &end, 10);
    if (end == text || *end)
        usage("a range of seeds looks like 1..1000");
}

static void
read_mutant(const char *text)
{
    sim_run.mutant = *text == 'K' ? atoi(text + 1) : 0;
    if (sim_run.mutant < K1 || sim_run.mutant >= K_COUNT)
        usage("mutants are K1 to K11");
}

static void
read_options(char **argv)
{
    for (; *argv; argv++) {
        if (strcmp(*argv, "--trace") == 0)
            sim_run.trace = 1;
        else if (strcmp(*argv, "-v") == 0)
            sim_run.verbose = 1;
        else if (strcmp(*argv, "--repeat") == 0)
            options.repeat = 1;
        else if (!argv[1])
            usage("an option or its value is missing");
        else if (strcmp(*argv, "--seeds") == 0 || strcmp(*argv, "--seed") == 0)
            read_range(*++argv);
        else if (strcmp(*argv, "--mutant") == 0)
            read_mutant(*++argv);
        else if (strcmp(*argv, "--list") == 0)
            options.list = *++argv;
        else
            usage("there is no such option");
    }
}

int
main(int argc, char **argv)
{
    int broken;

    (void)argc;
    read_options(argv + 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sim_sys_reset(0);
    sim_engine_register();
    broken = options.list ? try_list() : try_range();
    if (sim_run.mutant && broken <= 1)
        return !broken;
    return broken;
}
