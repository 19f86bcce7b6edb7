#!/bin/sh
# Disks that are full or read-only, as small file systems in memory: training stops with one clear sentence, the last good checkpoint can be evaluated, and once there is room the run
# goes on to the bit of one that was never disturbed.  Skipped (77) where no file system may be mounted.
#
#   tests/disk.sh PROGRAM
set -u
if [ "${2:-}" != inside ]; then # in a namespace of its own: nothing is mounted for anybody else
    probe=$(mktemp -d)
    unshare -rm mount -t tmpfs -o size=1m tmpfs "$probe" 2>/dev/null || { rmdir "$probe"; echo "no file system can be mounted here"; exit 77; }
    rmdir "$probe"
    exec unshare -rm sh "$0" "$1" inside
fi
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
mkdir "$work/disk"
cd "$work" || exit 1
mount -t tmpfs -o size=8m tmpfs disk || exit 1
failures=0 stopped=0

fail() { echo "$*: $(tail -n 3 err 2>/dev/null)"; failures=$((failures + 1)); }
train() { "$cajal" train mlp --data digits --threads 1 hidden=32 batch=64 eval_every=11 augment=shift epochs=25 "$@" >out 2>err; }
newest() { sed -n "s/.*\"\($1-[0-9]*\.safetensors\)\".*/\1/p" "$2/MANIFEST.json" | head -n 1; }
same() {
    for what in model state best; do cmp "$work/alone/$(newest $what "$work/alone")" "$1/$(newest $what "$1")" || fail "$1: $what differs"; done
    cmp "$work/alone/metrics.jsonl" "$1/metrics.jsonl" || fail "$1: metrics.jsonl differs"
}
# refused PIECE: the command that has just ended failed with this piece in its one line.
refused() {
    stopped=$((stopped + 1))
    [ "$1" = 1 ] || fail "exit $1 instead of 1"
    grep -q "$2" err || fail "does not say '$2'"
    [ "$(grep -c '^cajal train: ' err)" = 1 ] || fail "not one line"
}
fill() { dd if=/dev/zero of=disk/filler bs=4k 2>/dev/null; }
usable() { "$cajal" eval "$1" >out 2>err || fail "the last checkpoint cannot be used"; }

train --out "$work/alone" save_every=7 || fail "undisturbed"

# full before it begins
fill
train --out disk/none save_every=7
refused $? 'No space left on device'
rm -rf disk/filler disk/none

# full while it runs: a checkpoint every step, and the disk fills up after a moment
(train --out disk/run save_every=1; echo $? >status) &
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # until the first checkpoints are there
    sleep 0.05
    [ ! -f disk/run/MANIFEST.old.json ] || break
done
fill
wait
if [ "$(cat status)" != 0 ]; then # else it was faster
    refused "$(cat status)" 'No space left on device'
    usable disk/run
fi
rm -f disk/filler
[ "$(cat status)" = 0 ] || "$cajal" train --resume --out disk/run >out 2>err || fail "with room again"
same disk/run

# full at any moment: room for so many blocks and no more
for blocks in 0 1 2 5 9 14 20 27; do
    rm -rf disk/run
    "$cajal" train mlp --data digits --threads 1 hidden=32 batch=64 eval_every=11 augment=shift epochs=25 --out disk/run save_every=7 --quiet >out 2>err &
    pid=$!
    sleep 0.15
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ -f disk/run/MANIFEST.json ] || continue
    fill
    dd if=/dev/zero of=disk/filler bs=4k count=0 seek=$(($(stat -c %s disk/filler) / 4096 - blocks)) 2>/dev/null
    "$cajal" train --resume --out disk/run >out 2>err && continue # it came to its end all the same
    refused $? 'No space left on device'
    usable disk/run
    rm -f disk/filler
    "$cajal" train --resume --out disk/run >out 2>err || fail "after $blocks blocks"
    same disk/run
done
rm -f disk/filler

# read-only
mount -o remount,ro disk || exit 1
"$cajal" train --resume --out disk/run >out 2>err
refused $? 'Read-only file system'
usable disk/run
train --out disk/new
refused $? 'Read-only file system'
mount -o remount,rw disk
"$cajal" train --resume --out disk/run >out 2>err || fail "writable again"
same disk/run

echo "stopped $stopped times, $failures failures"
[ $failures = 0 ] && [ $stopped -ge 6 ]
