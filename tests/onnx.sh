#!/bin/sh
# ONNX files as others see them: every file that the tests write (the models of the zoo, the operators) passes ONNX's checker, and onnxruntime's answers are ours to 1e-4, for
# the batch that was recorded and for others; and a run that was trained, exported and imported by the program.  $CAJAL_ONNX is a Python with onnx, onnxruntime and NumPy
# ($CAJAL_TORCH or python3 otherwise); without one the test is skipped (77).
#
#   tests/onnx.sh PROGRAM FOLDER-OF-TESTS
set -u
cajal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
tests=$(cd "$2" && pwd)
python=${CAJAL_ONNX:-${CAJAL_TORCH:-python3}}
"$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null || { echo "there is no Python with onnx and onnxruntime (CAJAL_ONNX)"; exit 77; }
"$cajal" doctor | grep -q '^protobuf-c *yes' || { echo "this build has no protobuf-c"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/files"
for test in test_onnx test_onnx_operators; do
    (cd "${CAJAL_SOURCE:-.}" && CAJAL_ONNX_OUT="$work/files" "$tests/$test") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
done
cd "$work" || exit 1

# through the program: train, export, predict, import, export again
"$cajal" train mlp --data digits --epochs 2 hidden=32 --threads 1 --out run >out 2>err </dev/null || { cat err; exit 1; }
"$cajal" export run run.onnx >out || exit 1
"$cajal" import mlp run.onnx --data digits hidden=32 --out again >out 2>err || { cat err; exit 1; }
{ "$cajal" export again again.onnx >out && cmp run.onnx again.onnx; } || { echo "export, import, export: the files differ"; exit 1; }
# the same parameters as the onnx package writes them, numbers in the fields of their type
"$python" - <<'FOREIGN' || exit 1
import onnx
from onnx import helper, numpy_helper
m = onnx.load("run.onnx")
tensors = [helper.make_tensor(t.name, t.data_type, t.dims, numpy_helper.to_array(t).flatten()) for t in m.graph.initializer]
graph = helper.make_graph(m.graph.node, "foreign", m.graph.input, m.graph.output, tensors)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "foreign.onnx")
FOREIGN
"$cajal" import mlp foreign.onnx --data digits hidden=32 --out foreign >out 2>err || { cat err; exit 1; }
{ "$cajal" export foreign again.onnx >out && cmp run.onnx again.onnx; } || { echo "what the onnx package wrote is read as something else"; exit 1; }
"$python" -c 'import numpy; numpy.random.seed(1); numpy.save("rows.npy", numpy.random.rand(20, 64).astype("float32"))'
"$cajal" predict run rows.npy --json >said.jsonl || exit 1

"$python" - <<'CHECK'
import glob, json, os, sys
import numpy, onnx, onnxruntime

def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

def answer(s, x):
    return s.run(["output"], {"input": x})[0]

def distance(a, b):  # relative to the largest value of the answer
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    if a.dtype.kind != "f":
        return float((a != b).any())
    assert (numpy.isfinite(a) == numpy.isfinite(b)).all()
    return float(numpy.abs(a - b).max(initial=0) / max(numpy.abs(b).max(initial=0), 1e-6))

worst, count, failed = 0.0, 0, 0
for path in sorted(glob.glob("files/*.onnx")):
    name = os.path.basename(path)[:-5]
    model = onnx.load(path)
    try:
        onnx.checker.check_model(model, full_check=True)
        x, y = numpy.load(f"files/{name}.x.npy"), numpy.load(f"files/{name}.y.npy")
        s = session(path)
        d = distance(answer(s, x), y)
        batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
        per_example = y.ndim > 0 and y.shape[0] == x.shape[0]
        if batch == "batch" and per_example and not name.startswith("whole_"):  # other batches: the same examples, one by one and three times over
            d = max(d, distance(answer(s, x[1:2]), y[1:2]))
            d = max(d, distance(answer(s, numpy.concatenate([x] * 3)), numpy.concatenate([y] * 3)))
        assert d < 1e-4, f"{d:.1e} from ours"
        worst, count = max(worst, d), count + 1
    except Exception as e:
        failed += 1
        print(f"{name}: {str(e)[:300]}")

logits = answer(session("run.onnx"), numpy.load("rows.npy"))
p = numpy.exp(logits - logits.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
for i, line in enumerate(open("said.jsonl")):
    row = json.loads(line)
    assert str(p[i].argmax()) == row["class"] and abs(p[i].max() - row["probability"]) < 1e-5, (i, row)
print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {count} files agree to {worst:.1e}, {failed} do not")
sys.exit(failed > 0 or count < 20)
CHECK
