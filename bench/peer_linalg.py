# Linear algebra in NumPy, at the sizes of bench/linalg.c and in its order.
import bench, numpy as np

L = np.linalg
generator = np.random.default_rng(0)
CASES = [(L.solve, 1, 512, "f8"), (L.svd, 1, 512, "f8"), (L.eigh, 1, 512, "f8"), (L.cholesky, 1, 512, "f8"),
         (L.solve, 100000, 4, "f4"), (L.cholesky, 100000, 4, "f4"), (L.inv, 100000, 4, "f4"), (L.det, 100000, 4, "f4"),
         (L.solve, 10000, 16, "f4"), (L.cholesky, 10000, 16, "f4"), (L.inv, 10000, 16, "f4"), (L.det, 10000, 16, "f4"),
         (L.solve, 100000, 4, "f8"), (L.inv, 10000, 16, "f8")]
for fn, batch, n, dtype in CASES:
    x = generator.standard_normal((batch, n, n))
    a = (x @ x.swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)
    b = generator.standard_normal((batch, n, 1)).astype(dtype)
    step = (lambda: L.solve(a, b)) if fn is L.solve else (lambda: L.svd(a, full_matrices=False)) if fn is L.svd else (lambda: fn(a))
    bench.run(f"{fn.__name__}_{batch}x{n}", step, batch)
