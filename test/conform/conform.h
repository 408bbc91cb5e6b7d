/* SPDX-License-Identifier: MIT */
/*
 * The conformance suite: what every engine must do, said once and without naming one.
 *
 * A case is a function in topic_*.c, `CASE(topic, name) { ... }`; the build finds it
 * there and runs it as conform/topic/name@fixture, in a process of its own. An engine
 * joins with a fixture, or several (fixture/), and one line for each in fixtures.def. What
 * an engine can do, its dibs_caps, changes what a case expects, never whether it runs.
 *
 * main.c runs a case and looks for what it left behind. peer.c is the other party of a
 * case: a process that does as it is told. tokens.c sees to it that tokens only rise,
 * over all that happens in a case. Read topic_exclusion.c to see how a case is written.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <dibs.h>

#include "harness.h"

/* ---- fixtures ---- */

/* How the suite gets an engine to test. `start` begins what is needed and writes the
 * URL; it may return EXIT_SKIPPED after printing why. `stop` ends it and removes its
 * files; it runs after failures too, so it must be safe in a signal handler. The rest
 * may be NULL: `count_things` counts the files, keys or rows that the engine keeps apart
 * from cells, which must be as many after a case as before, and `show_things` prints what
 * they are, for people; where there is a server,
 * `cut` ends the clients' sessions, `pause` and `resume` stop and continue it. */
typedef struct fixture {
    const char *name;
    const char *engine; /* what the engine calls itself */
    int one_process; /* other processes do not see its state: peers are clients in here */
    uint32_t lease_ms;   /* a lease that is short, but long enough to be renewed */
    uint32_t remains_ms; /* how long such a lease may outlive its holder; 0: lease_ms */
    int (*start)(char *url, size_t size);
    void (*stop)(void);
    int (*count_things)(void);
    void (*show_things)(void);
    void (*cut)(void);
    void (*pause)(void);
    void (*resume)(void);
} fixture;

/* ---- the stage of a case ---- */

/* A guard notices two in a section that is meant for one. */
typedef struct guard {
    _Atomic uint64_t inside;
    uint64_t count; /* plain on purpose: it comes out right only if the lock excludes */
} guard;

#define WORDS 64
#define TOKENS_MAX 65536

typedef struct token_entry {
    uint64_t name_hash, token;
    uint32_t mode;
    _Atomic uint32_t filled;
} token_entry;

/* Memory that the case and its peers share. */
typedef struct shared {
    guard guards[8];
    _Atomic int64_t words[WORDS]; /* for what a case needs */
    _Atomic uint32_t token_count;
    token_entry tokens[TOKENS_MAX];
} shared;

typedef struct stage {
    const fixture *fixture;
    char url[512];
    dibs *client; /* open while the case runs */
    uint32_t caps;
    uint32_t lease_ms; /* the fixture's, scaled */
    shared *shared;
    int shared_fd;
} stage_info;
extern stage_info stage;

int has(uint32_t cap);

/* open_client opens another client of the engine; fails the case if it cannot. */
dibs *open_client(void);

/* ---- cases and jobs ---- */

/* A case. A job is what a peer runs on its own; it gets the peer's client. */
#define CASE(topic, name)                                                                \
    void case_##topic##_##name(void);                                                    \
    void case_##topic##_##name(void)
#define JOB(name)                                                                        \
    int64_t job_##name(dibs *client, const int64_t *args);                               \
    int64_t job_##name(dibs *client, const int64_t *args)

/* ---- checks ---- */

/* Where the calls of the case put their errors. */
extern _Thread_local dibs_error oops;

void expect_code(const char *file, int line, const char *call, int got, int want);
#define GIVES(code, call) expect_code(__FILE__, __LINE__, #call, (call), (code))
#define OK(call) GIVES(DIBS_OK, call)

/* ---- taking locks ---- */

/* want returns a request for exclusive use of `name` that waits a long time, but not
 * for ever; try_for one that does not wait; brief_lease one with the fixture's short
 * lease. */
dibs_request want(const char *name);
dibs_request try_for(const char *name);
dibs_request brief_lease(const char *name);

/* acquire is dibs_acquire and notes the token. Not for re-entry: that has no new
 * token. take fails the case if it does not get the lock. give is dibs_unlock that
 * must work. */
int acquire(dibs_hold **out, dibs *client, const dibs_request *request);
dibs_hold *take(dibs *client, const dibs_request *request);
dibs_hold *take_name(dibs *client, const char *name);
void give(dibs_hold *hold);

/* is_free says whether somebody else than all before could take the name now, and
 * comes_free waits for that. */
int is_free(dibs *client, const char *name);
int comes_free(dibs *client, const char *name, int64_t limit_ms);

/* await_waiters waits until that many wait for the name, as far as the engine can
 * tell. */
void await_waiters(const char *name, size_t count);

/* await_word waits until a shared word is at least `value`. */
void await_word(int word, int64_t value);

/* readable polls a descriptor for at most that long. */
int readable(int fd, int64_t limit_ms);

/* guard_visit goes through a guarded section once. */
void guard_visit(guard *guard);

/* note_token writes a grant into the shared list; check_tokens looks at all of them. */
void note_token(const dibs_hold *hold, int mode);
void check_tokens(void);

/* ---- peers ---- */

#define PEER_SLOTS 8

/* What a peer answers. Which fields count depends on what it was asked. */
typedef struct answer {
    int code;
    int held, previous, told, lost_fd_ready;
    uint64_t token;
    int64_t remaining_ms, told_at_ns, value, at_ns;
    char text[256];
} answer;

/* A peer is a party with a client of its own: another process, or, where processes
 * cannot share the engine's state, another client and thread of this one. It has
 * PEER_SLOTS holds and does one thing at a time. _begin does not wait; peer_end waits
 * for the answer, and peer_is_done says whether it need not. */
typedef struct peer peer;
peer *peer_new(void);
int64_t peer_pid(const peer *peer);
void peer_acquire_begin(peer *peer, int slot, const dibs_request *request);
void peer_job_begin(peer *peer, const char *job, const int64_t *args, int count);
int peer_is_done(peer *peer, int64_t limit_ms);
answer peer_end(peer *peer);
answer peer_acquire(peer *peer, int slot, const dibs_request *request);
answer peer_take(peer *peer, const char *name);
int peer_release(peer *peer, int slot);
int peer_release_after(peer *peer, int slot, uint32_t delay_ms);
void peer_abandon(peer *peer, int slot);
answer peer_state(peer *peer, int slot);
int64_t peer_job(peer *peer, const char *job, const int64_t *args, int count);

/* peer_quit closes the peer's client and ends it. peer_kill ends it with no warning;
 * where it is no process, it stops waiting and leaves its holds to their leases. */
void peer_quit(peer *peer);
void peer_kill(peer *peer);

/* peer_pause stops the process as it is. Where it is no process, nothing can: such a
 * case takes its hold with DIBS_NO_RENEW, which is what a stopped keeper amounts to. */
void peer_pause(peer *peer);
void peer_resume(peer *peer);
uint32_t peer_pause_flags(void);

/* peer_main is the life of a peer that is a process of its own. */
int peer_main(int argc, char **argv);

/* death_limit_ms is how long after the death of a holder, or of a waiter in front, the
 * next one may have to wait. */
int64_t death_limit_ms(void);

/* ---- the tables the build makes, and the meta-tests ---- */

typedef struct test_case {
    const char *name; /* "topic/case" */
    void (*run)(void);
} test_case;
extern const test_case test_cases[];
const test_case *find_case(const char *name);

typedef struct job_entry {
    const char *name;
    int64_t (*run)(dibs *client, const int64_t *args);
} job_entry;
extern const job_entry job_entries[];

extern const fixture *const fixtures[];
const fixture *find_fixture(const char *name);

int meta_main(int argc, char **argv);

#endif /* CONFORM_H */
