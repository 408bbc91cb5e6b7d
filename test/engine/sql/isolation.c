/* SPDX-License-Identifier: MIT */
/* Servers at the strictest isolation undo transactions that meet, and locks go on. See
 * sql.h. */
#include "sql.h"

#define CLIENTS 4
#define THREADS 8
#define ROUNDS 40
#define NAMES 2

static dibs *clients[CLIENTS];
static int inside[NAMES];
static uint64_t last_token[NAMES];

static void
visit(dibs *client, int which)
{
    static const char *const names[NAMES] = { NAME, "other" };
    dibs_request request = want(names[which], LONG_MS);
    dibs_hold *hold = NULL;
    request.flags = DIBS_NO_REENTRY;
    OK(dibs_acquire(&hold, client, &request, &oops));
    /* plain on purpose: it comes out right only if the lock excludes */
    CHECK_SAME(inside[which]++, 0);
    CHECK(dibs_token(hold) > last_token[which]);
    last_token[which] = dibs_token(hold);
    inside[which]--;
    give(hold);
}

static void
visit_often(void *arg, int index)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        visit(clients[index % CLIENTS], (index / CLIENTS + i) % NAMES);
    }
}

static void
contend(const server_options *options)
{
    start_one(options);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_at(one.port);
    }
    gang_join(gang_start(THREADS, visit_often, NULL));
    for (int i = 0; i < CLIENTS; i++) {
        dibs_close(clients[i]);
    }
    check_nothing_left(&one);
}

static void
test_strict(void)
{
    contend(&database.strict);
}

static void
test_usual(void)
{
    contend(NULL);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "strict", test_strict },
        { "usual", test_usual },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
