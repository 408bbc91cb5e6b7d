/* SPDX-License-Identifier: MIT */
/* The engines that have files and no servers. See scarce.h. */
#include "scarce.h"

#include <unistd.h>

static char folder[64];

static int
is_present(void)
{
    return 1;
}

static void
stop(void)
{
    if (folder[0] != '\0') {
        remove_tree(folder);
        folder[0] = '\0';
    }
}

static void
start(void)
{
    temp_dir(folder, sizeof(folder), access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static void
local_url(char *out, size_t size, const char *hosts)
{
    (void)hosts;
    (void)snprintf(out, size, "local:%s", folder);
}

static void
sqlite_url(char *out, size_t size, const char *hosts)
{
    (void)hosts;
    (void)snprintf(out, size, "sqlite:%s/locks?waiter=%ums", folder, LEASE_MS);
}

#define STAGE(url)                                                                       \
    .stage = {                                                                           \
        .is_present = is_present, .nowhere = (url), .limit_s = 25, .clean_up = stop      \
    }

static const store stores[] = {
    { .engine = "local",
      .start = start,
      .print_url = local_url,
      STAGE("local:/none/none") },
    { .engine = "sqlite",
      .start = start,
      .print_url = sqlite_url,
      STAGE("sqlite:/dev/null/none") },
};

const store *
files_find(const char *engine)
{
    for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
        if (strcmp(stores[i].engine, engine) == 0) {
            return &stores[i];
        }
    }
    return NULL;
}
