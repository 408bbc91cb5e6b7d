/* SPDX-License-Identifier: MIT */
/*
 * Driving the zookeeper engine below its layouts: an open `struct zk`, and requests through
 * its sessions.
 */
#ifndef TEST_ZOOKEEPER_LINK_DRIVE_H
#define TEST_ZOOKEEPER_LINK_DRIVE_H

#include "core/sys.h"
#include "core/url.h"
#include "engine/zookeeper/link.h"
#include "servers.h"

#define TICK_MS 100 /* of the servers of tests */

typedef struct drive {
    const dibs_engine *engine; /* the table of its layout */
    dibs_session session;
    dibs__url url;
    struct zk zk;
    dibs_error err; /* of what failed last */
} drive;

/* drive_open must succeed; drive_try_open returns the code. The format makes the URL. */
void drive_open(drive *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int drive_try_open(drive *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void drive_close(drive *client);
/* drive_close_forked is for a child. */
void drive_close_forked(drive *client);

/* in_ms is a deadline. */
static inline dibs_time
in_ms(int64_t ms)
{
    return dibs__now() + ms * DIBS_MS;
}

/* drive_session must get one for that lease. */
struct session *drive_session(drive *client, uint32_t lease_ms);

/* drive_make creates a node, drive_delete deletes it, drive_is tells whether it is there:
 * what run says, with the rc of the op in *rc. */
int drive_make(drive *client, struct session *session, const char *path, int mode,
               int64_t limit_ms, int *rc);
int drive_delete(drive *client, struct session *session, const char *path,
                 int64_t limit_ms, int *rc);
int drive_is(drive *client, struct session *session, const char *path, int64_t limit_ms,
             int *rc);

#endif /* TEST_ZOOKEEPER_LINK_DRIVE_H */
