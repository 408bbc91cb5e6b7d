/* SPDX-License-Identifier: MIT */
/*
 * The URL, as libpq wants to be told:
 *
 *   postgres://[USER[:PASSWORD]@][HOST[:PORT][,...]][/DATABASE][?...], postgresql: the same
 *
 * What is not said is left to libpq, which looks where psql does.
 */
#include "postgres.h"

#include <string.h>

static void
add(struct address *address, const char *name, const char *value)
{
    if (!value || address->count >= ADDRESS_MAX - 1)
        return;
    address->names[address->count] = name;
    address->values[address->count++] = value;
}

/* ---- hosts ---- */

/* one HOST[:PORT] or [IPV6][:PORT], which ends at a NUL; NULL: it is none */
static const char *
split_host(char *text, const char **port)
{
    int is_bracketed = *text == '[';
    char *end = text + strcspn(text, is_bracketed ? "]" : ":");
    *port = "";
    if (is_bracketed && *end++ != ']')
        return NULL;
    if (*end == ':')
        *port = end + 1;
    else if (*end)
        return NULL;
    end[is_bracketed ? -1 : 0] = '\0';
    return text + is_bracketed;
}

/* libpq could take a list, but goes on to the next only if nothing at all answers */
static int
split_hosts(struct address *out)
{
    char *rest = out->hosts, *text;
    while ((text = strsep(&rest, ",")) != NULL) {
        if (out->host_count == HOSTS_MAX)
            return -1;
        size_t at = out->host_count++;
        out->host_names[at] = split_host(text, &out->host_ports[at]);
        if (!out->host_names[at])
            return -1;
    }
    return 0;
}

static int
read_hosts(struct address *out, const dibs_host *host, const dibs_url_parts *url,
           dibs_error *err)
{
    size_t size = strlen(url->hosts) + 1;
    if (size == 1)
        return DIBS_OK;
    if (host->param(url, "host") || host->param(url, "port"))
        return host->fail(err, DIBS_ECONFIG,
                          "host= and port= are for URLs without a host");
    out->hosts = host->alloc(size);
    if (!out->hosts)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    memcpy(out->hosts, url->hosts, size);
    if (split_hosts(out))
        return host->fail(err, DIBS_ECONFIG, "'%s' is no list of up to %d hosts",
                          url->hosts, HOSTS_MAX);
    return DIBS_OK;
}

static int
read_database(struct address *out, const dibs_host *host, const dibs_url_parts *url,
              dibs_error *err)
{
    const char *name = url->path + (*url->path == '/');
    if (strchr(name, '/'))
        return host->fail(err, DIBS_ECONFIG, "'%s' is no name of a database", name);
    add(out, "dbname", *name ? name : NULL);
    return DIBS_OK;
}

/* ---- the rest ---- */

static void
add_params(struct address *out, const dibs_host *host, const dibs_url_parts *url)
{
    static const char *const names[] = { LIBPQ_PARAMS };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add(out, names[i], host->param(url, names[i]));
}

static void
add_default(struct address *out, const dibs_host *host, const dibs_url_parts *url,
            const char *name, const char *value)
{
    if (!host->param(url, name))
        add(out, name, value);
}

/* A peer that is gone is noticed within 20 s also by who only listens. The server that can be
 * written to is meant. */
static void
add_defaults(struct address *out, const dibs_session *session, const dibs_url_parts *url)
{
    static const char *const tcp[][2] = { { "keepalives_idle", "10" },
                                          { "keepalives_interval", "3" },
                                          { "keepalives_count", "3" },
                                          { "tcp_user_timeout", "15000" } };
    for (size_t i = 0; i < sizeof tcp / sizeof *tcp; i++)
        add_default(out, session->host, url, tcp[i][0], tcp[i][1]);
    add_default(out, session->host, url, "target_session_attrs", "read-write");
    add(out, "fallback_application_name", session->app);
    add(out, "client_encoding", "UTF8");
}

int
dibs__pg_address_read(struct address *out, const dibs_session *session,
                      const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = session->host;
    add(out, "user", url->user && *url->user ? url->user : NULL);
    add(out, "password", url->password);
    int rc = read_hosts(out, host, url, err);
    if (!rc)
        rc = read_database(out, host, url, err);
    add_params(out, host, url);
    add_defaults(out, session, url);
    return rc;
}

void
dibs__pg_address_free(struct address *address, const dibs_host *host)
{
    host->free(address->hosts);
    address->hosts = NULL;
}

PGconn *
dibs__pg_address_begin(const struct address *address, size_t host)
{
    const char *names[ADDRESS_MAX + 2], *values[ADDRESS_MAX + 2];
    size_t n = address->count;
    memcpy(names, address->names, sizeof address->names);
    memcpy(values, address->values, sizeof address->values);
    if (address->host_count) {
        names[n] = "host";
        values[n++] = address->host_names[host];
        names[n] = "port";
        values[n++] = address->host_ports[host];
    }
    names[n] = NULL;
    return PQconnectStartParams(names, values, 0);
}
