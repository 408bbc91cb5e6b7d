/* SPDX-License-Identifier: MIT */
/*
 * A simulator for core: the real core, a real engine (mock), but threads are coroutines,
 * time is a variable and every choice comes from one seed. So a run of a minute takes a
 * millisecond, holds any number of deaths, pauses and lost messages, and a failing one
 * can be run again, exactly.
 *
 * Its parts, in reading order:
 *   sim_fiber.c   the machine: fibers, virtual clocks, processes
 *   sim_sys.c     core/sys.h on top of it: mutexes, bells, threads
 *   sim_mem.c     core/mem.h once more
 *   sim_engine.c  the engine sim: = mock behind a bad network, and most of the mutants
 *   sim_load.c    the simulated processes, and what befalls them
 *   sim_lock.c    what they do with locks
 *   sim_check.c   the history, and the rules on what the processes see
 *   sim_server.c  the rules on what the server does
 *   sim_main.c    the command: seeds, mutants, traces
 */
#ifndef DIBS_SIM_H
#define DIBS_SIM_H

#include <dibs.h>
#include <dibs/engine.h>

#define SIM_PROCESSES 8 /* 0 is the world: main, and the server */
#define SIM_NAMES 4
#define SIM_LIMIT 3              /* permits of a semaphore */
#define LATE_MAX (100 * DIBS_MS) /* how late a lost request may arrive after all */
#define LEASE_MIN_MS 50
#define LEASE_MAX_MS 500

/* ---- the run: what the seed decided, and what is broken on purpose ---- */

enum sim_rule { K1 = 1, K2, K3, K4, K5, K6, K7, K8, K9, K10, K11, K_COUNT };

struct sim_run {
    uint64_t seed;
    int mutant; /* a rule, or 0: break nothing */
    int trace;
    int verbose;
};
extern struct sim_run sim_run;

/* ---- sim_fiber.c, and from sim_sys.c the reset and the descriptors ---- */

/* One stream of random numbers for each purpose, so that a change in one part of a run
 * leaves the others alone. */
enum sim_stream {
    STREAM_SCHEDULE,
    STREAM_NETWORK,
    STREAM_LOAD,
    STREAM_CORE,
    STREAM_COUNT
};
uint64_t sim_random(enum sim_stream stream);
int64_t sim_between(enum sim_stream stream, int64_t low, int64_t high);
int sim_chance(enum sim_stream stream, int percent);

void sim_sys_reset(uint64_t seed);
dibs_time sim_now(void); /* true time, which is the server's too */

/* A process is a number; its fibers die and pause together. */
void sim_spawn(int process, void (*run)(void *), void *arg);
int sim_process(void); /* of the running fiber */
void sim_kill(int process);
int sim_is_dead(int process);
void sim_pause(int process, dibs_time until);
int sim_was_paused(int process, dibs_time since); /* at any time since then? */
void sim_set_clock_rate(int process, int ppm);
void sim_turn_clock_back(int process, dibs_time by); /* for mutants */
size_t sim_live_fibers(int process);
int sim_descriptors_left(void);

/* The world waits for all fibers of all processes to end: 1, or 0 if they never will (or
 * not by `deadline`). */
int sim_wait_for_all(dibs_time deadline);
void sim_sleep(dibs_time how_long); /* of true time */
/* When a fiber first slept on a bell since it called sim_watch_sleep; DIBS_NEVER: not
 * yet. */
void sim_watch_sleep(void);
dibs_time sim_first_slept(uint64_t fiber);
uint64_t sim_fiber(void); /* the number of the running one */

/* Between enter and leave nothing else runs and clocks show true time: the server's own
 * steps, and the checker's. As `process`, clocks show what that process would see. */
void sim_enter(int as_process);
void sim_leave(void);

/* ---- sim_engine.c ---- */

#define SIM_SERVER 0
struct sim_network {
    dibs_time delay_max; /* of each message */
    int drop_percent;    /* of requests, and of replies */
    int late_percent;    /* of lost attempts that arrive after all, later */
    int is_faulty;       /* anything but delays and deaths may happen */
    dibs_time cut_from[SIM_PROCESSES], cut_until[SIM_PROCESSES];
};
extern struct sim_network sim_network;

void sim_engine_reset(void);
void sim_engine_register(void);
int sim_link_had_faults(int process, dibs_time since);
struct service *sim_service(void);
int sim_process_of(const uint8_t *session); /* or -1 */

/* ---- sim_mem.c: core's memory, all of which goes away with the run ---- */

size_t sim_mem_blocks(void);
void sim_mem_reset(void);

/* ---- sim_load.c ---- */

void sim_load_run(void);

/* ---- sim_check.c ---- */

enum sim_op {
    OP_OPEN,
    OP_CLOSE,
    OP_CLOSED,
    OP_INVOKE,
    OP_OK,
    OP_FAIL,
    OP_SEEN_LOST,
    OP_LOST_CALLBACK,
    OP_RENEW,
    OP_DOWNGRADE,
    OP_FENCE,
    OP_RELEASE,
    OP_RELEASED,
    OP_ABANDON,
    OP_CANCEL,
    OP_DEAD,
    OP_PAUSE,
    OP_SERVER_QUEUED,
    OP_SERVER_GRANTED,
    OP_SERVER_ENDED,
    OP_COUNT
};

/* A request and the hold it led to, as the checker follows them. */
struct sim_gen {
    int id, process, name;
    uint64_t fiber; /* who asked: the owner, if none is named */
    dibs_request request;
    int mode;        /* of the hold: changes by downgrade */
    dibs_hold *hold; /* while the handle is live */
    uint64_t token;
    int overtaken_by;   /* another gen of its process, and 1; 0: nobody */
    int together;       /* one of several asked for by dibs_acquire_all */
    int reentry;        /* the same owner had it already */
    int seen_lost;      /* dibs_held has said 0 ... */
    dibs_time lost_at;  /* ... at this time */
    int lost_callbacks; /* how often on_lost was called */
    int op_calls;       /* how often an op's `done` was called */
    int releasing;      /* given back, or about to be */
    int released;       /* ... and that was said to have worked */
    int ended;          /* the handle is gone */
    dibs_time invoked, canceled;
};

void sim_check_reset(void);
void sim_record(enum sim_op op, int process, int name, int gen, uint64_t value);
uint64_t sim_history_hash(void);
size_t sim_history_count(void);
void sim_history_print_tail(size_t count);
/* sim_violation notes the first broken rule of a run; sim_violated returns it, or 0. */
void sim_violation(enum sim_rule rule, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int sim_violated(void);
const char *sim_violation_text(void);

/* The life of a gen. begin comes before the acquire; then failed, or granted and, when
 * the handle is given up, release before and ended after. */
struct sim_gen *sim_check_begin(const dibs_request *request, int name);
void sim_check_failed(struct sim_gen *gen, int code);
void sim_check_granted(struct sim_gen *gen);
int sim_check_held(struct sim_gen *gen); /* dibs_held, with a look at K5 */
void sim_check_lost_callback(struct sim_gen *gen);
void sim_check_lost_fd(struct sim_gen *gen, int readable);
uint64_t sim_check_fence_begin(const struct sim_gen *gen);
void sim_check_fence(struct sim_gen *gen, int code, uint64_t largest_before);
void sim_check_release(struct sim_gen *gen);
void sim_check_ended(struct sim_gen *gen, enum sim_op how, int code);
void sim_check_closing(int process);
void sim_check_dead(int process);
void sim_check_stuck(void);

/* sim_server.c: the same on the server's side, around each of its steps. */
void sim_server_reset(void);
void sim_server_before(void);
void sim_server_after(const char *verb, int process, const uint64_t *serials,
                      size_t count);
void sim_server_closed(int process, dibs_time invoked);
void sim_server_nothing_left(void);
/* when the process last had anything to do with the name; DIBS_NEVER: it has now */
dibs_time sim_check_last_use(int process, int name);
#endif /* DIBS_SIM_H */
