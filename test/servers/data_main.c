/* SPDX-License-Identifier: MIT */
/* `servers_data FOLDER` makes the files that databases begin with, as $SERVERS_DATA (see
 * servers.h), for those that are there. */
#include <stdio.h>
#include <sys/stat.h>

#include "servers.h"

static void
make(const char *kind, const char *folder)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, kind);
    data_make(kind, path);
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: servers_data FOLDER\n");
        return 2;
    }
    /* of a run that was killed */
    remove_tree(argv[1]);
    CHECK(mkdir(argv[1], 0700) == 0);
    if (postgres_present()) {
        make("postgres", argv[1]);
    }
    if (mariadb_present()) {
        make("mariadb", argv[1]);
    }
    return 0;
}
