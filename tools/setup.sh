#!/bin/sh
# Installs what is missing to build and test Cajal, on a Debian-like machine with root or sudo.  Where nothing is missing it does nothing and
# needs no network; a stamp in build/ makes the next call immediate.
#
#   tools/setup.sh         compiler, cmake, libraries
#   tools/setup.sh lint    also what `make lint` needs
set -eu
cd "$(dirname "$0")/.."
what=${1-build}
stamp=build/.setup-$what
[ ! -f "$stamp" ] || [ -n "$(find tools/setup.sh -newer "$stamp")" ] || exit 0

missing="" essential=""
tool() { # program, package, "!" when nothing works without it
    command -v "$1" >/dev/null && return
    missing="$missing $2"
    [ -z "${3-}" ] || essential="$essential $2"
}
header() { # file, package
    for dir in /usr/include /usr/include/* /usr/local/include; do
        [ ! -e "$dir/$1" ] || return 0
    done
    missing="$missing $2"
}
look() {
    missing="" essential=""
    if command -v cc >/dev/null && echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1; then :; else
        missing="$missing gcc libc6-dev" essential="$essential gcc libc6-dev"
    fi
    tool c++ g++
    tool cmake cmake !
    tool pkg-config pkg-config
    header cmocka.h libcmocka-dev
    header zlib.h zlib1g-dev
    header png.h libpng-dev
    header jpeglib.h libjpeg62-turbo-dev
    header lzma.h liblzma-dev
    header cairo/cairo.h libcairo2-dev
    header cjson/cJSON.h libcjson-dev
    header protobuf-c/protobuf-c.h libprotobuf-c-dev
    tool protoc-c protobuf-c-compiler
    header openblas_config.h libopenblas-dev
    if [ "$what" = lint ]; then
        tool clang-format clang-format !
        tool clang-tidy clang-tidy !
        tool cppcheck cppcheck !
        tool shellcheck shellcheck !
    fi
}

look
if [ -n "$missing" ]; then
    root=none
    if [ "$(id -u)" = 0 ]; then root=""; elif command -v sudo >/dev/null; then root=sudo; fi
    if [ "$root" != none ] && command -v apt-get >/dev/null; then
        echo "setup: installing$missing"
        $root apt-get update -q || echo "setup: apt-get update failed; trying with the package lists that are there" >&2
        # shellcheck disable=SC2086 # words
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing || true
        rm -f build/.configured # the next build looks again for what it can use
        look
    fi
fi
if [ -n "$essential" ]; then
    echo "setup: these Debian packages, or what they stand for, are missing and could not be installed without root, sudo and apt-get:$missing" >&2
    exit 1
fi
if [ -n "$missing" ]; then
    echo "setup: going on without$missing (not installed; no root, sudo or apt-get)" >&2
    exit 0
fi
mkdir -p build
: >"$stamp"
