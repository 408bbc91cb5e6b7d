/* SPDX-License-Identifier: MIT */
/*
 * etcd, alone and as three members. See servers.h.
 *
 * Operators are played over the JSON gateway, at the port without TLS. Keys and values are
 * base64 there, and numbers are texts.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define MEMBERS 3
#define PATIENCE_MS 1000
#define ASK_LIMIT_MS 5000
#define ROOT_PASSWORD "tests"
#define KEY_MAX 1024
/* all keys: from the smallest to no end */
#define ALL "\"key\":\"AA==\",\"range_end\":\"AA==\""

int
etcd_present(void)
{
    return server_present("etcd") && server_present("etcdctl");
}

/* ---- starting ---- */

static void
add_tls(struct words *to, const server *of)
{
    const char *folder = of->options.certs;
    const char *cert = of->options.cert != NULL ? of->options.cert : "server";
    word_pair(to, "--cert-file", word_make(to, "%s/%s.crt", folder, cert));
    word_pair(to, "--key-file", word_make(to, "%s/%s.key", folder, cert));
    word_pair(to, "--trusted-ca-file", word_make(to, "%s/ca.crt", folder));
    word_add(to, "--client-cert-auth");
}

static void
add_addresses(struct words *to, const server *of)
{
    const char *plain = word_make(to, "http://127.0.0.1:%d", of->port);
    word_pair(to, "--advertise-client-urls", plain);
    if (of->options.certs != NULL) {
        add_tls(to, of);
        plain = word_make(to, "%s,https://127.0.0.1:%d", plain, of->tls_port);
    }
    word_pair(to, "--listen-client-urls", plain);
    word_pair(to, "--listen-peer-urls",
              word_make(to, "http://127.0.0.1:%d", of->bus_port));
    word_pair(to, "--initial-advertise-peer-urls",
              word_make(to, "http://127.0.0.1:%d", of->found_at));
}

void
etcd_words(struct words *to, const server *of)
{
    word_pair(to, "--name", word_make(to, "m%d", of->member));
    word_pair(to, "--data-dir", word_make(to, "%s/data", of->folder));
    word_pair(to, "--initial-cluster", of->members);
    add_addresses(to, of);
    word_pair(to, "--logger", "zap");
    word_pair(to, "--log-level", "error");
    /* passwords are safe enough here */
    word_pair(to, "--bcrypt-cost", "4");
    word_list(to, of->options.more);
}

static void
prepare(server *out, const server_options *options)
{
    server_options own = options != NULL ? *options : (server_options){ 0 };
    own.acl = NULL; /* that is not a file here */
    server_prepare(out, KIND_ETCD, &own);
    out->found_at = out->bus_port;
}

/* the same words for all, by which they know each other */
static void
introduce(server *all, int count)
{
    char text[sizeof(all->members)];
    size_t len = 0;
    for (int i = 0; i < count; i++) {
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%sm%d=http://127.0.0.1:%d",
                             i > 0 ? "," : "", i, all[i].found_at);
        CHECK(len < sizeof(text));
    }
    for (int i = 0; i < count; i++) {
        all[i].member = i;
        memcpy(all[i].members, text, len + 1);
    }
}

static void
wire_members(wires *between, server_set *set)
{
    int targets[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        targets[i] = set->servers[i].bus_port;
    }
    wires_start_patient(between, targets, MEMBERS, PATIENCE_MS);
    for (int i = 0; i < MEMBERS; i++) {
        set->servers[i].found_at = between->ports[i];
    }
}

/* ---- asking ---- */

/* a copy for free() of a text in an answer, or NULL */
static char *
copy_text(const char *from, const char *name)
{
    size_t len;
    const char *text = from != NULL ? json_text(from, name, &len) : NULL;
    return text != NULL ? strndup(text, len) : NULL;
}

static char *
post(const server *to, const char *path, const char *header, const char *body,
     int *status)
{
    struct http_request request = { .method = "POST",
                                    .path = path,
                                    .header = header,
                                    .body = body,
                                    .limit_ms = slowly(ASK_LIMIT_MS) };
    return http_insist(to, &request, status);
}

/* the header with which we are root, or NULL where there are no users */
static char *
sign_in(const server *to)
{
    char *header = NULL;
    int status = 0;
    if (to->options.acl == NULL) {
        return NULL;
    }
    char *answer =
        post(to, "/v3/auth/authenticate", NULL,
             "{\"name\":\"root\",\"password\":\"" ROOT_PASSWORD "\"}", &status);
    char *token = copy_text(answer, "token");
    CHECK(token != NULL && asprintf(&header, "Authorization: %s", token) > 0);
    free(token);
    free(answer);
    return header;
}

char *
etcd_do(const server *to, const char *path, const char *format, ...)
{
    char *body = NULL;
    int status = 0;
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&body, format, args) >= 0);
    va_end(args);
    char *header = sign_in(to), *answer = post(to, path, header, body, &status);
    if (answer == NULL || status != 200) {
        FAIL("etcd at port %d answers %s %s with %d %s", to->port, path, body, status,
             answer != NULL ? answer : "(nothing)");
    }
    free(header);
    free(body);
    return answer;
}

/* ---- base64 ---- */

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void
encode(char *out, const char *in, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)(unsigned char)in[i] << 16;
        three |= i + 1 < len ? (uint32_t)(unsigned char)in[i + 1] << 8 : 0;
        three |= i + 2 < len ? (uint32_t)(unsigned char)in[i + 2] : 0;
        for (size_t j = 0; j < 4; j++) {
            *out++ = i + j <= len ? digits[three >> (18 - 6 * j) & 63] : '=';
        }
    }
    *out = '\0';
}

static void
decode(char *out, size_t size, const char *in, size_t len)
{
    uint32_t bits = 0, count = 0;
    size_t at = 0;
    for (size_t i = 0; i < len && in[i] != '='; i++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, in[i]) - digits);
        count += 6;
        if (count >= 8) {
            CHECK(at + 1 < size);
            out[at++] = (char)(bits >> (count - 8) & 255);
            count -= 8;
        }
    }
    out[at] = '\0';
}

const char *
etcd_key(const char *key)
{
    static char forms[4][KEY_MAX * 4 / 3 + 8];
    static int last;
    last = (last + 1) % 4;
    CHECK(strlen(key) < KEY_MAX);
    encode(forms[last], key, strlen(key));
    return forms[last];
}

/* ---- users ---- */

static void
do_to(const server *to, const char *path, const char *body)
{
    free(etcd_do(to, path, "%s", body));
}

/* root, who may do all; and a user of some keys */
static void
make_users(const server *to, const char *prefix)
{
    char end[KEY_MAX];
    CHECK(*prefix != '\0');
    (void)snprintf(end, sizeof(end), "%s", prefix);
    end[strlen(end) - 1]++;
    do_to(to, "/v3/auth/user/add",
          "{\"name\":\"root\",\"password\":\"" ROOT_PASSWORD "\"}");
    do_to(to, "/v3/auth/role/add", "{\"name\":\"root\"}");
    do_to(to, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    do_to(to, "/v3/auth/user/add",
          "{\"name\":\"" ETCD_USER "\",\"password\":\"" ETCD_PASSWORD "\"}");
    do_to(to, "/v3/auth/role/add", "{\"name\":\"some\"}");
    free(etcd_do(to, "/v3/auth/role/grant",
                 "{\"name\":\"some\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"%s\","
                 "\"range_end\":\"%s\"}}",
                 etcd_key(prefix), etcd_key(end)));
    do_to(to, "/v3/auth/user/grant", "{\"user\":\"" ETCD_USER "\",\"role\":\"some\"}");
    do_to(to, "/v3/auth/enable", "{}");
}

/* makes users if there are to be some; from then on they have to sign in at all of them */
static void
add_users(server *all, int count, const server_options *options)
{
    if (options == NULL || options->acl == NULL) {
        return;
    }
    make_users(&all[0], options->acl);
    for (int i = 0; i < count; i++) {
        all[i].options.acl = options->acl;
    }
}

void
etcd_change_users(const server *to)
{
    do_to(to, "/v3/auth/role/add", "{\"name\":\"other\"}");
    do_to(to, "/v3/auth/role/delete", "{\"role\":\"other\"}");
}

void
etcd_start(server *out, const server_options *options)
{
    prepare(out, options);
    introduce(out, 1);
    server_run(out);
    add_users(out, 1, options);
}

void
etcd_start_cluster(server_set *out, const server_options *options, wires *between)
{
    memset(out, 0, sizeof(*out));
    for (out->count = 0; out->count < MEMBERS; out->count++) {
        prepare(&out->servers[out->count], options);
    }
    if (between != NULL) {
        wire_members(between, out);
    }
    introduce(out->servers, MEMBERS);
    set_run(out);
    add_users(out->servers, MEMBERS, options);
}

/* ---- members ---- */

int
etcd_is_ready(const server *of)
{
    return http_says(of, "/health", "true");
}

/* one that stands still, or has lost the others, is not waited for */
static int
leads(const server *of)
{
    struct http_request request = { .method = "POST",
                                    .path = "/v3/maintenance/status",
                                    .body = "{}",
                                    .limit_ms = slowly(500) };
    char *answer = etcd_is_ready(of) ? http_ask(of, &request, NULL) : NULL;
    char *self = copy_text(answer, "member_id"), *leader = copy_text(answer, "leader");
    int is_leader = self != NULL && leader != NULL && strcmp(self, leader) == 0;
    free(self);
    free(leader);
    free(answer);
    return is_leader;
}

int
etcd_leader(const server_set *set)
{
    return set_leader(set, leads);
}

void
etcd_cut_off(const server_set *set, wires *between, int index)
{
    wires_hold(between, index);
    for (int i = 0; i < set->count; i++) {
        if (i != index) {
            wires_bar(between, i, set->servers[index].pid);
        }
    }
}

/* ---- what operators do ---- */

void
etcd_put(const server *to, const char *key, const char *value)
{
    free(etcd_do(to, "/v3/kv/put", "{\"key\":\"%s\",\"value\":\"%s\"}", etcd_key(key),
                 etcd_key(value)));
}

void
etcd_delete(const server *to, const char *key)
{
    free(etcd_do(to, "/v3/kv/deleterange", "{\"key\":\"%s\"}", etcd_key(key)));
}

void
etcd_revoke(const server *to, int64_t lease)
{
    free(etcd_do(to, "/v3/lease/revoke", "{\"ID\":\"%lld\"}", (long long)lease));
}

void
etcd_compact(const server *to)
{
    char *answer = etcd_do(to, "/v3/kv/range", "{" ALL ",\"count_only\":true}");
    free(etcd_do(to, "/v3/kv/compaction", "{\"revision\":\"%lld\",\"physical\":true}",
                 (long long)json_number(answer, "revision")));
    free(answer);
}

/* ---- what is there ---- */

static char *
all_keys(const server *of)
{
    return etcd_do(of, "/v3/kv/range", "{" ALL ",\"sort_target\":\"CREATE\"}");
}

/* the next key of an answer, and behind it; NULL: there are no more */
static const char *
next_key(char *out, size_t size, const char *from)
{
    size_t len;
    const char *text = json_text(from, "key", &len);
    if (text == NULL) {
        return NULL;
    }
    decode(out, size, text, len);
    return text + len;
}

static int
is_of_lock(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0 && strstr(key, "%cells/") == NULL &&
           strstr(key, "%fences/") == NULL;
}

int
etcd_count_keys(const server *of, const char *prefix)
{
    char key[KEY_MAX], *answer = all_keys(of);
    int count = 0;
    for (const char *at = answer; (at = next_key(key, sizeof(key), at)) != NULL;) {
        count += is_of_lock(key, prefix);
    }
    free(answer);
    return count;
}

/* the lease of a key, from its place in an answer: members up to the end of it */
static int64_t
lease_at(const char *key)
{
    char *rest = strndup(key, strcspn(key, "}"));
    int64_t lease = json_number(rest, "lease");
    free(rest);
    return lease;
}

int64_t
etcd_find_key(char *out, size_t size, const server *of, const char *prefix, int newest)
{
    char key[KEY_MAX], *answer = all_keys(of);
    int64_t lease = -1;
    for (const char *at = answer; (at = next_key(key, sizeof(key), at)) != NULL;) {
        if (is_of_lock(key, prefix) && (newest || lease < 0)) {
            lease = lease_at(at);
            (void)snprintf(out, size, "%s", key);
        }
    }
    free(answer);
    if (lease < 0) {
        FAIL("there is no key below '%s'", prefix);
    }
    return lease;
}

int
etcd_count_leases(const server *of)
{
    char *answer = etcd_do(of, "/v3/lease/leases", "{}");
    size_t len;
    int count = 0;
    for (const char *at = answer; (at = json_text(at, "ID", &len)) != NULL; at += len) {
        count++;
    }
    free(answer);
    return count;
}

void
etcd_show(const server *of)
{
    char key[KEY_MAX], *answer = all_keys(of);
    fprintf(stderr, "the keys of locks of the etcd at port %d:\n", of->port);
    for (const char *at = answer; (at = next_key(key, sizeof(key), at)) != NULL;) {
        if (is_of_lock(key, "")) {
            fprintf(stderr, "%s\n", key);
        }
    }
    free(answer);
    answer = etcd_do(of, "/v3/lease/leases", "{}");
    fprintf(stderr, "its leases: %s\n", answer);
    free(answer);
}
