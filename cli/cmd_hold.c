/* SPDX-License-Identifier: MIT */
/* dibs hold: hold NAME until end of input or a signal; see hold.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"
#include "hold.h"
#include "take.h"

/* {"name":"x","token":7,"previous":"clean","lease_ms":30000}: what the caller waits for */
static int
print_granted(const struct taking *taking)
{
    const char *name = taking->wanted[0].request.name;
    const dibs_hold *hold = taking->holds[0];
    struct json json;
    json_begin(&json);
    json_bytes(&json, "name", name, strlen(name));
    json_uint(&json, "token", dibs_token(hold));
    json_text(&json, "previous", dibs_previous_name(dibs_previous(hold)));
    if (dibs_caps(taking->client) & DIBS_CAP_LEASE)
        json_uint(&json, "lease_ms",
                  taking->options->ttl_ms ? taking->options->ttl_ms : LEASE_DEFAULT_MS);
    else
        json_null(&json, "lease_ms");
    return json_end(&json, stdout);
}

/* whether stdin has ended; swallows what it has */
static bool
input_ended(void)
{
    char ignored[4096];
    ssize_t got = read(STDIN_FILENO, ignored, sizeof ignored);
    return got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
}

/* until stdin ends, a signal comes or the lock is lost */
static void
stay(struct taking *taking, struct signals *signals, int lost_fd)
{
    struct pollfd fds[] = { { signals->fd, POLLIN, 0 },
                            { lost_fd, POLLIN, 0 },
                            { STDIN_FILENO, POLLIN, 0 } };
    for (;;) {
        int ready = poll(fds, 3, -1);
        if (!taking_held(taking))
            return;
        if (ready <= 0)
            continue;
        if (fds[0].revents && signals_ends(signals_read(signals)))
            return;
        if (fds[2].revents && input_ended())
            return;
    }
}

static int
hold_granted(struct taking *taking, struct signals *signals)
{
    dibs_error err = { 0 };
    int lost_fd = dibs_lost_fd(taking->holds[0], &err);
    if (lost_fd < 0) {
        err.code = lost_fd;
        return say_error(taking->options, &err);
    }
    if (signals_fd(signals) < 0)
        return say_out_of_memory(taking->options);
    if (print_granted(taking) != 0) {
        say(taking->options, "cannot write: %s", strerror(errno));
        return 1;
    }
    stay(taking, signals, lost_fd);
    err.code = taking_release(taking, &err);
    return err.code == DIBS_OK ? 0 : say_error(taking->options, &err);
}

int
hold_until_end(const struct options *options, char *name)
{
    dibs_error err = { 0 };
    dibs *client = NULL;
    struct taking taking;
    struct signals signals;
    if (client_open(&client, options, NULL, &err) != DIBS_OK)
        return say_error(options, &err);
    if (taking_init(&taking, options, client, &name, 1, 0) != DIBS_OK) {
        dibs_close(client);
        return say_out_of_memory(options);
    }
    int code = taking_get(&taking, &signals);
    if (code < 0)
        code = hold_granted(&taking, &signals);
    taking_done(&taking);
    signals_done(&signals);
    dibs_close(client);
    return code;
}

int
cmd_hold(int argc, char **argv)
{
    struct options options;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options.verb, argc - first, 1, 1);
    return end >= 0 ? end : hold_until_end(&options, argv[first]);
}
