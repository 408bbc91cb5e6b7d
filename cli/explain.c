/* SPDX-License-Identifier: MIT */
/* Explains a wait; see explain.h. */
#include "explain.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common.h"

#define FIRST_MS 50 /* what is over sooner needs no explanation */
#define EVERY_MS 1000

void
explainer_init(struct explainer *explainer, struct taking *taking)
{
    const struct options *options = taking->options;
    memset(explainer, 0, sizeof *explainer);
    explainer->taking = taking;
    explainer->wanted = (options->verbose || options->json) && !options->quiet;
    explainer->terminal = !options->json && isatty(STDERR_FILENO);
    explainer->next_ms = now_ms() + FIRST_MS;
}

void
explainer_done(struct explainer *explainer)
{
    if (explainer->wanted && explainer->terminal && explainer->last[0])
        fputs("\r\033[K", stderr);
}

int
explainer_timeout(const struct explainer *explainer)
{
    if (!explainer->wanted)
        return -1;
    int64_t left = explainer->next_ms - now_ms();
    return left > 0 ? (int)left : 0;
}

/* our own place among the waiters, from 1 on; 0: not there */
static size_t
own_place(const dibs_report *report)
{
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < report->waiter_count; i++) {
        const dibs_party *party = &report->waiters[i];
        if (party->pid == (int64_t)getpid() &&
            (!party->host[0] || strcmp(party->host, host) == 0))
            return i + 1;
    }
    return 0;
}

/* of several locks: the one we queue for, else the first that somebody holds */
static dibs_report *
blocking_report(struct taking *taking)
{
    dibs_report *best = NULL;
    for (size_t i = 0; i < taking->count; i++) {
        dibs_report *report = NULL;
        if (dibs_inspect(&report, taking->client, taking->wanted[i].request.name, NULL))
            continue;
        bool ours = own_place(report) > 0;
        if (ours || (!best && report->holder_count > 0)) {
            dibs_report_free(best);
            best = report;
        } else {
            dibs_report_free(report);
        }
        if (ours)
            break;
    }
    return best;
}

static const char *
ordinal_suffix(size_t number)
{
    size_t teens = number % 100;
    if (teens >= 11 && teens <= 13)
        return "th";
    switch (number % 10) {
    case 1:
        return "st";
    case 2:
        return "nd";
    case 3:
        return "rd";
    default:
        return "th";
    }
}

/* "waiting for 'x': 2nd of 3; held by backup on h1, pid 123, for 4m12s" */
static void
describe(char *out, size_t size, const dibs_report *report, size_t place)
{
    char name[NAME_PRINT_MAX], holders[600], queue[64] = "";
    holders_print(holders, sizeof holders, report);
    if (place)
        snprintf(queue, sizeof queue, ": %zu%s of %zu", place, ordinal_suffix(place),
                 report->waiter_count);
    snprintf(out, size, "waiting for '%s'%s; %s",
             name_print(name, report->name, report->name_len), queue, holders);
}

static void
tell_event(const dibs_report *report, size_t place)
{
    struct json json;
    event_begin(&json, "waiting");
    json_uint(&json, "place", place);
    report_json(&json, report);
    event_end(&json);
}

static void
tell_status_line(const char *text)
{
    struct winsize size;
    int columns = 80;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    fprintf(stderr, "\r\033[Kdibs: %.*s", columns > 8 ? columns - 7 : 1, text);
}

/* a short text that differs when the queue or its holder does */
static bool
changed(struct explainer *explainer, const dibs_report *report, size_t place)
{
    char now[sizeof explainer->last];
    const dibs_party *holder = report->holder_count ? report->holders : NULL;
    snprintf(now, sizeof now, "%zu/%zu %llu %lld %.100s", place, report->waiter_count,
             holder ? (unsigned long long)holder->token : 0,
             holder ? (long long)holder->pid : 0, holder ? holder->host : "");
    if (strcmp(now, explainer->last) == 0)
        return false;
    memcpy(explainer->last, now, sizeof now);
    return true;
}

void
explainer_tell(struct explainer *explainer)
{
    if (!explainer->wanted || now_ms() < explainer->next_ms)
        return;
    explainer->next_ms = now_ms() + EVERY_MS;
    dibs_report *report = blocking_report(explainer->taking);
    if (!report)
        return;
    char text[NAME_PRINT_MAX + 700];
    size_t place = own_place(report);
    bool news = changed(explainer, report, place);
    describe(text, sizeof text, report, place);
    if (explainer->terminal)
        tell_status_line(text);
    else if (news && explainer->taking->options->json)
        tell_event(report, place);
    else if (news)
        say(explainer->taking->options, "%s", text);
    dibs_report_free(report);
}

void
explain_failure(struct taking *taking, dibs_error *err)
{
    dibs_report *report = blocking_report(taking);
    size_t used = strlen(err->text);
    if (report && report->holder_count > 0 && used + 3 < sizeof err->text) {
        snprintf(err->text + used, sizeof err->text - used, "; ");
        holders_print(err->text + used + 2, sizeof err->text - used - 2, report);
    }
    dibs_report_free(report);
}
