/* SPDX-License-Identifier: MIT */
/* Addresses (resp/address.c): written for people, one is read as the same again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "resp/wire.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    resp_address address, again;
    memset(&address, 0x5a, sizeof address);
    resp_address before = address;
    if (dibs__resp_address_parse(&address, text, size, 6379) != 0) {
        HOLDS(memcmp(&address, &before, sizeof address) == 0);
    } else {
        char where[280];
        HOLDS(memchr(address.host, '\0', sizeof address.host) && address.host[0]);
        HOLDS(address.port != 0);
        dibs__wire_where(where, sizeof where, &address);
        HOLDS(dibs__resp_address_parse(&again, where, strlen(where), 1) == 0);
        HOLDS(again.port == address.port && strcmp(again.host, address.host) == 0);
    }
    free(text);
    return 0;
}
