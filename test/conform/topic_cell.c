/* SPDX-License-Identifier: MIT */
/* Cells: a value changes only for one who read its latest version. */
#include "conform.h"

#include <stdlib.h>

#define NAME "cell"

static int
cells_refused(void)
{
    dibs_cell cell;
    if (has(DIBS_CAP_CELL)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED, dibs_cell_read(&cell, stage.client, NAME, &oops));
    GIVES(DIBS_EUNSUPPORTED, dibs_cell_swap(NULL, stage.client, NAME, 0, "x", 1, &oops));
    return 1;
}

CASE(cell, versions)
{
    dibs_cell cell;
    uint64_t first = 0, second = 0;
    if (cells_refused()) {
        return;
    }
    memset(&cell, 0xff, sizeof(cell));
    GIVES(DIBS_ENOTFOUND, dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.version == 0 && cell.len == 0);
    GIVES(DIBS_ECONFLICT, dibs_cell_swap(&first, stage.client, NAME, 7, "x", 1, &oops));
    OK(dibs_cell_swap(&first, stage.client, NAME, 0, "one", 3, &oops));
    CHECK(first != 0);
    GIVES(DIBS_ECONFLICT, dibs_cell_swap(&second, stage.client, NAME, 0, "x", 1, &oops));
    CHECK_SAME(second, 0);
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.version == first && cell.len == 3 && memcmp(cell.value, "one", 3) == 0);
    OK(dibs_cell_swap(&second, stage.client, NAME, first, "two", 3, &oops));
    CHECK(second > first);
    GIVES(DIBS_ECONFLICT, dibs_cell_swap(NULL, stage.client, NAME, first, "x", 1, &oops));
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.version == second && memcmp(cell.value, "two", 3) == 0);
}

CASE(cell, values)
{
    static unsigned char large[DIBS_CELL_MAX + 1];
    dibs_cell cell;
    uint64_t version = 0;
    if (cells_refused()) {
        return;
    }
    for (size_t i = 0; i < sizeof(large); i++) {
        large[i] = (unsigned char)(i * 7);
    }
    OK(dibs_cell_swap(&version, stage.client, NAME, 0, "", 0, &oops));
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.version == version && cell.len == 0);
    OK(dibs_cell_swap(&version, stage.client, NAME, version, large, DIBS_CELL_MAX,
                      &oops));
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.len == DIBS_CELL_MAX && memcmp(cell.value, large, cell.len) == 0);
    GIVES(DIBS_EINVAL, dibs_cell_swap(&version, stage.client, NAME, version, large,
                                      DIBS_CELL_MAX + 1, &oops));
    OK(dibs_cell_swap(&version, stage.client, NAME, version, "\0\n", 2, &oops));
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.len == 2 && memcmp(cell.value, "\0\n", 2) == 0);
}

CASE(cell, apart_from_locks_and_fences)
{
    dibs_cell cell;
    if (cells_refused()) {
        return;
    }
    dibs_hold *hold = take_name(stage.client, NAME);
    OK(dibs_fence(stage.client, NAME, 9, &oops));
    GIVES(DIBS_ENOTFOUND, dibs_cell_read(&cell, stage.client, NAME, &oops));
    OK(dibs_cell_swap(NULL, stage.client, NAME, 0, "x", 1, &oops));
    GIVES(DIBS_ESTALE, dibs_fence(stage.client, NAME, 8, &oops));
    OK(dibs_cell_read(&cell, stage.client, NAME, &oops));
    CHECK(cell.len == 1 && dibs_held(hold));
    give(hold);
}

/* ---- the red packet: a sum that many draw from until it is gone ---- */

#define SUM ((int64_t)2000)
#define DRAWERS 64
#define DRAWING_PROCESSES 8

static int64_t
read_sum(dibs *client, uint64_t *version)
{
    dibs_cell cell;
    int64_t left;
    OK(dibs_cell_read(&cell, client, NAME, &oops));
    CHECK_SAME(cell.len, sizeof(left));
    memcpy(&left, cell.value, sizeof(left));
    CHECK_WITHIN(left, 0, SUM);
    *version = cell.version;
    return left;
}

/* draws once; 0 when nothing is left */
static int64_t
draw(dibs *client, unsigned *seed)
{
    for (;;) {
        uint64_t version = 0;
        int64_t left = read_sum(client, &version);
        if (left == 0) {
            return 0;
        }
        int64_t drawn = 1 + rand_r(seed) % 9;
        drawn = drawn < left ? drawn : left;
        left -= drawn;
        int code =
            dibs_cell_swap(NULL, client, NAME, version, &left, sizeof(left), &oops);
        if (code == DIBS_OK) {
            return drawn;
        }
        GIVES(DIBS_ECONFLICT, code);
    }
}

static void
draw_until_empty(void *client, int index)
{
    unsigned seed = (unsigned)index + (unsigned)now_ns();
    for (int64_t drawn = draw(client, &seed); drawn > 0; drawn = draw(client, &seed)) {
        atomic_fetch_add(&stage.shared->words[0], drawn);
    }
}

JOB(draw)
{
    gang_join(gang_start((int)args[0], draw_until_empty, client));
    return 0;
}

CASE(cell, red_packet)
{
    const int64_t sum = SUM, threads = DRAWERS / DRAWING_PROCESSES;
    uint64_t version;
    peer *peers[DRAWING_PROCESSES];
    if (cells_refused()) {
        return;
    }
    OK(dibs_cell_swap(NULL, stage.client, NAME, 0, &sum, sizeof(sum), &oops));
    for (int i = 0; i < DRAWING_PROCESSES; i++) {
        peers[i] = peer_new();
    }
    for (int i = 0; i < DRAWING_PROCESSES; i++) {
        peer_job_begin(peers[i], "draw", &threads, 1);
    }
    for (int i = 0; i < DRAWING_PROCESSES; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    CHECK_SAME(read_sum(stage.client, &version), 0);
    CHECK_SAME(atomic_load(&stage.shared->words[0]), SUM);
}
