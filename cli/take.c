/* SPDX-License-Identifier: MIT */
/* Taking the locks of a command line; see take.h. */
#include "take.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common.h"
#include "explain.h"
#include "util/duration.h"

int
taking_init(struct taking *taking, const struct options *options, dibs *client,
            char *const *names, size_t count, uint32_t grace_ms)
{
    memset(taking, 0, sizeof *taking);
    taking->options = options;
    taking->client = client;
    taking->count = count;
    taking->wanted = calloc(count, sizeof *taking->wanted);
    taking->holds = calloc(count, sizeof *taking->holds);
    if (!taking->wanted || !taking->holds) {
        taking_done(taking);
        return DIBS_ENOMEM;
    }
    dibs_request request = DIBS_REQUEST_INIT;
    request.mode = options->mode;
    request.limit = options->slots;
    request.lease_ms = options->ttl_ms;
    request.max_hold_ms = options->max_hold_ms;
    request.grace_ms = grace_ms;
    request.flags = options->election ? DIBS_ELECTION : 0;
    request.note = options->note;
    for (size_t i = 0; i < count; i++) {
        request.name = names[i];
        taking->wanted[i] = (dibs_wanted){ client, request };
    }
    return DIBS_OK;
}

void
taking_done(struct taking *taking)
{
    for (size_t i = 0; taking->holds && i < taking->count; i++)
        dibs_hold_free(taking->holds[i]);
    free(taking->holds);
    free(taking->wanted);
    taking->holds = NULL;
    taking->wanted = NULL;
}

static int
acquire(struct taking *taking, int64_t wait_ms, dibs_error *err)
{
    if (taking->count > 1)
        return dibs_acquire_all(taking->holds, taking->wanted, taking->count, wait_ms,
                                err);
    taking->wanted->request.wait_ms = wait_ms;
    return dibs_acquire(taking->holds, taking->client, &taking->wanted->request, err);
}

/* ---- waiting in the background ---- */

struct wait {
    struct taking *taking;
    int64_t wait_ms;
    int done_fd; /* readable when the thread is through */
    int code;
    dibs_error *err;
    dibs_canceller *cancel;
    pthread_t thread;
};

static void *
wait_thread(void *arg)
{
    struct wait *wait = arg;
    wait->code = acquire(wait->taking, wait->wait_ms, wait->err);
    (void)eventfd_write(wait->done_fd, 1);
    return NULL;
}

static int
wait_start(struct wait *wait)
{
    wait->done_fd = eventfd(0, EFD_CLOEXEC);
    if (wait->done_fd < 0)
        return DIBS_ENOMEM;
    if (dibs_canceller_new(&wait->cancel, NULL) != DIBS_OK) {
        close(wait->done_fd);
        return DIBS_ENOMEM;
    }
    for (size_t i = 0; i < wait->taking->count; i++)
        wait->taking->wanted[i].request.cancel = wait->cancel;
    if (pthread_create(&wait->thread, NULL, wait_thread, wait) == 0)
        return DIBS_OK;
    dibs_canceller_free(wait->cancel);
    close(wait->done_fd);
    return DIBS_ENOMEM;
}

static void
wait_done(struct wait *wait)
{
    pthread_join(wait->thread, NULL);
    dibs_canceller_free(wait->cancel);
    close(wait->done_fd);
    for (size_t i = 0; i < wait->taking->count; i++)
        wait->taking->wanted[i].request.cancel = NULL;
}

/* polls until the thread is through (0) or a signal has come that ends the wait */
static int
wait_watch(struct wait *wait, struct signals *signals, struct explainer *explainer)
{
    struct pollfd fds[] = { { wait->done_fd, POLLIN, 0 }, { signals->fd, POLLIN, 0 } };
    for (;;) {
        if (poll(fds, 2, explainer_timeout(explainer)) < 0)
            continue;
        if (fds[0].revents)
            return 0;
        int signal = fds[1].revents ? signals_read(signals) : 0;
        if (signals_ends(signal))
            return signal;
        explainer_tell(explainer);
    }
}

/* waits as long as `wait_ms` says; *signal is the one that ended it, or 0 */
static int
acquire_waiting(struct taking *taking, struct signals *signals, int64_t wait_ms,
                int *signal, dibs_error *err)
{
    struct wait wait = { .taking = taking, .wait_ms = wait_ms, .err = err };
    struct explainer explainer;
    if (signals_fd(signals) < 0 || wait_start(&wait) != DIBS_OK)
        return err->code = DIBS_ENOMEM;
    explainer_init(&explainer, taking);
    *signal = wait_watch(&wait, signals, &explainer);
    explainer_done(&explainer);
    if (*signal)
        dibs_cancel(wait.cancel);
    wait_done(&wait);
    return wait.code;
}

/* ---- all together ---- */

static void
tell_granted(const struct taking *taking)
{
    const struct options *options = taking->options;
    int64_t waited_ms = taking->granted_ms - options->started_ms;
    for (size_t i = 0; i < taking->count; i++) {
        char shown[NAME_PRINT_MAX], waited[32];
        const dibs_hold *hold = taking->holds[i];
        const char *name = taking->wanted[i].request.name;
        const char *previous = dibs_previous_name(dibs_previous(hold));
        struct json json;
        if (options->json && !options->quiet) {
            event_begin(&json, "granted");
            json_bytes(&json, "name", name, strlen(name));
            json_uint(&json, "token", dibs_token(hold));
            json_text(&json, "previous", previous);
            json_int(&json, "waited_ms", waited_ms);
            event_end(&json);
        }
        dibs__duration_print(waited, sizeof waited, waited_ms);
        say(options, "granted '%s' after %s: token %llu, previous %s",
            name_print(shown, name, strlen(name)), waited,
            (unsigned long long)dibs_token(hold), previous);
    }
}

static int
tell_failed(struct taking *taking, dibs_error *err)
{
    const struct options *options = taking->options;
    bool busy = err->code == DIBS_EBUSY || err->code == DIBS_ETIMEDOUT;
    int code = err->code;
    if (busy && options->skip && !options->verbose && !options->json)
        return 0;
    if (busy && !options->quiet && !options->json)
        explain_failure(taking, err);
    return unless_busy(options, code, say_error(options, err));
}

/* the wait limit counts from before the client was opened; 1 ms at least is left */
static int64_t
wait_left(const struct taking *taking)
{
    int64_t wait_ms = taking->options->wait_ms;
    if (wait_ms <= 0)
        return wait_ms;
    int64_t left = wait_ms - (now_ms() - taking->options->started_ms);
    return left > 0 ? left : 1;
}

int
taking_get(struct taking *taking, struct signals *signals)
{
    const struct options *options = taking->options;
    dibs_error err = { 0 };
    int signal = 0, code = DIBS_EBUSY;
    bool may_wait = options->wait_ms != DIBS_WAIT_NONE;
    bool cheap = dibs_caps(taking->client) & DIBS_CAP_DIRECT;
    signals_block(signals);
    /* where asking may take a while, even asking once must not keep signals waiting */
    if (cheap)
        code = acquire(taking, DIBS_WAIT_NONE, &err);
    if (code == DIBS_EBUSY && (may_wait || !cheap))
        code = acquire_waiting(taking, signals, wait_left(taking), &signal, &err);
    if (!signal)
        signal = signals_pending_end(signals);
    if (signal) {
        if (code == DIBS_OK)
            (void)taking_release(taking, NULL);
        return EXIT_SIGNAL + signal;
    }
    err.code = code;
    if (code != DIBS_OK)
        return tell_failed(taking, &err);
    taking->granted_ms = now_ms();
    if (options->verbose || options->json)
        tell_granted(taking);
    return -1;
}

int
taking_held(const struct taking *taking)
{
    for (size_t i = 0; i < taking->count; i++) {
        if (!dibs_held(taking->holds[i]))
            return 0;
    }
    return 1;
}

int
taking_release(struct taking *taking, dibs_error *err)
{
    int first = DIBS_OK;
    for (size_t i = 0; i < taking->count; i++) {
        int code = dibs_unlock(taking->holds[i], first ? NULL : err);
        taking->holds[i] = NULL;
        if (!first)
            first = code;
    }
    return first;
}
