/* SPDX-License-Identifier: MIT */
/* Commands that are run to their end. See parts.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

#define LIMIT_MS 30000

static char *
read_all(int fd)
{
    struct stat info;
    CHECK(fstat(fd, &info) == 0);
    char *text = calloc(1, (size_t)info.st_size + 1);
    CHECK(text != NULL && pread(fd, text, (size_t)info.st_size, 0) == info.st_size);
    return text;
}

char *
run_words(const struct words *words, int *status)
{
    char output[32];
    int fd = memfd_create("output", MFD_CLOEXEC);
    CHECK(fd >= 0);
    /* the process opens it by this name before it becomes another program */
    (void)snprintf(output, sizeof(output), "/proc/self/fd/%d", fd);
    int ended = reap(spawn_program(words->list, output), slowly(LIMIT_MS));
    char *text = read_all(fd);
    close(fd);
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 255;
    return text;
}

void
run_surely(const struct words *words)
{
    int status;
    char *text = run_words(words, &status);
    if (status != 0) {
        FAIL("%s %s ... exits %d: %s", words->list[0], words->list[1], status, text);
    }
    free(text);
}
