#!/bin/sh
# SPDX-License-Identifier: MIT
# exports-finds.sh CHECK_EXPORTS CC: check-exports tells a wrong export from a right one.
set -eu
check=$1 cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

cat >h.h <<'H'
#define DIBS_API __attribute__((visibility("default")))
DIBS_API int dibs_one(void);
DIBS_API const char *dibs_two(int a,
                              int b);
H
printf 'dibs_one\ndibs_two\n' >list

# library FILE CODE: a shared library with hidden symbols
library() {
    printf '#include "h.h"\n%s\n' "$2" >code.c
    "$cc" -shared -fPIC -fvisibility=hidden -o "$1" code.c
}

# expect WORD ARGUMENTS: "good" or "bad" is what check-exports finds
expect() {
    want=$1
    shift
    got=bad
    "$check" "$@" >out 2>&1 && got=good
    [ "$got" = "$want" ] || { echo "$got, not $want: $*"; cat out; failed=1; }
}

both='int dibs_one(void) { return 1; } const char *dibs_two(int a, int b) { return a < b ? "" : 0; }'
mkdir good bad
library right.so "$both int hidden(void) { return 2; }"
library more.so "$both DIBS_API int leaked(void) { return 2; }"
library less.so 'int dibs_one(void) { return 1; }'
library good/module.so 'DIBS_API int dibs_engine_table = 1;'
library bad/module.so 'DIBS_API int dibs_engine_table = 1, leaked = 2;'
expect good h.h list right.so good
expect bad h.h list more.so good
expect bad h.h list less.so good
expect bad h.h list right.so bad
echo dibs_one >short
expect bad h.h short less.so good
exit "$failed"
