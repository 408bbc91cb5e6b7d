/* SPDX-License-Identifier: MIT */
/* What the verbs share: opening a client, saying things on stderr, describing parties. */
#ifndef DIBS_CLI_COMMON_H
#define DIBS_CLI_COMMON_H

#include <dibs.h>
#include <stdbool.h>
#include <stdint.h>

#include "json.h"
#include "opt.h"

#define EXIT_LOST 79
#define EXIT_SIGNAL 128 /* plus the signal's number */

/* the lease of a client that was opened with none, as dibs.h says */
#define LEASE_DEFAULT_MS 30000

/* room for a name that dibs_name_print has escaped */
#define NAME_PRINT_MAX (4 * DIBS_NAME_MAX + 1)

/* client_open opens what --url, $DIBS_URL or the default names. `app` is what others see
 * in listings. Returns DIBS_OK or the code. */
int client_open(dibs **out, const struct options *options, const char *app,
                dibs_error *err);

/* now_ms is boot time: it counts suspend, as leases do. wall_ms is the wall clock, for
 * ages of what others have written. */
int64_t now_ms(void);
int64_t wall_ms(void);

/* say prints "dibs: ..." on stderr, unless --quiet or --json. say_error reports a failure,
 * as text or as an event, and returns the exit code that goes with it. say_out_of_memory
 * does so for an allocation. */
void say(const struct options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int say_error(const struct options *options, const dibs_error *err);
int say_out_of_memory(const struct options *options);

/* event_begin starts an event for --json ({"event":"granted",...); event_end writes it to
 * stderr. */
void event_begin(struct json *json, const char *event);
void event_end(struct json *json);

/* party_print writes "backup on h1, pid 123, for 4m12s". party_json adds the members of a
 * party to an object. mode_name is "exclusive", "shared" or "permits". */
void party_print(char *out, size_t size, const dibs_party *party);
void party_json(struct json *json, const dibs_party *party);
const char *mode_name(int mode);

/* report_json adds a lock's name, mode, holders and waiters to an object. */
void report_json(struct json *json, const dibs_report *report);

/* holders_print writes "held by PARTY" (", and 2 more"), or "not held". */
void holders_print(char *out, size_t size, const dibs_report *report);

/* name_print returns the name escaped for people, in `out`. */
const char *name_print(char out[NAME_PRINT_MAX], const char *name, size_t len);

/* unless_busy turns the exit code of busy and timed out into what -E and --skip say. */
int unless_busy(const struct options *options, int code, int exit_code);

#endif /* DIBS_CLI_COMMON_H */
