# Linear algebra in NumPy, at the sizes of bench/linalg.c and in its order; the argument is how many small matrices there are.
import bench, sys, numpy as np
bench.library = np

L = np.linalg
generator = np.random.default_rng(0)
CASES = [(fn, 1, 512, "f8") for fn in (L.solve, L.svd, L.eigh, L.cholesky)]
CASES += [(fn, int(sys.argv[2]), n, dtype) for dtype in ("f4", "f8") for n in (4, 16) for fn in (L.solve, L.cholesky, L.inv, L.det)]
for fn, batch, n, dtype in CASES:
    x = generator.standard_normal((batch, n, n))
    a = (x @ x.swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)
    b = generator.standard_normal((batch, n, 1)).astype(dtype)
    step = (lambda: L.solve(a, b)) if fn is L.solve else (lambda: L.svd(a, full_matrices=False)) if fn is L.svd else (lambda: fn(a))
    bench.run(f"{fn.__name__}_{batch}x{n}", step, batch)
