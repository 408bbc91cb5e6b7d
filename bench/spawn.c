/* SPDX-License-Identifier: MIT */
/*
 * The command: `dibs run NAME -- true` against `flock FILE true`, and a bare `true` as
 * the floor. Spawned and waited for in turn on one CPU; that is the number reported.
 * Where hyperfine(1) is installed it is asked as well, as a second opinion.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum contestant { DIBS, FLOCK, TRUE, CONTESTANTS };

static void
one_run(const command *commands, series *runs, series *ratios)
{
    series rounds[CONTESTANTS] = { { NULL, 0, 0 } };

    for (int i = 0; i < bench_count(300, 3); i++)
        for (int who = 0; who < CONTESTANTS; who++)
            series_add(&rounds[who], command_run(commands[who].argv, NULL));
    series_add(ratios, series_median(&rounds[DIBS]) / series_median(&rounds[FLOCK]));
    for (int who = 0; who < CONTESTANTS; who++) {
        series_add(&runs[who], series_median(&rounds[who]));
        series_free(&rounds[who]);
    }
}

/* medians_of reads the medians, in order, out of hyperfine's JSON. */
static int
medians_of(const char *path, double *medians, int count)
{
    FILE *file = fopen(path, "r");
    char line[4096];
    int found = 0;

    if (file == NULL)
        return 0;
    while (found < count && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "\"median\":");

        if (at != NULL)
            medians[found++] = strtod(at + strlen("\"median\":"), NULL);
    }
    fclose(file);
    return found;
}

static void
join(char *out, size_t size, const char *const argv[])
{
    out[0] = 0;
    for (int i = 0; argv[i] != NULL; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i > 0 ? " " : "",
                 argv[i]);
}

/* ask_hyperfine returns its ratio of medians, or 0 if that cannot be had. */
static double
ask_hyperfine(const command *commands)
{
    char json[512], ours[1024], theirs[1024];
    const char *argv[] = { "hyperfine", "-N",     "--style", "none",          "--warmup",
                           "10",        "--runs", "100",     "--export-json", json,
                           ours,        theirs,   NULL };
    posix_spawn_file_actions_t actions;
    double medians[2];

    bench_scratch(json, sizeof json, "hyperfine.json");
    join(ours, sizeof ours, commands[DIBS].argv);
    join(theirs, sizeof theirs, commands[FLOCK].argv);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    command_run(argv, &actions);
    posix_spawn_file_actions_destroy(&actions);
    return medians_of(json, medians, 2) == 2 ? medians[0] / medians[1] : 0;
}

static void
second_opinion(const command *commands)
{
    series ratios = { NULL, 0, 0 };

    if (bench.smoke || system("command -v hyperfine >/dev/null") != 0)
        return;
    for (int run = 0; run < bench.runs; run++)
        series_add(&ratios, ask_hyperfine(commands));
    report_figure("run.hyperfine", "the same, by hyperfine -N (not in turn)", "x",
                  &ratios);
    series_free(&ratios);
}

void
bench_spawn(void)
{
    char path[512];
    const command commands[CONTESTANTS] = {
        { "run.dibs",
          "dibs run x -- true",
          { bench.dibs_path, "run", "x", "--", "true" } },
        { "run.flock", "flock FILE true", { "flock", path, "true" } },
        { "run.true", "true (floor)", { "true" } },
    };
    series runs[CONTESTANTS] = { { NULL, 0, 0 } };
    series ratios = { NULL, 0, 0 };

    report_section("the command", "spawned and waited for in turn, all on one CPU");
    if (access(bench.dibs_path, X_OK) != 0) {
        report_note("skipped: there is no command at %s (see --dibs)", bench.dibs_path);
        return;
    }
    bench_scratch(path, sizeof path, "spawn");
    setenv("DIBS_URL", bench.url, 1);
    bench_pin(bench_cpus() - 1);
    for (int run = 0; run < bench.runs; run++)
        one_run(commands, runs, &ratios);
    for (int who = 0; who < CONTESTANTS; who++) {
        report_figure(commands[who].id, commands[who].label, "us", &runs[who]);
        series_free(&runs[who]);
    }
    report_bar("run.ratio", "dibs run / flock(1)", "x", &ratios, BAR_AT_MOST, 1.0);
    series_free(&ratios);
    second_opinion(commands);
}
