/* SPDX-License-Identifier: MIT */
/*
 * The table file of local: (engine/local): records, names and texts in which anything was
 * overwritten. Whoever uses it neither crashes nor hangs. An input is patches of five bytes:
 * where (three), what, and how often. The header and the mutexes are left alone: who can
 * write those can stop a process that maps them anyway (test/engine/local/file.c has them).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/name.h"
#include "drive.h"
#include "fuzz.h"

#define NAMES 24
#define IMAGE_SIZE (RECORDS_OFFSET + FIRST_RECORDS * sizeof(record))
#define PATCHES_MAX 64

static char file[80], names[NAMES][160];
static const char *folder;
static unsigned char image[IMAGE_SIZE];

static void
write_table(const void *bytes)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    HOLDS(fd >= 0 && write(fd, bytes, IMAGE_SIZE) == (ssize_t)IMAGE_SIZE);
    HOLDS(close(fd) == 0);
}

/* something of everything */
static void
fill(drive *d, drive *e)
{
    static dibs_claim claims[2 * NAMES];
    dibs_cell_key key = { 0, "cell", 4, dibs__hash("cell", 4) };
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof names[i], i % 3 ? "n%d" : "n%0120d", i);
        drive_claim(&claims[i], names[i], i % 4 ? DIBS_EXCLUSIVE : DIBS_SHARED, 1, 0);
        HOLDS(drive_attempt(d, &claims[i]) == DIBS_OK);
        drive_claim(&claims[NAMES + i], names[i], DIBS_EXCLUSIVE, 1, 0);
        HOLDS(drive_attempt(e, &claims[NAMES + i]) == DIBS_EBUSY);
    }
    HOLDS(dibs__engine_local.cell_swap(&d->state, &key, 0, names, 2000, NULL, DIBS_NEVER,
                                       NULL) == DIBS_OK);
}

/* the file as it is while they hold */
static void
make_image(void)
{
    drive d, e;
    folder = drive_folder();
    (void)snprintf(file, sizeof file, "%s/table", folder);
    (void)atexit(drive_remove);
    HOLDS(drive_open(&d, folder) == DIBS_OK && drive_open(&e, folder) == DIBS_OK);
    fill(&d, &e);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    HOLDS(fd >= 0 && read(fd, image, sizeof image) == (ssize_t)sizeof image);
    HOLDS(close(fd) == 0);
    drive_close(&d);
    drive_close(&e);
    HOLDS(unlink(file) == 0);
}

/* a bit of everything; whether it works is not asked */
static void
use_table(void)
{
    drive d;
    dibs_claim claims[NAMES];
    dibs_cell cell;
    struct counting_sink sink;
    dibs_cell_key key = { 0, "cell", 4, dibs__hash("cell", 4) };
    if (drive_open(&d, folder) != DIBS_OK)
        return;
    for (int i = 0; i < NAMES; i++) {
        drive_claim(&claims[i], names[i], i % 2 ? DIBS_EXCLUSIVE : DIBS_SHARED, 1, 0);
        (void)drive_attempt(&d, &claims[i]);
    }
    fuzz_sink(&sink);
    (void)dibs__engine_local.list(&d.state, &sink.sink, DIBS_NEVER, NULL);
    (void)dibs__engine_local.cell_read(&d.state, &key, &cell, DIBS_NEVER, NULL);
    (void)dibs__engine_local.cell_swap(&d.state, &key, cell.version, "x", 1, NULL,
                                       DIBS_NEVER, NULL);
    for (int i = 0; i < NAMES; i++)
        (void)drive_release(&d, &claims[i]);
    drive_close(&d);
}

static void
patch(unsigned char *spoiled, struct input *input)
{
    size_t where = fuzz_byte(input);
    where = where << 8 | fuzz_byte(input);
    where = where << 8 | fuzz_byte(input);
    where = BUCKETS_OFFSET + where % (IMAGE_SIZE - BUCKETS_OFFSET);
    unsigned char what = fuzz_byte(input);
    for (size_t n = fuzz_byte(input) % 16 + 1u; n > 0 && where < IMAGE_SIZE; n--)
        spoiled[where++] = what;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char spoiled[IMAGE_SIZE];
    struct input input = { data, size };
    if (!folder)
        make_image();
    memcpy(spoiled, image, sizeof spoiled);
    for (int i = 0; i < PATCHES_MAX && input.left; i++)
        patch(spoiled, &input);
    write_table(spoiled);
    use_table();
    HOLDS(unlink(file) == 0);
    return 0;
}
