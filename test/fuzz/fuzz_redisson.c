/* SPDX-License-Identifier: MIT */
/* What is seen of Redisson's locks (engine/redis/redisson_look.c, redisson_name.c). */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/redisson.h"
#include "reply.h"

static void
use(const redisReply *reply, void *context)
{
    struct counting_sink sink;
    (void)context;
    fuzz_sink(&sink);
    int rc = dibs__redisson_report("n", 1, reply, &sink.sink);
    HOLDS(rc == DIBS_OK || (rc == DIBS_ECORRUPT && sink.locks == 0));
    HOLDS(sink.locks == (sink.parties > 0));
}

/* an owner is a UUID, a colon and a number, and may end with ":write" */
static void
check_owner(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    if (dibs__redisson_is_owner(text, size)) {
        HOLDS(size >= 38 && text[36] == ':' && text[37] >= '0' && text[37] <= '9');
        HOLDS(!memchr(text, ' ', size) && !memchr(text, '\0', size));
    }
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    check_owner(data, size);
    each_reply(&input, use, NULL);
    return 0;
}
