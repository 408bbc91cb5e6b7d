/* SPDX-License-Identifier: MIT */
/* A table for people; see table.h. */
#include "table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
add_cell(struct table *table, char *text)
{
    if (table->cells == table->room && !table->broken) {
        size_t room = table->room ? 2 * table->room : 64;
        char **grown = realloc(table->cell, room * sizeof *grown);
        if (grown) {
            table->cell = grown;
            table->room = room;
        }
    }
    if (!text || table->cells == table->room) {
        table->broken = 1;
        free(text);
        return;
    }
    table->cell[table->cells++] = text;
}

void
table_init(struct table *table, int columns, const char *const *heads)
{
    memset(table, 0, sizeof *table);
    table->columns = columns;
    for (int i = 0; i < columns; i++)
        add_cell(table, strdup(heads[i]));
}

void
table_add(struct table *table, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    add_cell(table, text);
}

/* characters, as far as UTF-8 shows them; wide ones are taken for one column */
static int
width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void
measure(const struct table *table, int *widths, bool *right)
{
    for (size_t i = 0; i < table->cells; i++) {
        int column = (int)(i % (size_t)table->columns);
        bool head = i < (size_t)table->columns;
        const char *text = table->cell[i];
        if (head)
            right[column] = *text == '>';
        /* a head counts only once there is something below it */
        else if (*text && width_of(text) > widths[column])
            widths[column] = width_of(text);
    }
    for (int column = 0; column < table->columns; column++) {
        int head = width_of(table->cell[column]) - right[column];
        if (widths[column] > 0 && widths[column] < head)
            widths[column] = head;
    }
}

static void
print_row(const struct table *table, size_t row, const int *widths, const bool *right,
          FILE *out)
{
    int owed = 0; /* blanks not written yet, so that no line ends in them */
    for (int column = 0; column < table->columns; column++) {
        const char *text = table->cell[row * (size_t)table->columns + (size_t)column];
        if (widths[column] == 0)
            continue;
        if (row == 0 && right[column])
            text++;
        int blanks = widths[column] - width_of(text);
        if (*text)
            fprintf(out, "%*s%s", owed + (right[column] ? blanks : 0), "", text);
        owed = (*text ? 0 : owed + widths[column]) + 2;
        if (*text && !right[column])
            owed += blanks;
    }
    fputc('\n', out);
}

int
table_print(struct table *table, FILE *out)
{
    int widths[TABLE_COLUMNS_MAX] = { 0 };
    bool right[TABLE_COLUMNS_MAX] = { false };
    bool bold = isatty(fileno(out)) && !getenv("NO_COLOR");
    if (!table->broken) {
        measure(table, widths, right);
        for (size_t row = 0; row * (size_t)table->columns < table->cells; row++) {
            if (bold && row == 0)
                fputs("\033[1m", out);
            print_row(table, row, widths, right, out);
            if (bold && row == 0)
                fputs("\033[0m", out);
        }
    }
    for (size_t i = 0; i < table->cells; i++)
        free(table->cell[i]);
    free(table->cell);
    return table->broken ? -1 : 0;
}
