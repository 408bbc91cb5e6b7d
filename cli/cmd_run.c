/* SPDX-License-Identifier: MIT */
/* dibs run: hold NAME while CMD runs. run.h says which file does which part. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"
#include "run.h"
#include "util/duration.h"

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- what the command line says ---- */

static int
shell_command(struct options *options, char *const **argv, char *shell[4])
{
    static char sh[] = "sh", dash_c[] = "-c";
    shell[0] = sh;
    shell[1] = dash_c;
    shell[2] = (char *)(uintptr_t)options->command; /* exec does not write to it */
    shell[3] = NULL;
    *argv = shell;
    return -1;
}

/* the index of the first "--", or -1 */
static int
dashes(char **operands, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(operands[i], "--") == 0)
            return i;
    }
    return -1;
}

int
run_split(struct options *options, char **operands, int count, size_t *names,
          char *const **argv, char *shell[4])
{
    const struct verb *verb = options->verb;
    int end = dashes(operands, count);
    /* "NAME -c STRING", as flock users write it */
    if (count == 3 && !options->command && strcmp(operands[1], "-c") == 0) {
        options->command = operands[2];
        count = 1;
    }
    if (count < 1 || end == 0)
        return opt_usage_error(verb, "which NAME?");
    *argv = NULL;
    *names = options->command ? (size_t)count : end > 0 ? (size_t)end : 1;
    /* not a name but CMD's option: "dibs run x cmd -a -- b" */
    for (size_t i = 1; i < *names; i++) {
        if (operands[i][0] == '-')
            return opt_usage_error(verb, "'%s' is no NAME: write -- before CMD",
                                   operands[i]);
    }
    if (options->command)
        return shell_command(options, argv, shell);
    if (end > 0 ? end + 1 < count : count > 1)
        *argv = operands + (end > 0 ? end + 1 : 1);
    return -1;
}

/* ---- giving the locks back ---- */

/* the engine cannot keep others out for us, so stay and do it; a signal ends it */
static void
linger_here(struct signals *signals, int64_t until_ms)
{
    struct pollfd fd = { signals->fd, POLLIN, 0 };
    for (int64_t left; (left = until_ms - now_ms()) > 0;) {
        if (poll(&fd, 1, left < 60000 ? (int)left : 60000) > 0 &&
            signals_ends(signals_read(signals)))
            return;
    }
}

static int
release_later(struct taking *taking, struct signals *signals, int64_t until_ms,
              dibs_error *err)
{
    int64_t left_ms = until_ms - now_ms();
    if (left_ms <= 0)
        return taking_release(taking, err);
    if (taking->options->verbose) {
        char left[32];
        dibs__duration_print(left, sizeof left, left_ms);
        say(taking->options, "keeping others out for %s more", left);
    }
    for (size_t i = 0; i < taking->count; i++) {
        int code = dibs_release_after(taking->holds[i], (uint32_t)left_ms, err);
        if (code == DIBS_EUNSUPPORTED) {
            linger_here(signals, until_ms);
            return taking_release(taking, err);
        }
        if (code != DIBS_OK)
            return code;
    }
    return DIBS_OK;
}

static int
give_back(struct taking *taking, struct signals *signals, int exit_code)
{
    const struct options *options = taking->options;
    dibs_error err = { 0 };
    int64_t until_ms = taking->granted_ms + options->at_least_ms;
    if (exit_code == EXIT_LOST && !taking_held(taking))
        return exit_code; /* has been said */
    int code = release_later(taking, signals, until_ms, &err);
    if (code == DIBS_OK)
        return exit_code;
    err.code = code;
    (void)say_error(options, &err);
    return code == DIBS_ELOST && options->on_lost != ON_LOST_IGNORE ? EXIT_LOST
                                                                    : exit_code;
}

/* ---- all together ---- */

static int
take_and_run(const struct options *options, dibs *client, char *const *names,
             size_t count, char *const *argv)
{
    struct taking taking;
    struct signals signals;
    if (taking_init(&taking, options, client, names, count, run_grace_ms(options)))
        return say_out_of_memory(options);
    int code = taking_get(&taking, &signals);
    if (code < 0) {
        code = give_back(&taking, &signals, run_supervised(&taking, &signals, argv));
        if (options->json && !options->quiet) {
            struct json json;
            event_begin(&json, "exit");
            json_int(&json, "code", code);
            event_end(&json);
        }
    }
    taking_done(&taking);
    signals_done(&signals);
    return code;
}

/* an outer dibs run holds all of them and supervises the group we are in: become CMD */
static int
reenter(const struct options *options, const struct grant *grants, size_t count,
        char *const *argv)
{
    struct environment env;
    struct child child = { .argv = argv, .quiet = options->quiet, .lost_fd = -1 };
    int code;
    if (options->verbose)
        say(options, "the dibs run around this one holds it already");
    if (environment_init(&env, grants, count, NULL, -1) != 0) {
        code = say_out_of_memory(options);
    } else {
        child.env = env.list;
        code = child_exec(&child);
    }
    environment_done(&env);
    return code;
}

/* The names of a command line: those an outer run holds, and the rest. */
struct sorted {
    struct grant *held;
    char **rest;
    size_t held_count, rest_count;
};

static int
look_for_tickets(struct sorted *sorted, dibs *client, int mode, char *const *names,
                 size_t count, dibs_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct ticket ticket;
        int found = ticket_find(&ticket, client, names[i], mode, err);
        if (found < 0)
            return found;
        if (found)
            sorted->held[sorted->held_count++] =
                (struct grant){ names[i], ticket.token, ticket.previous };
        else
            sorted->rest[sorted->rest_count++] = names[i];
    }
    return DIBS_OK;
}

static int
run_with_client(const struct options *options, dibs **client, char *const *names,
                size_t count, char *const *argv)
{
    dibs_error err = { 0 };
    struct sorted sorted = { .held = calloc(count, sizeof *sorted.held),
                             .rest = calloc(count, sizeof *sorted.rest) };
    int code;
    if (!sorted.held || !sorted.rest) {
        code = say_out_of_memory(options);
    } else if (look_for_tickets(&sorted, *client, options->mode, names, count, &err)) {
        code = say_error(options, &err);
    } else if (sorted.rest_count > 0) {
        code = take_and_run(options, *client, sorted.rest, sorted.rest_count, argv);
    } else {
        dibs_close(*client);
        *client = NULL;
        code = reenter(options, sorted.held, sorted.held_count, argv);
    }
    free(sorted.rest);
    free(sorted.held);
    return code;
}

int
run_command(const struct options *options, char *const *names, size_t count,
            char *const *argv)
{
    dibs_error err = { 0 };
    dibs *client = NULL;
    child_descriptors();
    int code = client_open(&client, options, base_name(argv[0]), &err);
    if (code != DIBS_OK)
        return say_error(options, &err);
    code = run_with_client(options, &client, names, count, argv);
    dibs_close(client);
    return code;
}

int
cmd_run(int argc, char **argv)
{
    struct options options;
    int first = 0;
    size_t names = 0;
    char *const *command = NULL;
    char *shell[4];
    int end = opt_parse(&options, &first, argc, argv);
    if (end >= 0)
        return end;
    end = run_split(&options, argv + first, argc - first, &names, &command, shell);
    if (end >= 0)
        return end;
    if (!command)
        return opt_usage_error(options.verb, "which CMD?");
    return run_command(&options, argv + first, names, command);
}
