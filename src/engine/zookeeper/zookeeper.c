/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine: reads the URL, opens, closes; and the tables of its layouts.
 * docs/engines/zookeeper.md is for its users, zk.h says what is where.
 */
#include <stdio.h>
#include <string.h>

#include "zk.h"

#define PORT "2181"
#define ROOT "/dibs"
#define TICK_MS 2000
#define SESSION_MAX_MS (24 * 3600 * 1000)

/* ---- the URL ---- */

static int
read_choices(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const namings[] = { "curator", "kazoo", "bare", NULL };
    static const char *const forms[] = { "mutex", "rw", NULL };
    int naming = NAMING_CURATOR;
    int rc = zk->host->param_choice(&naming, url, "naming", namings, err);
    zk->naming = (enum naming)naming;
    zk->is_node = strcmp(zk->session->engine->layout, "node") == 0;
    return rc ? rc : zk->host->param_choice(&zk->is_rw, url, "form", forms, err);
}

/* Who may see and change what we make: all; or only who has our credentials, which then is
 * the default; or they, and all may look. */
static int
read_acl(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const names[] = { "open", "creator", "read", NULL };
    static struct ACL shared[2];
    int which = zk->credentials != NULL;
    int rc = zk->host->param_choice(&which, url, "acl", names, err);
    if (rc)
        return rc;
    if (which && !zk->credentials)
        return zk->host->fail(err, DIBS_ECONFIG,
                              "acl=%s needs a user and a password in the URL",
                              names[which]);
    shared[0].perms = ZOO_PERM_ALL;
    shared[0].id = ZOO_AUTH_IDS;
    shared[1].perms = ZOO_PERM_READ;
    shared[1].id = ZOO_ANYONE_ID_UNSAFE;
    zk->acl = which == 0 ? ZOO_OPEN_ACL_UNSAFE : ZOO_CREATOR_ALL_ACL;
    if (which == 2)
        zk->acl = (struct ACL_vector){ .count = 2, .data = shared };
    return DIBS_OK;
}

static int
read_credentials(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    if (!url->user && !url->password)
        return DIBS_OK;
    if (!url->user || !*url->user || !url->password || strchr(url->user, ':'))
        return zk->host->fail(err, DIBS_ECONFIG,
                              "credentials are a user without ':', and a password");
    size_t size = strlen(url->user) + strlen(url->password) + 2;
    zk->credentials = zk->host->alloc(size);
    if (!zk->credentials)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    (void)snprintf(zk->credentials, size, "%s:%s", url->user, url->password);
    return DIBS_OK;
}

static int
read_times(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    zk->tick_ms = TICK_MS;
    int rc = zk->host->param_ms(&zk->tick_ms, url, "tick", err);
    if (!rc)
        rc = zk->host->param_ms(&zk->session_ms, url, "session", err);
    if (!rc && (zk->tick_ms <= 0 || zk->tick_ms > SESSION_MAX_MS))
        rc = zk->host->fail(err, DIBS_ECONFIG, "tick= must be longer than 0");
    if (!rc && (zk->session_ms < 0 || zk->session_ms > SESSION_MAX_MS))
        rc = zk->host->fail(err, DIBS_ECONFIG, "session= can be 24h at most");
    return rc;
}

/* ---- TLS ---- */

#ifdef DIBS_ZK_TLS
/* As the library wants them: "CA,CERTIFICATE,KEY", files in PEM format. */
static int
read_certificates(struct zk *zk, const char *ca, const char *cert, const char *key,
                  dibs_error *err)
{
    if (!ca || !cert != !key || strchr(ca, ',') || (cert && strchr(cert, ',')) ||
        (key && strchr(key, ',')))
        return zk->host->fail(err, DIBS_ECONFIG,
                              "zks: needs ca=, or ca=, cert= and key=: names of files "
                              "without commas");
    size_t size = strlen(ca) + (cert ? strlen(cert) + strlen(key) + 2 : 0) + 1;
    zk->tls = zk->host->alloc(size);
    if (!zk->tls)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    (void)snprintf(zk->tls, size, cert ? "%s,%s,%s" : "%s", ca, cert, key);
    return DIBS_OK;
}
#else
static int
read_certificates(struct zk *zk, const char *ca, const char *cert, const char *key,
                  dibs_error *err)
{
    (void)ca;
    (void)cert;
    (void)key;
    return zk->host->fail(err, DIBS_EUNSUPPORTED,
                          "the ZooKeeper client library here was built without TLS");
}
#endif

static int
read_tls(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    const char *ca = zk->host->param(url, "ca");
    const char *cert = zk->host->param(url, "cert");
    const char *key = zk->host->param(url, "key");
    if (strcmp(url->scheme, "zks") == 0)
        return read_certificates(zk, ca, cert, key, err);
    if (ca || cert || key)
        return zk->host->fail(err, DIBS_ECONFIG,
                              "ca=, cert= and key= are for TLS: use zks:");
    return DIBS_OK;
}

/* ---- hosts ---- */

/* Writes one host as the library wants it: with its port, and without the brackets of an
 * IPv6 address. Returns the length, -1 if it is not well-formed. */
static int
write_host(char *out, size_t size, const char *host, int len)
{
    const char *end = host + len;
    const char *name = host, *name_end, *port = PORT;
    int port_len = (int)strlen(PORT);
    if (*host == '[') {
        name = host + 1;
        name_end = memchr(name, ']', (size_t)(end - name));
        if (!name_end || (name_end + 1 < end && name_end[1] != ':'))
            return -1;
        host = name_end + 1;
    } else {
        const char *colon = memchr(host, ':', (size_t)len);
        name_end = colon ? colon : end;
        host = name_end;
    }
    if (host < end) {
        port = host + 1;
        port_len = (int)(end - port);
    }
    int value = 0;
    for (int i = 0; i < port_len; i++)
        value = port[i] < '0' || port[i] > '9' || value > 65535
                    ? 65536
                    : value * 10 + port[i] - '0';
    if (name == name_end || value < 1 || value > 65535)
        return -1;
    return snprintf(out, size, "%.*s:%d", (int)(name_end - name), name, value);
}

int
dibs__zk_read_hosts(struct zk *zk, const char *text, dibs_error *err)
{
    const char *from = *text ? text : "127.0.0.1";
    size_t commas = 0, size, used = 0;
    for (const char *c = from; *c; c++)
        commas += *c == ',';
    size = strlen(from) + (commas + 1) * sizeof ":" PORT;
    char *hosts = zk->host->alloc(size);
    if (!hosts)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    zk->hosts = hosts;
    for (;;) {
        int len = (int)strcspn(from, ",");
        int wrote = write_host(hosts + used, size - used, from, len);
        if (wrote < 0)
            return zk->host->fail(err, DIBS_ECONFIG,
                                  "%.*s: a host, host:port or [IPv6]:port, please", len,
                                  from);
        used += (size_t)wrote;
        if (!from[len])
            return DIBS_OK;
        hosts[used++] = ',';
        from += len + 1;
    }
}

/* ---- the root ---- */

static int
is_root(const char *path)
{
    const char *part = path;
    while (*part == '/') {
        size_t len = strcspn(part + 1, "/");
        if (len == 0 || (len == 1 && part[1] == '.') ||
            (len == 2 && part[1] == '.' && part[2] == '.'))
            return 0;
        part += 1 + len;
    }
    for (; path != part; path++) {
        if ((unsigned char)*path < 0x20 || *path == 0x7f)
            return 0;
    }
    return !*part;
}

static int
read_root(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    const char *path = *url->path ? url->path : ROOT;
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len >= sizeof zk->root)
        return zk->host->fail(err, DIBS_ECONFIG, "the path is too long");
    memcpy(zk->root, path, len);
    zk->root[len] = '\0';
    if (!is_root(zk->root))
        return zk->host->fail(err, DIBS_ECONFIG, "%s is no path of a node", path);
    if (strcmp(zk->root, "/zookeeper") == 0 || strncmp(zk->root, "/zookeeper/", 11) == 0)
        return zk->host->fail(err, DIBS_ECONFIG, "%s is the servers' own", path);
    return DIBS_OK;
}

/* ---- open and close ---- */

static int
read_url(struct zk *zk, const dibs_url_parts *url, dibs_error *err)
{
    int rc = read_tls(zk, url, err);
    if (!rc)
        rc = read_choices(zk, url, err);
    if (!rc)
        rc = read_credentials(zk, url, err);
    if (!rc)
        rc = read_acl(zk, url, err);
    if (!rc)
        rc = read_times(zk, url, err);
    if (!rc)
        rc = dibs__zk_read_hosts(zk, url->hosts, err);
    return rc ? rc : read_root(zk, url, err);
}

static void
zk_close(void *state, int forked)
{
    struct zk *zk = state;
    dibs__zk_sessions_close(zk, forked);
    if (zk->credentials)
        explicit_bzero(zk->credentials, strlen(zk->credentials));
    zk->host->free(zk->credentials);
    zk->host->free(zk->hosts);
    zk->host->free(zk->tls);
}

static void
set_endpoint(struct zk *zk, const dibs_url_parts *url)
{
    (void)snprintf(zk->session->endpoint, sizeof zk->session->endpoint, "%s://%s",
                   url->scheme, *url->hosts ? url->hosts : "127.0.0.1");
}

static int
zk_open(void *state, dibs_session *session, const dibs_url_parts *url, dibs_time deadline,
        dibs_error *err)
{
    struct zk *zk = state;
    int64_t limit_ms = 0;
    zk->session = session;
    zk->host = session->host;
    set_endpoint(zk, url);
    int rc = read_url(zk, url, err);
    if (!rc)
        rc = zk->host->param_ms(&limit_ms, url, "connect_timeout", err);
    if (limit_ms > 0 && zk->host->now() + limit_ms * DIBS_MS < deadline)
        deadline = zk->host->now() + limit_ms * DIBS_MS;
    if (!rc)
        rc = dibs__zk_sessions_open(zk, deadline, err);
    if (rc)
        zk_close(zk, 0);
    return rc;
}

/* ---- the tables ---- */

static const char *const schemes[] = { "zk", "zookeeper", "zks", NULL };

#define COMMON_PARAMS                                                                    \
    "session", "tick", "acl", "connect_timeout", "ca", "cert", "key", NULL
static const char *const curator_params[] = { "naming", "form", COMMON_PARAMS };
static const char *const node_params[] = { COMMON_PARAMS };

#define COMMON                                                                           \
    .abi = DIBS_ENGINE_ABI, .name = "zookeeper", .schemes = schemes,                     \
    .state_size = sizeof(struct zk), .open = zk_open, .close = zk_close,                 \
    .renew = dibs__zk_renew, .cell_read = dibs__zk_cell_read,                            \
    .cell_swap = dibs__zk_cell_swap

static const dibs_engine node = {
    COMMON,
    .layout = "node",
    .params = node_params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_BREAK | DIBS_CAP_WAKE,
    .attempt = dibs__zk_node_attempt,
    .release = dibs__zk_node_release,
    .list = dibs__zk_node_list,
    .inspect = dibs__zk_node_inspect,
    .evict = dibs__zk_node_evict,
};

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

static const dibs_engine *const layouts[] = { &dibs_engine_table, &node, NULL };

const dibs_engine dibs_engine_table = {
    COMMON,
    .layout = "curator",
    .layouts = layouts,
    .params = curator_params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |
            DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK |
            DIBS_CAP_WAKE | DIBS_CAP_DETAIL | DIBS_CAP_OBSERVE,
    .attempt = dibs__zk_curator_attempt,
    .release = dibs__zk_curator_release,
    .downgrade = dibs__zk_curator_downgrade,
    .list = dibs__zk_curator_list,
    .inspect = dibs__zk_curator_inspect,
    .evict = dibs__zk_curator_evict,
};
