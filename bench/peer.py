"""Runs a benchmark script of PyTorch, NumPy or SciPy as it is, and times its steps in bursts on request, so that `cajal bench` can alternate with it.

    peer.py SCRIPT THREADS eager|compile [ARGUMENT]

The scripts end in bench.run(name, step, ...).  Here `bench` is this file's: run() says "ready NAME LIBRARY VERSION" (the library is bench.library where
a script of this folder sets it, else PyTorch, which is imported only then) and then obeys stdin:
"burst S" times chunks of about a millisecond for S seconds and prints the seconds of one step in the fastest chunk; "memory" prints the bytes that the process
has had at most, over what was resident before the first step; "next" goes on with the script.
With `compile` the script's `net` is put through torch.compile first.
"""
import os, runpy, sys, types

script, threads, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[v] = str(threads)
answers = os.fdopen(os.dup(1), "w")  # what the scripts themselves print goes nowhere
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
import time

now = time.process_time if os.environ.get("CAJAL_BENCH_CLOCK") == "processor" else time.perf_counter

stand_in = types.ModuleType("bench")  # what the scripts import
stand_in.T, stand_in.library = threads, None
text = open(script).read()
if "import torch" in text or ", torch" in text:
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    stand_in.library = torch


def answer(text):
    answers.write(text + "\n")
    answers.flush()


def burst(step, seconds, chunk=1e-3):
    start, best = now(), float("inf")
    for _ in range(3):
        t = now(); step(); best = min(best, now() - t)
    times = int(chunk / best) + 1 if best < chunk else 1
    best = float("inf")
    while True:
        t = now()
        for _ in range(times): step()
        best = min(best, (now() - t) / times)
        if now() - start >= seconds: return best


def resident(key):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key + ":"))


def serve(name, step, *args, **more):
    if mode == "compile":
        g = step.__globals__
        g["net"] = torch.compile(g["net"])
    with open("/proc/self/clear_refs", "w") as f: f.write("5")  # forget the peak
    before, start = resident("VmRSS"), now()
    step()
    while now() - start < 0.5: step()  # warm
    answer(f"ready {name} {stand_in.library.__name__} {stand_in.library.__version__}")
    for line in sys.stdin:
        word = line.split()
        if word[0] == "next": return
        if word[0] == "memory":
            answer(str(resident("VmHWM") - before))
            continue
        answer(repr(burst(step, float(word[1]))))
    os._exit(0)


stand_in.run = serve
sys.modules["bench"] = stand_in
sys.argv = [script, str(threads)] + sys.argv[4:]
runpy.run_path(script, run_name="__main__")
