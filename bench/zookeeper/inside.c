/* SPDX-License-Identifier: MIT */
/* Hand-over between threads of one process, on zookeeper: (curator). */
#include <stdio.h>

#include "../inside.h"
#include "zookeeper.h"

static void
measure_inside(const server *s, int place)
{
    char url[128], id[64], words[32];

    server_url(url, sizeof url, s, "curator");
    snprintf(id, sizeof id, "inside.%s.%s", s->name, place_names[place]);
    snprintf(words, sizeof words, "%s, %s", s->name, place_names[place]);
    inside_run(url, id, words, 50);
}

void
zookeeper_inside(void)
{
    report_section("16 threads of one process, one name",
                   "hand-over inside the process against none; rounds of 150 ms in turn");
    for_each_log(measure_inside);
}
