#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh SOURCE CC: builds a release, installs it into a folder of its own and uses it
# from there as a stranger would: with pkg-config and with find_package, shared and static.
# No sanitizers, whatever the build around has: this is what users get.
set -eu
source=$1
CC=$2
export CC
command -v pkg-config >/dev/null 2>&1 || { echo "skipped: no pkg-config"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
mkdir "$work/locks"
chmod 700 "$work/locks"
unset DIBS_URL DIBS_ENGINE_DIR DESTDIR

quietly() {
    "$@" >"$work/log" 2>&1 || { cat "$work/log"; echo "failed: $*"; exit 1; }
}

there() {
    for path in "$@"; do
        [ -e "$prefix/$path" ] || { echo "not installed: $path"; exit 1; }
    done
}

# works PROGRAM LINKED: it locks on local: and on a module; LINKED is how libdibs is in it
works() {
    echo "$1 ($2)"
    case $(readelf -d "$1") in
    *libdibs.so.0*) linked=shared ;;
    *) linked=static ;;
    esac
    [ "$linked" = "$2" ] || { echo "$1 is linked $linked"; exit 1; }
    for url in "local:$work/locks" mock:; do
        LD_LIBRARY_PATH=$libdir timeout 20 "$1" "$url" || { echo "failed on $url"; exit 1; }
    done
}

quietly cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_INSTALL_PREFIX="$prefix"
quietly cmake --build "$work/build"
quietly cmake --install "$work/build"

pc=$(find "$prefix" -name dibs.pc)
[ -n "$pc" ] || { echo "not installed: dibs.pc"; exit 1; }
libdir=$(dirname "$(dirname "$pc")")
lib=${libdir#"$prefix"/}
there bin/dibs share/man/man1/dibs.1 share/bash-completion/completions/dibs \
    share/zsh/site-functions/_dibs include/dibs.h include/dibs/engine.h \
    "$lib/libdibs.so" "$lib/libdibs.so.0" "$lib/libdibs.a" "$lib/dibs/dibs-engine-mock.so"
case $(readelf -d "$libdir/libdibs.so") in
*'soname: [libdibs.so.0]'*) ;;
*) echo "libdibs.so has not the soname libdibs.so.0"; exit 1 ;;
esac

echo "with pkg-config"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
version=$(sed -n 's/^#define DIBS_VERSION "\(.*\)"/\1/p' "$source/include/dibs.h")
[ "$(pkg-config --modversion dibs)" = "$version" ] || { echo "dibs.pc has another version"; exit 1; }
consumer=$source/test/tools/consumer.c
# shellcheck disable=SC2046 # lists of flags
{
    quietly "$CC" -std=c11 -o "$work/pc-shared" "$consumer" $(pkg-config --cflags --libs dibs)
    quietly "$CC" -std=c11 -o "$work/pc-static" "$consumer" $(pkg-config --cflags dibs) \
        -Wl,-Bstatic $(pkg-config --libs dibs) -Wl,-Bdynamic \
        $(pkg-config --static --libs-only-other dibs)
}
works "$work/pc-shared" shared
works "$work/pc-static" static

echo "with find_package"
mkdir "$work/user"
cat >"$work/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(dibs ${version%.*} REQUIRED)
add_executable(cmake-shared $consumer)
target_link_libraries(cmake-shared dibs::dibs)
add_executable(cmake-static $consumer)
target_link_libraries(cmake-static dibs::static)
EOF
quietly cmake -S "$work/user" -B "$work/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$work/user/build"
works "$work/user/build/cmake-shared" shared
works "$work/user/build/cmake-static" static

echo "the command"
DIBS_URL=local:$work/locks timeout 20 "$prefix/bin/dibs" run installed -- true ||
    { echo "the installed command failed"; exit 1; }
