/* SPDX-License-Identifier: MIT */
/* The servers of a URL for ZooKeeper (engine/zookeeper/zookeeper.c): each has a name and a
 * port in the end, or all are refused. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/zookeeper/zk.h"
#include "fuzz.h"

static void
check_hosts(const char *hosts)
{
    for (const char *at = hosts; *at;) {
        size_t len = strcspn(at, ",");
        const char *colon = memrchr(at, ':', len);
        HOLDS(len > 0 && colon && colon > at);
        long port = strtol(colon + 1, NULL, 10);
        HOLDS(port > 0 && port <= 65535);
        at += len + (at[len] == ',');
        HOLDS(*at || hosts[strlen(hosts) - 1] != ',');
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zk zk = { .host = &dibs__host };
    dibs_error err = { 0 };
    char *text = fuzz_text(data, size);
    int rc = dibs__zk_read_hosts(&zk, text, &err);
    HOLDS(rc == DIBS_OK || rc == DIBS_ECONFIG);
    if (!rc) {
        HOLDS(*zk.hosts);
        check_hosts(zk.hosts);
    }
    dibs__host.free(zk.hosts);
    free(text);
    return 0;
}
