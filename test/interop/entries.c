/* SPDX-License-Identifier: MIT */
/*
 * What is on an etcd or a Consul, in a form in which two libraries that wrote down the same
 * thing look the same: ids of leases and sessions become <id>, and what stands in an entry
 * that nobody reads is left out. See interop.h.
 */
#include "interop.h"

#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 32
#define TEXT_MAX 512
#define LINE_MAX (2 * TEXT_MAX + 64)
/* where locks of the layout single are */
#define SINGLE "/locks/"

struct entry {
    char key[TEXT_MAX], value[TEXT_MAX], flags[32], owner[64];
    size_t value_len;
};

struct entries {
    int count;
    struct entry list[ENTRIES_MAX];
};

static const server *
server_of(const struct stage *stage)
{
    return &stage->servers.servers[0];
}

/* ---- reading ---- */

/* a member of an object that ends there, as text; "" if it has none */
static void
member(char *out, size_t size, const char *object, const char *end, const char *name)
{
    char start[64];
    size_t len = (size_t)snprintf(start, sizeof(start), "\"%s\":", name);
    const char *at = memmem(object, (size_t)(end - object), start, len);
    out[0] = '\0';
    if (at == NULL) {
        return;
    }
    at += len;
    int is_text = *at == '"';
    at += is_text;
    len = strcspn(at, is_text ? "\"" : ",}");
    CHECK(len < size);
    memcpy(out, at, len);
    out[len] = '\0';
}

static size_t
decode(char *text)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, count = 0;
    size_t at = 0;
    for (const char *in = text; *in != '\0' && *in != '='; in++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *in) - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            text[at++] = (char)(bits >> count & 255);
        }
    }
    text[at] = '\0';
    return at;
}

/* a lease is named by its number in hex, in keys */
static void
read_etcd(struct entry *out, const char *object, const char *end)
{
    char lease[32];
    member(out->key, TEXT_MAX, object, end, "key");
    (void)decode(out->key);
    member(out->value, TEXT_MAX, object, end, "value");
    member(lease, sizeof(lease), object, end, "lease");
    if (lease[0] != '\0') {
        snprintf(out->owner, sizeof(out->owner), "%" PRIx64,
                 (uint64_t)strtoll(lease, NULL, 10));
    }
}

static void
read_consul(struct entry *out, const char *object, const char *end)
{
    member(out->key, TEXT_MAX, object, end, "Key");
    member(out->value, TEXT_MAX, object, end, "Value");
    if (strcmp(out->value, "null") == 0) {
        out->value[0] = '\0';
    }
    member(out->flags, sizeof(out->flags), object, end, "Flags");
    member(out->owner, sizeof(out->owner), object, end, "Session");
}

static int
belongs(const char *key, const char *name)
{
    size_t len = strlen(name);
    if (strncmp(key, SINGLE, strlen(SINGLE)) == 0) {
        return strcmp(key + strlen(SINGLE), name) == 0;
    }
    return strncmp(key, name, len) == 0 && (key[len] == '/' || key[len] == '\0');
}

/* all on an etcd, from the oldest; on a Consul all that begin with the name */
static char *
ask_all(const struct stage *stage, const char *name)
{
    char body[TEXT_MAX];
    if (stage->store == ETCD) {
        return etcd_do(
            server_of(stage), "/v3/kv/range",
            "{\"key\":\"AA==\",\"range_end\":\"AA==\",\"sort_target\":\"CREATE\"}");
    }
    snprintf(body, sizeof(body), "[{\"KV\":{\"Verb\":\"get-tree\",\"Key\":\"%s\"}}]",
             name);
    return consul_do(server_of(stage), "PUT", "txn", body);
}

static void
read_answer(struct entries *out, const struct stage *stage, const char *answer,
            const char *mark)
{
    out->count = 0;
    for (const char *at = answer; (at = strstr(at, mark)) != NULL; at++) {
        const char *end = strchr(at + strlen(mark), '}');
        struct entry *entry = &out->list[out->count++];
        CHECK(end != NULL && out->count < ENTRIES_MAX);
        memset(entry, 0, sizeof(*entry));
        (stage->store == ETCD ? read_etcd : read_consul)(entry, at, end);
        entry->value_len = decode(entry->value);
    }
}

static void
read_entries(struct entries *out, const struct stage *stage, const char *name)
{
    char *answer = ask_all(stage, name);
    int count = 0;
    read_answer(out, stage, answer, stage->store == ETCD ? "{\"key\":" : "\"KV\":{");
    free(answer);
    for (int i = 0; i < out->count; i++) {
        if (belongs(out->list[i].key, name)) {
            out->list[count++] = out->list[i];
        }
    }
    out->count = count;
}

/* ---- describing ---- */

/* the recipes of Go have the time in nanoseconds where others have a lease */
static void
without_ids(char *text)
{
    static const char id[] = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{19}";
    regex_t pattern;
    regmatch_t match;
    CHECK(regcomp(&pattern, id, REG_EXTENDED) == 0);
    while (regexec(&pattern, text, 1, &match, 0) == 0) {
        memcpy(text + match.rm_so, "<id>", 4);
        memmove(text + match.rm_so + 4, text + match.rm_eo,
                strlen(text + match.rm_eo) + 1);
    }
    regfree(&pattern);
}

/* ... and who has it */
static void
without_owner(char *key, const char *owner)
{
    char *at = owner[0] != '\0' ? strstr(key, owner) : NULL;
    if (at != NULL && at[strlen(owner)] == '\0') {
        memcpy(at, "<id>", 5);
    }
}

/* what others read: the list of a semaphore, who leads, and whose the only key is */
static void
describe_value(char *out, size_t size, const struct entry *entry, const char *kind)
{
    out[0] = '\0';
    if (strcmp(kind, "single") == 0) {
        snprintf(out, size, "%zu bytes", entry->value_len);
    } else if (strcmp(kind, "latch") == 0) {
        snprintf(out, size, "%.*s", (int)strcspn(entry->value, "\n"), entry->value);
    } else if (strncmp(kind, "sem", 3) == 0 && entry->owner[0] == '\0') {
        snprintf(out, size, "%s", entry->value);
        without_ids(out);
    }
}

static void
describe(char out[LINE_MAX], const struct entry *entry, const char *kind,
         const char *name)
{
    char key[TEXT_MAX], value[TEXT_MAX];
    const char *at = strstr(entry->key, name);
    memcpy(key, at + strlen(name), strlen(at + strlen(name)) + 1);
    without_owner(key, entry->owner);
    without_ids(key);
    describe_value(value, sizeof(value), entry, kind);
    CHECK(snprintf(out, LINE_MAX, "'%s' %s flags '%s' '%s'", key,
                   entry->owner[0] != '\0' ? "owned" : "lasting", entry->flags,
                   value) < LINE_MAX);
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

char *
entries_shape(const struct stage *stage, const char *kind, const char *name)
{
    static char lines[ENTRIES_MAX][LINE_MAX];
    struct entries entries;
    char *out = calloc(ENTRIES_MAX, LINE_MAX);
    CHECK(out != NULL);
    read_entries(&entries, stage, name);
    for (int i = 0; i < entries.count; i++) {
        describe(lines[i], &entries.list[i], kind, name);
    }
    qsort(lines, (size_t)entries.count, LINE_MAX, by_text);
    for (int i = 0; i < entries.count; i++) {
        strcat(out, lines[i]);
        strcat(out, "\n");
    }
    return out;
}

int
entries_count(const struct stage *stage, const char *name)
{
    struct entries entries;
    read_entries(&entries, stage, name);
    return entries.count;
}

void
entries_end(const struct stage *stage, const char *name)
{
    struct entries entries;
    read_entries(&entries, stage, name);
    const char *owner = entries.count > 0 ? entries.list[0].owner : "";
    CHECK(owner[0] != '\0');
    if (stage->store == ETCD) {
        etcd_revoke(server_of(stage), (int64_t)strtoull(owner, NULL, 16));
    } else {
        consul_end_session(server_of(stage), owner);
    }
}

/* ---- what is left ---- */

static int
is_of_dibs(const char *sessions, const char *id)
{
    char start[128];
    snprintf(start, sizeof(start), "\"ID\":\"%s\",\"Name\":\"dibs", id);
    return strstr(sessions, start) != NULL;
}

/* `consul lock` that gives up leaves its own entry until its session is over; that is not
 * counted */
static int
consul_left(const struct stage *stage)
{
    const server *on = server_of(stage);
    struct entries entries;
    int count = 0;
    /* what is empty is not found */
    free(consul_do(on, "PUT", "kv/some", ""));
    char *answer = consul_do(on, "GET", "kv/?recurse&consistent", NULL);
    char *sessions = consul_do(on, "GET", "session/list?consistent", NULL);
    read_answer(&entries, stage, answer, "{\"LockIndex\":");
    for (int i = 0; i < entries.count; i++) {
        const struct entry *entry = &entries.list[i];
        count += strcmp(entry->key, "some") != 0 &&
                 (entry->owner[0] == '\0' || is_of_dibs(sessions, entry->owner));
    }
    CHECK(entries.count > 0);
    free(answer);
    free(sessions);
    return count;
}

int
entries_left(const struct stage *stage)
{
    return stage->store == ETCD ? etcd_count_keys(server_of(stage), "")
                                : consul_left(stage);
}

/* ---- counting ---- */

/* etcd counts calls by their names */
static int64_t
etcd_calls(const struct stage *stage)
{
    char *text = etcd_do(server_of(stage), "/metrics", "%s", "");
    int64_t sum = 0;
    for (const char *at = text; (at = strstr(at, "\ngrpc_server_started_total{")) != NULL;
         at++) {
        size_t len = strcspn(at + 1, "\n") + 1;
        const char *end = memchr(at, '}', len);
        if (end != NULL && memmem(at, len, "etcdserverpb.KV", 15) != NULL) {
            sum += (int64_t)strtod(end + 1, NULL);
        }
    }
    free(text);
    return sum;
}

/* Consul writes each request down when it has answered it */
static int64_t
consul_requests(const struct stage *stage)
{
    char path[96], line[4096];
    int64_t count = 0;
    snprintf(path, sizeof(path), "%s/log", server_of(stage)->folder);
    FILE *log = fopen(path, "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof(line), log) != NULL) {
        count +=
            strstr(line, "url=/v1/kv/") != NULL || strstr(line, "url=/v1/txn") != NULL;
    }
    fclose(log);
    CHECK(count > 0);
    return count;
}

int64_t
entries_asked(const struct stage *stage)
{
    return stage->store == ETCD ? etcd_calls(stage) : consul_requests(stage);
}
