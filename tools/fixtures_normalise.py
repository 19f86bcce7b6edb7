#!/usr/bin/env python3
"""Reference values from PyTorch for normalisation: python tools/fixtures_normalise.py > tests/fixtures/normalise.txt

Arguments are whole numbers: counts as they are, parameters in hundredths, eps in ten-thousandths (0: the default).  PyTorch has no derivative for running statistics given in
eval mode, nor have they one here: they are made inside of the case, 1/4, 1/2, 3/4 … and 3/2, 2, 5/2 …  The power iteration is that of torch.nn.utils.spectral_norm, v before u,
as in the paper; torch.nn.utils.parametrizations has u before v.
"""
import torch
import torch.nn.functional as F

from fixtures import *


def eps(e, default=1e-5): return e / 1e4 if e else default


def running(x):
    k = torch.arange(1, x.shape[1] + 1).to(x.dtype)
    return k / 4, k / 2 + 1


def batch(x, w, b, e, relu): y = F.batch_norm(x, None, None, w, b, True, 0.1, eps(e)); return F.relu(y) if relu else y
def batch_plain(x): return F.batch_norm(x, None, None, training=True)
def batch_eval(x, w, b, e, relu): y = F.batch_norm(x, *running(x), w, b, False, 0.1, eps(e)); return F.relu(y) if relu else y


def running_after(x, momentum, which):
    mean, var = running(x)
    for k in range(2): F.batch_norm(x * (1 + k), mean, var, training=True, momentum=momentum / 100)
    return var if which else mean


def cumulative_after(x, which):
    m = torch.nn.BatchNorm1d(x.shape[1], momentum=None, affine=False).to(x.dtype)
    for k in range(3): m(x * (1 + k))
    return m.running_var if which else m.running_mean


for dtype in (torch.float64, torch.float32):
    twice = dtype == torch.float64
    for shape in ((6, 4), (3, 2, 5), (2, 2, 2, 3), (2, 2, 2, 1, 3))[:4 if twice else 2]:
        c = shape[1]
        x, w, b = rand(*shape, dtype=dtype), rand(c, dtype=dtype), rand(c, dtype=dtype)
        for e, relu in ((0, 0), (100, 0), (0, 1)):
            case("batch_norm", batch, [x, w, b], (e, relu), hvp=twice)
        case("batch_norm_eval", batch_eval, [x, w, b], (0, 1), hvp=twice)
        case("batch_norm_plain", batch_plain, [x], hvp=twice)
        if len(shape) > 2:
            case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [x, w, b], hvp=twice)
        case("rms_norm", lambda x, w, e: F.rms_norm(x, x.shape[-1:], w, eps(e, None)), [x, rand(shape[-1], dtype=dtype)], (0,), hvp=twice)
        case("rms_norm", lambda x, w, e: F.rms_norm(x, x.shape[-1:], w, eps(e, None)), [x, rand(shape[-1], dtype=dtype)], (500,), hvp=twice)
    for shape, groups in (((2, 4, 3), 1), ((2, 4, 3), 2), ((3, 6, 2, 2), 3), ((3, 8), 2)):
        c = shape[1]
        case("group_norm", lambda x, w, b, g, e: F.group_norm(x, g, w, b, eps(e)), [rand(*shape, dtype=dtype), rand(c, dtype=dtype), rand(c, dtype=dtype)],
             (groups, 0 if c < 8 else 200), hvp=twice)
    for size in (1, 2, 3, 4, 7):
        case("local_response_norm", lambda x, s, a, b, k: F.local_response_norm(x, s, a / 100, b / 100, k / 100), [rand(2, 5, 3, dtype=dtype)], (size, 50, 75, 200), hvp=twice)
    case("local_response_norm", lambda x, s, a, b, k: F.local_response_norm(x, s), [rand(2, 5, 2, 2, dtype=dtype)], (5, 0, 0, 0), hvp=twice)
    for axis in (0, 1, 2):
        shape = [1, 1, 1]; v = rand(3, 2, 4, dtype=dtype); shape[axis] = v.shape[axis]
        case("weight_norm", lambda v, g, a: v * (g / torch.norm_except_dim(v, 2, a)), [v, rand(*shape, dtype=dtype)], (axis,), hvp=twice)
    case("weight_norm", lambda v, g, a: v * (g / v.norm()), [rand(3, 4, dtype=dtype), rand(1, dtype=dtype).reshape(())], (0,), hvp=twice)


def spectral(w, u, iterations):
    m = torch.nn.Linear(w.shape[1], w.shape[0], bias=False).to(w.dtype)
    m = torch.nn.utils.spectral_norm(m, n_power_iterations=int(iterations))
    with torch.no_grad(): m.weight_u.copy_(u.to(w.dtype) / 4)
    del m._parameters["weight_orig"]
    m.weight_orig = w
    return next(iter(m._forward_pre_hooks.values())).compute_weight(m, do_power_iteration=True)


for iterations in (1, 3):
    case("spectral_norm", lambda w, u, i: spectral(w, u, i), [rand(4, 3), ints(2, 2, -2, 2)], (iterations,))
for momentum in (10, 30):
    for which in (0, 1): case("running_after", running_after, [rand(3, 4, 2)], (momentum, which), grad=False)
for which in (0, 1): case("cumulative_after", cumulative_after, [rand(5, 3)], (which,), grad=False)
