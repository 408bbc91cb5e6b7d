/* SPDX-License-Identifier: MIT */
/* Whether a host's name can be looked up in time. The client libraries of databases do that in
 * one go, and wait for a resolver for as long as it takes: so it is asked here first, by a
 * thread that may be left behind. */
#ifndef DIBS_SQL_LOOKUP_H
#define DIBS_SQL_LOOKUP_H

#include <dibs/engine.h>

/* dibs__sql_look_up returns DIBS_OK if the name has an address, is one, or needs none (NULL, a
 * path); else DIBS_EUNAVAIL. */
int dibs__sql_look_up(const dibs_host *host, const char *name, dibs_time deadline,
                      dibs_error *err);

#endif /* DIBS_SQL_LOOKUP_H */
