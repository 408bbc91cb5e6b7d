/* SPDX-License-Identifier: MIT */
/*
 * The one table of verbs and options. The parser (opt.c), --help (help.c), the manual page
 * (manual.c) and the completion (complete.c) all read it, so they cannot disagree.
 */
#include <string.h>

#include "cmd.h"
#include "opt.h"

const struct opt_spec opt_specs[OPT_COUNT] = {
    [OPT_NONBLOCK] = { 'n', 0, "nonblock", NULL, NULL,
                       "Do not wait: if it is not free at once, exit 75." },
    [OPT_WAIT] = { 'w', 't', "wait", "DUR", NULL,
                   "Wait no longer than this, connecting included, then exit 75. A plain "
                   "number is seconds; 250ms, 1m30s, 2h and 1d work too; 0 is "
                   "--nonblock. "
                   "Default: for ever." },
    [OPT_EXCLUSIVE] = { 'x', 0, "exclusive", NULL, NULL,
                        "Let nobody else in. This is the default." },
    [OPT_SHARED] = { 's', 0, "shared", NULL, NULL,
                     "Share it with others who say --shared; exclude the rest." },
    [OPT_SLOTS] = { 'j', 0, "slots", "N", NULL,
                    "Let at most N in at a time. All users of the name must say the same "
                    "N." },
    [OPT_BUSY_EXIT] = { 'E', 0, "conflict-exit-code", "CODE", NULL,
                        "Exit with this code instead of 75 when it was busy or the wait "
                        "timed out." },
    [OPT_SKIP] = { 0, 0, "skip", NULL, NULL,
                   "Busy or timed out is fine: exit 0 without running CMD." },
    [OPT_COMMAND] = { 'c', 0, "command", "STRING", NULL,
                      "Run STRING with sh -c, instead of CMD." },
    [OPT_TTL] = { 0, 0, "ttl", "DUR", NULL,
                  "The lease: how long others are kept out if this machine dies. It is "
                  "renewed as long as dibs lives. Default: 30s. Has no meaning on "
                  "local:, "
                  "which knows when a process has ended." },
    [OPT_MAX_HOLD] = { 0, 0, "max-hold", "DUR", NULL,
                       "Give it up as lost after this long, however alive." },
    [OPT_AT_LEAST] = { 0, 0, "at-least", "DUR", NULL,
                       "Keep others out for this long from when it was granted, also "
                       "after "
                       "CMD has ended: once per period across the fleet." },
    [OPT_ON_LOST] = { 0, 0, "on-lost", "WHAT", "term kill ignore",
                      "When the lock is lost while CMD runs: term (the default) sends "
                      "SIGTERM, and SIGKILL after --kill-after; kill sends SIGKILL at "
                      "once; both exit 79. ignore says so and lets CMD go on." },
    [OPT_KILL_AFTER] = { 'k', 0, "kill-after", "DUR", NULL,
                         "How long after SIGTERM to send SIGKILL. Default: 5s. After a "
                         "loss "
                         "it is cut short, so that CMD is gone before the lease can "
                         "end; if that was slept through, SIGKILL comes at once." },
    [OPT_NOTE] = { 0, 0, "note", "TEXT", NULL,
                   "What others see in dibs ls and dibs show." },
    [OPT_OBSERVE] = { 0, 0, "observe", NULL, NULL,
                      "Do not stand for election: print who leads, now and after every "
                      "change." },
    [OPT_VALUE] = { 0, 0, "value", "TEXT", NULL,
                    "What observers are told of this leader." },
    [OPT_IF_VERSION] = { 0, 0, "if-version", "N", NULL,
                         "Store it only if the cell is still at version N (0: if there "
                         "is "
                         "no such cell), else exit 75." },
    [OPT_REASON] = { 0, 0, "reason", "TEXT", NULL, "Why; for the trace." },
    [OPT_YES] = { 'y', 0, "yes", NULL, NULL, "Do not ask." },
    [OPT_TIME] = { 0, 0, "time", "DUR", NULL, "How long. Default: 20s." },
    [OPT_CLIENTS] = { 0, 0, "clients", "N", NULL, "How many processes. Default: 4." },
    [OPT_THREADS] = { 0, 0, "threads", "N", NULL,
                      "How many threads in each of them. Default: 4." },
    [OPT_NAMES] = { 0, 0, "names", "N", NULL,
                    "How many locks they use: in turn an exclusive one, one that is also "
                    "shared, a semaphore. Default: 6." },
    [OPT_SEED] = { 0, 0, "seed", "N", NULL,
                   "What is done and when follows from this number; the same one does "
                   "the "
                   "same again. Default: another one each time." },
    [OPT_URL] = { 0, 0, "url", "URL", NULL,
                  "Where locks are kept. Default: $DIBS_URL, else local:." },
    [OPT_JSON] = { 0, 0, "json", NULL, NULL,
                   "Print JSON. Where stdout belongs to CMD: events, as JSON lines on "
                   "stderr." },
    [OPT_QUIET] = { 'q', 0, "quiet", NULL, NULL,
                    "Say nothing of our own, not even why it failed." },
    [OPT_VERBOSE] = { 'v', 0, "verbose", NULL, NULL,
                      "Explain on stderr: whom we wait for, what was granted." },
    [OPT_HELP] = { 'h', 0, "help", NULL, NULL, "Show this help." },
};

#define COMMON                                                                           \
    (OPT_BIT(OPT_URL) | OPT_BIT(OPT_JSON) | OPT_BIT(OPT_QUIET) | OPT_BIT(OPT_VERBOSE) |  \
     OPT_BIT(OPT_HELP))
#define TAKING                                                                           \
    (OPT_BIT(OPT_NONBLOCK) | OPT_BIT(OPT_WAIT) | OPT_BIT(OPT_BUSY_EXIT) |                \
     OPT_BIT(OPT_TTL) | OPT_BIT(OPT_MAX_HOLD))
#define MODES (OPT_BIT(OPT_EXCLUSIVE) | OPT_BIT(OPT_SHARED) | OPT_BIT(OPT_SLOTS))
#define RUNNING                                                                          \
    (OPT_BIT(OPT_SKIP) | OPT_BIT(OPT_COMMAND) | OPT_BIT(OPT_ON_LOST) |                   \
     OPT_BIT(OPT_KILL_AFTER))
#define TORTURE                                                                          \
    (OPT_BIT(OPT_TIME) | OPT_BIT(OPT_CLIENTS) | OPT_BIT(OPT_THREADS) |                   \
     OPT_BIT(OPT_NAMES) | OPT_BIT(OPT_TTL) | OPT_BIT(OPT_SEED))

const struct verb verbs[] = {
    { "run", cmd_run, "[OPTION...] NAME... [--] CMD [ARG...]", "hold NAME while CMD runs",
      "Runs CMD while holding the lock NAME, and exits as CMD does. With several NAMEs "
      "(then the -- is needed, and the first -- ends them) all are taken, or none. CMD "
      "has "
      "stdin, stdout, the terminal and job control to itself; signals are passed on to "
      "it; "
      "it runs in a process group of its own, and the lock is given back only when that "
      "whole group is gone: what CMD leaves behind in it is ended. CMD finds DIBS_NAME, "
      "DIBS_TOKEN (the fencing token), DIBS_PREVIOUS (how the hold before ended: clean, "
      "expired, broken or unknown) and DIBS_LOST_FD (a descriptor that becomes readable "
      "when the lock is lost) in its environment; with several NAMEs, one line for each. "
      "A "
      "dibs run of the same NAME inside CMD re-enters instead of waiting for itself.",
      "dibs run -w 10m nightly -- backup --all\n"
      "dibs run --skip --at-least 14m report ./quarterly\n"
      "dibs run -j 4 --url redis://cache1 encode -c 'ffmpeg -i in.mov out.mp4'",
      TAKING | MODES | RUNNING | OPT_BIT(OPT_AT_LEAST) | OPT_BIT(OPT_NOTE) | COMMON,
      OPERAND_LOCK_THEN_COMMAND },
    { "hold", cmd_hold, "[OPTION...] NAME", "hold NAME until end of input or a signal",
      "Takes the lock, prints one line of JSON on stdout (name, token, previous and "
      "lease_ms, which is null where a hold lasts as long as its process) and keeps it "
      "until stdin ends or a signal comes; both are a clean end. For programs that can "
      "start a process but cannot link the library.",
      "dibs hold -w 5 deploy", TAKING | MODES | OPT_BIT(OPT_NOTE) | COMMON,
      OPERAND_LOCK },
    { "try", cmd_try, "[OPTION...] NAME", "is NAME free?",
      "Exits 0 if NAME could be had at once and 75 if not, and says who has it. It takes "
      "nothing, so the answer may be out of date when you read it: to use the lock, dibs "
      "run -n.",
      "dibs try deploy && echo free", MODES | OPT_BIT(OPT_BUSY_EXIT) | COMMON,
      OPERAND_LOCK },
    { "wait", cmd_wait, "[OPTION...] NAME", "wait until nobody holds NAME",
      "Waits until nobody holds NAME, without taking it.", "dibs wait -w 1h migration",
      OPT_BIT(OPT_NONBLOCK) | OPT_BIT(OPT_WAIT) | OPT_BIT(OPT_BUSY_EXIT) | COMMON,
      OPERAND_LOCK },
    { "elect", cmd_elect, "[OPTION...] NAME [--] [CMD [ARG...]]",
      "lead NAME, or see who does",
      "Waits until this process leads NAME and then runs CMD, as dibs run does; without "
      "CMD it leads until end of input or a signal, as dibs hold does. With --observe it "
      "prints one line for the present leader and one after each change.",
      "dibs elect --value \"$(hostname)\" scheduler -- ./scheduler\n"
      "dibs elect --observe --json scheduler",
      TAKING | RUNNING | OPT_BIT(OPT_OBSERVE) | OPT_BIT(OPT_VALUE) | COMMON,
      OPERAND_LOCK_THEN_COMMAND },
    { "cell", cmd_cell, "get|set [OPTION...] NAME [VALUE|-]", "read or set a small value",
      "A cell is a value of at most 4096 bytes with a version. get prints the value "
      "(with "
      "--json, or -v, the version too) and exits 66 if there is none. set stores VALUE, "
      "or "
      "what stdin holds if VALUE is -, and prints the new version; with --if-version it "
      "does so only if nobody changed the cell since it was read at that version.",
      "dibs cell set stock/42 17\n"
      "dibs cell get --json stock/42\n"
      "dibs cell set --if-version 1 stock/42 16",
      OPT_BIT(OPT_IF_VERSION) | COMMON, OPERAND_CELL },
    { "fence", cmd_fence, "[OPTION...] RESOURCE TOKEN", "admit or refuse a fencing token",
      "Exits 0 if TOKEN is not older than the newest seen for RESOURCE, and remembers "
      "it; "
      "exits 79 if it is older: then somebody else has had the lock since, and the "
      "caller "
      "must not touch RESOURCE any more.",
      "dibs fence ledger \"$DIBS_TOKEN\" && post-entries", COMMON, OPERAND_NONE },
    { "ls", cmd_ls, "[OPTION...] [GLOB]", "list the locks in use",
      "Lists the locks that somebody holds or waits for, all or those whose names match "
      "GLOB. With --json: one object per line.",
      "dibs ls 'deploy/*'", COMMON, OPERAND_LOCK },
    { "show", cmd_show, "[OPTION...] NAME", "who holds NAME and who waits",
      "Shows the holders and then the queue, in the order in which it will be served.",
      "dibs show deploy", COMMON, OPERAND_LOCK },
    { "break", cmd_break, "[OPTION...] NAME", "take NAME away from its holders",
      "Ends all holds of NAME by force. The holders are told that they have lost it; the "
      "next one to get it is told that it was broken, and has a larger token. Asks on a "
      "terminal, and needs --yes elsewhere.",
      "dibs break --reason 'host h1 is gone' deploy",
      OPT_BIT(OPT_REASON) | OPT_BIT(OPT_YES) | COMMON, OPERAND_LOCK },
    { "bench", cmd_bench, "[OPTION...] [URL]", "how fast is an engine here",
      "Measures what locks on an engine cost from here, as multiples of the engine's own "
      "round trip. Takes a few seconds and leaves nothing behind.",
      "dibs bench local:", COMMON & ~OPT_BIT(OPT_VERBOSE), OPERAND_NONE },
    { "torture", cmd_torture, "[OPTION...] [URL]",
      "does an engine keep its promises here",
      "Several processes use a few locks of an engine, while they are killed with "
      "SIGKILL "
      "and stand still, by SIGSTOP and, where a cgroup can be made, frozen without a "
      "signal, for shorter and for longer than the lease (--ttl, 2s "
      "here unless said otherwise). What each of them saw is then checked: whether two "
      "ever believed to have what only one can have, tokens rose, losses were told, "
      "waiters were served in order and in time, nothing was left behind. Only its own "
      "processes are hurt, and only names that begin with dibs-torture/ are used. Exits "
      "0 if all was well, and 70 if a promise was broken.",
      "dibs torture --time 1m redis://cache1", TORTURE | (COMMON & ~OPT_BIT(OPT_VERBOSE)),
      OPERAND_NONE },
    { "engines", cmd_engines, "[OPTION...]", "which engines are there",
      "Lists the engines that dibs knows: which are built in, which are installed as "
      "modules, and where modules are looked for.",
      "dibs engines", OPT_BIT(OPT_JSON) | OPT_BIT(OPT_HELP), OPERAND_NONE },
    { "schema", cmd_schema, "[OPTION...] [URL]", "the tables that an engine makes",
      "Prints the SQL that makes the tables of an engine on a database, in the layout "
      "that "
      "the URL names. dibs makes them by itself where it may; this is for databases "
      "where "
      "somebody else does, and for a look at them before. It connects to nothing.",
      "dibs schema postgres: | psql inventory",
      OPT_BIT(OPT_URL) | OPT_BIT(OPT_JSON) | OPT_BIT(OPT_QUIET) | OPT_BIT(OPT_HELP),
      OPERAND_NONE },
};
const size_t verb_count = sizeof verbs / sizeof *verbs;

const struct fact exit_facts[] = {
    { "64", "usage error" },
    { "66", "there is no such cell" },
    { "69", "the engine cannot be reached" },
    { "70", "not held, would deadlock, or the engine's data is damaged; dibs torture: a "
            "promise was broken" },
    { "71", "out of memory or another resource" },
    { "75", "busy or timed out, or somebody changed the cell (see -E and --skip)" },
    { "77", "permission denied" },
    { "78", "configuration error, or the engine cannot do this" },
    { "79", "the lock was lost while CMD ran; a token that is too old" },
    { "126", "CMD cannot be executed" },
    { "127", "CMD was not found" },
    { "128+n",
      "CMD died by signal n; or signal n came while waiting (130: INT, 143: TERM) "
      "and nothing was run" },
};
const size_t exit_fact_count = sizeof exit_facts / sizeof *exit_facts;

const struct fact environment_facts[] = {
    { "DIBS_URL", "where locks are kept; --url wins" },
    { "DIBS_TTL", "the lease; --ttl wins" },
    { "DIBS_WAIT", "how long to wait; --wait and --nonblock win" },
    { "DIBS_PASSWORD_FILE", "a file with the password for a URL that has none" },
    { "DIBS_ENGINE_DIR", "where engine modules are, if not where they were installed" },
};
const size_t environment_fact_count =
    sizeof environment_facts / sizeof *environment_facts;

const struct verb *
verb_find(const char *name)
{
    for (size_t i = 0; i < verb_count; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}
