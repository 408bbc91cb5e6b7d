# SPDX-License-Identifier: MIT
# What the scripts share: installing what is missing, and configuring a build folder.
# Read by scripts/quickstart, scripts/test, scripts/torture, scripts/fuzz and .ci/run.

say() {
    printf '%s\n' "$*"
}

die() {
    say "${0##*/}: $*" >&2
    exit 1
}

# present PROBE: is this command on the path, or this file there?
present() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# install_packages PACKAGE...: a server among them must not start by itself. Debian asks
# this file whether it may; one that is there already is the machine's own and stays.
install_packages() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap 'as_root rm -f $policy' EXIT
        trap 'exit 130' INT TERM
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
        --no-install-recommends "$@" </dev/null >/dev/null
)

# need PROBE:PACKAGE...: installs the packages whose probe is not there. Touches neither
# apt nor the network if nothing is missing.
need() {
    packages=
    for pair in "$@"; do
        present "${pair%%:*}" || packages="$packages ${pair#*:}"
    done
    [ -n "$packages" ] || return 0
    present apt-get || die "please install:$packages"
    [ "$(id -u)" -eq 0 ] || present sudo || die "not root and no sudo; please install:$packages"
    say "installing:$packages"
    as_root apt-get -qq update </dev/null || die "apt-get update failed"
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages || die "apt-get could not install:$packages"
}

# borrow COMMAND SUITE PACKAGE...: a program that Debian 12 itself does not have, from another
# suite into build-tools, and onto the path; without it its tests are skipped
borrow() {
    name=$1 suite=$2 tools=build-tools/${1%%-*}
    shift 2
    present "$name" || {
        reason=$(scripts/get-debian "$suite" "$tools" "$@") || say "no $name: $reason"
        PATH=$PATH:$PWD/$tools/usr/bin
    }
}

# need_for_tests: what it takes to build everything and to run every test
need_for_tests() {
    need gcc:gcc g++:g++ /usr/include/stdio.h:libc6-dev cmake:cmake ninja:ninja-build \
        /usr/include/cmocka.h:libcmocka-dev pkg-config:pkg-config \
        clang-format-14:clang-format-14 /usr/include/hiredis/hiredis.h:libhiredis-dev \
        /usr/include/openssl/ssl.h:libssl-dev openssl:openssl redis-server:redis-server \
        redis-sentinel:redis-sentinel redis-cli:redis-tools \
        /usr/include/zookeeper/zookeeper.h:libzookeeper-st-dev java:default-jre-headless \
        /usr/share/java/zookeeper.jar:libzookeeper-java \
        curl-config:libcurl4-openssl-dev /usr/include/jansson.h:libjansson-dev \
        etcd:etcd-server etcdctl:etcd-client \
        /usr/lib/postgresql/15/bin/postgres:postgresql \
        /usr/include/postgresql/libpq-fe.h:libpq-dev \
        /usr/sbin/pgbouncer:pgbouncer /usr/sbin/mariadbd:mariadb-server \
        /usr/include/mariadb/mysql.h:libmariadb-dev /usr/include/sqlite3.h:libsqlite3-dev \
        sqlite3:sqlite3 spin:spin /usr/lib/python3/dist-packages/redis:python3-redis
    borrow valkey-server bookworm-backports valkey-server valkey-tools
    borrow consul bullseye consul
    export PATH
}

# configure FOLDER [CMAKE ARGS]: a folder that was configured for another copy of the
# sources, or by hand with another generator, starts afresh.
configure() {
    folder=$1
    shift
    fresh=
    cache=$folder/CMakeCache.txt
    if [ -e "$cache" ] && ! { grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache" &&
        grep -qxF "CMAKE_GENERATOR:INTERNAL=Ninja" "$cache"; }; then
        fresh=--fresh
    fi
    # shellcheck disable=SC2086 # empty, or one word
    output=$(cmake -S . -B "$folder" -G Ninja $fresh "$@" 2>&1) || {
        say "$output" >&2
        die "cmake could not configure $folder"
    }
}
