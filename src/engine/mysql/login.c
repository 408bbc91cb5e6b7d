/* SPDX-License-Identifier: MIT */
/*
 * How to log in, as the URL says it:
 *
 *   mysql://[USER[:PASSWORD]@]HOST[:3306][,...]/DATABASE[?tls=yes&ca=..&socket=..]
 */
#include "my.h"

#include <stdlib.h>
#include <string.h>

static int
read_tls(struct my_login *login, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = login->host;
    login->ca = host->param(url, "ca");
    login->cert = host->param(url, "cert");
    login->key = host->param(url, "key");
    int is_meant = login->ca || login->cert || login->key;
    login->tls = is_meant;
    int rc = host->param_yes(&login->tls, url, "tls", err);
    if (!rc)
        rc = host->param_yes(&login->insecure, url, "insecure", err);
    if (!rc && !login->tls && (is_meant || login->insecure))
        rc = host->fail(err, DIBS_ECONFIG, "ca=, cert=, key= and insecure= want tls=yes");
    if (!rc && !login->cert != !login->key)
        rc = host->fail(err, DIBS_ECONFIG, "cert= and key= belong together");
    return rc;
}

static int
read_database(struct my_login *login, const dibs_url_parts *url, dibs_error *err)
{
    login->database = url->path + (*url->path == '/');
    if (strchr(login->database, '/') || strlen(login->database) > MY_DATABASE_MAX)
        return login->host->fail(err, DIBS_ECONFIG, "%s is no name of a database",
                                 url->path);
    if (!*login->database)
        return login->host->fail(err, DIBS_ECONFIG,
                                 "the URL's path must be the name of a database");
    return DIBS_OK;
}

static int
check_hosts(const struct my_login *login, dibs_error *err)
{
    struct my_address address;
    const char *rest = login->hosts;
    if (login->socket && *login->hosts)
        return login->host->fail(err, DIBS_ECONFIG,
                                 "a host and socket= are two ways to say the same");
    while (*rest) {
        if (dibs__my_address_next(&address, &rest))
            return login->host->fail(err, DIBS_ECONFIG, "%s is no list of servers",
                                     login->hosts);
    }
    return DIBS_OK;
}

int
dibs__my_login_read(struct my_login *login, const dibs_host *host,
                    const dibs_url_parts *url, dibs_error *err)
{
    login->host = host;
    login->hosts = url->hosts;
    login->user = url->user;
    login->password = url->password;
    login->socket = host->param(url, "socket");
    int rc = read_database(login, url, err);
    if (!rc)
        rc = check_hosts(login, err);
    if (!rc)
        rc = host->param_yes(&login->defaults, url, "defaults", err);
    return rc ? rc : read_tls(login, url, err);
}

/* ---- addresses ---- */

static int
read_port(unsigned *out, const char *text, const char *end)
{
    char *stop = NULL;
    unsigned long port = *text >= '0' && *text <= '9' ? strtoul(text, &stop, 10) : 0;
    if (port == 0 || port > UINT16_MAX || stop != end)
        return -1;
    *out = (unsigned)port;
    return 0;
}

int
dibs__my_address_next(struct my_address *out, const char **rest)
{
    const char *text = *rest, *end = text + strcspn(text, ",");
    int is_v6 = *text == '[';
    const char *host_end = text + strcspn(text, is_v6 ? "]," : ":,");
    const char *port = host_end + (is_v6 && *host_end == ']');
    size_t len = (size_t)(host_end - text) - (size_t)is_v6;
    out->port = MY_PORT;
    if (len == 0 || len >= sizeof out->host || (is_v6 && *host_end != ']'))
        return -1;
    if (port != end && (*port != ':' || read_port(&out->port, port + 1, end)))
        return -1;
    memcpy(out->host, text + is_v6, len);
    out->host[len] = '\0';
    *rest = end + (*end == ',');
    return 0;
}
