/* SPDX-License-Identifier: MIT */
/* Hand-over between threads of one process, on redis: (queue). */
#include <stdio.h>

#include "../inside.h"
#include "redis.h"

void
redis_inside(void)
{
    char url[128], id[16];

    report_section("16 threads of one process, one name",
                   "hand-over inside the process against none; rounds of 150 ms in turn");
    server_url(url, sizeof url, "queue");
    for (int place = 0; place < PLACES; place++) {
        place_client(place);
        snprintf(id, sizeof id, "inside.%s", place_names[place]);
        inside_run(url, id, place_names[place], 10);
    }
}
