/* SPDX-License-Identifier: MIT */
/* Tickets (cli/run_ticket.c): any text in $DIBS_TICKET ends; what is found in it is for that
 * URL and that name only. An input is a name, NUL, and the text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "run.h"

#define URL "local:/dev/shm/x"

/* of `local:/dev/shm/x`, as ticket_print writes it */
static uint64_t
hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static void
check_text(const char *text, const char *name)
{
    struct ticket ticket;
    size_t count = 0;
    for (const char *at = text; (at = ticket_parse(&ticket, at, URL, name)) != NULL;
         count++)
        HOLDS(at > text && at <= text + strlen(text));
    HOLDS(count <= strlen(text));
}

/* one of ours, behind another's: it is found, and not under another name or URL */
static void
check_own(const char *name)
{
    size_t len = strlen(name);
    char *text = malloc(2 * len + 200);
    struct ticket ticket = { 0 };
    int used = sprintf(text, "0123-x-7-0-6161,%016" PRIx64 "-s-18446744073709551615-2-",
                       hash_of(URL));
    for (size_t i = 0; i < len; i++)
        used += sprintf(text + used, "%02x", (unsigned char)name[i]);
    HOLDS(ticket_parse(&ticket, text, URL, name) == text + used);
    HOLDS(ticket.mode == 's' && ticket.token == UINT64_MAX && ticket.previous == 2);
    HOLDS(!ticket_parse(&ticket, text, URL "y", name));
    text[used - 1] ^= 1;
    HOLDS(!ticket_parse(&ticket, text, URL, name));
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    const char *part;
    size_t len;
    if (fuzz_name(&input, &part, &len))
        return 0;
    char *name = fuzz_text(part, len), *text = fuzz_text(input.at, input.left);
    check_text(text, name);
    check_own(name);
    free(text);
    free(name);
    return 0;
}
