/* SPDX-License-Identifier: MIT */
/*
 * What a URL says of getting in, read alike for every engine that speaks RESP: who we are,
 * and whether and how to encrypt.
 */
#include "resp.h"

void
dibs__resp_access_begin(resp_access *access, const dibs_url_parts *url,
                        const dibs_host *host)
{
    access->host = host;
    access->user = url->user && *url->user ? url->user : NULL;
    access->password = url->password;
    access->client_name = "dibs";
}

int
dibs__resp_access_tls(resp_access *access, const dibs_url_parts *url, int is_wanted,
                      const char *ways, dibs_error *err)
{
    const dibs_host *host = access->host;
    resp_tls_files files = { .ca = host->param(url, "ca"),
                             .cert = host->param(url, "cert"),
                             .key = host->param(url, "key"),
                             .name = host->param(url, "sni") };
    int rc = host->param_yes(&files.insecure, url, "insecure", err);
    if (!rc)
        rc = host->param_yes(&is_wanted, url, "tls", err);
    if (rc)
        return rc;
    if (is_wanted)
        return dibs__resp_tls_new(&access->tls, &files, host, err);
    if (files.ca || files.cert || files.key || files.name || files.insecure)
        return host->fail(err, DIBS_ECONFIG,
                          "ca=, cert=, key=, sni= and insecure= are for TLS: %s", ways);
    return DIBS_OK;
}
