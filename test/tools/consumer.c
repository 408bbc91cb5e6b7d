/* SPDX-License-Identifier: MIT */
/*
 * A user's program for test/tools/install.sh: takes a lock on the engine of argv[1] with
 * nothing but what was installed.
 */
#include <dibs.h>
#include <stdio.h>

int
main(int argc, char **argv)
{
    dibs *client;
    dibs_hold *hold;
    dibs_error err;

    if (dibs_open(&client, argc > 1 ? argv[1] : NULL, NULL, &err) != DIBS_OK ||
        dibs_lock(&hold, client, "consumer", &err) != DIBS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s: token %llu\n", dibs_engine_name(client),
           (unsigned long long)dibs_token(hold));
    if (dibs_unlock(hold, &err) != DIBS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    dibs_close(client);
    return 0;
}
