/* SPDX-License-Identifier: MIT */
/*
 * Versions that its users should know of: in some a leader that was stuck, and replaced
 * meanwhile, ends leases that were kept alive (etcd #15247).
 */
#include <stdio.h>

#include "claim.h"

static int
ends_live_leases(const char *version)
{
    unsigned major = 0, minor = 0, patch = 0;
    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3 || major > 3)
        return 0;
    return major < 3 || minor < 4 || (minor == 4 && patch < 31) ||
           (minor == 5 && patch < 13);
}

/* That it cannot be told is no reason to fail. */
void
dibs__etcd_note_version(struct etcd *etcd, dibs_time deadline)
{
    dibs_session *session = etcd->session;
    http_answer answer = { 0 };
    const http_request request = { .method = "GET",
                                   .path = "/version",
                                   .flags = HTTP_REPEATABLE };
    if (dibs__http_call(etcd->http, &request, &answer, deadline, NULL))
        return;
    const char *version = json_string_value(json_object_get(answer.json, "etcdserver"));
    if (version && ends_live_leases(version))
        (void)snprintf(session->notice, sizeof session->notice,
                       "etcd %.20s may end leases that are kept alive (etcd #15247), as "
                       "all below 3.4.31 and 3.5.13: guard what must not be done twice "
                       "with a fence",
                       version);
    dibs__http_answer_free(&answer);
}
