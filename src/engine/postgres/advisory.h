/* SPDX-License-Identifier: MIT */
/* The layout `advisory`: what advisory.c and advisory_texts.c share. */
#ifndef DIBS_ENGINE_POSTGRES_ADVISORY_H
#define DIBS_ENGINE_POSTGRES_ADVISORY_H

#include "bound.h"

struct advisory {
    struct bound bound;
    pg_keymap *map;
};

/* in the order of ?form= */
extern const struct bound_form dibs__advisory_session, dibs__advisory_xact;

int dibs__advisory_texts_make(struct advisory *advisory);
int dibs__advisory_key(const struct advisory *advisory, struct pg_key *out,
                       const char *name, size_t len, dibs_error *err);
/* a text that ends all sessions that hold that key, and counts them */
void dibs__advisory_print_end(const struct bound *bound, char *out, size_t size,
                              const struct pg_key *key);

#endif /* DIBS_ENGINE_POSTGRES_ADVISORY_H */
