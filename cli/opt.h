/* SPDX-License-Identifier: MIT */
/*
 * The options of all verbs: the one table that --help, the manual page, the completion and
 * the parser are fed from (verbs.c), what a command line amounts to (struct options), and
 * the parser (opt.c).
 */
#ifndef DIBS_CLI_OPT_H
#define DIBS_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum opt_id {
    OPT_NONBLOCK,
    OPT_WAIT,
    OPT_EXCLUSIVE,
    OPT_SHARED,
    OPT_SLOTS,
    OPT_BUSY_EXIT,
    OPT_SKIP,
    OPT_COMMAND,
    OPT_TTL,
    OPT_MAX_HOLD,
    OPT_AT_LEAST,
    OPT_ON_LOST,
    OPT_KILL_AFTER,
    OPT_NOTE,
    OPT_OBSERVE,
    OPT_VALUE,
    OPT_IF_VERSION,
    OPT_REASON,
    OPT_YES,
    OPT_TIME,
    OPT_CLIENTS,
    OPT_THREADS,
    OPT_NAMES,
    OPT_SEED,
    OPT_URL,
    OPT_JSON,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_COUNT
};

/* One option, as people see it. */
struct opt_spec {
    char letter;         /* 0: none */
    char alias;          /* a second letter, for the habits of other tools; 0: none */
    const char *name;    /* without "--" */
    const char *arg;     /* what its argument is called; NULL: it takes none */
    const char *choices; /* the words it takes, separated by spaces; NULL: any */
    const char *text;
};
extern const struct opt_spec opt_specs[OPT_COUNT];

/* What the words behind the options are; for the completion. */
enum operand { OPERAND_NONE, OPERAND_LOCK, OPERAND_LOCK_THEN_COMMAND, OPERAND_CELL };

struct verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
    const char *usage;                 /* what follows "dibs NAME " */
    const char *summary;               /* a few words, for the list of verbs */
    const char *text;                  /* a paragraph or more */
    const char *example;
    uint32_t options; /* OPT_BIT of each that it takes */
    enum operand operand;
};
#define OPT_BIT(id) (1u << (id))
extern const struct verb verbs[];
extern const size_t verb_count;
const struct verb *verb_find(const char *name);

/* What the command exits with and which variables it reads, for help and manual. */
struct fact {
    const char *term, *text;
};
extern const struct fact exit_facts[];
extern const size_t exit_fact_count;
extern const struct fact environment_facts[];
extern const size_t environment_fact_count;

enum on_lost { ON_LOST_TERM, ON_LOST_KILL, ON_LOST_IGNORE };

/* A command line, with the environment's defaults filled in. */
struct options {
    const struct verb *verb;
    int64_t started_ms; /* boot time: waits count from here */
    int64_t wait_ms;    /* as in dibs_request: DIBS_WAIT_FOREVER, DIBS_WAIT_NONE or > 0 */
    int mode;           /* enum dibs_mode */
    uint32_t slots;
    int busy_exit; /* -1: what dibs_exit_code says */
    bool skip;
    const char *command;
    uint32_t ttl_ms; /* 0: the library's default */
    uint32_t max_hold_ms;
    uint32_t at_least_ms;
    enum on_lost on_lost;
    uint32_t kill_after_ms;
    const char *note;
    bool observe;
    bool election; /* the locks are leaderships */
    bool has_if_version;
    uint64_t if_version;
    const char *reason;
    bool yes;
    uint32_t time_ms; /* of dibs torture; 0: as usual, and so are the next three */
    uint32_t clients, threads, names;
    bool has_seed;
    uint64_t seed;
    const char *url;
    bool json, quiet, verbose;
};

/* opt_parse reads the options of a verb, up to the first word that is none or past "--",
 * and sets *first to the index of what follows. Returns -1 to go on, or the exit code with
 * which to end: 0 after --help, 64 for a mistake, 78 for one in the environment; what is
 * wrong has been said then. */
int opt_parse(struct options *out, int *first, int argc, char **argv);

/* opt_usage_error says what is wrong with a command line, and returns 64. */
int opt_usage_error(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* opt_operands checks that min to max words are left; -1, or 64 when it has complained. */
int opt_operands(const struct verb *verb, int left, int min, int max);

/* opt_parse_name is opt_parse for a verb with one operand, stored in *name. */
int opt_parse_name(struct options *options, const char **name, int argc, char **argv);

#endif /* DIBS_CLI_OPT_H */
