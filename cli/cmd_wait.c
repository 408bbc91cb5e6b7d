/* SPDX-License-Identifier: MIT */
/* dibs wait: wait until nobody holds NAME, without taking it. */
#include "cmd.h"
#include "common.h"

/* also called with the present state, so a free lock ends it at once */
static int
holder_changed(const dibs_party *holder, void *arg)
{
    const struct options *options = arg;
    char who[512];
    if (!holder)
        return 1;
    if (options->verbose) {
        party_print(who, sizeof who, holder);
        say(options, "held by %s", who);
    }
    /* with --nonblock we have seen enough */
    return options->wait_ms == DIBS_WAIT_NONE ? 2 : 0;
}

int
cmd_wait(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    dibs *client = NULL;
    const char *name = NULL;
    int end = opt_parse_name(&options, &name, argc, argv);
    if (end >= 0)
        return end;
    int64_t wait_ms = options.wait_ms > 0 ? options.wait_ms : DIBS_WAIT_FOREVER;
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code == DIBS_OK)
        err.code =
            dibs_observe(client, name, holder_changed, &options, wait_ms, NULL, &err);
    dibs_close(client);
    if (err.code == 1)
        return 0;
    if (err.code == 2)
        return unless_busy(&options, DIBS_EBUSY, dibs_exit_code(DIBS_EBUSY));
    return unless_busy(&options, err.code, say_error(&options, &err));
}
