# Transforms of complex64 sequences with SciPy's pocketfft, at the sizes of bench/fft.c and in its order.
import bench, numpy as np, scipy.fft
bench.library = scipy
for batch, n in [(1, 1024), (1, 2187), (1, 1009), (1, 1 << 20), (4096, 16), (4096, 64), (1024, 256)]:
    x = (np.random.randn(batch, n) + 1j * np.random.randn(batch, n)).astype(np.complex64)
    bench.run(f"fft_{batch}x{n}", lambda x=x: scipy.fft.fft(x, workers=bench.T), batch)
