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
expect 0 'h.1.attn.c_attn.weight +\[576, 192\]' models --describe gpt
expect 2 "no model 'mpl'; did you mean 'mlp'" models --describe mpl
expect 0 'digits' data
expect 0 '"name":"iris"' data list --json
expect 0 '1,797 rows of 64 numbers' data info digits
expect 2 "did you mean 'digits'" data info digit
expect 2 "'list' or 'info NAME' was expected" data nonsense
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
expect 1 "device 'abacus' is unknown" train mlp --device abacus
expect 1 'heads=5 does not divide dim=192' train gpt heads=5 --no-save
expect 2 'learns from a text' train gpt --data digits
expect 2 'sources is a text' train mlp --data sources
expect 0 '"val_accuracy":0\.' train mlp --no-save --steps 20 --json
expect 0 'test loss' train mlp --data diabetes --no-save --steps 20
expect 0 'best: hidden=' train mlp --data iris hidden=4,8 --epochs 2
expect 0 'over 3 runs' train mlp --data iris --folds 3 --epochs 2
expect 0 '"spread":' train mlp --data iris --seeds 2 --epochs 2 --json
expect 0 'next: cajal train mlp --data iris epochs=1 lr=' train mlp --data iris epochs=1 lr=log:1e-3:1e-1:9 --random 2
expect 2 'log:LOW:HIGH:N was expected' train mlp lr=log:1:0:3
expect 2 '\-\-random needs a setting with several values' train mlp --random 3
expect 2 'are more than 4096' train mlp lr=log:1e-5:1:64 hidden=lin:1:64:64 dropout=0,0.5
expect 0 'Nothing stands in the way' train mlp --diagnose
expect 0 'the loss explodes' train mlp --diagnose lr=30
expect 1 'It began in' train mlp lr=1e30 --out wrong
expect 0 'runs/mlp-iris/' train mlp --data iris --epochs 5 hidden=16
expect 0 'runs/mlp-iris-2/' train mlp --data iris --epochs 2 hidden=16
expect 2 'has a run already: --resume' train mlp --data iris --out runs/mlp-iris
expect 1 'has hidden=16, this command asks for hidden=32' train mlp --data iris --out runs/mlp-iris --resume hidden=32
expect 1 'has data=iris, this command asks for data=wine' train mlp --data wine --out runs/mlp-iris --resume
expect 0 'resumed after step' train --out runs/mlp-iris --resume
expect 0 'epoch 1' train mlp --data iris --out runs/mlp-iris --fresh --epochs 1 hidden=16
expect 1 'cannot be made' train mlp --out /proc/none/run

# using runs
expect 0 'test accuracy' eval runs/mlp-iris
expect 0 '"test_loss":' eval runs/mlp-iris --json --last
expect 2 'is no run' eval nowhere
expect 2 'something is missing' eval
expect 0 '6 tensors' export runs/mlp-iris a.safetensors
expect 0 '6 tensors' export runs/mlp-iris a.npz
expect 2 'ends in .safetensors or .npz' export runs/mlp-iris a.txt
expect 0 '6 tensors' import mlp a.safetensors --data iris hidden=16 --out imported
expect 0 'test accuracy' eval imported
expect 1 'are all settings given' import mlp a.npz --data iris --out other
expect 1 'No such file' import mlp missing.npz --out other2
expect 2 'where to' import mlp a.npz
expect 2 'does not write texts' sample runs/mlp-iris
expect 1 'missing.npy' predict runs/mlp-iris missing.npy
if [ "$("$cajal" eval runs/mlp-iris --json | sed 's/.*"test_loss":\([^,]*\).*/\1/')" != "$("$cajal" eval imported --json | sed 's/.*"test_loss":\([^,]*\).*/\1/')" ]; then
    echo "an imported run evaluates differently from the exported one"
    failures=$((failures + 1))
fi
expect 0 'next: cajal sample' train vae --steps 3 hidden=8 latent=2 --out runs/vae
expect 0 '9 rows of 64 numbers' sample runs/vae --n 9
expect 0 'test loss' eval runs/vae
expect 2 'makes new examples' predict runs/vae missing.npy
expect 0 'discriminator.conv1.weight' models --describe dcgan
expect 0 'bits per symbol' train gpt --steps 3 layers=1 dim=16 heads=2 context=8 --out runs/gpt eval_every=3
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

# Ctrl-C: saved, and says how to go on
"$cajal" train mlp --epochs 2000 --out stopped >out 2>err &
pid=$!
sleep 0.7
kill -INT $pid
wait $pid
status=$?
count=$((count + 1))
if [ $status != 1 ] || ! grep -q 'the run is saved' err || ! grep -q 'cajal train --resume --out stopped' err || [ ! -f stopped/MANIFEST.json ]; then
    echo "Ctrl-C: exit $status: $(tail -n 2 err)"
    failures=$((failures + 1))
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
