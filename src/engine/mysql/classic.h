/* SPDX-License-Identifier: MIT */
/* The classic layouts on MariaDB: classic.c has their tables, classic_texts.c their
 * statements. sql/classic.h is what they are. */
#ifndef DIBS_ENGINE_MYSQL_CLASSIC_H
#define DIBS_ENGINE_MYSQL_CLASSIC_H

#include "my.h"
#include "sql/classic.h"

extern const char *const dibs__mysql_unique_texts[SQL_STATEMENTS];
extern const char *const dibs__mysql_status_texts[SQL_STATEMENTS];
extern const char *const dibs__mysql_shedlock_texts[SQL_STATEMENTS];
extern const char *const dibs__mysql_spring_texts[SQL_STATEMENTS];

extern const char *const dibs__mysql_unique_makes[];
extern const char *const dibs__mysql_status_makes[];
extern const char *const dibs__mysql_shedlock_makes[];
extern const char *const dibs__mysql_spring_makes[];

/* Tokens are drawn from a sequence, and mostly by INSERT .. RETURNING: MySQL has neither. */
int dibs__mysql_needs_mariadb(const struct mysql *mysql, dibs_error *err);

extern const dibs_engine dibs__mysql_unique, dibs__mysql_status, dibs__mysql_shedlock,
    dibs__mysql_spring;

#endif /* DIBS_ENGINE_MYSQL_CLASSIC_H */
