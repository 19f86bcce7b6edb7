#!/bin/sh
# Runs as Python sees them: model.safetensors by the library of that name, exports by NumPy, the network's answers by PyTorch from the exported parameters, and event files by TensorBoard
# (of a run that was killed and resumed, too).  $CAJAL_TORCH is the interpreter; what it has not is left out, and without anything the test is skipped (77).
#
#   tests/python.sh PROGRAM
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
python=${CAJAL_TORCH:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
has() { "$python" -c "import $1" 2>/dev/null; }
has numpy || { echo "there is no Python with NumPy (CAJAL_TORCH)"; exit 77; }

"$cajal" train mlp --data digits --epochs 400 hidden=32 eval_every=11 save_every=7 --tensorboard --threads 1 --out run >out 2>err </dev/null &
pid=$!
while [ ! -f run/MANIFEST.old.json ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
sleep 0.1
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
"$cajal" train --resume --out run --tensorboard >out 2>err </dev/null || { cat err; exit 1; }
"$cajal" export run model.npz >/dev/null && "$cajal" export run other.safetensors >/dev/null || exit 1
"$python" - <<'ROWS'
import numpy
numpy.random.seed(1)
numpy.save("rows.npy", numpy.random.rand(20, 64).astype("float32"))
ROWS
"$cajal" predict run rows.npy --json >said.jsonl || exit 1
"$python" - <<'CHECK'
import glob, importlib.util, json, os, sys
import numpy

def there(name):
    return importlib.util.find_spec(name) is not None

done = ["numpy"]
npz = dict(numpy.load("model.npz"))
assert sorted(npz) == ["0.bias", "0.weight", "3.bias", "3.weight", "6.bias", "6.weight"], sorted(npz)
said = [json.loads(line) for line in open("said.jsonl")]
if there("safetensors"):
    from safetensors.numpy import load_file
    for path in "run/model.safetensors", "other.safetensors":
        tensors = load_file(path)
        assert sorted(tensors) == sorted(npz)
        assert all((tensors[k] == npz[k]).all() for k in npz), path
    done.append("safetensors")
if there("torch"):
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Dropout(),
                              torch.nn.Linear(32, 10)).eval()
    net.load_state_dict({k: torch.from_numpy(v) for k, v in npz.items()})
    with torch.no_grad():
        p = torch.softmax(net(torch.from_numpy(numpy.load("rows.npy"))), 1)
    for i, row in enumerate(said):
        assert str(p[i].argmax().item()) == row["class"], (i, row)
        assert abs(p[i].max().item() - row["probability"]) < 1e-5, (i, row, p[i].max().item())
    done.append("torch")
if there("tensorboard"):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    assert len(glob.glob("run/events.out.tfevents.*")) == 2
    events = EventAccumulator("run")
    events.Reload()
    lines = [json.loads(line) for line in open("run/metrics.jsonl")]
    for tag, key in ("loss/train", "loss"), ("loss/val", "val_loss"), ("accuracy/val", "val_accuracy"):
        found = [(e.step, e.value) for e in events.Scalars(tag)]
        want = [(line["step"], line[key]) for line in lines]
        assert [s for s, _ in found] == [s for s, _ in want], (tag, found[:3], want[:3])  # each step once, though some were done twice
        assert all(abs(a - b) <= 1e-6 * abs(b) + 1e-9 for (_, a), (_, b) in zip(found, want)), tag
    done.append("tensorboard")
print("read by", ", ".join(done))
sys.exit(0)
CHECK
