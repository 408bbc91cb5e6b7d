/* SPDX-License-Identifier: MIT */
/*
 * Which sockets are open: libcurl does not say, but a fork's child must not let it write
 * to them. The list only grows, by blocks, so the child can read it whatever the threads of
 * the parent were doing.
 */
#include "http/parts.h"

#include <fcntl.h>
#include <unistd.h>

static int
replace(struct fds *block, int old, int new)
{
    for (unsigned i = 0; i < FDS_PER_BLOCK; i++) {
        int found = old;
        if (atomic_compare_exchange_strong(&block->fds[i], &found, new))
            return 0;
    }
    return -1;
}

/* Puts a new block behind the last one, unless somebody else just did. */
static struct fds *
extend(const http *client, struct fds *last)
{
    struct fds *none = NULL, *block = client->host->alloc(sizeof *block);
    if (block && !atomic_compare_exchange_strong(&last->next, &none, block)) {
        client->host->free(block);
        return none;
    }
    return block;
}

int
dibs__http_fds_add(http *client, int fd)
{
    struct fds *block = &client->fds;
    while (block && replace(block, 0, fd + 1) != 0) {
        struct fds *next = atomic_load(&block->next);
        block = next ? next : extend(client, block);
    }
    return block ? 0 : -1;
}

void
dibs__http_fds_drop(http *client, int fd)
{
    struct fds *block = &client->fds;
    while (block && replace(block, fd + 1, 0) != 0)
        block = atomic_load(&block->next);
}

void
dibs__http_fds_deaden(http *client)
{
    int dead = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (struct fds *block = &client->fds; block; block = atomic_load(&block->next)) {
        for (unsigned i = 0; i < FDS_PER_BLOCK; i++) {
            int fd = atomic_load(&block->fds[i]) - 1;
            if (fd >= 0 && (dead == -1 || dup3(dead, fd, O_CLOEXEC) == -1))
                (void)close(fd);
        }
    }
    if (dead != -1)
        (void)close(dead);
}

void
dibs__http_fds_free(http *client)
{
    struct fds *block = atomic_load(&client->fds.next);
    while (block) {
        struct fds *next = atomic_load(&block->next);
        client->host->free(block);
        block = next;
    }
}
