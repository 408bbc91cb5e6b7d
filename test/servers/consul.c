/* SPDX-License-Identifier: MIT */
/*
 * Consul, alone and as three servers. See servers.h.
 *
 * Servers that are wired gossip with each other at the address BESIDE, where they also say
 * that they can be reached; there, the wires listen for what is no gossip.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define MEMBERS 3
#define PATIENCE_MS 1000
#define ASK_LIMIT_MS 5000
#define KEY_MAX 1024
/* with this one may do all */
#define MASTER "00000000-0000-4000-8000-000000000001"

int
consul_present(void)
{
    return server_present("consul");
}

/* ---- starting ---- */

static void
write_tls(FILE *file, const server *of)
{
    const char *folder = of->options.certs;
    const char *cert = of->options.cert != NULL ? of->options.cert : "server";
    fputs("verify_incoming_https = true\n", file);
    fprintf(file, "ca_file = \"%s/ca.crt\"\ncert_file = \"%s/%s.crt\"\n", folder, folder,
            cert);
    fprintf(file, "key_file = \"%s/%s.key\"\n", folder, cert);
}

static void
write_config(const server *of)
{
    FILE *file = server_file(of, "agent.hcl");
    fputs("limits { http_max_conns_per_client = 1000 }\n"
          "performance { raft_multiplier = 1 }\n"
          "disable_update_check = true\nsession_ttl_min = \"1s\"\n",
          file);
    fprintf(file,
            "ports { http = %d https = %d dns = -1 grpc = -1 server = %d serf_lan = %d "
            "serf_wan = -1 }\n",
            of->port, of->tls_port != 0 ? of->tls_port : -1, of->bus_port,
            of->elect_port);
    fprintf(file, "retry_join = [%s]\nretry_interval = \"200ms\"\n", of->members);
    if (of->found_at != 0) {
        fputs("advertise_addr = \"" BESIDE "\"\nserf_lan = \"" BESIDE "\"\n", file);
    }
    if (of->options.certs != NULL) {
        write_tls(file, of);
    }
    if (of->options.acl != NULL) {
        fputs("acl { enabled = true default_policy = \"deny\" tokens { master = "
              "\"" MASTER "\" agent = \"" MASTER "\" } }\n",
              file);
    }
    fprintf(file, "%s\n", of->options.config != NULL ? of->options.config : "");
    CHECK(fclose(file) == 0);
}

void
consul_words(struct words *to, const server *of)
{
    word_add(to, "agent");
    word_add(to, "-server");
    word_add(to, word_make(to, "-bootstrap-expect=%d", of->members[0] != '\0' ? 3 : 1));
    word_add(to, word_make(to, "-data-dir=%s/data", of->folder));
    word_add(to, word_make(to, "-config-file=%s/agent.hcl", of->folder));
    word_add(to, word_make(to, "-node=m%d", of->member));
    word_add(to, "-bind=127.0.0.1");
    word_add(to, "-client=127.0.0.1");
    word_add(to, "-disable-host-node-id");
    word_add(to, "-log-level=err");
    word_list(to, of->options.more);
}

static void
prepare(server *out, const server_options *options)
{
    server_options own = options != NULL ? *options : (server_options){ 0 };
    const char *acl = own.acl;
    own.acl = NULL; /* that is not a file here */
    server_prepare(out, KIND_CONSUL, &own);
    out->options.acl = acl;
}

/* ---- asking ---- */

typedef char *ask_how(const server *, const struct http_request *, int *status);

static char *
ask_by(ask_how *how, const server *to, const char *method, const char *path,
       const char *body, int *status)
{
    char full[KEY_MAX + 64];
    struct http_request request = {
        .method = method, .path = full, .body = body, .limit_ms = slowly(ASK_LIMIT_MS)
    };
    request.header = to->options.acl != NULL ? "X-Consul-Token: " MASTER : NULL;
    CHECK(snprintf(full, sizeof(full), "/v1/%s", path) < (int)sizeof(full));
    return how(to, &request, status);
}

static char *
ask(const server *to, const char *method, const char *path, const char *body, int *status)
{
    return ask_by(http_insist, to, method, path, body, status);
}

/* what it says now, also if that is that it cannot */
static char *
ask_once(const server *to, const char *path, int *status)
{
    return ask_by(http_ask, to, "GET", path, NULL, status);
}

char *
consul_do(const server *to, const char *method, const char *path, const char *body)
{
    int status = 0;
    char *answer = ask(to, method, path, body, &status);
    if (answer == NULL || status != 200) {
        FAIL("Consul at port %d answers %s %s with %d %s", to->port, method, path, status,
             answer != NULL ? answer : "(nothing)");
    }
    return answer;
}

/* ---- tokens ---- */

static void
print_quoted(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putc('\\', to);
        }
        putc(*text, to);
    }
}

static char *
policy_of(const char *rules)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    fputs("{\"Name\":\"app\",\"Rules\":\"", to);
    print_quoted(to, rules);
    fputs("\"}", to);
    fclose(to);
    return text;
}

/* one that has just begun to lead does not know its tokens yet */
static void
await_master(const server *to)
{
    int64_t until = now_ms() + slowly(ASK_LIMIT_MS);
    int status = 0;
    while (status != 200) {
        CHECK(now_ms() < until);
        free(ask_once(to, "acl/tokens", &status));
        sleep_ms(10);
    }
}

/* a token for what `acl` allows, the same at all of them */
static void
make_token(server *all, int count)
{
    size_t len = 0;
    if (all[0].options.acl == NULL) {
        return;
    }
    await_master(&all[0]);
    char *policy = policy_of(all[0].options.acl);
    free(consul_do(&all[0], "PUT", "acl/policy", policy));
    char *answer =
        consul_do(&all[0], "PUT", "acl/token", "{\"Policies\":[{\"Name\":\"app\"}]}");
    const char *token = json_text(answer, "SecretID", &len);
    CHECK(token != NULL && len < sizeof(all[0].token));
    for (int i = 0; i < count; i++) {
        memcpy(all[i].token, token, len);
    }
    free(policy);
    free(answer);
}

void
consul_start(server *out, const server_options *options)
{
    prepare(out, options);
    write_config(out);
    server_run(out);
    make_token(out, 1);
}

/* ---- three of them ---- */

static void
wire_members(wires *between, server_set *set)
{
    int targets[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        targets[i] = set->servers[i].bus_port;
        set->servers[i].found_at = 1;
    }
    wires_start_beside(between, targets, MEMBERS, PATIENCE_MS);
}

/* who gossips where, the same words for all */
static void
introduce(server *all)
{
    for (int i = 0; i < MEMBERS; i++) {
        const char *host = all[i].found_at != 0 ? BESIDE : "127.0.0.1";
        all[i].member = i;
        CHECK(snprintf(all[i].members, sizeof(all[i].members),
                       "\"%s:%d\", \"%s:%d\", \"%s:%d\"", host, all[0].elect_port, host,
                       all[1].elect_port, host,
                       all[2].elect_port) < (int)sizeof(all[i].members));
        write_config(&all[i]);
    }
}

void
consul_start_cluster(server_set *out, const server_options *options, wires *between)
{
    memset(out, 0, sizeof(*out));
    for (out->count = 0; out->count < MEMBERS; out->count++) {
        prepare(&out->servers[out->count], options);
    }
    if (between != NULL) {
        wire_members(between, out);
    }
    introduce(out->servers);
    set_run(out);
    make_token(out->servers, MEMBERS);
}

/* it knows who leads, and that answers: to read a key takes the leader */
int
consul_is_ready(const server *of)
{
    int status = 0;
    if (!http_says(of, "/v1/status/leader", ":")) {
        return 0;
    }
    free(ask_once(of, "kv/none?consistent", &status));
    return status == 404 || status == 200;
}

static int
leads(const server *of)
{
    int status = 0;
    char *answer = ask_once(of, "agent/self", &status);
    int is_leader =
        status == 200 && answer != NULL && strstr(answer, "\"leader\":\"true\"") != NULL;
    free(answer);
    return is_leader;
}

int
consul_leader(const server_set *set)
{
    return set_leader(set, leads);
}

void
consul_cut_off(const server_set *set, wires *between, int index)
{
    wires_hold(between, index);
    for (int i = 0; i < set->count; i++) {
        if (i != index) {
            wires_bar(between, i, set->servers[index].pid);
        }
    }
}

/* ---- what operators do ---- */

static char *
read_key(const server *of, const char *key)
{
    char path[KEY_MAX];
    int status = 0;
    CHECK(snprintf(path, sizeof(path), "kv/%s?consistent", key) < (int)sizeof(path));
    char *answer = ask(of, "GET", path, NULL, &status);
    CHECK(answer != NULL && (status == 200 || status == 404));
    return answer;
}

void
consul_session_of(char *out, size_t size, const server *of, const char *key)
{
    size_t len = 0;
    char *answer = read_key(of, key);
    const char *session = json_text(answer, "Session", &len);
    (void)snprintf(out, size, "%.*s", (int)len, session != NULL ? session : "");
    free(answer);
}

void
consul_end_session(const server *to, const char *id)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "session/destroy/%s", id);
    free(consul_do(to, "PUT", path, NULL));
}

void
consul_delete(const server *to, const char *key)
{
    char path[KEY_MAX];
    CHECK(snprintf(path, sizeof(path), "kv/%s", key) < (int)sizeof(path));
    free(consul_do(to, "DELETE", path, NULL));
}

/* ---- what is there ---- */

static char *
all_keys(const server *of)
{
    int status = 0;
    char *answer = ask(of, "GET", "kv/?keys&consistent", NULL, &status);
    CHECK(answer != NULL && (status == 200 || status == 404));
    return answer;
}

/* the next text of a list, and behind it; NULL: there are no more. What is escaped in it
 * stays so. */
static const char *
next_key(char *out, size_t size, const char *from)
{
    const char *begin = strchr(from, '"');
    size_t len = 1;
    if (begin == NULL) {
        return NULL;
    }
    while (begin[len] != '"' && begin[len] != '\0') {
        len += begin[len] == '\\' ? 2 : 1;
    }
    (void)snprintf(out, size, "%.*s", (int)len - 1, begin + 1);
    return begin + len + 1;
}

static int
is_of_lock(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0 && strstr(key, "%cells/") == NULL &&
           strstr(key, "%fences/") == NULL;
}

int
consul_count_keys(const server *of, const char *prefix)
{
    char key[KEY_MAX], *answer = all_keys(of);
    int count = 0;
    for (const char *at = answer; (at = next_key(key, sizeof(key), at)) != NULL;) {
        count += is_of_lock(key, prefix);
    }
    free(answer);
    return count;
}

int
consul_count_sessions(const server *of)
{
    char *answer = consul_do(of, "GET", "session/list?consistent", NULL);
    size_t len;
    int count = 0;
    for (const char *at = answer; (at = json_text(at, "ID", &len)) != NULL; at += len) {
        count++;
    }
    free(answer);
    return count;
}

void
consul_show(const server *of)
{
    char key[KEY_MAX], *answer = all_keys(of);
    fprintf(stderr, "the keys of locks of the Consul at port %d:\n", of->port);
    for (const char *at = answer; (at = next_key(key, sizeof(key), at)) != NULL;) {
        if (is_of_lock(key, "")) {
            fprintf(stderr, "%s\n", key);
        }
    }
    free(answer);
    answer = consul_do(of, "GET", "session/list?consistent", NULL);
    fprintf(stderr, "its sessions: %s\n", answer);
    free(answer);
}
