#!/usr/bin/env python3
"""Reference values for Fourier transforms, functions of matrices and information: python tools/fixtures_fourier.py > tests/fixtures/fourier.txt

PyTorch where it has the function (values, gradients, Hessian-vector products), else SciPy (values).
"""
import scipy.linalg
import scipy.signal
import scipy.stats
import torch

from fixtures import *

NORMS = ["backward", "ortho", "forward"]
AXES = {1: (-1,), 2: (-2, -1), 3: (-3, -2, -1)}


def pairs(z): return torch.view_as_real(z)
def numbers(x): return torch.view_as_complex(x.contiguous())


for n in (1, 2, 8, 12, 35, 37, 64):
    case("fft", lambda x, d, k: pairs(torch.fft.fftn(numbers(x), dim=AXES[d], norm=NORMS[k])), [rand(2, n, 2)], (1, n % 3))
    case("ifft", lambda x, d, k: pairs(torch.fft.ifftn(numbers(x), dim=AXES[d], norm=NORMS[k])), [rand(2, n, 2)], (1, n % 3))
    case("rfft", lambda x, d, k: pairs(torch.fft.rfftn(x, dim=AXES[d], norm=NORMS[k])), [rand(2, n)], (1, n % 3))
    if n > 1:
        case("irfft", lambda x, size: torch.fft.irfft(numbers(x), n=size), [pairs(torch.fft.rfft(rand(2, n)))], (n,))
for d, shape in ((2, (3, 4)), (2, (5, 7)), (3, (2, 3, 4))):
    case("fft", lambda x, d, k: pairs(torch.fft.fftn(numbers(x), dim=AXES[d], norm=NORMS[k])), [rand(*shape, 2)], (d, 0))
    case("ifft", lambda x, d, k: pairs(torch.fft.ifftn(numbers(x), dim=AXES[d], norm=NORMS[k])), [rand(*shape, 2)], (d, 1))
    case("rfft", lambda x, d, k: pairs(torch.fft.rfftn(x, dim=AXES[d], norm=NORMS[k])), [rand(*shape)], (d, 2))
for n, hop in ((8, 2), (12, 3), (10, 5)):
    case("stft", lambda x, n, hop: pairs(torch.stft(x, n, hop, window=torch.hann_window(n, dtype=x.dtype), return_complex=True)), [rand(2, 30)], (n, hop))
    z = torch.stft(rand(40), n, hop, window=torch.hann_window(n, dtype=torch.float64), return_complex=True)
    case("istft", lambda z, n, hop: torch.istft(numbers(z), n, hop, window=torch.hann_window(n, dtype=z.dtype)), [pairs(z)], (n, hop), hvp=False)
for kind, name in enumerate(("hann", "hamming", "blackman", "bartlett", "boxcar")):
    for symmetric in (0, 1):
        case("window", lambda x, k, s: torch.tensor(scipy.signal.get_window(name, 13, fftbins=not s)), [rand(1)], (kind, symmetric), grad=False)
for mode, name in enumerate(("full", "same", "valid")):
    case("convolve", lambda a, b, m: torch.tensor(scipy.signal.convolve(a, b, mode=name)), [rand(9), rand(4)], (mode,), grad=False)
    case("convolve2", lambda a, b, m: torch.tensor(scipy.signal.convolve(a, b, mode=name)), [rand(5, 6), rand(3, 2)], (mode,), grad=False)


def near(n): return rand(n, n, low=-0.4, high=0.4) + torch.diag(2 + 0.5 * torch.arange(n, dtype=torch.float64))


for n in (1, 3, 6):
    case("matrix_log", lambda a: torch.tensor(scipy.linalg.logm(a.numpy()).real), [near(n)], grad=False)
    case("matrix_sqrt", lambda a: torch.tensor(scipy.linalg.sqrtm(a.numpy()).real), [near(n)], grad=False)
    case("matrix_inverse_sqrt", lambda a: torch.tensor(scipy.linalg.inv(scipy.linalg.sqrtm(a.numpy()).real)), [near(n)], grad=False)
    a, b = near(n), near(n)
    case("eigh_general", lambda a, b: torch.tensor(scipy.linalg.eigh(a.numpy(), b.numpy(), eigvals_only=True)), [(a + a.T) / 2, b @ b.T], grad=False)
    case("toeplitz", lambda c, r: torch.tensor(scipy.linalg.toeplitz(c, r)), [rand(n + 1), rand(n)], grad=False)
    case("toeplitz_product", lambda c, r, x: torch.tensor(scipy.linalg.matmul_toeplitz((c, r), x)), [rand(n + 1), rand(n), rand(n)], grad=False)
    case("circulant_product", lambda c, x: torch.tensor(scipy.linalg.circulant(c)) @ x, [rand(n), rand(n)], grad=False)
case("null_space", lambda a: torch.tensor((lambda v: v @ v.T)(scipy.linalg.null_space(a.numpy()))), [torch.outer(rand(4), rand(5)) + torch.outer(rand(4), rand(5))], grad=False)


def table(*shape): return torch.softmax(rand(*shape).reshape(-1), 0).reshape(shape)


for _ in range(2):
    p, q = table(5), table(5)
    case("entropy", lambda p: torch.tensor(scipy.stats.entropy(p)), [p], grad=False)
    case("relative_entropy", lambda p, q: torch.tensor(scipy.stats.entropy(p, q)), [p, q], grad=False)
    case("jensen_shannon", lambda p, q: (torch.tensor(scipy.stats.entropy(p, (p + q) / 2)) + torch.tensor(scipy.stats.entropy(q, (p + q) / 2))) / 2, [p, q], grad=False)
    case("mutual_information", lambda j: torch.tensor(scipy.stats.entropy(j.sum(0)) + scipy.stats.entropy(j.sum(1)) - scipy.stats.entropy(j.reshape(-1))), [table(3, 4)], grad=False)
    case("wasserstein1", lambda x, y: torch.tensor(scipy.stats.wasserstein_distance(x, y)), [rand(9), rand(9)], grad=False)
