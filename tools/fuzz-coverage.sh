#!/bin/sh
# How much of every reader its fuzzer reaches: lines of the reader's functions that tests/test_data_fuzz.c ran, by gcov.  Fails where one is below 90 %.
#
#   tools/fuzz-coverage.sh [SECONDS per reader, 2] [READER ...]
#
# The readers' sources are compiled for coverage beside the library of the build folder ($BUILD, build), which has the rest.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
seconds=${1:-2}
[ $# -eq 0 ] || shift
wanted=" $* "
command -v gcov >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# reader[+reader]  file  its functions (a regular expression)  but not these
table() {
    cat <<'END'
idx             src/data/arrays.c       ^(idx_|cj_idx_|tensor$)      -
bytes           src/data/arrays.c       ^(cj_bytes_load|tensor$)     -
cifar           src/data/arrays.c       ^(cifar_|cj_cifar_|tensor$)  -
wav             src/data/arrays.c       ^(wav_|cj_wav_)              -
gzip+xz+csv     src/data/bytes.c        .                            -
csv             src/data/csv.c          .                            -
npy             src/data/npy.c          .                            save|npy_header
npy+deflated    src/data/file.c         ^(cj__reader|read_|cj__source_(part|read|error)|reverse_axes|cj__bytes_of_shape|make_printable)  -
npz+deflated    src/data/npz.c          .                            ^(pack|common_fields|too_large|write_|cj_npz_save)
deflated        src/data/zip.c          .                            deflate
npz+safetensors src/data/archive.c      .                            named_check
safetensors     src/data/safetensors.c  .                            save|add_entry|header_text|check_pairs|write|bytes_of$
onnx            src/data/onnx.c         .                            -
png+jpeg+images src/data/image.c        .                            save|encode|write_failed|put_bytes
images          src/data/folder.c       .                            -
lines+parallel  src/data/lines.c        .                            -
tokens+words    src/data/tokenise.c     .                            cj_token_text|cj_token_number
tokens+vocabulary src/data/bpe.c        .                            -
tokeniser       src/data/tokens_file.c  .                            -
words           src/data/words.c        .                            -
mat+packed_mat  src/data/mat.c          .                            -
gml             src/data/gml.c          .                            -
planetoid       src/data/pickle.c       .                            -
planetoid       src/data/planetoid.c    .                            -
voc             src/data/voc.c          .                            -
ts              src/data/series.c       .                            -
tar             src/data/tar.c          .                            -
sets            src/data/sets_rows.c    .                            cifar10|olivetti
sets            src/data/sets_other.c   .                            cora|bccd
config          src/train/settings.c    ^(read_config|value_text|load_item|cj_settings_load|cj_run_fact)  -
manifest        src/train/manifest.c    ^(whole|plain_name|read_|cj__manifest_read)  -
metrics         src/train/metrics.c     .                            -
END
}

flags=$(sed -n 's/.*"command": "\(.*\)",/\1/p' "$build/compile_commands.json" | grep 'src/data/bytes\.c$' | head -1 | tr ' ' '\n' | grep '^-D' |
    sed 's/\\\\\\"/"/g; s/\\"/"/g' | tr '\n' ' ')
includes="-Iinclude -Isrc -I. -Itests -isystem $build/generated $(for name in cairo cjson; do [ ! -d /usr/include/$name ] || printf '%s ' "-isystem /usr/include/$name"; done)"
libraries=$(sed -n 's/^Libs.private: //p' "$build/cajal.pc")
objects=""
for file in $(table | awk '{ print $2 }' | sort -u) tests/test_data_fuzz.c; do
    object=$work/$(basename "$file" .c).o
    coverage=--coverage
    case $file in tests/*) coverage="" ;; esac
    # shellcheck disable=SC2086 # words
    cc -std=gnu17 -O1 -g1 $flags "-DCJ_SOURCE_DIR=\"$PWD\"" $includes $coverage -c "$PWD/$file" -o "$object" &
    objects="$objects $object"
    [ "$(jobs -p | wc -l)" -lt 3 ] || wait
done
wait
# shellcheck disable=SC2086
cc --coverage $objects "$build/libcajal_zoo.a" "$build/libcajal.a" -lcmocka $libraries -o "$work/fuzz"

printf '%-24s %-24s %6s %8s\n' reader file lines reached
failed=0
table | while read -r readers file functions others; do
    [ "$wanted" = "  " ] || case $wanted in *" ${readers%%+*} "*) ;; *) continue ;; esac
    rm -f "$work"/*.gcda
    for reader in $(echo "$readers" | tr + ' '); do
        CAJAL_FUZZ_SECONDS=$seconds "$work/fuzz" "$reader" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    done
    name=$(basename "$file" .c)
    (cd "$work" && gcov -f -o . "$name.gcda") >"$work/report" 2>/dev/null
    awk -v functions="$functions" -v others="$others" -v readers="$readers" -v file="$file" '
        /^Function / { name = substr($2, 2, length($2) - 2); counts = name ~ functions && (others == "-" || name !~ others) }
        /^File / { counts = 0 }
        /^Lines executed:/ && counts { split($0, part, /[:% ]+/); all += $NF; ran += $NF * part[3] / 100; counts = 0 }
        END { printf "%-24s %-24s %6d %7.1f%%\n", readers, file, all, all ? 100 * ran / all : 0; exit !(all && ran >= 0.9 * all - 0.01) }' "$work/report" ||
        { failed=1; [ -z "${SHOW:-}" ] || grep -n '#####:' "$work/$name.c.gcov" || true; }
    echo $failed >"$work/failed"
done
[ "$(cat "$work/failed")" = 0 ] || { echo "below 90 %: add a file of that kind to tests/corpus (SHOW=1 lists the lines)"; exit 1; }
