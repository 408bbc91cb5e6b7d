/* SPDX-License-Identifier: MIT */
/* What the verbs share; see common.h. */
#include "common.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/duration.h"

#define OPEN_WAIT_MS 10000

int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t
wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int
client_open(dibs **out, const struct options *options, const char *app, dibs_error *err)
{
    dibs_options open_options = DIBS_OPTIONS_INIT;
    open_options.app = app;
    open_options.lease_ms = options->ttl_ms;
    if (options->wait_ms > 0 && options->wait_ms < OPEN_WAIT_MS)
        open_options.open_wait_ms = (uint32_t)options->wait_ms;
    int code = dibs_open(out, options->url, &open_options, err);
    /* to the library a time limit, to us a server that does not answer: not a busy lock */
    if (code == DIBS_ETIMEDOUT)
        code = DIBS_EUNAVAIL;
    if (err && code != DIBS_OK)
        err->code = code;
    if (code == DIBS_OK && options->verbose && *dibs_notice(*out))
        say(options, "%s", dibs_notice(*out));
    return code;
}

/* ---- saying things ---- */

void
say(const struct options *options, const char *format, ...)
{
    char text[NAME_PRINT_MAX + 1024];
    va_list args;
    if (options->quiet || options->json)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "dibs: %s\n", text);
}

/* what to do about it, where we know */
static const char *
advice(int code)
{
    switch (code) {
    case DIBS_EUNAVAIL:
        return " (is the server up, and is --url or DIBS_URL right?)";
    case DIBS_EMISMATCH:
        return " (dibs show says how it is in use)";
    case DIBS_ELOST:
        return " (somebody else may have it by now)";
    default:
        return "";
    }
}

int
say_error(const struct options *options, const dibs_error *err)
{
    const char *text = err->text[0] ? err->text : dibs_strerror(err->code);
    if (options->json && !options->quiet) {
        struct json json;
        event_begin(&json, "error");
        json_text(&json, "code", dibs_errname(err->code));
        json_text(&json, "text", text);
        event_end(&json);
    }
    say(options, "%s%s", text, advice(err->code));
    return dibs_exit_code(err->code);
}

int
say_out_of_memory(const struct options *options)
{
    dibs_error err = { .code = DIBS_ENOMEM };
    return say_error(options, &err);
}

void
event_begin(struct json *json, const char *event)
{
    json_begin(json);
    json_text(json, "event", event);
}

void
event_end(struct json *json)
{
    (void)json_end(json, stderr);
}

int
unless_busy(const struct options *options, int code, int exit_code)
{
    if (code != DIBS_EBUSY && code != DIBS_ETIMEDOUT)
        return exit_code;
    if (options->skip)
        return 0;
    return options->busy_exit >= 0 ? options->busy_exit : exit_code;
}

/* ---- describing locks ---- */

const char *
mode_name(int mode)
{
    return mode == DIBS_EXCLUSIVE ? "exclusive"
           : mode == DIBS_SHARED  ? "shared"
                                  : "permits";
}

const char *
name_print(char out[NAME_PRINT_MAX], const char *name, size_t len)
{
    (void)dibs_name_print(out, NAME_PRINT_MAX, name, len);
    return out;
}

void
party_print(char *out, size_t size, const dibs_party *party)
{
    char pid[32] = "", age[48] = "";
    if (party->pid > 0)
        snprintf(pid, sizeof pid, ", pid %lld", (long long)party->pid);
    if (party->since_ms > 0) {
        int64_t ms = wall_ms() - party->since_ms;
        snprintf(age, sizeof age, ", for ");
        dibs__duration_print(age + 6, sizeof age - 6, ms > 0 ? ms : 0);
    }
    snprintf(out, size, "%s%s%s%s%s", party->app[0] ? party->app : "somebody",
             party->host[0] ? " on " : "", party->host, pid, age);
}

void
holders_print(char *out, size_t size, const dibs_report *report)
{
    char who[512], more[32] = "";
    if (report->holder_count == 0) {
        snprintf(out, size, "not held");
        return;
    }
    party_print(who, sizeof who, &report->holders[0]);
    if (report->holder_count > 1)
        snprintf(more, sizeof more, " and %zu more", report->holder_count - 1);
    snprintf(out, size, "held by %s%s", who, more);
}

void
party_json(struct json *json, const dibs_party *party)
{
    json_text(json, "mode", mode_name(party->mode));
    json_uint(json, "permits", party->permits);
    if (party->token)
        json_uint(json, "token", party->token);
    json_text(json, "host", party->host);
    json_int(json, "pid", party->pid);
    json_text(json, "app", party->app);
    json_text(json, "note", party->note);
    json_int(json, "since_ms", party->since_ms);
    if (party->lease_left_ms >= 0)
        json_int(json, "lease_left_ms", party->lease_left_ms);
    else
        json_null(json, "lease_left_ms");
}

static void
parties_json(struct json *json, const char *key, const dibs_party *parties, size_t count)
{
    json_open(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, NULL, '{');
        party_json(json, &parties[i]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void
report_json(struct json *json, const dibs_report *report)
{
    json_bytes(json, "name", report->name, report->name_len);
    json_text(json, "mode", mode_name(report->mode));
    if (report->mode == DIBS_PERMITS)
        json_uint(json, "limit", report->limit);
    parties_json(json, "holders", report->holders, report->holder_count);
    parties_json(json, "waiters", report->waiters, report->waiter_count);
}
