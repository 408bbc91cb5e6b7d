/* SPDX-License-Identifier: MIT */
/* The port of an address, as people write it. In a header, so that modules have it too. */
#ifndef DIBS_UTIL_PORT_H
#define DIBS_UTIL_PORT_H

#include <stddef.h>
#include <stdint.h>

/* parse_port reads a port that ends at `len`: 0, or -1 if it is none. */
static inline int
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

#endif /* DIBS_UTIL_PORT_H */
