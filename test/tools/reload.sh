#!/bin/sh
# SPDX-License-Identifier: MIT
# reload.sh PROGRAM LIBRARY: runs it on the engines that need no server.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/locks"
set -- "$1" "$2" mock: "local:$work/locks"
[ ! -e "$DIBS_ENGINE_DIR/dibs-engine-sqlite.so" ] || set -- "$@" "sqlite:$work/file"
"$@"
