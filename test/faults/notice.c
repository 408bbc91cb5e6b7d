/* SPDX-License-Identifier: MIT */
/*
 * K14, nothing is silently weaker: what dibs_notice says of real servers, configuration by
 * configuration, as notices.def has it. That a check can fail is shown by running it on
 * another configuration instead of its own. See lab.h.
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dibs.h>

#define LIMIT_S 60

/* How a server is set up. */
struct setting {
    const char *words[8]; /* more of them, when it is started */
    const char *text;     /* what it is told then, in SQL */
};

struct notice_case {
    const char *name, *stage;
    const struct setting *setting;
    const char *says;
};

static const struct setting none = { { NULL }, NULL };
static const struct setting evicting = {
    { "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru" }, NULL
};
/* it has a limit, and refuses what is beyond it */
static const struct setting full = {
    { "--maxmemory", "100mb", "--maxmemory-policy", "noeviction" }, NULL
};
/* the last second may not be on the disk */
static const struct setting everysec = {
    { "--appendonly", "yes", "--appendfsync", "everysec" }, NULL
};

/* PostgreSQL; without a word it does not sync here, for speed */
#define SYNCED "-c", "fsync=on"
static const struct setting synced = { { SYNCED }, NULL };
static const struct setting late = { { SYNCED, "-c", "synchronous_commit=off" }, NULL };
static const struct setting late_by_role = {
    { SYNCED }, "ALTER ROLE postgres SET synchronous_commit = off"
};
static const struct setting torn = { { SYNCED, "-c", "full_page_writes=off" }, NULL };

/* MariaDB; without a word it is 2 */
#define FLUSHED "--innodb-flush-log-at-trx-commit="
static const struct setting flushed = { { FLUSHED "1" }, NULL };
static const struct setting unwritten = { { FLUSHED "0" }, NULL };
static const struct setting logged = { { FLUSHED "1", "--log-bin" }, NULL };
static const struct setting log_synced = {
    { FLUSHED "1", "--log-bin", "--sync-binlog=1" }, NULL
};
static const struct setting synced_twice = { { FLUSHED "3", "--log-bin" }, NULL };

static const struct notice_case cases[] = {
#define NOTICE(case_name, stage_name, setting_, says_)                                   \
    { #case_name, #stage_name, &setting_, says_ },
#include "notices.def"
#undef NOTICE
    { NULL, NULL, NULL, NULL },
};

static const struct notice_case *
find(const char *name)
{
    for (const struct notice_case *at = cases; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    FAIL("there is no notice '%s'", name);
}

/* of etcd, only servers below 3.4.31 and 3.5.13 are to be warned of */
static int
is_sound_etcd(const struct notice_case *on)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (strcmp(on->stage, "etcd") != 0) {
        return 0;
    }
    char *status = etcd_do(&lab.set.servers[0], "/v3/maintenance/status", "{}");
    const char *version = strstr(status, "\"version\":\"");
    CHECK(version != NULL &&
          sscanf(version + 11, "%u.%u.%u", &major, &minor, &patch) == 3);
    free(status);
    return major > 3 || minor > 5 || (minor == 5 && patch >= 13) ||
           (minor == 4 && patch >= 31);
}

static int
says_it(const char *notice, const char *wanted)
{
    return wanted[0] == '\0' ? notice[0] == '\0' : strstr(notice, wanted) != NULL;
}

/* whether the client of `on` is told what `of` is to be told */
static int
holds(const struct notice_case *of, const struct notice_case *on)
{
    dibs_error err = { 0 };
    dibs *client = NULL;
    lab_start(stage_find(on->stage), 0, on->setting->words);
    if (on->setting->text != NULL) {
        sql_do(&lab.set.servers[0], NULL, "%s", on->setting->text);
    }
    const char *wanted = is_sound_etcd(on) ? "" : of->says;
    if (dibs_open(&client, lab.url, NULL, &err) != DIBS_OK) {
        FAIL("%s: %s", lab.url, err.text);
    }
    int does = says_it(dibs_notice(client), wanted);
    printf("%s: \"%s\", which is %s for %s\n", on->name, dibs_notice(client),
           does ? "right" : "wrong", of->name);
    dibs_close(client);
    lab_stop();
    return does;
}

int
notice_run(const char *name, const char *instead)
{
    const struct notice_case *of = find(name);
    const struct notice_case *on = instead != NULL ? find(instead) : of;
    const struct family *family = stage_find(on->stage)->family;
    if (family->is_present != NULL && !family->is_present()) {
        printf("skipped: there is no %s\n", family->title);
        return EXIT_SKIPPED;
    }
    on_failure(lab_stop);
    limit_time((unsigned)slowly(LIMIT_S));
    return holds(of, on) == (instead != NULL);
}
