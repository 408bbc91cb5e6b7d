#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: one_table.sh DIBS MANUAL SOURCE-FOLDER
# Checks that help, manual page, completion and parser know the same verbs and options, and
# that the manual page and the completion scripts are well formed.
set -eu
dibs=$1 manual=$2 sources=$3
DIBS_URL=mock:
export DIBS_URL
failed=0
complain() { echo "$*" >&2; failed=1; }

# man shows plain text: bold and the escaped '-' undone
plain=$(sed -e 's/\\-/-/g' -e 's/^\.B //' "$manual")
section() { echo "$plain" | sed -n "/^\.SS dibs $1\$/,/^\.S[SH] /p"; }

verbs=$("$dibs" __complete "" | cut -f1 | grep -v '^--')
test -n "$verbs" || complain "completion offers no verbs"
for verb in $verbs; do
    "$dibs" --help | grep -q "^  $verb " || complain "$verb is not in --help"
    section "$verb" | grep -q . || complain "$verb is not in the manual page"
    offered=$("$dibs" __complete "$verb" -- | cut -f1 | sort)
    helped=$("$dibs" "$verb" --help | sed -n '/^Options:/,/^Examples:/p' |
        grep -o '^  \(-., \)*--[a-z-]*' | grep -o -e '--.*' | sort)
    written=$(section "$verb" | grep -o '^\(-., \)*--[a-z-]*' | grep -o -e '--.*' | sort)
    test -n "$offered" || complain "$verb offers no options"
    test "$offered" = "$helped" || complain "$verb: completion and --help differ"
    test "$offered" = "$written" || complain "$verb: completion and manual page differ"
    for option in $offered; do
        # an option that the parser did not know would be named
        if "$dibs" "$verb" "$option" </dev/null 2>&1 | grep -q "there is no option"; then
            complain "$verb does not know $option"
        fi
    done
done

grep -q '^@' "$manual" && complain "the manual page has something left to fill in"
if command -v groff >/dev/null; then
    warnings=$(groff -man -Tutf8 -ww -z "$manual" 2>&1)
    test -z "$warnings" || complain "the manual page: $warnings"
fi
bash -n "$sources/completions/dibs.bash" || complain "dibs.bash cannot be read"
if command -v zsh >/dev/null; then
    zsh -n "$sources/completions/_dibs" || complain "_dibs cannot be read"
fi

# what bash offers, through the script
offers=$(bash -c '. "$1/completions/dibs.bash"; COMP_WORDS=("$2" run --on-lost ""); COMP_CWORD=3
    _dibs; echo "${COMPREPLY[*]}"' bash "$sources" "$dibs")
test "$offers" = "term kill ignore" || complain "bash offers '$offers'"
exit $failed
