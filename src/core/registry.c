/* SPDX-License-Identifier: MIT */
/*
 * The list of engines. `local` is built in; every other engine is a module of its own,
 * found by its name in one folder and opened when its scheme is first used, so that a
 * program pays only for the client libraries it needs. Modules are never closed.
 */
#include "core/registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/sys.h"
#include "util/shortage.h"

#define ENGINES_MAX 64 /* with their layouts */

extern const dibs_engine dibs__engine_local;

/* which module a scheme is in, so that a refusal can name what to install */
static const struct {
    const char *scheme, *engine;
} homes[] = {
    { "mock", "mock" },
    { "redis", "redis" },
    { "rediss", "redis" },
    { "redis+unix", "redis" },
    { "redis+sentinel", "redis" },
    { "redis+cluster", "redis" },
    { "redlock", "redlock" },
    { "zk", "zookeeper" },
    { "zookeeper", "zookeeper" },
    { "zks", "zookeeper" },
    { "etcd", "etcd" },
    { "etcds", "etcd" },
    { "consul", "consul" },
    { "consuls", "consul" },
    { "postgres", "postgres" },
    { "postgresql", "postgres" },
    { "mysql", "mysql" },
    { "mariadb", "mysql" },
    { "sqlite", "sqlite" },
};

static dibs__mutex registry_mutex = DIBS__MUTEX_INIT;
static dibs_engine engines[ENGINES_MAX]; /* guarded by registry_mutex; only grows */
static size_t engine_count;              /* guarded by registry_mutex */
static const char *modules[ENGINES_MAX]; /* those that were opened, by name; the same */
static size_t module_count;

/* ---- what a missing optional slot does ---- */

static int
default_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)claim, (void)deadline, (void)err;
    return DIBS_OK;
}

static int
unsupported(dibs_error *err)
{
    return dibs__fail(err, DIBS_EUNSUPPORTED, "this engine has no such thing");
}

static int
default_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)claim, (void)deadline;
    return unsupported(err);
}

static int
default_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)sink, (void)deadline;
    return unsupported(err);
}

static int
default_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)name, (void)name_len, (void)name_hash, (void)sink, (void)deadline;
    return unsupported(err);
}

static int
default_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
              size_t *broken, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)name, (void)name_len, (void)name_hash, (void)broken,
        (void)deadline;
    return unsupported(err);
}

static int
default_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out,
                  dibs_time deadline, dibs_error *err)
{
    (void)state, (void)key, (void)out, (void)deadline;
    return unsupported(err);
}

static int
default_cell_swap(void *state, const dibs_cell_key *key, uint64_t version,
                  const void *value, size_t len, uint64_t *new_version,
                  dibs_time deadline, dibs_error *err)
{
    (void)state, (void)key, (void)version, (void)value, (void)len, (void)new_version;
    (void)deadline;
    return unsupported(err);
}

static void
fill_defaults(dibs_engine *engine)
{
#define DEFAULT_SLOT(slot)                                                               \
    if (!engine->slot)                                                                   \
    engine->slot = default_##slot
    DEFAULT_SLOT(watch);
    DEFAULT_SLOT(downgrade);
    DEFAULT_SLOT(list);
    DEFAULT_SLOT(inspect);
    DEFAULT_SLOT(evict);
    DEFAULT_SLOT(cell_read);
    DEFAULT_SLOT(cell_swap);
#undef DEFAULT_SLOT
}

/* ---- the list ---- */

static const char *
missing_slot(const dibs_engine *engine)
{
    uint32_t caps = engine->caps;
#define NEED(slot, condition)                                                            \
    if ((condition) && !engine->slot)                                                    \
    return #slot
    NEED(name, 1);
    NEED(schemes, 1);
    NEED(params, 1);
    NEED(open, 1);
    NEED(close, 1);
    NEED(attempt, 1);
    NEED(renew, 1);
    NEED(release, 1);
    NEED(downgrade, caps & DIBS_CAP_SHARED);
    NEED(list, caps & DIBS_CAP_INSPECT);
    NEED(inspect, caps & DIBS_CAP_INSPECT);
    NEED(evict, caps & DIBS_CAP_BREAK);
    NEED(cell_read, caps & DIBS_CAP_CELL);
    NEED(cell_swap, caps & DIBS_CAP_CELL);
#undef NEED
    return NULL;
}

static int
serves(const dibs_engine *engine, const char *scheme)
{
    const char *const *at = engine->schemes;
    while (*at && strcmp(*at, scheme) != 0)
        at++;
    return *at != NULL;
}

/* layout NULL: the default, which was added first */
static const dibs_engine *
find_locked(const char *scheme, const char *layout)
{
    for (size_t i = 0; i < engine_count; i++) {
        const char *found = engines[i].layout;
        if (serves(&engines[i], scheme) &&
            (!layout || (found && strcmp(found, layout) == 0)))
            return &engines[i];
    }
    return NULL;
}

static int
check(const dibs_engine *engine, dibs_error *err)
{
    if (engine->abi != DIBS_ENGINE_ABI)
        return dibs__fail(err, DIBS_ECONFIG,
                          "the engine speaks abi %u, this library %d: install matching "
                          "versions",
                          (unsigned)engine->abi, DIBS_ENGINE_ABI);
    const char *missing = missing_slot(engine);
    if (missing)
        return dibs__fail(err, DIBS_ECONFIG, "engine %s lacks '%s'",
                          engine->name ? engine->name : "?", missing);
    return DIBS_OK;
}

static void
append_locked(const dibs_engine *engine, const dibs_engine *const *layouts)
{
    dibs_engine *copy = &engines[engine_count++];
    *copy = *engine;
    copy->layouts = layouts;
    fill_defaults(copy);
}

static int
add_locked(const dibs_engine *engine, dibs_error *err)
{
    const dibs_engine *const alone[] = { engine, NULL };
    const dibs_engine *const *all;
    size_t count = 0;
    int rc = check(engine, err);
    if (rc)
        return rc;
    for (const char *const *at = engine->schemes; *at; at++) {
        if (find_locked(*at, NULL))
            return dibs__fail(err, DIBS_ECONFIG, "scheme '%s' is served already", *at);
    }
    for (all = engine->layouts ? engine->layouts : alone; !rc && all[count]; count++)
        rc = check(all[count], err);
    if (rc)
        return rc;
    if (engine_count + count > ENGINES_MAX)
        return dibs__fail(err, DIBS_ECONFIG, "more than %d engines and layouts",
                          ENGINES_MAX);
    for (size_t i = 0; i < count; i++)
        append_locked(all[i], engine->layouts);
    return DIBS_OK;
}

int
dibs__registry_add(const dibs_engine *engine, dibs_error *err)
{
    dibs__mutex_lock(&registry_mutex);
    int rc = add_locked(engine, err);
    dibs__mutex_unlock(&registry_mutex);
    return rc;
}

/* ---- modules ---- */

static const char *
home_of(const char *scheme)
{
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        if (strcmp(homes[i].scheme, scheme) == 0)
            return homes[i].engine;
    }
    return NULL;
}

/* dlopen says why it cannot read a file only in words */
static int
check_file(const char *path, const char *engine_name, dibs_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
        return DIBS_OK;
    }
    if (is_shortage(errno))
        return dibs__fail(err, DIBS_ENOMEM, "engine %s cannot be loaded now: %s",
                          engine_name, strerror(errno));
    if (errno != ENOENT && errno != ENOTDIR)
        return dibs__fail(err, DIBS_ECONFIG, "engine %s cannot be loaded: %s: %s",
                          engine_name, path, strerror(errno));
    return dibs__fail(err, DIBS_ECONFIG,
                      "engine %s is not installed: there is no %s (set DIBS_ENGINE_DIR "
                      "if the engines are elsewhere)",
                      engine_name, path);
}

static int
load_locked(const char *engine_name, dibs_error *err)
{
    char path[PATH_MAX];
    const char *folder = secure_getenv("DIBS_ENGINE_DIR");
    if (!folder || !*folder)
        folder = DIBS_ENGINE_DIR;
    (void)snprintf(path, sizeof path, "%s/dibs-engine-%s.so", folder, engine_name);
    int rc = check_file(path, engine_name, err);
    if (rc)
        return rc;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const dibs_engine *engine = module ? dlsym(module, DIBS_ENGINE_SYMBOL) : NULL;
    if (!engine) {
        dibs__fail(err, DIBS_ECONFIG, "engine %s cannot be loaded: %s", engine_name,
                   dlerror());
        if (module)
            dlclose(module);
        return DIBS_ECONFIG;
    }
    rc = add_locked(engine, err);
    if (!rc)
        modules[module_count++] = engine_name;
    return rc;
}

static int
is_loaded_locked(const char *engine_name)
{
    for (size_t i = 0; i < module_count; i++) {
        if (strcmp(modules[i], engine_name) == 0)
            return 1;
    }
    return 0;
}

/* makes the engine known that should serve a scheme, if it is not */
static int
bring_in_locked(const char *scheme, dibs_error *err)
{
    const char *home = home_of(scheme);
    if (strcmp(scheme, "local") == 0)
        return add_locked(&dibs__engine_local, err);
    if (!home)
        return dibs__fail(err, DIBS_ECONFIG, "no engine serves the scheme '%s:'", scheme);
    return is_loaded_locked(home) ? DIBS_OK : load_locked(home, err);
}

static int
no_layout(const dibs_engine *engine, const char *layout, dibs_error *err)
{
    char all[128] = "";
    for (const dibs_engine *const *at = engine->layouts; at && *at; at++) {
        size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "",
                       (*at)->layout);
    }
    return dibs__fail(err, DIBS_ECONFIG, "layout=%.64s: engine %s has %s", layout,
                      engine->name, *all ? all : "only one way, and no layouts");
}

int
dibs__registry_find(const dibs_engine **out, const char *scheme, const char *layout,
                    dibs_error *err)
{
    int rc = DIBS_OK;
    dibs__mutex_lock(&registry_mutex);
    if (!find_locked(scheme, NULL))
        rc = bring_in_locked(scheme, err);
    const dibs_engine *any = find_locked(scheme, NULL);
    const dibs_engine *found = find_locked(scheme, layout);
    if (!rc && !any)
        rc = dibs__fail(err, DIBS_ECONFIG, "the installed engine does not serve '%s:'",
                        scheme);
    else if (!rc && !found)
        rc = no_layout(any, layout, err);
    if (!rc)
        *out = found;
    dibs__mutex_unlock(&registry_mutex);
    return rc;
}
