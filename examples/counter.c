/* SPDX-License-Identifier: MIT */
/*
 * Counter: the smallest useful lock. Four processes add to one number in a file, 500
 * times each. Reading, adding and writing back are three steps, so without the lock
 * additions get lost; with it the file says 2000 in the end.
 *
 *     cc counter.c -ldibs && ./a.out          # the lock lives on this machine
 *     DIBS_URL=redis://host ./a.out           # ... or wherever your machines meet
 *
 * Read next: cache.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

enum { WORKERS = 4, ROUNDS = 500 };

/* add_one is not safe by itself: another process may write between our read and write. */
static void
add_one(const char *path)
{
    int number = 0;
    FILE *file = fopen(path, "r");

    if (file != NULL) {
        if (fscanf(file, "%d", &number) != 1)
            number = 0;
        fclose(file);
    }
    file = fopen(path, "w");
    if (file == NULL)
        exit(1);
    fprintf(file, "%d\n", number + 1);
    fclose(file);
}

/* work opens its own client: one opened before fork() would be dead in the child. */
static int
work(const char *path)
{
    dibs_error err;
    dibs *client;
    dibs_hold *hold;

    if (dibs_open(&client, NULL, NULL, &err) != DIBS_OK)
        goto failed;
    for (int i = 0; i < ROUNDS; i++) {
        /* the name is yours to choose; everybody who uses the same name takes turns */
        if (dibs_lock(&hold, client, "examples/counter", &err) != DIBS_OK)
            goto failed;
        add_one(path);
        /* unlock tells if the lock was lost meanwhile: then the addition cannot be
         * trusted */
        if (dibs_unlock(hold, &err) != DIBS_OK)
            goto failed;
    }
    dibs_close(client);
    return 0;

failed: /* the text names what was tried, on which name, and where */
    fprintf(stderr, "counter: %s\n", err.text);
    return 1;
}

int
main(void)
{
    char path[] = "/tmp/dibs-counter-XXXXXX";
    int fd = mkstemp(path);
    int failed = 0;
    int number = -1;

    if (fd < 0)
        return 1;
    close(fd);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            _exit(work(path));
    for (int status; wait(&status) > 0;)
        failed |= status != 0;

    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &number) != 1)
        failed = 1;
    if (file != NULL)
        fclose(file);
    unlink(path);
    printf("%d processes counted to %d\n", WORKERS, number);
    return failed || number != WORKERS * ROUNDS;
}
