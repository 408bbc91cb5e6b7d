/* SPDX-License-Identifier: MIT */
/* A table for people: columns as wide as they need to be, heads in bold on a terminal. */
#ifndef DIBS_CLI_TABLE_H
#define DIBS_CLI_TABLE_H

#include <stdio.h>

#define TABLE_COLUMNS_MAX 12

struct table {
    int columns;
    size_t cells, room;
    char **cell; /* the heads are the first row */
    int broken;  /* memory ran out */
};

/* table_init starts a table with its heads. A head that begins with '>' is that of a
 * column to be set flush right. */
void table_init(struct table *table, int columns, const char *const *heads);

/* table_add adds the next cell, row by row, printed as printf does. Control characters
 * must have been escaped by the caller. */
void table_add(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* table_print prints it, leaving out columns that are empty, and frees it. Returns 0, or -1
 * if memory ran out on the way. */
int table_print(struct table *table, FILE *out);

#endif /* DIBS_CLI_TABLE_H */
