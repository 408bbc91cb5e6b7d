#!/bin/sh
# SPDX-License-Identifier: MIT
# headers.sh INCLUDE CC: each public header compiles alone, twice in a row, and dibs.h in
# the C and C++ of its users, without a warning.
set -eu
include=$1 cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {
    header=$1
    shift
    printf '#include <%s>\n#include <%s>\n%s\n' "$header" "$header" "$use" >"$work/use.$suffix"
    echo "$* $header"
    "$@" -I "$include" -pedantic -Wall -Wextra -Werror -c -o "$work/use.o" "$work/use.$suffix"
}

suffix=c
use='dibs_request request = DIBS_REQUEST_INIT; dibs_options options = DIBS_OPTIONS_INIT;'
compile dibs.h "$cc" -std=c11
compile dibs.h "$cc" -std=c99
use='dibs_bell bell;'
compile dibs/engine.h "$cc" -std=c11

command -v g++ >/dev/null 2>&1 || { echo "skipped: no C++ compiler"; exit 77; }
suffix=cc
use='dibs_request request = DIBS_REQUEST_INIT; dibs_options options = DIBS_OPTIONS_INIT;'
for standard in c++11 c++20; do
    compile dibs.h g++ -std=$standard
done
