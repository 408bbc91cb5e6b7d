/* SPDX-License-Identifier: MIT */
/* The stages: started, warmed up, ended; and what fits to what. See lab.h. */
#include "lab.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

#define LEASE_MS 500
#define WARM_UP_LIMIT_MS 20000

#define EXCLUSIVE (1u << DIBS_EXCLUSIVE)
#define SHARED (EXCLUSIVE | 1u << DIBS_SHARED)
#define ALL (SHARED | 1u << DIBS_PERMITS)

const struct stage stages[] = {
#define STAGE(stage_name, kind, parameters_, lease, modes_, is_, can_)                   \
    { .name = #stage_name,                                                               \
      .family = &family_##kind,                                                          \
      .parameters = parameters_,                                                         \
      .least_lease_ms = lease,                                                           \
      .modes = modes_,                                                                   \
      .is = is_,                                                                         \
      .can = can_ },
#include "stages.def"
#undef STAGE
    { .name = NULL },
};

const struct fault faults[] = {
#define FAULT(fault_name, needs_, from_, to_, strike_)                                   \
    { .name = #fault_name, .needs = needs_, .from = from_, .to = to_, .strike = strike_ },
#include "faults.def"
#undef FAULT
    { .name = NULL },
};

const struct control controls[] = {
#define K(rule) (1u << (rule))
#define CONTROL(stage_name, fault_name, ...) { #stage_name, #fault_name, __VA_ARGS__ },
#include "controls.def"
#undef CONTROL
    { .stage = NULL },
};

struct lab lab;

/* ---- what fits ---- */

const struct stage *
stage_find(const char *name)
{
    for (const struct stage *at = stages; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    return NULL;
}

const struct fault *
fault_find(const char *name)
{
    for (const struct fault *at = faults; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    return NULL;
}

int
cell_fits(const struct stage *stage, const struct fault *fault)
{
    return (fault->needs & ~(stage->family->can | stage->can)) == 0;
}

const struct control *
control_of(const struct stage *stage, const struct fault *fault)
{
    for (const struct control *at = controls; at->stage != NULL; at++) {
        if (strcmp(at->stage, stage->name) == 0 && strcmp(at->fault, fault->name) == 0) {
            return at;
        }
    }
    return NULL;
}

/* What all need: a lease until it is known that nobody renews, and the time to connect
 * again. A guard closes for a lease; a quarantine for that, the lag and 2 s. */
int64_t
stage_heal_ms(const struct stage *stage, int64_t lease_ms)
{
    int64_t heal_ms = lease_ms + slowly(1000);
    heal_ms += stage->family->heal_ms != NULL ? stage->family->heal_ms(lease_ms) : 0;
    heal_ms += (stage->is & IS_GUARDED) != 0 ? lease_ms : 0;
    heal_ms += (stage->is & IS_QUARANTINED) != 0 ? QUARANTINE_MS : 0;
    return heal_ms;
}

/* ---- from start to end ---- */

void
lab_stop(void)
{
    wires_stop(&lab.lines);
    set_stop(&lab.set);
    wires_stop(&lab.between);
    if (lab.folder[0] != '\0') {
        remove_tree(lab.folder);
        lab.folder[0] = '\0';
    }
}

/* but for those that are behind wires since they were started */
static void
start_wires(void)
{
    int ports[SET_MAX], count = lab.set.count - lab.door;
    if (lab.lines.count > 0) {
        return;
    }
    for (int i = 0; i < count; i++) {
        ports[i] = lab.set.servers[lab.door + i].port;
    }
    wires_start(&lab.lines, ports, count);
}

static int
port_of(int index)
{
    const server *of = &lab.set.servers[index];
    return lab.by_wires && of->wire_port == 0 ? lab.lines.ports[index - lab.door]
                                              : server_port(of);
}

/* writes the parameters, with times for the words that stand for them */
static void
print_parameters(char *out, size_t size, const char *from)
{
    static const char *const words[] = { "LEASE", "NODE" };
    const int64_t times_ms[] = { lab.lease_ms, slowly(250) };
    size_t len = 0;
    while (*from != '\0' && len + 32 < size) {
        size_t word = 0;
        while (word < 2 && strncmp(from, words[word], strlen(words[word])) != 0) {
            word++;
        }
        if (word < 2) {
            len += (size_t)snprintf(out + len, size - len, "%lldms",
                                    (long long)times_ms[word]);
            from += strlen(words[word]);
        } else {
            out[len++] = *from++;
        }
    }
    out[len] = '\0';
}

static void
print_url(void)
{
    const struct family *family = lab.stage->family;
    char hosts[256] = "", parameters[128];
    int len = 0;
    for (int i = lab.door; i < lab.set.count; i++) {
        len += snprintf(hosts + len, sizeof(hosts) - (size_t)len, "%s127.0.0.1:%d",
                        i > lab.door ? "," : "", port_of(i));
    }
    print_parameters(parameters, sizeof(parameters), lab.stage->parameters);
    (void)snprintf(lab.url, sizeof(lab.url), "%s%s%s%s%s%s", family->scheme,
                   family->user != NULL ? family->user : "", hosts, lab.folder,
                   family->path != NULL ? family->path : "", parameters);
}

static void
start_servers(const struct family *family)
{
    if (family->start_one != NULL) {
        server_options options = options_of_stage();
        lab.set.count = 1;
        family->start_one(&lab.set.servers[0], &options);
    }
    if (family->start != NULL) {
        family->start();
    }
}

void
lab_start(const struct stage *stage, unsigned needs, const char *const *more)
{
    memset(&lab, 0, sizeof(lab));
    lab.stage = stage;
    lab.needs = needs;
    lab.more = more;
    lab.lease_ms = slowly(LEASE_MS);
    if (lab.lease_ms < stage->least_lease_ms) {
        lab.lease_ms = stage->least_lease_ms;
    }
    lab.by_wires = (needs & CAN_WIRE) != 0 ||
                   ((needs & CAN_CUT) != 0 && (stage->family->can & CAN_WIRE) != 0);
    start_servers(stage->family);
    if (lab.by_wires) {
        start_wires();
    }
    print_url();
}

static _Noreturn void
take_once(void)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs_error err = { 0 };
    dibs *client = NULL;
    dibs_hold *hold = NULL;
    options.lease_ms = (uint32_t)lab.lease_ms;
    int code = dibs_open(&client, lab.url, &options, &err);
    if (code == DIBS_OK) {
        code = dibs_timedlock(&hold, client, "warm-up", slowly(WARM_UP_LIMIT_MS), &err);
    }
    if (code == DIBS_OK) {
        code = dibs_unlock(hold, &err);
    }
    if (code != DIBS_OK) {
        fprintf(stderr, "%s: %s\n", lab.url, err.text);
    }
    dibs_close(client);
    _exit(code == DIBS_OK ? 0 : 1);
}

void
lab_warm_up(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        take_once();
    }
    CHECK_SAME(reap(pid, 2 * slowly(WARM_UP_LIMIT_MS)), 0);
}
