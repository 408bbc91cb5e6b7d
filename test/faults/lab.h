/* SPDX-License-Identifier: MIT */
/*
 * The fault lab: torture (torture/torture.h) on real servers that are hurt meanwhile. A
 * *stage* is a way to run an engine: servers, a layout, a URL. A *fault* is something that is
 * done to servers again and again while clients run. A *cell* is both together, and what is
 * expected of it: that no rule is broken, or, where dibs promises no more, which one is.
 *
 * stages.def, faults.def, controls.def: the data. families*.c: kinds of servers. stages.c:
 * starts and ends them.
 * strikes.c, strikes_members.c, strikes_failover.c, strikes_promote.c: what is done to them.
 * cell.c: one run and what it says. notice.c: what dibs_notice says of servers. main.c: the
 * program.
 */
#ifndef FAULTS_LAB_H
#define FAULTS_LAB_H

#include "servers.h"
#include "torture.h"

/* What can be done at a stage, and what a fault needs. */
enum {
    CAN_KILL = 1 << 0,      /* all its servers may be killed and started again, or stop */
    CAN_CUT = 1 << 1,       /* connections may be ended */
    CAN_WIRE = 1 << 2,      /* wires may be put before the servers */
    CAN_MEMBER = 1 << 3,    /* one of several servers may be missing */
    CAN_LEADER = 1 << 4,    /* one of them leads */
    CAN_PART = 1 << 5,      /* one of them may be cut off from the others */
    CAN_SCRIPT = 1 << 6,    /* scripts may be forgotten */
    CAN_FORGET = 1 << 7,    /* all else may be, too */
    CAN_FAIL_OVER = 1 << 8, /* replicas take over */
    CAN_CLOCK = 1 << 9,     /* servers have clocks of their own */
    CAN_CLOCK_BACK = 1 << 10, /* ... one of which may go back: that blocks nobody */
    CAN_POWER = 1 << 11       /* what is not on the disk yet may be lost */
};

/* More about a stage. */
enum {
    IS_DURABLE = 1 << 0, /* what the server is told survives kill -9 and power failures */
    IS_GUARDED = 1 << 1, /* ?guard=: closed for a lease after it forgot */
    IS_QUARANTINED = 1 << 2,
    IS_CROWDED = 1 << 3, /* long leases: more threads and names, so that enough happens */
    IS_EVERYSEC = 1 << 4, /* it survives kill -9; the last second, no power failure */
    IS_SYNCED = 1 << 5    /* what was answered is known to the one that takes over */
};

/* for how long a quarantine closes, beyond the guard: the lag that the URLs say, and 2 s */
#define QUARANTINE_MS (2000 + 2000)

/* Servers of one kind. */
struct family {
    const char *engine, *scheme, *user;
    const char *path;  /* of the URL */
    const char *title; /* what is missing, if it is; NULL: it needs nothing */
    int (*is_present)(void);
    /* start_one starts the first server, and start whatever else; NULL: there is nothing */
    void (*start_one)(server *out, const server_options *options);
    void (*start)(void);
    int (*leader)(const server_set *set);
    void (*cut_off)(const server_set *set, struct wires *between, int index);
    int (*fail_over)(uint64_t random, int64_t ms); /* a strike, of those that can */
    /* counts what is left at the servers when nobody uses them, and shows it */
    int (*count_left)(void);
    void (*show_left)(void);
    int64_t (*heal_ms)(int64_t lease_ms); /* beyond that of all: see stages.c */
    unsigned can;
};

struct stage {
    const char *name;
    const struct family *family;
    const char *parameters; /* of the URL; LEASE stands for the lease */
    int64_t least_lease_ms;
    uint32_t modes; /* as in torture_plan */
    unsigned is, can;
};
extern const struct stage stages[];

/* families*.c: one for each name that stages.def uses */
extern const struct family family_local, family_sqlite, family_redis, family_valkey,
    family_sentinel, family_cluster, family_redlock, family_zookeeper, family_ensemble,
    family_etcd, family_etcd_cluster, family_consul, family_consul_cluster,
    family_postgres, family_postgres_pair, family_pgbouncer, family_mysql;

/* options_of_stage: what a server of the stage that is started needs. */
server_options options_of_stage(void);

struct fault {
    const char *name;
    unsigned needs;
    int64_t from, to; /* how long it lasts, in hundredths of the lease */
    /* does it for `ms`, and undoes it; returns -1 if it did nothing */
    int (*strike)(uint64_t random, int64_t ms);
};
extern const struct fault faults[];

/* What is not clean: `shows` are the rules that must be seen to be broken, any of them (0:
 * none must), and `may` those that may. A rule K is the bit 1 << K. */
struct control {
    const char *stage, *fault;
    uint32_t shows, may;
};
extern const struct control controls[];

/* What runs now. There is one, so that it can be ended from a signal handler. */
struct lab {
    const struct stage *stage;
    server_set set;
    int door; /* the first server that clients ask; they ask all behind it too */
    wires lines, between;
    char folder[64];
    char url[512];
    int64_t lease_ms;
    unsigned needs;          /* of the fault that is to come */
    int by_wires;            /* clients ask by wires */
    const char *const *more; /* words for servers that have options; NULL: none */
};
extern struct lab lab;

/* lab_start starts a stage, with wires before its servers and a clock of their own if the
 * fault needs them, and sets the rest of `lab`; `more` is as there. lab_stop ends all; it is
 * safe in a signal handler. */
void lab_start(const struct stage *stage, unsigned needs, const char *const *more);
void lab_stop(void);

/* lab_warm_up takes a lock and gives it back, in a process of its own: tables are made,
 * gates are open. */
void lab_warm_up(void);

/* stage_heal_ms is how long after a strike, or the death of a client, locks may be out of
 * reach, beyond the lease. */
int64_t stage_heal_ms(const struct stage *stage, int64_t lease_ms);

/* stage_find and fault_find return NULL if there is none. cell_fits says whether a fault can
 * be done at a stage. control_of returns what is expected, or NULL: it is clean. */
const struct stage *stage_find(const char *name);
const struct fault *fault_find(const char *name);
int cell_fits(const struct stage *stage, const struct fault *fault);
const struct control *control_of(const struct stage *stage, const struct fault *fault);

/* cell_run runs one, prints a line, as JSON if asked for, and returns the exit code: 0 as
 * expected, 1 not, EXIT_SKIPPED without the servers. */
struct cell_options {
    uint64_t seed;
    int64_t run_ms;
    int json;
};
int cell_run(const struct stage *stage, const struct fault *fault,
             const struct cell_options *options);

/* notice_run checks what dibs_notice says of a configuration, or, with `instead`, that the
 * check fails on that other one. */
int notice_run(const char *name, const char *instead);

/* ---- strikes ---- */

/* What those share that stop and kill servers. A server of Sentinels is to come back as what
 * it is when it is killed: lab_kill notes that. lab_still_ms is for how long a master may stand
 * still, of so many ms. lab_settle waits, where replicas take over, until that is done and
 * everybody knows. */
void lab_kill(server *one);
int64_t lab_still_ms(int64_t ms);
void lab_settle(void);

int strike_nothing(uint64_t random, int64_t ms);
int strike_restart(uint64_t random, int64_t ms);
int strike_stop(uint64_t random, int64_t ms);
int strike_cut(uint64_t random, int64_t ms);
int strike_hold(uint64_t random, int64_t ms);
int strike_mute(uint64_t random, int64_t ms);
int strike_flap(uint64_t random, int64_t ms);
int strike_scripts(uint64_t random, int64_t ms);
int strike_forget(uint64_t random, int64_t ms);
int strike_clock(uint64_t random, int64_t ms);
int strike_power(uint64_t random, int64_t ms);
int strike_member_kill(uint64_t random, int64_t ms);
int strike_member_stop(uint64_t random, int64_t ms);
int strike_member_part(uint64_t random, int64_t ms);
int strike_leader_kill(uint64_t random, int64_t ms);
int strike_leader_stop(uint64_t random, int64_t ms);
int strike_leader_part(uint64_t random, int64_t ms);
int strike_failover(uint64_t random, int64_t ms);
/* by what family has them for fail_over */
int fail_over_redis(uint64_t random, int64_t ms);
int fail_over_postgres(uint64_t random, int64_t ms);

#endif /* FAULTS_LAB_H */
