/* SPDX-License-Identifier: MIT */
/*
 * The texts of a classic layout: those of the database, those of the layout instead where it
 * has some, and another name for the table if the URL has one. Texts are written with the
 * table's usual name, as a word of its own, so that they can be read, and printed.
 */
#include <ctype.h>
#include <string.h>

#include "sql/classic.h"

#define TABLE_MAX 128

int
dibs__classic_is_table(const char *name)
{
    size_t len = strlen(name), dots = 0;
    for (size_t i = 0; i < len; i++) {
        int begins = i == 0 || name[i - 1] == '.';
        if (name[i] == '.' && !begins && ++dots == 1)
            continue;
        if (name[i] != '_' && !isalpha((unsigned char)name[i]) &&
            (begins || !isdigit((unsigned char)name[i])))
            return 0;
    }
    return len > 0 && len <= TABLE_MAX && name[len - 1] != '.';
}

struct swap {
    const char *word, *with;
};

static int
is_word_char(char c)
{
    return c == '_' || isalnum((unsigned char)c);
}

/* Copies a text with another word, and returns its size with the NUL; `out` may be NULL. */
static size_t
put_text(char *out, const char *text, const struct swap *swap)
{
    size_t word_len = strlen(swap->word), size = 0;
    for (const char *at = text; *at;) {
        int is_word = (at == text || !is_word_char(at[-1])) &&
                      strncmp(at, swap->word, word_len) == 0 &&
                      !is_word_char(at[word_len]);
        size_t len = is_word ? strlen(swap->with) : 1;
        if (out)
            memcpy(out + size, is_word ? swap->with : at, len);
        size += len;
        at += is_word ? word_len : 1;
    }
    if (out)
        out[size] = '\0';
    return size + 1;
}

/* one list of texts into another, and returns their size; `room` may be NULL */
static size_t
put_list(const char **to, char *room, const char *const *from, size_t count,
         const struct swap *swap)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        if (!from[i])
            continue;
        if (room)
            to[i] = room + size;
        size += put_text(room ? room + size : NULL, from[i], swap);
    }
    return size;
}

/* the word that is to be another; most have the same instead */
static int
read_swap(struct swap *out, const struct classic *classic, const dibs_url_parts *url,
          dibs_error *err)
{
    const char *table = classic->form->table;
    const char *with = table ? classic->host->param(url, "table") : NULL;
    out->word = table ? table : "dibs";
    out->with = with ? with : out->word;
    if (!dibs__classic_is_table(out->with))
        return classic->host->fail(err, DIBS_ECONFIG,
                                   "table= wants NAME or SCHEMA.NAME, of letters, digits "
                                   "and underscores");
    return DIBS_OK;
}

int
dibs__classic_texts(struct classic *classic, const char *const *base,
                    const char *const *own, const char *const *makes,
                    const dibs_url_parts *url, dibs_error *err)
{
    const char *all[SQL_STATEMENTS];
    size_t count = 0;
    struct swap swap;
    int rc = read_swap(&swap, classic, url, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < SQL_STATEMENTS; i++)
        all[i] = own[i] ? own[i] : base[i];
    while (makes[count])
        count++;
    size_t lists = (SQL_STATEMENTS + count + 1) * sizeof *all;
    size_t size = put_list(NULL, NULL, all, SQL_STATEMENTS, &swap);
    const char **texts = classic->room =
        classic->host->alloc(lists + size + put_list(NULL, NULL, makes, count, &swap));
    if (!texts)
        return classic->host->fail(err, DIBS_ENOMEM, "out of memory");
    char *room = (char *)classic->room + lists;
    put_list(texts, room, all, SQL_STATEMENTS, &swap);
    put_list(texts + SQL_STATEMENTS, room + size, makes, count, &swap);
    classic->texts = texts;
    classic->makes = texts + SQL_STATEMENTS;
    return DIBS_OK;
}
