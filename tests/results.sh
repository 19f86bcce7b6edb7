#!/bin/sh
# The results that `cajal train MODEL --data D` reaches on real data with its defaults; the table of docs/results.md.
#
#   tests/results.sh PROGRAM [MODEL ...]      all rows, or those of these models; CAJAL_DATA says where the data is
#
# Prints a line per row: command, what was reached, what is wanted, seconds.  Exit 77 without data.
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
[ -n "${CAJAL_DATA:-}" ] || { echo "CAJAL_DATA is not set: there are no data sets to learn from"; exit 77; }
CAJAL_DATA=$(cd "$CAJAL_DATA" && pwd)
export CAJAL_DATA
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
wanted_models=" $* "

# row KEY LEAST|MOST VALUE ARGUMENTS...: trains; the number KEY of the last line must be at least (most) VALUE.
row() {
    key=$1 sense=$2 value=$3
    shift 3
    [ "$wanted_models" = "  " ] || case "$wanted_models" in *" $1 "*) ;; *) return ;; esac
    start=$(date +%s)
    "$cajal" train "$@" --json --out run >out 2>err </dev/null
    status=$?
    rm -rf run
    found=$(sed -n "s/.*\"$key\":\([-+.0-9e]*\).*/\1/p" out | tail -1)
    ok=$(awk -v f="${found:-nan}" -v v="$value" -v s="$sense" 'BEGIN { print (f != "nan" && (s == "LEAST" ? f >= v : f <= v)) ? "reached" : "MISSED" }')
    [ $status = 0 ] && [ "$ok" = reached ] || failures=$((failures + 1))
    echo "cajal train $*: $key ${found:-none} (wanted: $(echo "$sense" | tr '[:upper:]' '[:lower:]') $value) in $(($(date +%s) - start)) s: $ok$(head -c 200 err)"
}

row test_accuracy LEAST 0.983 mlp --data mnist
row test_accuracy LEAST 0.95 mlp --data mnist --epochs 10 dropout=0 batch=128
row test_accuracy LEAST 0.991 lenet5 --data mnist
row test_accuracy LEAST 0.70 resnet --data cifar10
row val_loss MOST 1.65 gpt --data tinyshakespeare
row val_loss MOST 1.75 lstm --data tinyshakespeare
row test_accuracy LEAST 0.81 gcn --data cora --seeds 10
row test_bleu LEAST 25 seq2seq --data multi30k-de-en
[ $failures = 0 ]
