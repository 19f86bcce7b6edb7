#!/bin/sh
# Kills `cajal train` with SIGKILL at random instants, 20 times (200 times where CAJAL_LONG is set), resumes it each time, and compares every run that came to its end with
# one that was left alone: parameters, best parameters, optimiser and random state, and metrics.jsonl must be equal byte for byte. The images are augmented.
#
#   tests/kill_resume.sh PROGRAM [SEED]
set -eu
cajal=$1
seed=${2:-$(date +%s)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wanted=${CAJAL_LONG:+200}
wanted=${wanted:-20}
echo "seed $seed, $wanted kills"
settings="hidden=32 batch=64 eval_every=11 save_every=7 augment=shift"
# shellcheck disable=SC2086 # settings are words
train() { exec "$cajal" train mlp --data digits --epochs 25 --threads 1 --quiet $settings "$@" >/dev/null 2>>"$work/errors"; }

(train --out "$work/alone") || { cat "$work/errors" >&2; exit 1; }

# Milliseconds 5 … 160, the same for the same seed.
delays=$(awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 4000; i++) printf "%.3f ", 0.005 + 0.155 * rand() }')
kills=0 round=0 run=""
newest() { sed -n "s/.*\"\($1-[0-9]*\.safetensors\)\".*/\1/p" "$2/MANIFEST.json" | head -n 1; }
compare() {
    for what in model state best; do
        cmp "$work/alone/$(newest $what "$work/alone")" "$1/$(newest $what "$1")"
    done
    cmp "$work/alone/metrics.jsonl" "$1/metrics.jsonl"
}
for delay in $delays; do
    if [ -z "$run" ]; then
        round=$((round + 1))
        run=$work/killed-$round
    fi
    train --out "$run" --resume &
    pid=$!
    sleep "$delay"
    if kill -9 $pid 2>/dev/null; then
        wait $pid 2>/dev/null && killed=false || killed=true
    else
        wait $pid || { cat "$work/errors" >&2; exit 1; }
        killed=false
    fi
    if $killed; then
        kills=$((kills + 1))
        [ $kills -lt "$wanted" ] || break
    else
        compare "$run"
        echo "run $round finished after $kills kills"
        run=""
    fi
done
if [ -n "$run" ]; then # the last one is left to finish
    (train --out "$run" --resume) || { cat "$work/errors" >&2; exit 1; }
    compare "$run"
fi
[ $kills -ge "$wanted" ] || { echo "only $kills kills hit a running program" >&2; exit 1; }
echo "$kills kills in $round runs, each resumed to the bit"
