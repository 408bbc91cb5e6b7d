/* SPDX-License-Identifier: MIT */
/* Addresses of servers, as people write them. */
#include "resp/resp.h"

#include <string.h>

static int
parse_port(uint16_t *out, const char *text, size_t len)
{
    uint32_t port = 0;
    if (len == 0 || len > 5)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX)
        return -1;
    *out = (uint16_t)port;
    return 0;
}

int
dibs__resp_address_parse(resp_address *out, const char *text, size_t len,
                         uint16_t default_port)
{
    const char *host = text, *end = text + len, *host_end;
    uint16_t port = default_port;
    if (len > 0 && text[0] == '[') {
        host = text + 1;
        host_end = memchr(host, ']', len - 1);
        if (host_end == NULL)
            return -1;
    } else {
        host_end = memchr(text, ':', len);
        if (host_end == NULL)
            host_end = end;
    }
    size_t host_len = (size_t)(host_end - host);
    const char *rest = host_end + (host_end < end && *host_end == ']');
    if (host_len == 0 || host_len >= sizeof(out->host) || memchr(host, '\0', host_len) ||
        memchr(host, '[', host_len))
        return -1;
    if (rest < end &&
        (*rest != ':' || parse_port(&port, rest + 1, (size_t)(end - rest) - 1) != 0))
        return -1;
    memset(out, 0, sizeof(*out));
    memcpy(out->host, host, host_len);
    out->port = port;
    return 0;
}
