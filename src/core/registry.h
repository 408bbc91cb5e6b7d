/* SPDX-License-Identifier: MIT */
/* Which engine serves a scheme: the one built in, or a module opened at first use. */
#ifndef DIBS_CORE_REGISTRY_H
#define DIBS_CORE_REGISTRY_H

#include <dibs/engine.h>

/* dibs__registry_find returns the engine of a scheme, opening its module if need be, in the
 * layout of that name (NULL: its default). The table has every optional slot filled.
 * DIBS_OK or DIBS_ECONFIG with a text that says what is missing. */
int dibs__registry_find(const dibs_engine **out, const char *scheme, const char *layout,
                        dibs_error *err);

/* dibs__registry_add makes an engine known, with all its layouts; refuses another abi, an empty mandatory slot
 * (by name), a scheme that is taken, a full list. */
int dibs__registry_add(const dibs_engine *engine, dibs_error *err);

#endif /* DIBS_CORE_REGISTRY_H */
