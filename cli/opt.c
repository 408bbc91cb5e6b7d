/* SPDX-License-Identifier: MIT */
/*
 * Reads a command line by the table of verbs.c. Not getopt: options end at the first word
 * that is none, so that those of CMD are never ours, and the table is the only list.
 */
#include "opt.h"

#include <dibs.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "help.h"
#include "torture.h"
#include "util/duration.h"

#define EXIT_USAGE 64
#define EXIT_CONFIG 78
#define KILL_AFTER_DEFAULT_MS 5000

int
opt_usage_error(const struct verb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("dibs: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    if (verb)
        fprintf(stderr, "\nusage: dibs %s %s\n", verb->name, verb->usage);
    else
        fputs(" (dibs --help lists what there is)\n", stderr);
    return EXIT_USAGE;
}

int
opt_operands(const struct verb *verb, int left, int min, int max)
{
    if (left < min)
        return opt_usage_error(verb, "something is missing");
    if (left > max)
        return opt_usage_error(verb, "that is one word too many");
    return -1;
}

static int
parse_number(uint64_t *out, const char *text, uint64_t max)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value > max)
        return -1;
    *out = value;
    return 0;
}

/* a duration that must fit a request's 32 bits, and mean something */
static int
parse_ms(uint32_t *out, const char *text, bool zero_too)
{
    int64_t ms;
    if (dibs__duration_parse(&ms, text) || ms > UINT32_MAX || (ms == 0 && !zero_too))
        return -1;
    *out = (uint32_t)ms;
    return 0;
}

static int
parse_wait(int64_t *out, const char *text)
{
    int64_t ms;
    if (dibs__duration_parse(&ms, text))
        return -1;
    *out = ms == 0 ? DIBS_WAIT_NONE : ms;
    return 0;
}

/* which of the choices it is, or -1 */
static int
choice_index(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int index = 0;
    for (const char *at = choices; *at; index++) {
        size_t word = strcspn(at, " ");
        if (word == len && strncmp(at, text, len) == 0)
            return index;
        at += word + (at[word] == ' ');
    }
    return -1;
}

/* a number of things, of which there is one at least */
static int
parse_count(uint32_t *out, const char *arg, uint32_t max)
{
    uint64_t number = 0;
    if (parse_number(&number, arg, max) || number == 0)
        return -1;
    *out = (uint32_t)number;
    return 0;
}

static int
set_slots(struct options *out, const char *arg)
{
    out->mode = DIBS_PERMITS;
    return parse_count(&out->slots, arg, UINT32_MAX);
}

static int
set_busy_exit(struct options *out, const char *arg)
{
    uint64_t number = 0;
    if (parse_number(&number, arg, 255))
        return -1;
    out->busy_exit = (int)number;
    return 0;
}

static int
set_on_lost(struct options *out, const char *arg)
{
    int index = choice_index(opt_specs[OPT_ON_LOST].choices, arg);
    if (index < 0)
        return -1;
    out->on_lost = (enum on_lost)index;
    return 0;
}

/* options with an argument; returns -1 if the argument will not do */
static int
set_value(struct options *out, enum opt_id id, const char *arg)
{
    switch (id) {
    case OPT_WAIT:
        return parse_wait(&out->wait_ms, arg);
    case OPT_SLOTS:
        return set_slots(out, arg);
    case OPT_BUSY_EXIT:
        return set_busy_exit(out, arg);
    case OPT_TTL:
        return parse_ms(&out->ttl_ms, arg, false);
    case OPT_MAX_HOLD:
        return parse_ms(&out->max_hold_ms, arg, false);
    case OPT_AT_LEAST:
        return parse_ms(&out->at_least_ms, arg, true);
    case OPT_ON_LOST:
        return set_on_lost(out, arg);
    case OPT_KILL_AFTER:
        return parse_ms(&out->kill_after_ms, arg, true);
    case OPT_IF_VERSION:
        out->has_if_version = true;
        return parse_number(&out->if_version, arg, UINT64_MAX);
    case OPT_TIME:
        return parse_ms(&out->time_ms, arg, false);
    case OPT_CLIENTS:
        return parse_count(&out->clients, arg, TORTURE_CLIENTS);
    case OPT_THREADS:
        return parse_count(&out->threads, arg, TORTURE_THREADS);
    case OPT_NAMES:
        return parse_count(&out->names, arg, HISTORY_NAMES);
    case OPT_SEED:
        out->has_seed = true;
        return parse_number(&out->seed, arg, UINT64_MAX);
    case OPT_COMMAND:
        out->command = arg;
        return 0;
    case OPT_NOTE:
    case OPT_VALUE:
        out->note = arg;
        return 0;
    case OPT_REASON:
        out->reason = arg;
        return 0;
    case OPT_URL:
        out->url = arg;
        return 0;
    default:
        return -1;
    }
}

static void
set_flag(struct options *out, enum opt_id id)
{
    switch (id) {
    case OPT_NONBLOCK:
        out->wait_ms = DIBS_WAIT_NONE;
        break;
    case OPT_EXCLUSIVE:
        out->mode = DIBS_EXCLUSIVE;
        break;
    case OPT_SHARED:
        out->mode = DIBS_SHARED;
        break;
    case OPT_SKIP:
        out->skip = true;
        break;
    case OPT_OBSERVE:
        out->observe = true;
        break;
    case OPT_YES:
        out->yes = true;
        break;
    case OPT_JSON:
        out->json = true;
        break;
    case OPT_QUIET:
        out->quiet = true;
        break;
    case OPT_VERBOSE:
        out->verbose = true;
        break;
    default:
        break;
    }
}

static int
apply_environment(struct options *out)
{
    const char *ttl = getenv("DIBS_TTL"), *wait = getenv("DIBS_WAIT");
    if (ttl && *ttl && parse_ms(&out->ttl_ms, ttl, false)) {
        fprintf(stderr, "dibs: DIBS_TTL is not a duration: '%s'\n", ttl);
        return EXIT_CONFIG;
    }
    if (wait && *wait && parse_wait(&out->wait_ms, wait)) {
        fprintf(stderr, "dibs: DIBS_WAIT is not a duration: '%s'\n", wait);
        return EXIT_CONFIG;
    }
    return -1;
}

static int
find_letter(const struct verb *verb, char letter)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        const struct opt_spec *spec = &opt_specs[id];
        if ((verb->options & OPT_BIT(id)) &&
            (spec->letter == letter || (spec->alias && spec->alias == letter)))
            return id;
    }
    return -1;
}

static int
find_long(const struct verb *verb, const char *name, size_t len)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        const char *known = opt_specs[id].name;
        if ((verb->options & OPT_BIT(id)) && strncmp(known, name, len) == 0 &&
            !known[len])
            return id;
    }
    return -1;
}

/* Where the parser stands. */
struct cursor {
    struct options *out;
    int argc, at;
    char **argv;
};

static int
take(struct cursor *cursor, int id, const char *shown, const char *arg)
{
    const struct verb *verb = cursor->out->verb;
    const struct opt_spec *spec = &opt_specs[id];
    if (id == OPT_HELP) {
        help_verb(stdout, verb);
        return 0;
    }
    if (!spec->arg) {
        set_flag(cursor->out, (enum opt_id)id);
        return -1;
    }
    if (!arg && cursor->at >= cursor->argc)
        return opt_usage_error(verb, "%s needs %s", shown, spec->arg);
    if (!arg)
        arg = cursor->argv[cursor->at++];
    if (set_value(cursor->out, (enum opt_id)id, arg))
        return opt_usage_error(verb, "'%s' will not do for %s %s", arg, shown, spec->arg);
    return -1;
}

static int
take_long(struct cursor *cursor, const char *word)
{
    const struct verb *verb = cursor->out->verb;
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    char shown[64];
    snprintf(shown, sizeof shown, "--%.*s", (int)(len < 48 ? len : 48), word);
    int id = find_long(verb, word, len);
    if (id < 0)
        return opt_usage_error(verb, "there is no option %s", shown);
    if (equals && !opt_specs[id].arg)
        return opt_usage_error(verb, "%s takes no argument", shown);
    return take(cursor, id, shown, equals ? equals + 1 : NULL);
}

/* "-nv" is -n -v, "-w5" is -w 5 */
static int
take_letters(struct cursor *cursor, const char *letters)
{
    int end = -1;
    while (*letters && end < 0) {
        char shown[3] = { '-', *letters, 0 };
        int id = find_letter(cursor->out->verb, *letters++);
        if (id < 0)
            return opt_usage_error(cursor->out->verb, "there is no option %s", shown);
        bool attached = opt_specs[id].arg && *letters;
        end = take(cursor, id, shown, attached ? letters : NULL);
        if (attached)
            break;
    }
    return end;
}

int
opt_parse(struct options *out, int *first, int argc, char **argv)
{
    memset(out, 0, sizeof *out);
    out->verb = verb_find(argv[0]);
    out->started_ms = now_ms();
    out->busy_exit = -1;
    out->kill_after_ms = KILL_AFTER_DEFAULT_MS;
    struct cursor cursor = { out, argc, 1, argv };
    int end = apply_environment(out);
    while (end < 0 && cursor.at < argc) {
        const char *word = argv[cursor.at];
        if (word[0] != '-' || !word[1])
            break;
        cursor.at++;
        if (strcmp(word, "--") == 0)
            break;
        end = word[1] == '-' ? take_long(&cursor, word + 2)
                             : take_letters(&cursor, word + 1);
    }
    *first = cursor.at;
    return end;
}

int
opt_parse_name(struct options *options, const char **name, int argc, char **argv)
{
    int first = 0, end = opt_parse(options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options->verb, argc - first, 1, 1);
    if (end < 0)
        *name = argv[first];
    return end;
}
