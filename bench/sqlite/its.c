/* SPDX-License-Identifier: MIT */
/* What dibs itself runs, by hand: its lease, in a file like dibs' own. The functions that it
 * brings along do here what they do there. */
#include "engine/sqlite/sqlite.h"
#include "sqlite_bench.h"

static void
now_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count, (void)values;
    sqlite3_result_int64(context, (sqlite3_int64)(bench_now_ns() / 1000));
}

static void
tell_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    hand *h = sqlite3_user_data(context);
    sqlite3_int64 token = sqlite3_value_int64(values[0]);

    (void)count;
    h->told = token * 4 + sqlite3_value_int64(values[1]);
    sqlite3_result_int64(context, token);
}

static void
prepare(hand *h, int which, const char *text)
{
    sqlite3_stmt *made = sqlite_prepare(h, which, text);

    sqlite_check(
        h, sqlite3_bind_blob(made, 1, ITS_NAME, sizeof ITS_NAME - 1, SQLITE_STATIC));
    sqlite_check(
        h, sqlite3_bind_text(made, 2, ITS_RECORD, sizeof ITS_RECORD - 1, SQLITE_STATIC));
    if (which != HAND_GIVE)
        sqlite_check(h, sqlite3_bind_int64(made, 3, ITS_LEASE_US));
}

static void
make(hand *h)
{
    for (const char *const *text = dibs__sqlite_makes; *text != NULL; text++)
        sqlite_do(h, *text);
    sqlite_check(h, sqlite3_create_function(h->file, "dibs_now", 0, SQLITE_UTF8, h,
                                            now_function, NULL, NULL));
    sqlite_check(h, sqlite3_create_function(h->file, "dibs_tell", 2, SQLITE_UTF8, h,
                                            tell_function, NULL, NULL));
}

void *
its_open(const void *s)
{
    hand *h = sqlite_hand(s, ".its");

    make(h);
    prepare(h, HAND_FIRST, dibs__sqlite_texts[SQL_TAKE]);
    prepare(h, HAND_TAKE, dibs__sqlite_texts[SQL_RETAKE]);
    prepare(h, HAND_GIVE, dibs__sqlite_texts[SQL_GIVE]);
    hand_warm_up(h);
    return h;
}
