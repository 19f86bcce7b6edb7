#!/bin/sh
# cajal data get: from a server of our own; and with a curl of our own on the PATH that fetches something else, or finds no network.
#
#   tests/data.sh PROGRAM SERVER
set -u
server=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir bin home data
export HOME="$work/home" CAJAL_DATA="$work/data" PATH="$work/bin:$PATH"
failures=0

# expect STATUS PIECE ARGUMENTS...
expect() {
    status=$1 piece=$2
    shift 2
    "$cajal" "$@" >out 2>err </dev/null
    found=$?
    if [ $found != "$status" ] || ! cat out err | grep -Eq -- "$piece"; then
        echo "cajal $*: exit $found, expected $status and '$piece': $(head -c 300 out err)"
        failures=$((failures + 1))
    fi
}

check() { # TEXT COMMAND...
    text=$1
    shift
    "$@" || { echo "$text"; failures=$((failures + 1)); }
}

# ---- a server ----------------------------------------------------------------------------------------------------------------------------------

if command -v curl >/dev/null; then
    # karate.gml as M. Newman wrote it down: its check sum is the one that the program knows
    mkdir -p web/karate web/names
    {
        printf 'Creator "Mark Newman on Fri Jul 21 12:39:27 2006"\ngraph[\n'
        i=0
        while [ $((i += 1)) -le 34 ]; do printf '  node[\n    id %d\n  ]\n' $i; done
        for edge in 2,1 3,1 3,2 4,1 4,2 4,3 5,1 6,1 7,1 7,5 7,6 8,1 8,2 8,3 8,4 9,1 9,3 10,3 11,1 11,5 11,6 12,1 13,1 13,4 14,1 14,2 14,3 14,4 \
            17,6 17,7 18,1 18,2 20,1 20,2 22,1 22,2 26,24 26,25 28,3 28,24 28,25 29,3 30,24 30,27 31,2 31,9 32,1 32,25 32,26 32,29 33,3 33,9 \
            33,15 33,16 33,19 33,21 33,23 33,24 33,30 33,31 33,32 34,9 34,10 34,14 34,15 34,16 34,19 34,20 34,21 34,23 34,24 34,27 34,28 34,29 \
            34,30 34,31 34,32 34,33; do
            printf '  edge[\n    source %s\n    target %s\n  ]\n' "${edge%,*}" "${edge#*,}"
        done
        printf ']\n'
    } >web/karate/karate.gml
    echo "not the names" >web/names/names.txt
    "$server" web >port &
    child=$!
    while [ ! -s port ]; do sleep 0.1; done
    CAJAL_DATA_URL=http://127.0.0.1:$(cat port)
    export CAJAL_DATA_URL
    echo 1000 >web/.cut
    expect 1 'karate.gml could not be fetched \(status (18|56)\): the connection broke; what came so far is kept' data get karate
    check "a broken connection leaves no part" test "$(wc -c <data/karate/karate.gml.part)" -ge 1000
    check "half a file has its name" test ! -e data/karate/karate.gml
    check "more than one line" test "$(cat out err | wc -l)" = 1
    rm web/.cut
    part=$(wc -c <data/karate/karate.gml.part)
    expect 0 'karate/karate.gml fetched, check sum good' data get karate
    check "it did not go on at byte $part: $(cat web/.asked)" grep -q "GET /karate/karate.gml from $part\$" web/.asked
    check "the file is another" cmp -s web/karate/karate.gml data/karate/karate.gml
    asked=$(wc -l <web/.asked)
    expect 0 'karate/karate.gml is there' data get karate
    check "it was fetched again" test "$(wc -l <web/.asked)" = "$asked"
    expect 0 '34 nodes' data info karate
    printf 'damage' >>data/karate/karate.gml # what is there is checked too
    expect 0 'karate/karate.gml fetched, check sum good' data get karate
    expect 1 'SHA-256 0a30b555[0-9a-f]* was expected, [0-9a-f]* was found; the file was removed' data get names
    check "a wrong file stayed" test ! -e data/names/names.txt -a ! -e data/names/names.txt.part
    expect 1 'input.txt could not be fetched \(status 22\): the server has no such file$' data get tinyshakespeare
    if command -v script >/dev/null; then # progress where someone looks
        rm -r data/karate
        script -qec "'$cajal' data get karate" /dev/null >out 2>&1 </dev/null
        check "no progress on a terminal: $(cat out)" grep -q '100[.,]0%' out
    fi
    kill $child
    wait $child 2>/dev/null
    expect 1 'could not be fetched \(status 7\): the server cannot be reached; is there a network\?$' data get names
    check "more than one line" test "$(cat out err | wc -l)" = 1
    unset CAJAL_DATA_URL
fi

# ---- a curl of our own ------------------------------------------------------------------------------------------------------------------------

# the file that was asked for is the last argument but one after -o; what is fetched is $work/answer, status is $work/status
cat >bin/curl <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || out=$2
    url=$1
    shift
done
here=$(dirname "$(dirname "$0")")
echo "$url" >>"$here/asked"
[ ! -e "$here/answer" ] || cp "$here/answer" "$out"
exit "$(cat "$here/status")"
END
chmod +x bin/curl

echo 6 >status
expect 1 'could not be fetched \(status 6\): .*is there a network' data get names
[ ! -e data/names/names.txt ] || failures=$((failures + 1))
echo 0 >status
echo "something else" >answer
expect 1 'SHA-256 0a30b555[0-9a-f]* was expected, [0-9a-f]* was found; the file was removed' data get names
[ ! -e data/names/names.txt ] && [ ! -e data/names/names.txt.part ] || failures=$((failures + 1))
expect 1 'names/names.txt was looked for in .*; cajal data get names fetches it' data info names
expect 0 'bccd/BCCD.tar.gz fetched' data get bccd
expect 1 'tar' data info bccd
check "names.txt was not asked for" grep -q 'https://.*names.txt' asked
expect 0 'digits is part of the program' data get digits
expect 2 "did you mean 'names'" data get nmaes
expect 2 'which one' data get
# ---- runs are used without the texts they learnt from ------------------------------------------------------------------------------------------

mkdir -p data/tinyshakespeare data/multi30k
i=0
while [ $((i += 1)) -le 400 ]; do printf 'line %d of a text: the cat sat on mat %d.\n' $i $((i * i % 37)); done >data/tinyshakespeare/input.txt
for part in train val test_2016_flickr; do
    printf 'Ein Hund läuft.\nZwei Hunde laufen.\nEin Hund schläft.\nZwei Hunde schlafen.\n' >data/multi30k/$part.de
    printf 'A dog runs.\nTwo dogs run.\nA dog sleeps.\nTwo dogs sleep.\n' >data/multi30k/$part.en
done
expect 0 '' train gpt --data tinyshakespeare --steps 2 --out runs/text --quiet dim=16 heads=2 layers=1 context=16
expect 0 '' train seq2seq --data multi30k-de-en --steps 2 --out runs/pairs --quiet
head -2 data/multi30k/val.de >new.txt
expect 0 'line' sample runs/text --prompt 'line ' --length 20
cp out text.before
expect 0 '' predict runs/pairs new.txt
cp out pairs.before
rm -r data/tinyshakespeare data/multi30k
expect 0 'line' sample runs/text --prompt 'line ' --length 20
check "without its text a run writes another one" cmp -s out text.before
expect 0 '' predict runs/pairs new.txt
check "without its sentences a run translates otherwise" cmp -s out pairs.before
expect 2 'judged on multi30k-de-en only, and its files are gone: cajal data get multi30k-de-en' eval runs/pairs
expect 1 'input.txt was looked for' train --resume --out runs/text
echo "cajal tokeniser 1" >runs/pairs/target.tokens
expect 1 "target.tokens: at byte 18: 'kind ' of a tokeniser was expected, the end of the file was found" predict runs/pairs new.txt
if [ $failures != 0 ]; then
    echo "$failures failed"
    exit 1
fi
