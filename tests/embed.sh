#!/bin/sh
# Installs into a folder of its own, then builds and runs examples/embed/ against what was installed: with pkg-config in C and in C++, and
# with find_package(Cajal).
#
#   tests/embed.sh BUILD_DIR
set -eu
build=$1
examples=$(cd "$(dirname "$0")/../examples/embed" && pwd)
stage=$build/stage
rm -rf "$stage"
cmake --install "$build" --prefix "$stage" >/dev/null

pc=$(find "$stage" -name cajal.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
lib=$(dirname "$PKG_CONFIG_PATH")
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PKG_CONFIG_PATH LD_LIBRARY_PATH
command -v pkg-config >/dev/null || { echo "pkg-config is missing"; exit 77; }
flags=$(pkg-config --cflags --libs cajal)

# Nothing but cj_ is visible from outside.
foreign=$(nm -D --defined-only "$lib/libcajal.so" | awk '$2 ~ /[TDBR]/ && $3 !~ /^cj_/ { print $3 }')
[ -z "$foreign" ] || { echo "libcajal.so exports $foreign"; exit 1; }

ran=0
for f in "$examples"/*.c "$examples"/*.cpp; do
    [ -f "$f" ] || continue
    case $f in
    *.c) compile="${CC:-cc} -std=c17" ;;
    *) compile="${CXX:-c++} -std=c++17" ;;
    esac
    # shellcheck disable=SC2086 # flags are words
    command -v ${compile%% *} >/dev/null || { echo "no ${compile%% *}: $f left out"; continue; }
    program=$stage/$(basename "$f" | tr . _)
    # shellcheck disable=SC2086
    $compile -O2 -Wall -Wextra -Wpedantic -Werror "$f" -o "$program" $flags -pthread -lm
    "$program"
    ran=$((ran + 1))
done

if [ -f "$examples/CMakeLists.txt" ]; then
    cmake -S "$examples" -B "$stage/cmake" -DCMAKE_PREFIX_PATH="$stage" >/dev/null
    cmake --build "$stage/cmake" >/dev/null
fi
[ $ran -gt 0 ] || { echo "examples/embed is empty"; exit 77; }
