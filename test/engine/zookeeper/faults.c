/* SPDX-License-Identifier: MIT */
/* What the tests of faults share. See faults.h. */
#include "faults.h"

server one;
server_set set;
wires lines, between;

static void
clean_up(void)
{
    server_stop(&one);
    set_stop(&set);
    wires_stop(&lines);
    wires_stop(&between);
}

int
fault_main(int argc, char **argv, const fault_case *cases)
{
    static const fault_stage stage = {
        .title = "zookeeper",
        .is_present = zookeeper_present,
        .nowhere = "zk://127.0.0.1:1",
        .layout = "curator",
        .limit_s = 60,
        .clean_up = clean_up,
    };
    return fault_run(argc, argv, &stage, cases);
}

/* ---- servers ---- */

void
start_one(const server_options *options)
{
    zookeeper_start(&one, options);
    wires_start(&lines, &one.port, 1);
}

void
start_three(const server_options *options)
{
    int ports[SET_MAX];
    zookeeper_start_ensemble(&set, options, &between);
    for (int i = 0; i < set.count; i++) {
        ports[i] = set.servers[i].port;
    }
    wires_start(&lines, ports, set.count);
}

/* ---- clients ---- */

dibs *
open_at(int port)
{
    return open_url("zk://127.0.0.1:%d" ROOT "?layout=%s&tick=%dms", port, layout,
                    ZOOKEEPER_TICK_MS);
}

dibs *
open_all(void)
{
    return open_url(
        "zk://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d" ROOT "?layout=%s&tick=%dms",
        lines.ports[0], lines.ports[1], lines.ports[2], layout, ZOOKEEPER_TICK_MS);
}

/* ---- nodes ---- */

int
count_nodes(const server *of)
{
    return tree_count(of, ROOT);
}

int64_t
owner_of(const server *of, const char *name)
{
    tree on;
    tree_stat stat = { 0 };
    char path[512];
    (void)snprintf(path, sizeof(path), ROOT "/%s", name);
    CHECK_SAME(tree_open(&on, of->port, 10000), 0);
    char *children = tree_children(&on, path, NULL);
    CHECK(children != NULL);
    if (children[0] != '\0') {
        CHECK(strchr(children, '\n')[1] == '\0');
        (void)snprintf(path, sizeof(path), ROOT "/%s/%.*s", name,
                       (int)strcspn(children, "\n"), children);
    }
    free(children);
    CHECK_SAME(tree_stat_of(&on, path, &stat), 0);
    tree_close(&on);
    return stat.owner;
}
