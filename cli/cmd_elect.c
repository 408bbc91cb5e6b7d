/* SPDX-License-Identifier: MIT */
/* dibs elect: lead NAME, with or without a command; or observe who does. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "common.h"
#include "hold.h"
#include "run.h"

struct observer {
    const struct options *options;
    const char *name;
};

static void
print_leader(const struct observer *observer, const dibs_party *leader)
{
    char name[NAME_PRINT_MAX], who[512];
    name_print(name, observer->name, strlen(observer->name));
    if (!leader) {
        printf("%s: nobody leads\n", name);
        return;
    }
    party_print(who, sizeof who, leader);
    printf("%s: %s%s%s%s, token %llu\n", name, leader->note, leader->note[0] ? " (" : "",
           who, leader->note[0] ? ")" : "", (unsigned long long)leader->token);
}

static void
print_leader_json(const struct observer *observer, const dibs_party *leader)
{
    struct json json;
    json_begin(&json);
    json_bytes(&json, "name", observer->name, strlen(observer->name));
    if (leader) {
        json_open(&json, "leader", '{');
        json_text(&json, "value", leader->note);
        party_json(&json, leader);
        json_close(&json, '}');
    } else {
        json_null(&json, "leader");
    }
    (void)json_end(&json, stdout);
}

/* called by the library after each change; ends the observation with --nonblock, or if
 * nobody reads what we print */
static int
leader_changed(const dibs_party *leader, void *arg)
{
    const struct observer *observer = arg;
    if (observer->options->json)
        print_leader_json(observer, leader);
    else
        print_leader(observer, leader);
    return fflush(stdout) != 0 || ferror(stdout) ||
           observer->options->wait_ms == DIBS_WAIT_NONE;
}

static int
observe(const struct options *options, const char *name)
{
    struct observer observer = { options, name };
    dibs_error err = { 0 };
    dibs *client = NULL;
    int64_t wait_ms = options->wait_ms > 0 ? options->wait_ms : DIBS_WAIT_FOREVER;
    err.code = client_open(&client, options, NULL, &err);
    if (err.code == DIBS_OK)
        err.code =
            dibs_observe(client, name, leader_changed, &observer, wait_ms, NULL, &err);
    dibs_close(client);
    if (err.code >= 0)
        return 0;
    return unless_busy(options, err.code, say_error(options, &err));
}

int
cmd_elect(int argc, char **argv)
{
    struct options options;
    int first = 0;
    size_t names = 0;
    char *const *command = NULL;
    char *shell[4];
    int end = opt_parse(&options, &first, argc, argv);
    options.election = true;
    if (end < 0)
        end = run_split(&options, argv + first, argc - first, &names, &command, shell);
    if (end >= 0)
        return end;
    if (names > 1)
        return opt_usage_error(options.verb, "that is one NAME too many");
    if (options.observe && command)
        return opt_usage_error(options.verb, "--observe runs no CMD");
    if (options.observe)
        return observe(&options, argv[first]);
    if (command)
        return run_command(&options, argv + first, 1, command);
    return hold_until_end(&options, argv[first]);
}
