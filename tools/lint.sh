#!/bin/sh
# clang-format, clang-tidy, cppcheck and shellcheck over the tree; silent and 0 when all is well.
#
#   tools/lint.sh BUILD_DIR [JOBS]   checks (BUILD_DIR holds compile_commands.json)
#   tools/lint.sh --format           formats the sources in place
set -eu
cd "$(dirname "$0")/.."
sources() { # C, C++ and CUDA files of the tree, but not the generated headers
    find include src zoo lab app tests bench examples -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null |
        grep -v -e '^include/cajal/sugar.h$' -e '^include/cajal/cajal.h$' | LC_ALL=C sort
}
if [ "$1" = --format ]; then
    sources | xargs clang-format -i
    exit
fi
build=$1 jobs=${2:-2} failed=""

step() { # name, command...: times it, remembers that it failed
    name=$1 start=$(date +%s)
    shift
    "$@" || failed="$failed $name"
    echo "lint: $name $(($(date +%s) - start)) s"
}
format() { sources | xargs clang-format --dry-run -Werror; }
# The kernels are left out of the next two: they are compiled once per level, and intrinsics tell these tools nothing.
checked() { find src zoo lab app -name '*.c' ! -path 'src/kernels/*' | LC_ALL=C sort; }
tidy() { # one file a call: in the second file of a call the analyzer no longer knows va_start
    checked | xargs -P "$jobs" -n 1 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>"$build/tidy.log" ||
        { grep -v ' generated\.$' "$build/tidy.log"; return 1; }
}
check() {
    checked | xargs cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr --std=c11 -j "$jobs" -D__x86_64__ -D__GNUC__ \
        --suppress=missingIncludeSystem --suppress=preprocessorErrorDirective --suppress=unknownMacro --suppress=invalidPointerCast \
        --suppress='*:include/cajal/sugar.h' -Iinclude -Isrc -I.
}
scripts() { shellcheck -x tools/*.sh tests/*.sh .ci/run; }

step clang-format format
step shellcheck scripts
step cppcheck check
step clang-tidy tidy
[ -z "$failed" ] || { echo "lint: failed:$failed" >&2; exit 1; }
