/* SPDX-License-Identifier: MIT */
/* Addresses of servers, as people write them. */
#include "resp/resp.h"

#include <string.h>

#include "util/port.h"

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
