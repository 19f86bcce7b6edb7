#!/usr/bin/env python3
"""Reference values from PyTorch for linear algebra: python tools/fixtures_linalg.py > tests/fixtures/linalg.txt

Inputs are well conditioned.  Decompositions appear through what does not depend on the choice of vectors: functions of the matrix that they make up, squares of their elements.
"""
import torch

from fixtures import *

L = torch.linalg


def near(*shape, size=3.0, dtype=torch.float64):
    """A little noise on a diagonal of distinct numbers."""
    n = shape[-1]
    return (rand(*shape, low=-0.5, high=0.5) + torch.diag(size + 0.5 * torch.arange(n, dtype=torch.float64))).to(dtype)


def graded(*shape):
    m, n = shape[-2:]
    return rand(*shape, low=-0.3, high=0.3) + torch.eye(m, n, dtype=torch.float64) * (1 + torch.arange(n, dtype=torch.float64))


def sym(a):
    return (a + a.mT) / 2


def eig_function(a, k):
    w, v = L.eigh(sym(a))
    return v.square() if k else (v * w.sin().unsqueeze(-2)) @ v.mT


def general(a, k):
    if not k:
        w = L.eigvals(a)
        return (w.real.sin() * torch.exp(-w.imag.square() / 2)).sum(-1)
    w, v = L.eig(a)
    return (torch.exp(-w.real / 4).unsqueeze(-2) * w.imag.cos().unsqueeze(-2) * (v.real.square() + v.imag.square())).sum(-1)


def svd_function(a, k):
    u, s, vh = L.svd(a, full_matrices=False)
    return u.square() if k == 1 else vh.square() if k == 2 else (u * s.sin().unsqueeze(-2)) @ vh


def turned(n):
    a = graded(n, n)
    a[0, 1] += 2
    a[1, 0] -= 2
    return a


NORMS = ["fro", "nuc", 1, float("inf"), 2]
for shape in ((3, 3), (2, 4, 4), (1, 1)):
    case("cholesky", lambda a, u: L.cholesky(sym(a), upper=bool(u)), [near(*shape)], (0,))
    case("cholesky", lambda a, u: L.cholesky(sym(a), upper=bool(u)), [near(*shape)], (1,))
    case("solve", L.solve, [near(*shape), rand(*shape[:-1], 2)])
    case("solve", L.solve, [near(*shape), rand(*shape[:-1])])
    case("inverse", L.inv, [near(*shape)])
    case("det", L.det, [near(*shape, size=1)])
    case("slogdet", lambda a: L.slogdet(a)[1], [near(*shape)])
    case("logdet", torch.logdet, [near(*shape)])
    for k in (0, 1):
        case("eigh", eig_function, [near(*shape)], (k,))
    case("eigvalsh", lambda a: L.eigvalsh(sym(a)), [near(*shape)])
    case("matrix_exp", torch.matrix_exp, [near(*shape, size=0.3)])
for n in (3, 5):
    for k in (0, 1):
        case("eig", general, [turned(n)], (k,))
for upper in (0, 1):
    for unit in (0, 1):
        case("solve_triangular", lambda a, b, u, d: L.solve_triangular(a.triu() if u else a.tril(), b, upper=bool(u), unitriangular=bool(d)),
             [near(4, 4), rand(4, 3)], (upper, unit))
for shape in ((4, 3), (3, 4), (2, 3, 3)):
    for k in (0, 1, 2):
        case("svd", svd_function, [graded(*shape)], (k,))
    case("svdvals", L.svdvals, [graded(*shape)])
    case("qr", lambda a, k: L.qr(a)[k], [graded(*shape)], (0,))
    case("qr", lambda a, k: L.qr(a)[k], [graded(*shape)], (1,))
    case("pinv", L.pinv, [graded(*shape)])
    case("lstsq", lambda a, b: L.lstsq(a, b).solution, [graded(*shape), rand(*shape[:-1], 2)], hvp=False)
    for k in range(5):
        case("matrix_norm", lambda a, k: L.matrix_norm(a, NORMS[k]), [graded(*shape)], (k,))
for p in (1, 2, 3):
    case("vector_norm", lambda x, p: L.vector_norm(x, p), [rand(3, 4)], (p,))
for n in (-2, -1, 0, 1, 2, 5):
    case("matrix_power", lambda a, n: L.matrix_power(a, n), [near(3, 3, size=1)], (n,), hvp=n not in (0,))
for k in range(5):
    # PyTorch's cond of other norms writes to what its derivative needs
    case("cond", lambda a, k: L.cond(a, 2) if k == 4 else L.matrix_norm(a, NORMS[k]) * L.matrix_norm(L.inv(a), NORMS[k]), [near(3, 3)], (k,))
case("kron", torch.kron, [rand(2, 3), rand(3, 2)])
case("trace", torch.trace, [rand(3, 3)])
case("rank", L.matrix_rank, [rand(4, 2) @ rand(2, 5)], grad=False)
case("inverse", L.inv, [near(4, 4, dtype=torch.float32)])
case("solve", L.solve, [near(4, 4, dtype=torch.float32), rand(4, 2, dtype=torch.float32)])
case("eigvalsh", lambda a: L.eigvalsh(sym(a)), [near(4, 4, dtype=torch.float32)])
