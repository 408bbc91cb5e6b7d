#!/bin/sh
# SPDX-License-Identifier: MIT
# matrix.sh TABLE BUILD_FOLDER DIBS_LAB CTEST: every test that docs/internals/fault-matrix.md
# names is one that there is, and every row names one or says "none"; `*` stands for anything.
# What begins with `lab/` is a cell, STAGE/FAULT, that only scripts/torture runs.
set -eu
table=$1 build=$2 lab=$3 ctest=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$ctest" --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p' >"$work/names"
"$lab" --list | awk '{ print "lab/" $2 "/" $3 }' >>"$work/names"

# look TABLE: what is wrong with it, and whether anything is
look() {
    awk -F'|' '
    function matches(pattern, regex, i) {
        regex = pattern
        gsub(/[.+@]/, "[&]", regex)
        gsub(/[*]/, ".*", regex)
        for (i = 0; i < count; i++)
            if (names[i] ~ "^" regex "$")
                return 1
        return 0
    }
    function look_for(pattern) {
        named++
        if (!matches(pattern))
            wrong[++wrongs] = "line " FNR ": there is no test " pattern
    }
    # the names in a cell; if it is not all names, only those with a slash are some
    function check(cell, is_all_names, pattern, found) {
        while (match(cell, /`[^`]+`/)) {
            pattern = substr(cell, RSTART + 1, RLENGTH - 2)
            cell = substr(cell, RSTART + RLENGTH)
            if (is_all_names || index(pattern, "/"))
                look_for(pattern)
            found = 1
        }
        return found
    }
    function check_row() {
        if (!check($4, 1) && $4 !~ /^ none/)
            wrong[++wrongs] = "line " FNR ": names no test and does not say none"
        check($5, 0)
    }
    FILENAME == ARGV[1] { names[count++] = $0; next }
    /^\| / && !/^\| (---|fault) / { check_row() }
    END {
        for (i = 1; i <= wrongs; i++)
            print wrong[i]
        if (named < 100)
            print "only " named + 0 " names were looked for"
        exit wrongs > 0 || named < 100
    }' "$work/names" "$1"
}

look "$table"

# and what is wrong is found
for row in '| x | all | `conform/death/holder_kiled@*` | y |' '| x | all | some | y |' \
    '| x | all | `lab/etcd/clock` | y |' '| x | all | none | see `redis/refuse/nothing` |'; do
    { cat "$table"; echo "$row"; } >"$work/table.md"
    if look "$work/table.md" >"$work/found"; then
        echo "not noticed: $row"
        exit 1
    fi
    [ "$(wc -l <"$work/found")" -eq 1 ]
done
