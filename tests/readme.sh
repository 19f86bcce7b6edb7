#!/bin/sh
# Runs the commands of the README's section "The program" as they stand there. Trainings that take long get a few steps and a small model appended; verbs that are tests
# of their own (selftest, bench, lab check) and those that need a GPU only have to know their options.
#
#   tests/readme.sh PROGRAM README.md
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
readme=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 count=0

# The lines of the section that are indented and begin with the program's name, without what is said about them.
sed -n '/^## The program/,/^## On a GPU/s/^    \(cajal .*\)/\1/p' "$readme" | sed 's/  *#.*//' >commands
[ -s commands ] || { echo "$readme has no commands"; exit 1; }

# What predict is to read.
printf '5.1,3.5,1.4,0.2\n6.3,3.3,6.0,2.5\n' >new.csv

while read -r line; do
    count=$((count + 1))
    case $line in
    'cajal selftest'* | 'cajal bench'* | 'cajal lab check'* | *'--device cuda'*)
        verb=${line#cajal }
        line="cajal ${verb%% *} --help"
        ;;
    'cajal train gpt'*) line="$line --steps 3 layers=1 dim=16 heads=2 context=8 eval_every=3" ;;
    'cajal train lenet5'*) line="$line --steps 3" ;;
    *'--folds'*) line="$line --epochs 2" ;;
    'cajal sample'*) line="$line --length 20" ;;
    esac
    if ! sh -c "$(echo "$line" | sed "s|^cajal |'$cajal' |")" >out 2>&1 </dev/null; then
        echo "$line: $(tail -n 2 out)"
        failures=$((failures + 1))
    fi
done <commands
echo "$count commands of the README, $failures failures"
[ $failures = 0 ]
