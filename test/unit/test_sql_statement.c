/* SPDX-License-Identifier: MIT */
/* sql/statement.c: parameters as each database writes them. */
#include "unit.h"

#include "sql/sql.h"

static char out[256];
static uint8_t order[32];
static size_t count;

CASE(dollars)
{
    dibs__sql_marks(out, "SELECT ?1, ?12 WHERE a = ?1", '$', order, &count);
    assert_string_equal(out, "SELECT $1, $12 WHERE a = $1");
    assert_int_equal(count, 3);
}

CASE(bare_marks_have_an_order)
{
    dibs__sql_marks(out, "UPDATE t SET a = ?2 WHERE b = ?1 AND c > ?10", '?', order,
                    &count);
    assert_string_equal(out, "UPDATE t SET a = ? WHERE b = ? AND c > ?");
    assert_int_equal(count, 3);
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 1);
    assert_int_equal(order[2], 10);
}

CASE(quoted_text_is_left_alone)
{
    dibs__sql_marks(out, "SELECT '?1 ''?2', \"?3\", `?4`, ?5", '?', order, &count);
    assert_string_equal(out, "SELECT '?1 ''?2', \"?3\", `?4`, ?");
    assert_int_equal(count, 1);
    assert_int_equal(order[0], 5);
}

CASE(a_lone_question_mark_is_no_parameter)
{
    dibs__sql_marks(out, "a ? b", '$', NULL, NULL);
    assert_string_equal(out, "a ? b");
}
