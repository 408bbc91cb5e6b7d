/* SPDX-License-Identifier: MIT */
/*
 * K12: no text has the secret in it, nor a control byte. The secret is also looked for in
 * what is left of percent-encoding, and in base64, where it may stand at any of three places
 * and only the digits that are made of nothing else are known.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#define SECRET_MOST 200
/* fewer digits than this may stand there by chance */
#define DIGITS_LEAST 6

static int
hex_value(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) % 16 : -1;
}

static void
percent_decode(char *out, const char *text)
{
    while (*text) {
        int high = *text == '%' ? hex_value(text[1]) : -1;
        int low = high >= 0 ? hex_value(text[2]) : -1;
        if (low >= 0 && (high || low)) {
            *out++ = (char)(16 * high + low);
            text += 3;
        } else {
            *out++ = *text++;
        }
    }
    *out = '\0';
}

/* The digits that a secret has in base64 whatever is around it, if `before` bytes stand in
 * front of it in its group of three. */
static void
base64_inner(char *out, const char *secret, size_t before, const char *last_two)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t bits = 8 * strlen(secret);
    /* a digit begins at each sixth bit of all, of which the secret has those from here on */
    for (size_t bit = (6 - 8 * before % 6) % 6; bit + 6 <= bits; bit += 6) {
        unsigned value = 0;
        for (size_t i = bit; i < bit + 6; i++)
            value = value << 1 | ((unsigned char)secret[i / 8] >> (7 - i % 8) & 1u);
        *out++ = value < 62 ? digits[value] : last_two[value - 62];
    }
    *out = '\0';
}

static int
has_base64(const char *text, const char *secret)
{
    static const char *const alphabets[] = { "+/", "-_" };
    char inner[2 * SECRET_MOST];
    for (size_t before = 0; before < 3; before++) {
        for (int i = 0; i < 2; i++) {
            base64_inner(inner, secret, before, alphabets[i]);
            if (strlen(inner) >= DIGITS_LEAST && strstr(text, inner))
                return 1;
        }
    }
    return 0;
}

static int
has_secret(const char *text, const char *secret)
{
    char decoded[HISTORY_TEXT + 1];
    if (!secret || !*secret || strlen(secret) > SECRET_MOST)
        return 0;
    percent_decode(decoded, text);
    return strstr(text, secret) || strstr(decoded, secret) || has_base64(text, secret) ||
           has_base64(decoded, secret);
}

/* where the first control byte stands; -1: nowhere */
static int
control_at(const char *text)
{
    for (int at = 0; text[at]; at++) {
        if ((unsigned char)text[at] < 0x20 || text[at] == 0x7f)
            return at;
    }
    return -1;
}

/* the secret must not be printed here either */
static void
check_said(struct check *check, const struct said *said)
{
    char text[HISTORY_TEXT + 1];
    (void)snprintf(text, sizeof text, "%.*s", HISTORY_TEXT, said->text);
    rule_looked(check, 12);
    if (has_secret(text, check->plan->secret))
        rule_broken(check, 12, "a text of client %u has the secret in it",
                    said->client - 1);
    else if (control_at(text) >= 0)
        rule_broken(check, 12, "a text of client %u has a control byte at %d",
                    said->client - 1, control_at(text));
}

void
check_text(struct check *check)
{
    size_t count = check->history->said_count;
    for (size_t i = 0; i < count && i < HISTORY_SAID; i++) {
        if (check->history->said[i].client)
            check_said(check, &check->history->said[i]);
    }
}
