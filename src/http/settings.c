/* SPDX-License-Identifier: MIT */
/* What a URL says about TLS, the same for all engines that speak HTTP. */
#include "http/http.h"

#include <string.h>

int
dibs__http_read_tls(http_settings *out, const dibs_url_parts *url, const char *tls_scheme,
                    dibs_error *err)
{
    const dibs_host *host = out->host;
    out->tls = strcmp(url->scheme, tls_scheme) == 0;
    out->ca = host->param(url, "ca");
    out->cert = host->param(url, "cert");
    out->key = host->param(url, "key");
    out->name = host->param(url, "name");
    int rc = host->param_yes(&out->insecure, url, "insecure", err);
    if (rc)
        return rc;
    if (!out->tls && (out->ca || out->cert || out->key || out->name || out->insecure))
        return host->fail(
            err, DIBS_ECONFIG,
            "ca=, cert=, key=, name= and insecure= are for TLS: use %s:", tls_scheme);
    if (!out->cert != !out->key)
        return host->fail(err, DIBS_ECONFIG, "cert= and key= go together");
    return DIBS_OK;
}
