/* SPDX-License-Identifier: MIT */
/* util/escape.h: text in which some bytes may not stand as they are. */
#include "unit.h"

#include <stdio.h>

#include "util/escape.h"

static int
is_odd(unsigned char byte)
{
    return byte & 1;
}

static int
is_none(unsigned char byte)
{
    (void)byte;
    return 0;
}

static int
is_every(unsigned char byte)
{
    (void)byte;
    return 1;
}

CASE(every_byte)
{
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte, want[4] = { text }, out[4] = "", back[1] = { 0 };
        size_t len = 0;
        if (byte & 1 || byte == '%')
            (void)snprintf(want, sizeof want, "%%%02X", (unsigned)byte);
        size_t wide = byte & 1 || byte == '%' ? 3 : 1;
        assert_int_equal(escape(out, sizeof out, &len, &text, 1, is_odd), 0);
        assert_int_equal(len, wide);
        assert_memory_equal(out, want, wide);
        assert_int_equal(unescape(back, 1, &len, out, len, is_odd), 0);
        assert_true(len == 1 && back[0] == text);
    }
}

CASE(all_bytes)
{
    escape_needs *const sets[] = { is_none, is_odd, is_every };
    char text[256], out[3 * 256], back[256];
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    for (size_t i = 0; i < COUNT(sets); i++) {
        size_t len = 0, back_len = 0;
        assert_int_equal(escape(out, sizeof out, &len, text, 256, sets[i]), 0);
        assert_int_equal(len, i == 0 ? 258 : i == 1 ? 512 : 768);
        assert_int_equal(unescape(back, 256, &back_len, out, len, sets[i]), 0);
        assert_int_equal(back_len, 256);
        assert_memory_equal(back, text, 256);
        /* in place */
        assert_int_equal(unescape(out, sizeof out, &back_len, out, len, sets[i]), 0);
        assert_memory_equal(out, text, 256);
    }
}

CASE(nothing)
{
    size_t len = 7;
    assert_int_equal(escape(NULL, 0, &len, "", 0, is_odd), 0);
    assert_int_equal(len, 0);
    len = 7;
    assert_int_equal(unescape(NULL, 0, &len, "", 0, is_odd), 0);
    assert_int_equal(len, 0);
}

/* Nothing is written behind the room there is. */
CASE(no_room)
{
    for (size_t room = 0; room < 7; room++) {
        char out[8];
        size_t len = 77;
        memset(out, '#', sizeof out);
        assert_int_equal(escape(out, room, &len, "b%c", 3, is_odd), -1);
        assert_int_equal(len, 77);
        assert_int_equal(out[room], '#');
        assert_int_equal(escape(out, 7, &len, "b%c", 3, is_odd), 0);
        assert_memory_equal(out, "b%25%63#", 8);
    }
    for (size_t room = 0; room < 3; room++) {
        char out[4] = "###";
        size_t len = 77;
        assert_int_equal(unescape(out, room, &len, "b%25%63", 7, is_odd), -1);
        assert_int_equal(len, 77);
        assert_int_equal(out[room], '#');
    }
}

/* What escape does not write: another way to write the same, or no way at all. */
CASE(refusals)
{
    static const char *const texts[] = { "%",   "b%",   "%6",  "b%6",  "%%",   "%%25",
                                         "a",   "ba",   "%62", "%6x",  "%x3",  "%7b",
                                         "%7f", "%-1",  "%+1", "% 1",  "%0x1", "%2 5",
                                         "%2",  "b%2b", "%20", "%253", "\x01" };
    for (size_t i = 0; i < COUNT(texts); i++) {
        char out[16];
        size_t len = 77;
        if (unescape(out, sizeof out, &len, texts[i], strlen(texts[i]), is_odd) != -1)
            fail_msg("%s is taken", texts[i]);
        assert_int_equal(len, 77);
    }
    /* the text ends where its length says, not where a NUL is */
    char out[4];
    size_t len;
    assert_int_equal(unescape(out, sizeof out, &len, "%25", 2, is_odd), -1);
    assert_int_equal(unescape(out, sizeof out, &len, "%2\0", 3, is_odd), -1);
}

/* Every text of three characters is refused, or the only one that means what it means. */
CASE(one_way_only)
{
    static const char alphabet[] = "%0123456789ABCDEFabG";
    for (size_t i = 0; i < 20 * 20 * 20; i++) {
        char text[4] = { alphabet[i % 20], alphabet[i / 20 % 20], alphabet[i / 400] };
        char plain[4], again[12];
        size_t len, again_len;
        if (unescape(plain, sizeof plain, &len, text, 3, is_odd))
            continue;
        assert_int_equal(escape(again, sizeof again, &again_len, plain, len, is_odd), 0);
        assert_int_equal(again_len, 3);
        assert_memory_equal(again, text, 3);
    }
}
