/* SPDX-License-Identifier: MIT */
/* What an engine is given by its client: the session, and what core lends it. */
#ifndef DIBS_CORE_SESSION_H
#define DIBS_CORE_SESSION_H

#include <dibs/engine.h>

extern const dibs_host dibs__host;

/* `app` outlives the session. */
void dibs__session_init(dibs_session *session, const dibs_engine *engine,
                        const char *app);

#endif /* DIBS_CORE_SESSION_H */
