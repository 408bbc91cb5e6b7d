/* SPDX-License-Identifier: MIT */
/*
 * Stock: 100 pieces, eight shops that would like to sell 20 each. Nobody takes a lock:
 * each reads how many are left together with the version it read, and writes back one
 * less only if the version is still the same. Whoever was too late reads again. The stock
 * is sold to the last piece and never below. Best where clashes are rare. Next: cron.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

enum { STOCK = 100, SHOPS = 8, WANTED = 20 };

static const char CELL[] = "examples/stock";

static int
store(dibs *client, uint64_t version, int pieces, dibs_error *err)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%d", pieces);

    return dibs_cell_swap(NULL, client, CELL, version, text, (size_t)len, err);
}

static int
pieces_in(const dibs_cell *cell)
{
    char text[16];

    snprintf(text, sizeof text, "%.*s", (int)cell->len, (const char *)cell->value);
    return (int)strtol(text, NULL, 10);
}

/* sell_one returns 1 if a piece was sold, 0 if there is none left, or a negative code.
 * If that is DIBS_EUNKNOWN (the reply got lost) the piece may be gone: never sell it. */
static int
sell_one(dibs *client, dibs_error *err)
{
    for (;;) {
        dibs_cell cell;
        int code = dibs_cell_read(&cell, client, CELL, err);

        if (code != DIBS_OK)
            return code;
        if (pieces_in(&cell) == 0)
            return 0;
        code = store(client, cell.version, pieces_in(&cell) - 1, err);
        if (code == DIBS_OK)
            return 1;
        if (code != DIBS_ECONFLICT)
            return code;
        /* somebody sold one in between: this ends when there is none left */
    }
}

/* shop returns how many it sold, or 255 if something failed. */
static int
shop(void)
{
    dibs_error err;
    dibs *client;
    int sold = 0;

    if (dibs_open(&client, NULL, NULL, &err) != DIBS_OK)
        goto failed;
    for (int i = 0; i < WANTED; i++) {
        int got = sell_one(client, &err);

        if (got < 0)
            goto failed;
        sold += got;
    }
    dibs_close(client);
    return sold;

failed:
    fprintf(stderr, "stock: %s\n", err.text);
    return 255;
}

/* restock writes over what is there; the version of a cell that does not exist is 0. */
static int
restock(void)
{
    dibs_error err;
    dibs *client;
    dibs_cell cell;
    int code = dibs_open(&client, NULL, NULL, &err);

    if (code != DIBS_OK)
        goto out;
    code = dibs_cell_read(&cell, client, CELL, &err);
    if (code == DIBS_OK || code == DIBS_ENOTFOUND)
        code = store(client, cell.version, STOCK, &err);
    dibs_close(client);
out:
    if (code != DIBS_OK)
        fprintf(stderr, "stock: %s\n", err.text);
    return code;
}

int
main(void)
{
    int sold = 0;

    if (restock() != DIBS_OK)
        return 1;
    for (int i = 0; i < SHOPS; i++)
        if (fork() == 0)
            _exit(shop());
    for (int status; wait(&status) > 0;)
        sold += WEXITSTATUS(status);
    printf("%d shops wanted %d each and sold %d of %d\n", SHOPS, WANTED, sold, STOCK);
    return sold != STOCK;
}
