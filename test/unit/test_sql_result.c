/* SPDX-License-Identifier: MIT */
/* sql/result.c: rows are copies. */
#include "unit.h"

#include "core/session.h"
#include "sql/sql.h"

CASE(rows_are_copies)
{
    struct sql_result result;
    char text[] = "some text";
    dibs__sql_result_init(&result, &dibs__host);
    for (int i = 0; i < 10; i++) {
        struct sql_value row[] = { sql_number(i), sql_text(text, 4), { 0 } };
        assert_int_equal(dibs__sql_result_row(&result, row, COUNT(row)), DIBS_OK);
    }
    memset(text, 'x', sizeof text);
    assert_int_equal(result.rows, 10);
    assert_int_equal(result.columns, 3);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(dibs__sql_at(&result, i, 0)->number, i);
        assert_int_equal(dibs__sql_at(&result, i, 1)->len, 4);
        assert_memory_equal(dibs__sql_at(&result, i, 1)->text, "some", 4);
        assert_int_equal(dibs__sql_at(&result, i, 2)->kind, SQL_NULL);
    }
    dibs__sql_result_free(&result);
    assert_int_equal(result.rows, 0);
}

CASE(what_is_not_there_is_null)
{
    struct sql_result result;
    struct sql_value row[] = { sql_bytes("", 0) };
    dibs__sql_result_init(&result, &dibs__host);
    assert_int_equal(dibs__sql_at(&result, 0, 0)->kind, SQL_NULL);
    assert_int_equal(dibs__sql_result_row(&result, row, 1), DIBS_OK);
    assert_int_equal(dibs__sql_at(&result, 0, 0)->kind, SQL_BYTES);
    assert_int_equal(dibs__sql_at(&result, 0, 0)->len, 0);
    assert_non_null(dibs__sql_at(&result, 0, 0)->text);
    assert_int_equal(dibs__sql_at(&result, 1, 0)->kind, SQL_NULL);
    assert_int_equal(dibs__sql_at(&result, 0, 1)->kind, SQL_NULL);
    dibs__sql_result_free(&result);
}

/* an allocator that fails at the n-th call */
static int calls_left;

static void *
sparse(size_t size)
{
    return calls_left-- > 0 ? dibs__host.alloc(size) : NULL;
}

CASE(out_of_memory_leaves_the_rows_before)
{
    dibs_host host = dibs__host;
    struct sql_value row[] = { sql_text("a", 1), sql_text("b", 1) };
    struct sql_result result;
    host.alloc = sparse;
    for (int calls = 0; calls < 3; calls++) {
        dibs__sql_result_init(&result, &host);
        calls_left = calls;
        assert_int_equal(dibs__sql_result_row(&result, row, 2), DIBS_ENOMEM);
        assert_int_equal(result.rows, 0);
        dibs__sql_result_free(&result);
    }
}
