/* SPDX-License-Identifier: MIT */
/*
 * Tests of the suite itself: `conform --meta fixtures|slots SOURCE_FOLDER`.
 *
 * fixtures: every engine in src/engine has a fixture. slots: every slot of the engine
 * table has a case in slots.def, and that case, run here with the trace switched on,
 * really calls it on some engine. Both read the sources as they are now, not as they
 * were when built.
 */
#include "conform.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS_MAX 32

struct slot_case {
    const char *slot, *case_name;
};

static const struct slot_case slot_cases[] = {
#define SLOT(slot, case_name) { #slot, case_name },
#include "slots.def"
#undef SLOT
    { NULL, NULL },
};

static int
has_fixture(const char *engine)
{
    for (size_t i = 0; fixtures[i] != NULL; i++) {
        if (strcmp(fixtures[i]->engine, engine) == 0) {
            return 1;
        }
    }
    return 0;
}

static int
check_fixtures(const char *source)
{
    char path[4096];
    int engines = 0;
    (void)snprintf(path, sizeof(path), "%s/src/engine", source);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            engines++;
            if (!has_fixture(entry->d_name)) {
                FAIL("engine %s has no fixture in fixtures.def", entry->d_name);
            }
        }
    }
    closedir(dir);
    CHECK(engines > 0);
    return 0;
}

/* the slot a line of the table declares, as in "int (*renew)(void *state, ..." */
static int
slot_in_line(char *out, size_t size, const char *line)
{
    const char *from = strstr(line, "(*");
    size_t len = 0;
    if (from == NULL) {
        return 0;
    }
    for (from += 2; isalnum((unsigned char)from[len]) || from[len] == '_'; len++) {
    }
    if (len == 0 || len >= size || strncmp(from + len, ")(", 2) != 0) {
        return 0;
    }
    memcpy(out, from, len);
    out[len] = '\0';
    return 1;
}

static int
read_slots(char slots[][32], const char *source)
{
    char path[4096], line[512];
    int inside = 0, count = 0;
    (void)snprintf(path, sizeof(path), "%s/include/dibs/engine.h", source);
    FILE *header = fopen(path, "r");
    CHECK(header != NULL);
    while (fgets(line, sizeof(line), header) != NULL) {
        inside = inside || strstr(line, "typedef struct dibs_engine {") != NULL;
        if (strncmp(line, "} dibs_engine;", 14) == 0) {
            break;
        }
        if (inside && slot_in_line(slots[count], sizeof(slots[0]), line)) {
            CHECK(++count < SLOTS_MAX);
        }
    }
    fclose(header);
    CHECK(count > 0);
    return count;
}

static const char *
case_of_slot(const char *slot)
{
    for (const struct slot_case *at = slot_cases; at->slot != NULL; at++) {
        if (strcmp(at->slot, slot) == 0) {
            return at->case_name;
        }
    }
    FAIL("slot %s has no case in slots.def", slot);
}

static int
log_has(const char *path, const char *verb)
{
    char line[64];
    int found = 0;
    FILE *log = fopen(path, "r");
    while (log != NULL && !found && fgets(line, sizeof(line), log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        found = strcmp(line, verb) == 0;
    }
    if (log != NULL) {
        fclose(log);
    }
    return found;
}

/* runs a case with a fixture and says whether the slot was called meanwhile */
static int
case_calls_slot(const char *with, const char *case_name, const char *slot,
                const char *log_path)
{
    const char *arguments[] = { with, case_name, NULL };
    (void)unlink(log_path);
    int status = reap(spawn_self(arguments, NULL, 0), slowly(30000));
    if (!WIFEXITED(status) ||
        (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_SKIPPED)) {
        FAIL("%s fails on %s", case_name, with);
    }
    return log_has(log_path, slot);
}

static char log_folder[64];

static void
remove_log(void)
{
    remove_tree(log_folder);
}

static int
check_slots(const char *source)
{
    static char slots[SLOTS_MAX][32];
    char log_path[96];
    int count = read_slots(slots, source);
    temp_dir(log_folder, sizeof(log_folder), "/tmp");
    on_failure(remove_log);
    (void)snprintf(log_path, sizeof(log_path), "%s/verbs", log_folder);
    setenv("CONFORM_VERB_LOG", log_path, 1);
    for (int i = 0; i < count; i++) {
        const char *case_name = case_of_slot(slots[i]);
        int called = *case_name == '\0';
        CHECK(called || find_case(case_name) != NULL);
        for (size_t j = 0; fixtures[j] != NULL && !called; j++) {
            called = case_calls_slot(fixtures[j]->name, case_name, slots[i], log_path);
        }
        if (!called) {
            FAIL("%s is to call slot %s, but does not on any engine", case_name,
                 slots[i]);
        }
    }
    remove_log();
    return 0;
}

int
meta_main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[2], "fixtures") == 0) {
        return check_fixtures(argv[3]);
    }
    if (argc == 4 && strcmp(argv[2], "slots") == 0) {
        return check_slots(argv[3]);
    }
    fprintf(stderr, "usage: conform --meta fixtures|slots SOURCE_FOLDER\n");
    return 2;
}
