#!/bin/sh
# Builds build-bare/cajal and build-bare/libcajal.a with nothing but a C compiler, libm and a shell: no CMake, no optional dependency.
#
#   CC=clang CFLAGS=-g JOBS=4 tools/build-bare.sh
set -eu
cd "$(dirname "$0")/.."
out=build-bare
cc=${CC:-cc}
flags="-std=gnu17 -D_GNU_SOURCE -O3 -ffp-contract=off -fno-math-errno -fvisibility=hidden -pthread -Iinclude -Isrc -I. ${CFLAGS-}"
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
rm -rf "$out"
mkdir -p "$out"
sh tools/tables.sh "$out/generated"
sh tools/embed.sh "$out/generated"

avx2="-mavx2 -mfma -mf16c -mbmi2"
case $(uname -m) in
x86_64) levels="portable avx2 avx512" ;;
aarch64) levels="portable neon" ;;
*) levels=portable ;;
esac
level_flags() {
    case $1 in
    avx512) echo "-DCJ_ISA_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq $avx2" ;;
    avx2) echo "-DCJ_ISA_AVX2 $avx2" ;;
    neon) echo "-DCJ_ISA_NEON" ;;
    esac
}
have=""
for l in $levels; do have="$have -DCJ_HAVE_$(echo "$l" | tr '[:lower:]' '[:upper:]')"; done

# One line per object: suffix, flags, file.  `jobs` of them are compiled at a time.
list() {
    find src -name '*.c' ! -path 'src/kernels/cuda/*' ! -name 'parallel_openmp.c' | LC_ALL=C sort | while read -r f; do
        case $f in
        src/kernels/cpu/dispatch.c) echo "$f .o $have" ;;
        src/kernels/cpu/*) for l in $levels; do echo "$f _$l.o $(level_flags "$l")"; done ;;
        *) echo "$f .o" ;;
        esac
    done
    for f in zoo/*.c lab/*.c app/*.c bench/*.c "$out"/generated/*.c "$out"/generated/*.S; do
        [ ! -f "$f" ] || echo "$f .o"
    done
}
list >"$out/list"
running=0
while read -r file suffix extra; do
    object=$out/$(echo "$file" | sed 's|[/.]|_|g')$suffix
    # shellcheck disable=SC2086 # flags are words
    { $cc $flags $extra -c "$file" -o "$object" || echo "$file" >>"$out/failed"; } &
    running=$((running + 1))
    [ $((running % jobs)) != 0 ] || wait
done <"$out/list"
wait
[ ! -f "$out/failed" ] || { echo "these did not compile:" && cat "$out/failed"; exit 1; } >&2

[ ! -x "$(command -v ar)" ] || ar rcs "$out/libcajal.a" "$out"/src_*.o "$out"/build-bare_generated_embedded*.o
$cc -pthread "$out"/*.o -o "$out/cajal" -ldl -lm
echo "$out/cajal"
