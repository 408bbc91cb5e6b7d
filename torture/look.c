/* SPDX-License-Identifier: MIT */
/*
 * What is asked of the engine before a run and after it, each in a process of its own: the
 * one that starts the others must have no client.
 */
#include <stdio.h>
#include <string.h>

#include "parts.h"

#define LOOK_AGAIN_US 50000
/* what the engines with a line of waiters keep the place of a dead one for, at most */
#define WAITER_LEASE_MS 10000

/* in mock: each process is alone, so that several would prove nothing */
static void
note_engine(struct stage *stage, const dibs *client)
{
    stage->caps = dibs_caps(client);
    (void)snprintf(stage->engine, sizeof stage->engine, "%s", dibs_engine_name(client));
    (void)snprintf(stage->url, sizeof stage->url, "%s", dibs_url(client));
    if (strcmp(stage->engine, "mock") == 0)
        stage_fail(stage, DIBS_EUNSUPPORTED,
                   "the locks of mock: are those of one process, and a run has several");
}

int
look_before(const struct scene *scene, void *unused)
{
    dibs *client = NULL;
    dibs_error err = { .code = DIBS_OK };
    (void)unused;
    int code = dibs_open(&client, scene->plan->url, NULL, &err);
    if (code != DIBS_OK) {
        /* a time limit to the library, a server that does not answer to us */
        stage_fail(scene->stage, code == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : code, "%s",
                   err.text[0] ? err.text : dibs_strerror(code));
        return 0;
    }
    note_engine(scene->stage, client);
    dibs_close(client);
    return 0;
}

/* ---- what is left ---- */

static int
count(const dibs_report *report, void *arg)
{
    struct stage *stage = arg;
    if (stage->left++ == 0)
        (void)dibs_name_print(stage->left_name, sizeof stage->left_name, report->name,
                              report->name_len);
    return 0;
}

/* what died with its lease unspent is in use until that is over */
static int64_t
patience_ms(const struct scene *scene)
{
    const struct torture_plan *plan = scene->plan;
    int64_t heal_ms = plan->fault ? plan->fault->heal_ms : 0;
    int64_t waiter_ms = atomic_load(&scene->stage->kills) > 0 ? WAITER_LEASE_MS : 0;
    return plan->lease_ms + waiter_ms + heal_ms + 1000 * (int64_t)plan->slow;
}

static int
list(dibs *client, const struct scene *scene)
{
    char glob[sizeof scene->prefix + 1];
    dibs_error err = { .code = DIBS_OK };
    (void)snprintf(glob, sizeof glob, "%s*", scene->prefix);
    scene->stage->left = 0;
    int code = dibs_list(client, glob, count, scene->stage, &err);
    if (code == DIBS_OK)
        scene->stage->has_looked = 1;
    else
        history_say(scene->history, 0, err.text);
    return code;
}

int
look_after(const struct scene *scene, void *unused)
{
    int64_t until = history_now() + patience_ms(scene) * MS_NS;
    dibs *client = NULL;
    (void)unused;
    if ((scene->stage->caps & DIBS_CAP_INSPECT) == 0)
        return 0;
    if (dibs_open(&client, scene->plan->url, NULL, NULL) != DIBS_OK)
        return 0;
    while ((list(client, scene) != DIBS_OK || scene->stage->left > 0) &&
           history_now() < until) {
        nap(LOOK_AGAIN_US);
    }
    dibs_close(client);
    return 0;
}
