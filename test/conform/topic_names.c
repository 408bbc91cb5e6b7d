/* SPDX-License-Identifier: MIT */
/* Names: any bytes but NUL, 1 to 512 of them, and no two of them are ever taken for one.
 * All hostile names are taken at once, without re-entry: an alias would be busy. */
#include "conform.h"

#include <stdlib.h>

/* pairs and groups that something between here and a server might take for the same */
static const char *const lookalikes[] = {
    "name",
    "name ",
    " name",
    "Name",
    "NAME",
    "name\n",
    "name\r\n",
    "name\t",
    "name/",
    "/name",
    "name/a",
    "name//a",
    "./name",
    "../name",
    "name/.",
    "name/..",
    "name\\",
    "name%00",
    "name%2F",
    "name%2f",
    "name%20",
    "name+",
    "name?a=b",
    "name#1",
    "{name}",
    "{name}x",
    "{name",
    "name}",
    "na{me}",
    "name*",
    "name:",
    "name::",
    "name:lock",
    "name;--",
    "name'",
    "name\"",
    "name`id`",
    "$(name)",
    "name\\0",
    "name\\x00",
    "n\xc3\xa4me",
    "na\xcc\x88me",
    "n\xe4me",
    "name\xef\xbb\xbf",
    "name\xc0\x80",
    "na\xffme",
    "name\x7f",
    "name\x1b[2J",
    "e\xcc\x81",
    "\xc3\xa9",
    "\xe2\x84\xab",
    "\xc3\x85",
    "stra\xc3\x9f"
    "e",
    "strasse",
    "STRASSE",
    "\xef\xac\x81",
    "fi",
    "0",
    "00",
    "-1",
    "a,b",
    "a b",
    "a\x01"
    "b",
    ".",
    "..",
    "/",
    "//",
    "*",
    "?",
    "[a]",
    "%",
    "%%",
    "%s%n",
    "\r\nDEL name",
    "--",
    "-n",
};
#define LOOKALIKES (sizeof(lookalikes) / sizeof(lookalikes[0]))
#define LONG_NAMES 6
#define HOSTILE (255 + 1 + LOOKALIKES + LONG_NAMES)

static char storage[HOSTILE][DIBS_NAME_MAX + 1];
static size_t hostile_count;

static void
add_name(const char *name)
{
    /* some are in two lists: once is enough */
    for (size_t i = 0; i < hostile_count; i++) {
        if (strcmp(storage[i], name) == 0) {
            return;
        }
    }
    memcpy(storage[hostile_count++], name, strlen(name) + 1);
}

static void
make_hostile_names(void)
{
    char name[DIBS_NAME_MAX + 1];
    for (int byte = 1; byte < 256; byte++) {
        char single[2] = { (char)byte, '\0' };
        add_name(single);
        name[byte - 1] = (char)byte;
    }
    name[255] = '\0';
    add_name(name);
    for (size_t i = 0; i < LOOKALIKES; i++) {
        add_name(lookalikes[i]);
    }
    /* the longest, its prefixes, and others that differ in one place only */
    for (int i = 0; i < LONG_NAMES; i++) {
        memset(name, 'x', DIBS_NAME_MAX);
        name[DIBS_NAME_MAX] = '\0';
        if (i < 3) {
            name[DIBS_NAME_MAX - i] = '\0';
        } else {
            name[i == 3 ? 0 : i == 4 ? DIBS_NAME_MAX / 2 : DIBS_NAME_MAX - 1] = 'y';
        }
        add_name(name);
    }
}

static dibs_hold *
take_hostile(const char *name)
{
    dibs_request request = try_for(name);
    dibs_hold *hold = NULL;
    char printed[4 * DIBS_NAME_MAX + 1];
    request.flags = DIBS_NO_REENTRY;
    int code = acquire(&hold, stage.client, &request);
    if (code != DIBS_OK) {
        dibs_name_print(printed, sizeof(printed), name, strlen(name));
        FAIL("'%s' cannot be had: %s", printed, oops.text);
    }
    return hold;
}

static int
find_and_count(const dibs_report *report, void *arg)
{
    size_t *listed = arg;
    for (size_t i = 0; i < hostile_count; i++) {
        if (strlen(storage[i]) == report->name_len &&
            memcmp(storage[i], report->name, report->name_len) == 0) {
            CHECK_SAME(report->holder_count, 1);
            (*listed)++;
            return 0;
        }
    }
    FAIL("a name is listed that nobody took");
}

static void
check_listed(dibs_hold **holds)
{
    size_t listed = 0;
    OK(dibs_list(stage.client, NULL, find_and_count, &listed, &oops));
    CHECK_SAME(listed, hostile_count);
    for (size_t i = 0; i < hostile_count; i++) {
        dibs_report *report = NULL;
        OK(dibs_inspect(&report, stage.client, storage[i], &oops));
        CHECK_SAME(report->holder_count, 1);
        CHECK_SAME(report->name_len, strlen(storage[i]));
        CHECK(memcmp(report->name, storage[i], report->name_len) == 0);
        CHECK(report->holders[0].token == dibs_token(holds[i]) || !has(DIBS_CAP_DETAIL));
        dibs_report_free(report);
    }
}

CASE(names, never_alias)
{
    dibs_hold *holds[HOSTILE];
    peer *other = peer_new();
    make_hostile_names();
    CHECK(hostile_count > 300);
    for (size_t i = 0; i < hostile_count; i++) {
        size_t len = 0;
        holds[i] = take_hostile(storage[i]);
        CHECK(strcmp(dibs_hold_name(holds[i], &len), storage[i]) == 0);
        CHECK_SAME(len, strlen(storage[i]));
    }
    if (has(DIBS_CAP_INSPECT)) {
        check_listed(holds);
    }
    /* from elsewhere each of them is taken, and once given back, that one only */
    for (size_t i = 0; i < hostile_count; i++) {
        dibs_request request = try_for(storage[i]);
        GIVES(DIBS_EBUSY, peer_acquire(other, 0, &request).code);
        give(holds[i]);
        OK(peer_acquire(other, 0, &request).code);
        OK(peer_release(other, 0));
    }
    peer_quit(other);
}

CASE(names, cells_never_alias)
{
    dibs_cell cell;
    make_hostile_names();
    if (!has(DIBS_CAP_CELL)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_cell_read(&cell, stage.client, "x", &oops));
        return;
    }
    for (size_t i = 0; i < hostile_count; i++) {
        OK(dibs_cell_swap(NULL, stage.client, storage[i], 0, &i, sizeof(i), &oops));
    }
    for (size_t i = 0; i < hostile_count; i++) {
        OK(dibs_cell_read(&cell, stage.client, storage[i], &oops));
        CHECK(cell.len == sizeof(i) && memcmp(cell.value, &i, sizeof(i)) == 0);
    }
}

static void
refuse(const char *name, size_t len)
{
    dibs_request request = try_for(name);
    dibs_hold *hold = NULL;
    request.name_len = len;
    GIVES(DIBS_EINVAL, dibs_acquire(&hold, stage.client, &request, &oops));
    CHECK(hold == NULL);
    if (strstr(oops.text, "name") == NULL) {
        FAIL("the error does not say that it is the name: %s", oops.text);
    }
}

CASE(names, refused)
{
    char longer[DIBS_NAME_MAX + 2];
    dibs_report *report = NULL;
    dibs_cell cell;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[DIBS_NAME_MAX + 1] = '\0';
    refuse(NULL, 0);
    refuse("", 0);
    refuse(longer, 0);
    refuse(longer, DIBS_NAME_MAX + 1);
    refuse("a\0b", 3);
    if (has(DIBS_CAP_INSPECT)) {
        GIVES(DIBS_EINVAL, dibs_inspect(&report, stage.client, "", &oops));
        GIVES(DIBS_EINVAL, dibs_inspect(&report, stage.client, longer, &oops));
    }
    if (has(DIBS_CAP_CELL)) {
        GIVES(DIBS_EINVAL, dibs_cell_read(&cell, stage.client, longer, &oops));
        GIVES(DIBS_EINVAL, dibs_cell_swap(NULL, stage.client, "", 0, "x", 1, &oops));
    }
}

CASE(names, by_length)
{
    dibs_request request = try_for("prefix and more");
    dibs_hold *hold = NULL;
    request.name_len = 6;
    OK(acquire(&hold, stage.client, &request));
    CHECK(strcmp(dibs_hold_name(hold, NULL), "prefix") == 0);
    CHECK(!is_free(stage.client, "prefix"));
    CHECK(is_free(stage.client, "prefix and more"));
    give(hold);
}

/* more names at once than any first table has room for */
CASE(names, many_at_once)
{
    enum { MANY = 3000 };
    static dibs_hold *holds[MANY];
    char name[32];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "many %d", i);
        holds[i] = take_name(stage.client, name);
    }
    for (int i = 0; i < MANY; i += 100) {
        (void)snprintf(name, sizeof(name), "many %d", i);
        CHECK(dibs_held(holds[i]) && !is_free(stage.client, name));
    }
    for (int i = 0; i < MANY; i++) {
        give(holds[i]);
    }
}
