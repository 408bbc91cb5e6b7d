/* SPDX-License-Identifier: MIT */
/* The classic layouts on PostgreSQL: classic.c has their tables, classic_texts.c their
 * statements. sql/classic.h is what they are. */
#ifndef DIBS_ENGINE_POSTGRES_CLASSIC_H
#define DIBS_ENGINE_POSTGRES_CLASSIC_H

#include "postgres.h"
#include "sql/classic.h"

extern const char *const dibs__pg_unique_texts[SQL_STATEMENTS];
extern const char *const dibs__pg_status_texts[SQL_STATEMENTS];
extern const char *const dibs__pg_shedlock_texts[SQL_STATEMENTS];
extern const char *const dibs__pg_spring_texts[SQL_STATEMENTS];

extern const char *const dibs__pg_unique_makes[];
extern const char *const dibs__pg_status_makes[];
extern const char *const dibs__pg_shedlock_makes[];
extern const char *const dibs__pg_spring_makes[];

extern const dibs_engine dibs__pg_unique, dibs__pg_status, dibs__pg_shedlock,
    dibs__pg_spring;

#endif /* DIBS_ENGINE_POSTGRES_CLASSIC_H */
