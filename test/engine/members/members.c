/* SPDX-License-Identifier: MIT */
/* What the tests of faults of members share. See members.h. */
#include "members.h"

/* what those had who are gone goes with their leases */
#define LEFT_LIMIT_MS 8000

server one;
server_set set;
wires lines, between;
char folder[64];

void
members_clean_up(void)
{
    server_stop(&one);
    set_stop(&set);
    wires_stop(&lines);
    wires_stop(&between);
    if (folder[0] != '\0') {
        remove_tree(folder);
        folder[0] = '\0';
    }
}

void
start_one(const server_options *options)
{
    engine.start_one(&one, options);
    wires_start(&lines, (int[]){ one.port, one.port }, 2);
}

void
start_three(const server_options *options)
{
    server_options patient = { .config = engine.patient };
    int ports[SET_MAX];
    engine.start_three(&set, options != NULL ? options : &patient, &between);
    for (int i = 0; i < set.count; i++) {
        ports[i] = set.servers[i].port;
    }
    wires_start(&lines, ports, set.count);
}

void
make_certs(void)
{
    certs_folder(folder, sizeof(folder));
}

static dibs *
open_hosts(const char *hosts)
{
    return open_url(
        "%s://%s%s/locks%s%s", engine.scheme, engine.user != NULL ? engine.user : "",
        hosts, engine.has_layouts ? "?layout=" : "", engine.has_layouts ? layout : "");
}

dibs *
open_at(int port)
{
    char host[32];
    (void)snprintf(host, sizeof(host), "127.0.0.1:%d", port);
    return open_hosts(host);
}

dibs *
open_lines(void)
{
    char hosts[128];
    int len = 0;
    for (int i = 0; i < lines.count; i++) {
        len += snprintf(hosts + len, sizeof(hosts) - (size_t)len, "%s127.0.0.1:%d",
                        i > 0 ? "," : "", lines.ports[i]);
    }
    return open_hosts(hosts);
}

int
count_keys(const server *of)
{
    char prefix[64];
    (void)snprintf(prefix, sizeof(prefix), "%s" NAME, engine.root);
    return engine.count_keys(of, prefix);
}

int
line_keys(int waiters)
{
    return engine.is_line() ? 1 + waiters : 1;
}

void
check_nothing_left(const server *of)
{
    int64_t until = now_ms() + slowly(LEFT_LIMIT_MS);
    while (engine.count_keys(of, "") + engine.count_lives(of) > 0) {
        if (now_ms() > until) {
            engine.show(of);
            FAIL("something is left");
        }
        sleep_ms(20);
    }
}

dibs_hold *
hand_over_after(dibs_hold *hold, dibs_op *wait, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms, held_until = now_ms();
    int held = dibs_held(hold);
    while (!has_ended(wait, 1)) {
        CHECK(now_ms() < until);
        held = dibs_held(hold);
        held_until = held ? now_ms() : held_until;
    }
    /* looked at before the other had it, so that what changes in between is no excuse */
    CHECK(!held && !dibs_held(hold) && is_lost(hold, 0));
    printf("lost %lld ms before the next grant\n", (long long)(now_ms() - held_until));
    dibs_hold *next = end_wait(wait, 0);
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    return next;
}
