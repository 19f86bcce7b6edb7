#!/bin/sh
# Installs into a folder of its own, then builds and runs examples/embed/ against what was installed: with pkg-config in C and in C++, and
# with find_package(Cajal).  Then the five short programs examples/*.c.
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

# The short programs beside it, each with what it must print; the last one uses what the one before has saved.
build_and_run() {
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c17 -O2 -Wall -Wextra -Wpedantic -Werror "$examples/../$1.c" -o "$stage/$1" $flags -lm
    [ "$(wc -l <"$examples/../$1.c")" -le 60 ] || { echo "examples/$1.c is no short program any more"; exit 1; }
    name=$1 expected=$2
    shift 2
    "$stage/$name" "$@" >"$stage/$name.txt" || { cat "$stage/$name.txt"; echo "examples/$name.c failed"; exit 1; }
    grep -q "$expected" "$stage/$name.txt" || { cat "$stage/$name.txt"; echo "examples/$name.c does not print '$expected'"; exit 1; }
}
build_and_run layer 'Highway, 12 parameters, first is transform.weight; test accuracy 0.9'
build_and_run loss 'first and second derivatives agree with differences'
build_and_run optimiser 'momentum_buffer.2.weight: 640 numbers'
build_and_run training 'with 0 allocations'
build_and_run training 'saved in' "$stage/run"
build_and_run inference 'right' "$stage/run"
if "$stage/inference" "$stage/nowhere" 2>"$stage/nowhere.txt"; then echo "inference without a run succeeded"; exit 1; fi
grep -q 'nowhere has no checkpoint' "$stage/nowhere.txt" || { cat "$stage/nowhere.txt"; exit 1; }

if [ -f "$examples/CMakeLists.txt" ]; then
    cmake -S "$examples" -B "$stage/cmake" -DCMAKE_PREFIX_PATH="$stage" >/dev/null
    cmake --build "$stage/cmake" >/dev/null
fi
[ $ran -gt 0 ] || { echo "examples/embed is empty"; exit 77; }
