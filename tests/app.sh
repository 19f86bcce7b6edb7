#!/bin/sh
# What the program says to good and bad command lines: exit status and a piece of the message; errors are one line.
#
#   tests/app.sh PROGRAM
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 count=0

# expect STATUS PIECE ARGUMENTS...: runs the program, looks for the piece in what it says (an extended regular expression).
expect() {
    status=$1 piece=$2
    shift 2
    "$cajal" "$@" >out 2>err </dev/null
    found=$?
    count=$((count + 1))
    if [ $found != "$status" ]; then
        echo "cajal $*: exit $found, expected $status: $(head -c 300 err)"
        failures=$((failures + 1))
    elif ! cat out err | grep -Eq -- "$piece"; then
        echo "cajal $*: does not say '$piece': $(head -c 300 out) $(head -c 300 err)"
        failures=$((failures + 1))
    elif [ "$status" = 2 ] && [ "$(wc -l <err)" != 1 ]; then
        echo "cajal $*: an error of $(wc -l <err) lines: $(head -c 300 err)"
        failures=$((failures + 1))
    fi
}

# the program
expect 0 'cajal [0-9.]+$' --version
expect 0 'cajal train MODEL' --help
expect 0 'cajal train MODEL' help
expect 0 'cajal train MODEL'
expect 2 "'trian' is no verb; did you mean 'cajal train'" trian
expect 2 "'zzzzzz' is no verb; 'cajal help'" zzzzzz
for verb in train eval predict sample models data lab profile export import doctor; do
    expect 0 "^cajal $verb" "$verb" --help
    expect 0 "Examples:" help "$verb"
    expect 2 "option '--nonsense' is unknown" "$verb" --nonsense
done

# what there is
expect 0 'mlp' models
expect 0 '"name":"gpt","family":"transformer"' models --json
expect 0 'hidden=512' models --describe mlp
expect 0 'h.1.attn.c_attn.weight +\[576, 192\]$' models --describe gpt
expect 0 'h.1.attn.c_attn +Linear +128 x 576 +111,168' models --describe gpt
expect 0 '^all +21,386 ' models --describe lenet5
expect 2 "no model 'mpl'; did you mean 'mlp'" models --describe mpl
expect 0 'digits' data
expect 0 '"name":"iris"' data list --json
expect 0 '1,797 rows of 64 numbers' data info digits
expect 2 "did you mean 'digits'" data info digit
expect 2 "'list', 'info NAME' or 'get NAME' was expected" data nonsense
expect 2 'which one' data info
expect 0 'kernels' doctor
expect 0 '"item":"threads"' doctor --json

# training
expect 2 'which model' train
expect 2 "no model 'mpl'; did you mean 'mlp'" train mpl
expect 2 "option '--dta' is unknown; did you mean '--data'" train mlp --dta digits
expect 2 "option '--data' needs a value" train mlp --data
expect 2 "'digits' was not expected" train mlp digits
expect 2 "setting 'hiden' is unknown; did you mean 'hidden'" train mlp hiden=3
expect 2 "a whole number was expected, '1.5'" train mlp hidden=1.5
expect 2 "one of 'relu tanh gelu sigmoid' was expected" train mlp activation=sine
expect 2 "a number was expected, 'many'" train mlp --epochs many
expect 2 '--epochs and --steps exclude' train mlp --epochs 1 --steps 1
expect 2 '--resume needs the run folder' train mlp --resume
expect 2 '--resume and --fresh exclude' train mlp --resume --fresh --out x
expect 2 "at least 1 was expected, '0'" train mlp --threads 0
expect 1 'nonsense' train mlp --data nonsense
expect 1 "there is no data set 'digist'; did you mean 'digits'" train mlp --data digist
expect 1 "device 'abacus' is unknown" train mlp --device abacus
expect 1 'heads=5 does not divide dim=192' train gpt heads=5 --no-save
expect 2 'learns from a text' train gpt --data digits
expect 2 'sources is a text' train mlp --data sources
expect 0 '"val_accuracy":0\.' train mlp --no-save --steps 20 --json
expect 0 'test loss' train mlp --data diabetes --no-save --steps 20
expect 0 'best: hidden=' train mlp --data iris hidden=4,8 --epochs 2
expect 0 'over 3 runs' train mlp --data iris --folds 3 --epochs 2
expect 0 '"val_accuracy":.*"spread":.*"test_accuracy":.*"test_spread":.*"runs":2' train mlp --data iris --seeds 2 --epochs 2 --json
expect 0 'test accuracy .* ± .* over 3 runs' train mlp --data iris --seeds 3 --epochs 2
expect 0 'test loss .* over 2 runs' train ridge --data diabetes --seeds 2 # without validation rows
expect 0 'stopped .* after 3 evaluations without a better one' train mlp patience=3 --epochs 200 --no-save
expect 0 'next: cajal train mlp --data iris --steps 9 seed=3 lr=' train mlp --data iris --steps 9 seed=3 lr=log:1e-3:1e-1:9 --random 2
expect 2 'log:LOW:HIGH:N was expected' train mlp lr=log:1:0:3
expect 2 '\-\-random needs a setting with several values' train mlp --random 3
expect 2 'are more than 4096' train mlp lr=log:1e-5:1:64 hidden=lin:1:64:64 dropout=0,0.5
expect 0 'Nothing stands in the way' train mlp --diagnose
expect 0 'the loss explodes' train mlp --diagnose lr=30
expect 1 'the loss of step 2 is .* It began in linear: .*, in 3\. Try a smaller lr' train mlp lr=1e30 --out wrong
expect 1 'It began in .*, in (the gradient of )?(conv[12]|fc[1-3])\. Try' train lenet5 lr=1e6 optimiser=sgd --steps 30 --out wrong2
expect 0 'runs/mlp-iris/' train mlp --data iris --epochs 5 hidden=16
expect 0 'runs/mlp-iris-2/' train mlp --data iris --epochs 2 hidden=16
expect 2 'has a run already: --resume' train mlp --data iris --out runs/mlp-iris
expect 1 'has hidden=16, this command asks for hidden=32' train mlp --data iris --out runs/mlp-iris --resume hidden=32
expect 1 'has model=mlp, this command asks for model=lenet5' train lenet5 --data iris --out runs/mlp-iris --resume
expect 1 'has data=iris, this command asks for data=wine' train mlp --data wine --out runs/mlp-iris --resume
expect 0 'resumed after step' train --out runs/mlp-iris --resume
expect 0 'test accuracy' train mlp --data iris --out runs/mlp-iris --fresh --epochs 1 hidden=16
expect 1 'cannot be made' train mlp --out /proc/none/run
expect 0 'confusion.png' train mlp --data iris --out runs/iris

expect 2 'augment=shift is for images, and iris has none' train mlp --data iris augment=shift --no-save
expect 2 "one of 'none shift flip flip_shift warp auto' was expected" train mlp augment=blur
expect 0 'model.safetensors, .*curve.png, confusion.png, examples.png, filters.png' train lenet5 augment=warp --epochs 12 --out runs/digits
for picture in curve confusion examples filters; do # each with its numbers
    count=$((count + 1))
    if [ "$(head -c 4 runs/digits/$picture.png | tail -c 3)" != PNG ] || [ ! -s runs/digits/$picture.tsv ]; then
        echo "runs/digits/$picture.png or .tsv is missing"
        failures=$((failures + 1))
    fi
done

# using runs
expect 0 'test accuracy' eval runs/mlp-iris
expect 0 '"test_loss":' eval runs/mlp-iris --json --last
expect 0 'mean of classes .* 30$' eval runs/mlp-iris
expect 0 '^\{"class":"setosa","precision":[0-9.]+,"recall":[0-9.]+,"f1":[0-9.]+,"n":[0-9]+,"said":\[[0-9]+,[0-9]+,[0-9]+\]\}$' eval runs/mlp-iris --json
expect 2 'is no run' eval nowhere
expect 2 'something is missing' eval
expect 0 '6 tensors' export runs/mlp-iris a.safetensors
expect 0 '6 tensors' export runs/mlp-iris a.npz
expect 2 'ends in .safetensors, .npz or .onnx was expected, .a.txt. was found' export runs/mlp-iris a.txt
if "$cajal" doctor | grep -q '^protobuf-c *yes'; then
    expect 0 '6 tensors, 5 operators, any batch' export runs/mlp-iris a.onnx
    expect 0 '6 tensors of a.onnx' import mlp a.onnx --data iris hidden=16 --out runs/from-onnx
    expect 0 'any batch' export runs/from-onnx b.onnx
    cmp -s a.onnx b.onnx || { echo "export, import, export: the ONNX files differ"; failures=$((failures + 1)); }
    head -c 100 a.onnx >cut.onnx
    expect 1 'cut.onnx: at byte .* were expected, .* were found' import mlp cut.onnx --data iris hidden=16 --out runs/from-cut
    expect 2 'of which input. --input' export runs/mlp-iris c.onnx --part 0
    expect 2 "mlp has no part 'x'" export runs/mlp-iris c.onnx --part x --input 4
    expect 2 'sizes such as 64 or 1,28,28 were expected' export runs/mlp-iris c.onnx --part 0 --input four
    expect 0 '2 tensors, 1 operators' export runs/mlp-iris c.onnx --part 0 --input 4
else
    expect 1 'built without protobuf-c' export runs/mlp-iris a.onnx
fi
expect 2 'are of .onnx files' export runs/mlp-iris a.npz --part 0
expect 0 '6 tensors' import mlp a.safetensors --data iris hidden=16 --out imported
expect 0 'test accuracy' eval imported
expect 1 'are all settings given' import mlp a.npz --data iris --out other
expect 1 'No such file' import mlp missing.npz --out other2
expect 2 'where to' import mlp a.npz
expect 2 'does not write texts' sample runs/mlp-iris
expect 1 'missing.npy' predict runs/mlp-iris missing.npy
printf '5.1,3.5,1.4,0.2\n6.3,3.3,6.0,2.5\n' >rows.csv
expect 0 '^0	setosa	' predict runs/iris rows.csv
expect 0 '^1	virginica	' predict runs/iris rows.csv
printf 'a,b,c,d,kind\n5.1,3.5,,0.2,setosa\n' >rows.csv # a header, a missing value, and the answer in the last column
expect 0 '^\{"row":0,"class":"setosa","probability":' predict runs/iris rows.csv --json
printf '1,2,3\n' >rows.csv
expect 2 'rows of 4 numbers were expected, .*1, 3' predict runs/iris rows.csv
printf '1,2,x,3\n1,2,x,3\n' >rows.csv
expect 2 "numbers were expected, 'x' was found" predict runs/iris rows.csv
# a ring of dark ink on white paper, 24 x 24 pixels in colour
base64 -d >zero.png <<'RING'
iVBORw0KGgoAAAANSUhEUgAAABgAAAAYCAIAAABvFaqvAAAAVUlEQVR42mP4/+sXVRADfmkRJEC+QSIYgByDRHAA0gwSwQvIMYigIFEGES+O3SA8NuORYiDJWjyyowaNGkSjBEm1LEL9TEuFYoRq
BRs1i1pqFv4kIQBDtV1Ep4INCAAAAABJRU5ErkJggg==
RING
expect 0 '^0	0	' predict runs/digits zero.png --invert
expect 2 'learned from iris, which has no images' predict runs/iris zero.png
head -c 60 zero.png >cut.png
expect 1 'cut.png' predict runs/digits cut.png
if [ "$("$cajal" eval runs/mlp-iris --json | sed 's/.*"test_loss":\([^,]*\).*/\1/')" != "$("$cajal" eval imported --json | sed 's/.*"test_loss":\([^,]*\).*/\1/')" ]; then
    echo "an imported run evaluates differently from the exported one"
    failures=$((failures + 1))
fi
expect 0 'filters.png, samples.png' train vae --steps 3 hidden=8 latent=2 --out runs/vae
expect 0 '9 rows of 64 numbers' sample runs/vae --n 9
expect 0 'test loss' eval runs/vae
expect 2 'makes new examples' predict runs/vae missing.npy
expect 0 'discriminator.conv1.weight' models --describe dcgan
expect 0 'attention.png' train gpt --steps 3 layers=1 dim=16 heads=2 context=8 --out runs/gpt eval_every=3
expect 0 '^int ' sample runs/gpt --prompt 'int ' --length 20
expect 2 'a number of at least 0' sample runs/gpt --temperature hot
expect 2 "at least 1 was expected" sample runs/gpt --n 0
expect 0 'GFLOP/s' profile mlp --steps 3
expect 1 'cannot be written' profile mlp --steps 1 --trace /proc/none/trace.json

# labs
expect 0 'heavy-ball-cycle' lab
expect 0 'heavy-ball-cycle.png' lab run heavy-ball-cycle --out pictures
expect 2 "no lab 'heavy-ball'; did you mean 'heavy-ball-cycle'" lab run heavy-ball
expect 2 'which one' lab run
expect 2 "'list', 'run NAME' or 'check'" lab nonsense

# Ctrl-C and SIGTERM: saved, and says how to go on
for signal in INT TERM; do
    "$cajal" train mlp --epochs 4000 --out stopped-$signal >out 2>err &
    pid=$!
    while [ ! -f stopped-$signal/metrics.jsonl ] || [ ! -s stopped-$signal/metrics.jsonl ]; do sleep 0.02; done
    kill -$signal $pid
    wait $pid
    status=$?
    count=$((count + 1))
    steps=$(sed -n 's/.*cancelled after \([0-9]*\) of.*/\1/p' err)
    if [ $status != 1 ] || ! grep -q 'the run is saved' err || ! grep -q "cajal train --resume --out stopped-$signal" err || [ "${steps:-0}" -lt 1 ]; then
        echo "SIG$signal: exit $status: $(tail -n 2 err)"
        failures=$((failures + 1))
    fi
    expect 0 "after step $steps\$" eval stopped-$signal --last # all that was done
done

# the progress line: only for a terminal
"$cajal" train mlp --epochs 30 --no-save >out 2>err
count=$((count + 1))
if [ "$(wc -l <err)" != 1 ] || grep -q 'left' err; then
    echo "progress without a terminal: $(head -c 300 err)"
    failures=$((failures + 1))
fi
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "stty cols 200; '$cajal' train mlp --epochs 60 --no-save" /dev/null >out 2>&1 </dev/null
    count=$((count + 1))
    if ! grep -Eq 'step [0-9]+/[0-9]+  epoch [0-9.]+  loss [0-9.]+  val +[0-9.]+ %  [0-9,]+ samples/s  ([0-9]+ % of peak  )?[0-9.]+ [kMG]B  .* left' out; then
        echo "progress on a terminal: $(head -c 600 out)"
        failures=$((failures + 1))
    fi
fi

# a full disk: an error, and the run can go on
if (ulimit -f 300) 2>/dev/null; then
    (ulimit -f 300; exec "$cajal" train mlp --data iris hidden=256 --epochs 3 save_every=2 --out full) >out 2>err
    status=$?
    count=$((count + 1))
    if [ $status != 1 ] || ! grep -q 'File too large' err; then
        echo "full disk: exit $status: $(cat err)"
        failures=$((failures + 1))
    fi
    expect 0 'test accuracy' train --resume --out full
fi

echo "$count commands, $failures failures"
[ $failures = 0 ]
