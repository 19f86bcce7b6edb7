# Normal draws of NumPy's generator into a tensor that is there already, as many as the argument says; in the order of bench/random.c.
import bench, sys, numpy as np
bench.library = np

n = int(sys.argv[2])
generator = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    out = np.empty(n, dtype)
    bench.run("normal_" + np.dtype(dtype).name, lambda: generator.standard_normal(n, dtype=dtype, out=out), n)
