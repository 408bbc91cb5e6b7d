/* SPDX-License-Identifier: MIT */
/* What the tests of faults share. See faults.h. */
#include "faults.h"

server one;
server_set set;
char folder[64];

static void
clean_up(void)
{
    server_stop(&one);
    set_stop(&set);
    if (folder[0] != '\0') {
        remove_tree(folder);
    }
}

void
make_folder(void)
{
    temp_dir(folder, sizeof(folder), "/tmp");
}

static int
is_present(void)
{
    return server_present("redis-server");
}

int
fault_main(int argc, char **argv, const fault_case *cases)
{
    static const fault_stage stage = {
        .title = "redis-server",
        .is_present = is_present,
        .nowhere = "redis://127.0.0.1:1",
        .layout = "queue",
        .limit_s = 30,
        .clean_up = clean_up,
    };
    return fault_run(argc, argv, &stage, cases);
}

void
url_of(char *out, size_t size, const char *more)
{
    (void)snprintf(out, size, "redis://127.0.0.1:%d?layout=%s%s%s", one.port, layout,
                   more[0] != '\0' ? "&" : "", more);
}

dibs *
open_one(void)
{
    char url[256];
    url_of(url, sizeof(url), "");
    return open_url("%s", url);
}
