#!/bin/sh
# SPDX-License-Identifier: MIT
# style-finds.sh CHECK_STYLE: each rule of check-style finds the fault it is there for, and
# a clean tree has none.
set -eu
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0
spdx='/* SPDX-License-Identifier: MIT */'

file() {
    mkdir -p "$tree/$(dirname "$1")"
    printf '%s\n' "$spdx" "$2" >"$tree/$1"
}

clean_tree() {
    rm -rf "${tree:?}"/*
    file include/dibs.h 'int dibs_open(void);'
    file include/dibs/engine.h '#include <dibs.h>'
    file src/util/text.h '#include <stddef.h>'
    file src/core/hold.h '#include "util/text.h"'
    file src/engine/local/local.c '#include <dibs/engine.h>'
    file src/engine/mock/mock.h '#include "util/text.h"'
    # what only looks like a fault
    file test/unit/a.c 'int n = atoi("1");'
    file cli/main.c 'char *s = "http://x // atoi(y)"; /* system() "*/ int n = my_atoi(s); /* XXXXXX */'
}

# finds RULE FILE LINE: with this line in this file, that rule speaks up
finds() {
    clean_tree
    file "$2" "$3"
    if "$check" "$tree" >"$tree/out" 2>&1; then
        echo "$1 not found in $2: $3"
        failed=1
    elif ! grep -q "^$2:[0-9]*: $1:" "$tree/out"; then
        echo "$1 not named for $2: $3"
        cat "$tree/out"
        failed=1
    fi
}

clean_tree
"$check" "$tree" || { echo "the clean tree has faults"; failed=1; }

finds layer src/util/a.c '#include <dibs.h>'
finds layer src/util/a.c '#include "core/hold.h"'
finds layer src/core/a.c '#include "engine/mock/mock.h"'
finds layer src/engine/local/a.c '#include "core/hold.h"'
finds layer src/engine/local/a.c '#include "../../core/hold.h"'
finds layer src/engine/local/a.c '#include "../mock/mock.h"'
finds layer cli/a.c '#include <dibs/engine.h>'
finds layer cli/a.c '#include "core/hold.h"'
finds layer examples/a.c '#include "util/text.h"'
finds comment src/core/a.c 'int x; // why'
finds banned src/core/a.c 'int f(char *s) { return atoi (s); }'
finds banned cli/a.c '/* why */ system("true");'
finds unfinished test/a.c '/* TODO: more */'
finds tab src/core/a.c "$(printf '\tint x;')"
finds space src/core/a.c 'int x; '
finds size src/core/a.c "$(yes 'int x;' | head -n 800)"

clean_tree
echo 'int x;' >"$tree/src/core/a.c"
"$check" "$tree" >/dev/null 2>&1 && { echo "a missing SPDX line was not found"; failed=1; }

clean_tree
file cli/a.c 'int n = atoi(s);'
mkdir -p "$tree/tools"
echo 'cli/a.c banned atoi it is only a test' >"$tree/tools/style-allow.txt"
"$check" "$tree" >/dev/null || { echo "an allowed exception was refused"; failed=1; }
exit "$failed"
