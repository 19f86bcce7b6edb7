#!/bin/sh
# Every model of the zoo through the one path: trained, killed with SIGKILL in the middle, resumed to the bit of a training that was left alone, evaluated, used (predict or sample, as it
# fits), exported (as ONNX, too); and a resume with another model is refused.  A graph and sentences are made here; everything else is embedded.
#
#   tests/models.sh PROGRAM [MODEL ...]
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CAJAL_DATA="$work/data" HOME="$work"
mkdir -p data/karate data/multi30k
awk 'BEGIN { print "graph [";
    for (i = 1; i <= 34; i++) print "node [ id " i " ]";
    for (i = 1; i <= 34; i++) { print "edge [ source " i " target " i % 34 + 1 " ]"; print "edge [ source " i " target " (i + 4) % 34 + 1 " ]" }
    print "]" }' >data/karate/karate.gml
sentences() { # PART LINES: animals see colours, word by word
    awk -v n="$2" -v part="$1" 'BEGIN { srand(n); split("hund katze pferd vogel", a); split("dog cat horse bird", b); split("rot blau alt neu", c); split("red blue old new", d);
        for (i = 0; i < n; i++) { j = int(4 * rand()) + 1; k = int(4 * rand()) + 1; l = int(4 * rand()) + 1;
            print "ein " c[k] " " a[j] " sieht ein " a[l] "." > "data/multi30k/" part ".de"; print "a " d[k] " " b[j] " sees a " b[l] "." > "data/multi30k/" part ".en" } }'
}
sentences train 120
sentences val 20
sentences test_2016_flickr 20
printf 'ein rot hund sieht ein vogel.\n' >lines.txt

failures=0 count=0 kills=0
fail() { echo "$model: $*: $(tail -n 2 err 2>/dev/null)"; failures=$((failures + 1)); }
run() { "$cajal" "$@" >out 2>err </dev/null; }
newest() { sed -n "s/.*\"\($1-[0-9]*\.safetensors\)\".*/\1/p" "$2/MANIFEST.json" | head -n 1; }
same() {
    for what in model state best; do
        [ -z "$(newest $what "$1")" ] || cmp -s "$1/$(newest $what "$1")" "$2/$(newest $what "$2")" || fail "$what differs after the resume"
    done
    cmp -s "$1/metrics.jsonl" "$2/metrics.jsonl" || fail "metrics.jsonl differs after the resume"
}

# Small enough for seconds, long enough to be killed in the middle.
settings() {
    case $1 in
    dcgan) echo "--steps 40 width=4 latent=8 batch=32" ;;
    ddpm) echo "--steps 300 hidden=16 diffusion=20 batch=64" ;;
    gcn) echo "--data karate --epochs 200" ;;
    glm | lasso | linear | ridge) echo "--data diabetes" ;;
    gpt) echo "--steps 60 layers=1 dim=16 heads=2 context=16" ;;
    gru | lstm | rnn) echo "--steps 60 hidden=16 layers=1 dim=8 context=16" ;;
    lenet5) echo "--steps 100" ;;
    logistic) echo "--data breast_cancer" ;;
    mlp) echo "--steps 200 hidden=32 augment=shift" ;;
    rbm) echo "--steps 200 hidden=32 gibbs=5" ;;
    resnet) echo "--steps 30 depth=8 width=4" ;;
    seq2seq) echo "--data multi30k-de-en --steps 40 dim=16 hidden=16" ;;
    vae) echo "--steps 200 hidden=32 latent=4" ;;
    *) echo "" ;;
    esac
}

use() {
    case $model in
    gpt | gru | lstm | rnn) { run sample killed --length 20 && [ -s out ]; } || fail sample ;;
    dcgan | ddpm | rbm | vae) { run sample killed --n 4 && [ -s killed/samples.npy ]; } || fail sample ;;
    gcn) run predict killed lines.txt && fail "predict knows no other nodes" ;;
    seq2seq) { run predict killed lines.txt && [ -s out ]; } || fail predict ;;
    *) # rows as the network sees them: those of the test, in a file that NumPy would have written
        features=64
        case $model in glm | lasso | linear | ridge) features=10 ;; logistic) features=30 ;; esac
        awk -v f=$features 'BEGIN { for (i = 0; i < 3; i++) for (k = 0; k < f; k++) printf "%g%s", (i + k) % 5 / 5, k + 1 < f ? "," : "\n" }' >rows.csv
        { run predict killed rows.csv && [ "$(wc -l <out)" = 3 ]; } || fail predict
        ;;
    esac
}

# shellcheck disable=SC2046 # names are words
[ $# -gt 0 ] || set -- $("$cajal" models --json | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
[ $# -ge 1 ] || { echo "there are no models"; exit 1; }
for model in "$@"; do
    count=$((count + 1))
    rm -rf alone killed
    # shellcheck disable=SC2046 # settings are words
    set_of="$(settings "$model") --threads 1 save_every=2 eval_every=10"
    # shellcheck disable=SC2086
    run train "$model" $set_of --out alone || { fail "train"; continue; }
    [ "$model" != seq2seq ] || grep -q 'test BLEU .*sacreBLEU.*13a.*greedy' out || fail "train does not say BLEU"
    # shellcheck disable=SC2086
    "$cajal" train "$model" $set_of --out killed >out 2>err </dev/null &
    pid=$!
    while [ ! -f killed/MANIFEST.old.json ] && kill -0 $pid 2>/dev/null; do sleep 0.002; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ $? = 137 ]; then kills=$((kills + 1)); fi
    run train --resume --out killed || fail "resume"
    same alone killed
    run eval killed || fail "eval"
    grep -Eq 'test (accuracy|loss|text|BLEU)' out || fail "eval says nothing of the test"
    use
    run export killed "$model.safetensors" || fail "export"
    run export killed "$model.npz" || fail "export"
    if [ "$model" = seq2seq ]; then run export killed seq2seq.onnx && fail "a translation is no function of one tensor"
    elif "$cajal" doctor | grep -q '^protobuf-c *yes'; then { run export killed "$model.onnx" && grep -q 'any batch' out; } || fail "export"; fi
    other=mlp
    [ "$model" != mlp ] || other=lenet5
    run train $other --out killed --resume && fail "$other goes on with a run of $model"
    grep -q "killed has model=$model, this command asks for model=$other" err || fail "another model"
done
echo "$count models, killed $kills times, $failures failures"
[ $failures = 0 ] && [ $((2 * kills)) -ge $count ] # closed forms are too quick to be hit for certain
